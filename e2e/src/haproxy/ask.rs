//! Asking a router from inside its namespace.

use super::{PATIENCE, World, ip};
use crate::wait_for;
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

impl World {
    /// A connection from inside the namespace.
    pub fn connect(&self, address: &str, port: u16) -> io::Result<TcpStream> {
        let at = SocketAddr::new(ip(address), port);
        let stream = self.space.within(|| TcpStream::connect_timeout(&at, Duration::from_secs(10)))??;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(stream)
    }

    /// The status of a plain GET.
    pub fn get(&self, address: &str, port: u16, path: &str) -> io::Result<u16> {
        let mut stream = self.connect(address, port)?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        text.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| io::Error::other("no status"))
    }

    /// Sends pieces one after the other and then a request; the whole answer, empty when the connection was closed instead.
    #[track_caller]
    pub fn ask(&self, at: (&str, u16), pieces: &[&[u8]], host: &str, path: &str) -> String {
        self.try_ask(at, pieces, host, path).expect("the router listens")
    }

    /// The same, when nobody may listen.
    pub fn try_ask(
        &self,
        (address, port): (&str, u16),
        pieces: &[&[u8]],
        host: &str,
        path: &str,
    ) -> io::Result<String> {
        let mut stream = self.connect(address, port)?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let mut sent = Ok(());
        for (at, piece) in pieces.iter().enumerate() {
            stream.set_nodelay(true).expect("an option");
            sent = sent.and_then(|()| stream.write_all(piece));
            if at + 1 < pieces.len() {
                // The next piece goes into a packet of its own.
                wait_for(Duration::from_millis(30), || None::<()>);
            }
        }
        let _ = sent.and_then(|()| stream.write_all(request.as_bytes()));
        let mut answer = Vec::new();
        // A connection that is reset has answered nothing.
        let _ = stream.read_to_end(&mut answer);
        Ok(String::from_utf8_lossy(&answer).to_lowercase())
    }

    /// Sends a piece and nothing more; whether the connection is closed because of it.
    #[track_caller]
    pub fn is_closed_after(&self, (address, port): (&str, u16), piece: &[u8]) -> bool {
        let mut stream = self.connect(address, port).expect("the router listens");
        let read = stream.write_all(piece).and_then(|()| stream.read(&mut [0; 1]));
        match read {
            Ok(count) => count == 0,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
        }
    }

    /// Asks until the answer contains `wanted`. There is always somebody who listens.
    #[track_caller]
    pub fn until(&self, at: (&str, u16), host: &str, path: &str, wanted: &str) {
        let mut last = String::new();
        let mut refused = None;
        let found = wait_for(PATIENCE, || {
            match self.try_ask(at, &[], host, path) {
                Ok(answer) => last = answer,
                Err(error) => refused = Some(error),
            }
            (refused.is_some() || last.contains(wanted)).then_some(())
        });
        assert!(refused.is_none(), "{host}{path} at {at:?}: {refused:?}, after {last:?}");
        assert!(found.is_some(), "{host}{path} at {at:?}: {wanted:?} is not in {last:?}");
    }

    /// What curl prints, in lower case, whatever the certificate.
    pub fn curl(&self, words: &[&str]) -> String {
        let mut all = vec!["-s", "-i", "-k", "--max-time", "30"];
        all.extend(words);
        self.space.run("curl", &all, "").map(|printed| printed.stdout.to_lowercase()).unwrap_or_default()
    }
}
