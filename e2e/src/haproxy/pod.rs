//! What a pod answers: its number, and what it was asked.

use crate::wait_for;
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

/// How long pods think about a path that begins with /slow.
const SLOW: Duration = Duration::from_secs(3);

/// Answers requests on one connection until it ends.
pub(super) fn answer_all(mut stream: TcpStream, pod: usize) {
    let mut buffer = Vec::new();
    let mut chunk = [0; 8192];
    loop {
        while !buffer.windows(4).any(|window| window == b"\r\n\r\n") {
            match stream.read(&mut chunk) {
                Ok(0) | Err(_) => return,
                Ok(count) => buffer.extend_from_slice(&chunk[..count]),
            }
        }
        let text = String::from_utf8_lossy(&buffer);
        if text.starts_with("GET /slow") {
            wait_for(SLOW, || None::<()>);
        }
        let body = format!("pod-{pod} answers\n{text}");
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        if stream.write_all(format!("{head}{body}").as_bytes()).is_err() {
            return;
        }
        buffer.clear();
    }
}
