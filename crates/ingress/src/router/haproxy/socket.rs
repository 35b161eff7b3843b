//! HAProxy's runtime socket: one connection, a command and its answer at a time.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

/// Why a command did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// HAProxy is not there or does not answer; it may come back.
    #[error("{}: {source}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        source: io::Error,
    },
    /// HAProxy refused. A new generation puts things right.
    #[error("{command}: {answer}")]
    Refused {
        /// What was sent.
        command: String,
        /// What came back.
        answer: String,
    },
}

/// Longest wait for an answer. HAProxy answers in microseconds, unless it has no processor.
const PATIENCE: Duration = Duration::from_secs(10);

/// A way to send commands. The connection is made when it is needed and anew after an error.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    stream: Option<UnixStream>,
}

impl Socket {
    /// Nothing is sent yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), stream: None }
    }

    /// Forgets the connection: the process behind the path is another now.
    pub fn reset(&mut self) {
        self.stream = None;
    }

    /// Sends a command; the answer without the space around it. A payload is given as further lines.
    pub fn ask(&mut self, command: &str) -> Result<String, SocketError> {
        let answer = self.exchange(command);
        if answer.is_err() {
            self.stream = None;
        }
        answer.map_err(|source| SocketError::Io { path: self.path.clone(), source })
    }

    /// Sends a command whose answer must be content.
    pub fn execute(&mut self, command: &str, content: impl Fn(&str) -> bool) -> Result<(), SocketError> {
        let answer = self.ask(command)?;
        match content(&answer) {
            true => Ok(()),
            false => Err(SocketError::Refused { command: command.to_owned(), answer }),
        }
    }

    fn exchange(&mut self, command: &str) -> io::Result<String> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let mut stream = UnixStream::connect(&self.path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                stream.write_all(b"prompt\n")?;
                read_answer(&mut stream)?;
                self.stream.insert(stream)
            }
        };
        stream.write_all(command.as_bytes())?;
        stream.write_all(b"\n")?;
        read_answer(stream)
    }
}

/// Up to the next prompt.
fn read_answer(stream: &mut UnixStream) -> io::Result<String> {
    let mut answer = Vec::new();
    let mut buffer = [0; 16_384];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&buffer[..count]);
        if answer.ends_with(b"\n> ") {
            let text = String::from_utf8_lossy(&answer[..answer.len() - 3]);
            // A plus sign asks for the next line of a payload, which is already sent.
            return Ok(text.trim_start_matches("+ ").trim().to_owned());
        }
    }
}
