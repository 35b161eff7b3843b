//! SCTP, one stream per association, as TCP is used. Threads of their own: neither tokio nor hyper knows the protocol.

use super::{answer::answer, hostname};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::{
    convert::Infallible,
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// How long a question may take.
const PATIENCE: Duration = Duration::from_secs(5);

fn socket(address: IpAddr) -> io::Result<Socket> {
    let domain = if address.is_ipv6() { Domain::IPV6 } else { Domain::IPV4 };
    Socket::new(domain, Type::STREAM, Some(Protocol::SCTP))
}

pub(super) fn listen(address: IpAddr, port: u16) -> io::Result<Socket> {
    let socket = socket(address)?;
    socket.bind(&SockAddr::from(SocketAddr::new(address, port)))?;
    socket.listen(128)?;
    Ok(socket)
}

/// Takes associations until the process ends: a call that waits cannot be taken back.
pub(super) async fn serve(listener: Socket, stop: CancellationToken) -> Result<(), Infallible> {
    let listener = Arc::new(listener);
    std::thread::spawn(move || {
        while let Ok((stream, peer)) = listener.accept() {
            std::thread::spawn(move || talk(stream, peer.as_socket()));
        }
    });
    stop.cancelled().await;
    Ok(())
}

fn talk(mut stream: Socket, peer: Option<SocketAddr>) -> Option<()> {
    let local = stream.local_addr().ok().and_then(|local| local.as_socket());
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let size = stream.read(&mut buffer).ok().filter(|size| *size > 0)?;
        let text = answer(&String::from_utf8_lossy(&buffer[..size]), &hostname(), peer?, local)?;
        stream.write_all(text.as_bytes()).ok()?;
    }
}

/// Asks a server once. Blocking.
pub(super) fn ask(address: SocketAddr, question: &str) -> io::Result<String> {
    let mut socket = socket(address.ip())?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.connect(&SockAddr::from(address))?;
    socket.write_all(question.as_bytes())?;
    let mut buffer = vec![0; 64 * 1024];
    let size = socket.read(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..size]).into_owned())
}
