//! One plain question to a server of ours, for its health: a GET whose answer is small.

use std::{io, net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// More of an answer is not read.
const LONGEST_ANSWER: u64 = 4_096;
const PATIENCE: Duration = Duration::from_secs(1);

/// The status and the body that the server at this address has for a host and a path, within a second.
pub async fn ask(address: SocketAddr, host: &str, path: &str) -> io::Result<(u16, String)> {
    let answer = tokio::time::timeout(PATIENCE, exchange(address, host, path)).await;
    answer.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer within a second")))
}

async fn exchange(address: SocketAddr, host: &str, path: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut answer).await?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let code = head.split_whitespace().nth(1).and_then(|code| code.parse().ok());
    let code = code.ok_or_else(|| io::Error::other("no HTTP answer"))?;
    Ok((code, body.trim().to_owned()))
}
