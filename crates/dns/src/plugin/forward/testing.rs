//! An upstream server of a few records on loopback.

use crate::wire::{
    Limits, Record, Reply, Request, Section,
    code::{rcode, rtype},
};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// It ends with its handle.
pub(crate) struct Upstream {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Upstream {
    pub(crate) fn start(records: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", records)
    }

    pub(crate) fn start_at(address: &str, records: &[&str]) -> Self {
        let records: Arc<Vec<Record>> = Arc::new(records.iter().map(|text| text.parse().unwrap()).collect());
        let (asked, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        // A port that is free for both.
        let (tcp, udp) = std::iter::repeat_with(|| {
            let tcp = TcpListener::bind(address).unwrap();
            let udp = UdpSocket::bind(tcp.local_addr().unwrap());
            (tcp, udp)
        })
        .find_map(|(tcp, udp)| udp.ok().map(|udp| (tcp, udp)))
        .unwrap();
        let address = tcp.local_addr().unwrap();
        udp.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let datagrams = {
            let (records, asked, over) = (Arc::clone(&records), Arc::clone(&asked), Arc::clone(&over));
            move || {
                let mut buffer = [0; 4096];
                while !over.load(Ordering::Relaxed) {
                    let Ok((length, client)) = udp.recv_from(&mut buffer) else { continue };
                    asked.fetch_add(1, Ordering::Relaxed);
                    udp.send_to(&answer(&records, &buffer[..length], 512), client).unwrap();
                }
            }
        };
        let connections = {
            let (asked, over) = (Arc::clone(&asked), Arc::clone(&over));
            move || {
                while !over.load(Ordering::Relaxed) {
                    let Ok((mut stream, _)) = tcp.accept() else { continue };
                    converse(&mut stream, &records, &asked);
                }
            }
        };
        let threads = vec![std::thread::spawn(datagrams), std::thread::spawn(connections)];
        Self { address, asked, over, threads }
    }

    /// Over TLS, for one connection after another, as `localhost`.
    pub(crate) fn start_tls(address: &str, authority: &runtime::pki::Authority, records: &[&str]) -> Self {
        let records: Vec<Record> = records.iter().map(|text| text.parse().unwrap()).collect();
        let names = vec!["localhost".to_owned()];
        let purpose = runtime::pki::Purpose::Serving { names, addresses: Vec::new() };
        let identity = authority.issue(&purpose, std::time::SystemTime::now()).unwrap();
        let shared = runtime::tls::server_config(runtime::pki::Rotating::new(&identity).unwrap(), None).unwrap();
        let mut config = rustls::ServerConfig::clone(&shared);
        config.alpn_protocols = vec![b"dot".to_vec()];
        let config = Arc::new(config);
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let serve = {
            let (asked, over) = (Arc::clone(&asked), Arc::clone(&over));
            move || {
                while !over.load(Ordering::Relaxed) {
                    let Ok((stream, _)) = listener.accept() else { continue };
                    let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
                    converse(&mut rustls::StreamOwned::new(session, stream), &records, &asked);
                }
            }
        };
        Self { address, asked, over, threads: vec![std::thread::spawn(|| {}), std::thread::spawn(serve)] }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Wakes the one that waits for connections.
        let _ = std::net::TcpStream::connect(self.address);
        // The one for connections may sit in a read of a client that is still there.
        self.threads.swap_remove(0).join().unwrap();
    }
}

/// Answers on a connection until it is closed.
fn converse(stream: &mut (impl Read + Write), records: &[Record], asked: &AtomicUsize) {
    let mut length = [0; 2];
    while stream.read_exact(&mut length).is_ok() {
        let mut packet = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut packet).unwrap();
        asked.fetch_add(1, Ordering::Relaxed);
        let answer = answer(records, &packet, 65_535);
        stream.write_all(&(answer.len() as u16).to_be_bytes()).unwrap();
        stream.write_all(&answer).unwrap();
        stream.flush().unwrap();
    }
}

fn answer(records: &[Record], packet: &[u8], size: usize) -> Vec<u8> {
    let request = Request::parse(packet).unwrap();
    let mut reply = Reply::new();
    reply.reset(&request.name, request.rtype, request.class);
    reply.ra = true;
    let own: Vec<&Record> = records.iter().filter(|record| record.name == request.name).collect();
    for record in own.iter().filter(|record| [request.rtype, rtype::CNAME].contains(&record.rtype)) {
        reply.add(Section::Answer, record);
    }
    if own.is_empty() {
        reply.rcode = rcode::NXDOMAIN;
    }
    if reply.count(Section::Answer) == 0 {
        reply.add(Section::Authority, &"test 900 IN SOA ns.test h.test 1 2 3 4 800".parse().unwrap());
    }
    reply.finish(&request, &Limits { size, nsid: None, cookie: None }).to_vec()
}
