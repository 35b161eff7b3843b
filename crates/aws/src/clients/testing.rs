//! A tiny server on loopback that answers what AWS answers, and remembers what it was asked.

use super::{Keys, Session};
use crate::cloud_config::CloudConfig;
use parking_lot::Mutex;
use runtime::backoff::Backoff;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

/// What the server says to a request.
#[derive(Clone, Debug)]
pub(crate) enum Say {
    /// A status and a body.
    Body(u16, String),
    /// The same, and what time it is.
    Dated(u16, String, String),
    /// Nothing: the connection ends.
    HangUp,
}

/// An answer that went well.
pub(crate) fn ok(body: &str) -> Say {
    Say::Body(200, body.to_owned())
}

/// An error in EC2's shape.
pub(crate) fn refusal(status: u16, code: &str) -> Say {
    let error = format!("<Error><Code>{code}</Code><Message>it says {code}</Message></Error>");
    Say::Body(status, format!("<Response><Errors>{error}</Errors><RequestID>r-1</RequestID></Response>"))
}

/// A request that was received.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Method and path.
    pub(crate) line: String,
    /// Header lines.
    pub(crate) headers: Vec<String>,
    pub(crate) body: String,
}

/// The server. Answers come one after the other; the last one stays.
pub(crate) struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn saying(answers: Vec<Say>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (asked, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let thread = std::thread::spawn({
            let (asked, stop) = (Arc::clone(&asked), Arc::clone(&stop));
            move || {
                for connection in listener.incoming() {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let Some((mut stream, request)) = connection.ok().and_then(receive) else { continue };
                    let mut asked = asked.lock();
                    let answer = answers.get(asked.len()).or_else(|| answers.last()).cloned().unwrap_or(Say::HangUp);
                    asked.push(request);
                    let answer = match answer {
                        Say::Body(status, body) => Some((status, body, String::new())),
                        Say::Dated(status, body, date) => Some((status, body, format!("Date: {date}\r\n"))),
                        Say::HangUp => None,
                    };
                    if let Some((status, body, date)) = answer {
                        let length = body.len();
                        // The third is what the metadata service says of its tokens.
                        let head = format!(
                            "HTTP/1.1 {status} Told\r\nContent-Length: {length}\r\nConnection: close\r\n{date}\
                             X-Aws-Ec2-Metadata-Token-Ttl-Seconds: 21600\r\n\r\n"
                        );
                        // A client that has gone does not matter here.
                        let _ = stream.write_all(format!("{head}{body}").as_bytes());
                    }
                }
            }
        });
        Self { address, asked, stop, thread: Some(thread) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }

    pub(crate) fn bodies(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.body).collect()
    }

    /// A cloud-config in which every API is here.
    pub(crate) fn config(&self) -> CloudConfig {
        let mut text = "[Global]\nRegion = us-east-1\n".to_owned();
        for service in ["EC2", "Elastic Load Balancing", "Elastic Load Balancing v2", "Route 53", "STS", "ec2imds"] {
            text += &format!(
                "[ServiceOverride \"{service}\"]\nService = {service}\nRegion = us-east-1\nURL = http://{}\nSigningRegion = us-east-1\n",
                self.address
            );
        }
        CloudConfig::parse(&text).expect("a cloud-config").0
    }

    /// A session in which every API is here and nobody waits long.
    pub(crate) async fn session(&self) -> Session {
        self.session_with(&self.config()).await
    }

    pub(crate) async fn session_with(&self, config: &CloudConfig) -> Session {
        let keys = Keys { id: "AKIDEXAMPLE".to_owned(), secret: "very-secret".to_owned() };
        let backoff = Backoff { first: Duration::from_millis(1), cap: Duration::from_millis(2) };
        Session::for_test(config, keys, backoff).await.expect("a session")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn receive(stream: TcpStream) -> Option<(TcpStream, Asked)> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let length =
        lines.iter().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let line = lines.remove(0);
    Some((reader.into_inner(), Asked { line, headers: lines, body: String::from_utf8_lossy(&body).into_owned() }))
}
