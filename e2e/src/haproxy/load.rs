//! Clients that never pause.

use super::{LOOPBACK, PATIENCE, World, ip};
use crate::wait_for;
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// Clients that ask without pause, each request on a connection of its own or on one that is kept, until they are stopped.
pub struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<Vec<String>>>,
    answered: Arc<AtomicUsize>,
}

impl Load {
    /// Starts them.
    pub fn new(world: &World, port: u16, host: &'static str) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let clients = LOOPBACK.into_iter().flat_map(|address| [(address, false), (address, true)]);
        let threads = clients.map(|(address, keeps)| {
            let (stop, answered, space) = (Arc::clone(&stop), Arc::clone(&answered), Arc::clone(&world.space));
            thread::spawn(move || {
                let work = || load(address, port, host, keeps, &stop, &answered);
                space.within(work).unwrap_or_else(|error| vec![error.to_string()])
            })
        });
        let threads = threads.collect();
        Self { stop, threads, answered }
    }

    /// Everything that went wrong. At least something went right.
    pub fn end(self) -> Vec<String> {
        let before = self.answered.load(Ordering::Relaxed);
        wait_for(PATIENCE, || (self.answered.load(Ordering::Relaxed) > before + 20).then_some(()))
            .expect("answers go on");
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    }
}

fn load(address: &str, port: u16, host: &str, keeps: bool, stop: &AtomicBool, answered: &AtomicUsize) -> Vec<String> {
    let mut failures = Vec::new();
    let mut kept: Option<TcpStream> = None;
    while !stop.load(Ordering::Relaxed) && failures.len() < 20 {
        let outcome = one(address, port, host, keeps, &mut kept);
        match outcome {
            Ok(()) => drop(answered.fetch_add(1, Ordering::Relaxed)),
            Err(error) => failures.push(format!("{address} keeps={keeps}: {error}")),
        }
    }
    failures
}

fn one(address: &str, port: u16, host: &str, keeps: bool, kept: &mut Option<TcpStream>) -> io::Result<()> {
    let mut stream = match kept.take() {
        Some(stream) => stream,
        None => TcpStream::connect(SocketAddr::new(ip(address), port))?,
    };
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let close = if keeps { "" } else { "Connection: close\r\n" };
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\n{close}\r\n").as_bytes())?;
    let mut answer = Vec::new();
    let mut chunk = [0; 8192];
    loop {
        let text = String::from_utf8_lossy(&answer).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()?.parse::<usize>().ok());
            if length.is_some_and(|length| body.len() >= length) {
                if !head.starts_with("http/1.1 200") {
                    return Err(io::Error::other(head.to_owned()));
                }
                if keeps && !head.contains("connection: close") {
                    *kept = Some(stream);
                }
                return Ok(());
            }
        }
        match stream.read(&mut chunk)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => answer.extend_from_slice(&chunk[..count]),
        }
    }
}
