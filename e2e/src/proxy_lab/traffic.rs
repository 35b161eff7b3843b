//! Pods that answer, and clients that ask.

use super::ip;
use kernel::netns::Namespace;
use std::{
    io::{ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// Which pod answered, and which client address it saw; or why there is no answer.
pub type Answer = Result<(usize, IpAddr), ErrorKind>;

/// A server in a pod; it stops with its handle.
pub(super) struct Server {
    stop: Arc<AtomicBool>,
    wake: SocketAddr,
    thread: Option<thread::JoinHandle<()>>,
    pod: Arc<Namespace>,
}

/// A pod answers each connection at port 8080 with its number and the address it came from, and each datagram at port 8053 with
/// its number.
pub(super) fn serve(pod: &Arc<Namespace>, number: usize) -> [Server; 2] {
    let listener = pod.within(|| TcpListener::bind("[::]:8080")).expect("entered").expect("a socket");
    let socket = pod.within(|| UdpSocket::bind("[::]:8053")).expect("entered").expect("a socket");
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, also_stopped) = (Arc::clone(&stop), Arc::clone(&stop));
    let connections = thread::spawn(move || {
        while let Ok((mut stream, peer)) = listener.accept() {
            // A client that is gone already is its own business.
            let _ = write!(stream, "{number} {}", peer.ip().to_canonical());
            if stopped.load(Ordering::Relaxed) {
                return;
            }
        }
    });
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    let datagrams = thread::spawn(move || {
        while !also_stopped.load(Ordering::Relaxed) {
            if let Ok((_, peer)) = socket.recv_from(&mut [0; 16]) {
                let _ = socket.send_to(number.to_string().as_bytes(), peer);
            }
        }
    });
    [(8080, connections), (8053, datagrams)].map(|(port, thread)| Server {
        stop: Arc::clone(&stop),
        wake: SocketAddr::new(ip("::1"), port),
        thread: Some(thread),
        pod: Arc::clone(pod),
    })
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Whoever waits for a connection gets one; a server that ended already needs none.
        let _ = self.pod.within(|| TcpStream::connect(self.wake));
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

/// Asks once; without an answer to the first packet, waits this long. To be called in a namespace.
pub fn ask_here(to: SocketAddr, patience: Duration) -> Answer {
    let mut stream = TcpStream::connect_timeout(&to, patience).map_err(|error| error.kind())?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| error.kind())?;
    let (number, seen) = answer.split_once(' ').ok_or(ErrorKind::UnexpectedEof)?;
    Ok((number.parse().map_err(|_| ErrorKind::InvalidData)?, ip(seen)))
}

/// Asks once from a namespace; a packet that is lost is not sent again.
pub fn ask(from: &Namespace, to: SocketAddr) -> Answer {
    from.within(|| ask_here(to, Duration::from_millis(700))).expect("entered")
}

/// Asks from a namespace as clients do, that send what is lost again.
pub fn ask_patiently(from: &Namespace, to: SocketAddr) -> Answer {
    from.within(|| ask_here(to, Duration::from_secs(10))).expect("entered")
}

/// The whole answer to a GET.
pub fn http(from: &Namespace, at: SocketAddr, path: &str) -> String {
    let asked = from.within(|| {
        let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(2))?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: n1\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    });
    asked.expect("entered").unwrap_or_else(|error| error.to_string())
}
