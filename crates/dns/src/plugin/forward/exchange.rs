//! A question and its answer, over UDP, TCP or TLS.

use super::{
    servers::{Server, Speaks},
    upstream::Expected,
};
use crate::wire::Message;
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::{TcpSocket, TcpStream, UdpSocket},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Over UDP, from a port of its own: who wants to forge an answer must guess it as well as the id.
pub(super) async fn udp(
    address: SocketAddr,
    source: Option<IpAddr>,
    packet: &[u8],
    expected: &Expected,
) -> io::Result<Message> {
    let socket = UdpSocket::bind(own(address, source)).await?;
    socket.connect(address).await?;
    socket.send(packet).await?;
    let mut buffer = vec![0; expected.size];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if let Some(message) = expected.read(&buffer[..length]) {
            return Ok(message);
        }
    }
}

/// Where a query comes from, on any port.
fn own(address: SocketAddr, source: Option<IpAddr>) -> SocketAddr {
    let any = || if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(source.unwrap_or_else(any), 0)
}

/// A connection, plain or with TLS.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

pub(super) async fn connect(server: &Server) -> io::Result<Stream> {
    let address = server.place.address().await?;
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(source) = server.source(address) {
        socket.bind(own(address, Some(source)))?;
    }
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    match &server.speaks {
        Speaks::Dns => Ok(Stream::Plain(stream)),
        Speaks::Tls(config, name) | Speaks::Https(config, name, _) => {
            let connected = TlsConnector::from(config.clone()).connect(name.clone(), stream).await?;
            Ok(Stream::Tls(Box::new(connected)))
        }
    }
}

/// On a connection that nobody else uses meanwhile.
pub(super) async fn stream(stream: &mut Stream, packet: &[u8], expected: &Expected) -> io::Result<Message> {
    let mut framed = Vec::with_capacity(2 + packet.len());
    framed.extend((packet.len() as u16).to_be_bytes());
    framed.extend_from_slice(packet);
    stream.write_all(&framed).await?;
    stream.flush().await?;
    let mut length = [0; 2];
    stream.read_exact(&mut length).await?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer).await?;
    expected.read(&answer).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not the answer to our question"))
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
