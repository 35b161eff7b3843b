//! By TCP a line is answered with a line, by UDP a datagram with a datagram.

use super::{answer::answer, hostname};
use runtime::task::beside;
use std::{io, net::SocketAddr};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream, UdpSocket},
};
use tokio_util::sync::CancellationToken;

pub(super) async fn tcp(listener: std::net::TcpListener, stop: CancellationToken) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, peer)) = accepted else { continue };
        let stop = stop.clone();
        // Ends with its client or with the server.
        beside("netexec-client", async move { stop.run_until_cancelled(lines(stream, peer)).await });
    }
}

async fn lines(stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
    let local = stream.local_addr().ok();
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await? {
        let Some(text) = answer(&line, &hostname(), peer, local) else { return Ok(()) };
        writer.write_all(format!("{text}\n").as_bytes()).await?;
    }
    Ok(())
}

pub(super) async fn udp(socket: std::net::UdpSocket, stop: CancellationToken) -> io::Result<()> {
    let socket = UdpSocket::from_std(socket)?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let heard = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            heard = socket.recv_from(&mut buffer) => heard,
        };
        let Ok((size, peer)) = heard else { continue };
        let text = String::from_utf8_lossy(&buffer[..size]).into_owned();
        if let Some(text) = answer(&text, &hostname(), peer, None) {
            // Whoever is gone does not hear it.
            let _ = socket.send_to(text.as_bytes(), peer).await;
        }
    }
}
