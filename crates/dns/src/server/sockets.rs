//! Opening sockets. UDP has one per thread and family, all on one port: the kernel spreads clients over them. One for all
//! addresses is told to which of them a packet was sent.

use super::addresses;
use crate::{compile::Endpoint, corefile::Scheme};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket},
};

/// Queries that may wait in the kernel while a thread is busy, and answers while the network is.
const BUFFER: usize = 4 << 20;
/// Attempts to find a port that is free for both transports and families.
const ATTEMPTS: usize = 16;

/// The sockets of an endpoint.
pub(super) struct Opened {
    /// Of each thread.
    pub(super) udp: Vec<Vec<UdpSocket>>,
    pub(super) tcp: Vec<TcpListener>,
    #[cfg(test)]
    pub(super) port: u16,
}

/// A socket that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {transport} {address}: {problem}")]
pub struct OpenError {
    transport: &'static str,
    address: SocketAddr,
    problem: String,
}

impl OpenError {
    fn new(transport: &'static str, address: SocketAddr, error: &io::Error) -> Self {
        let problem = match error.kind() {
            io::ErrorKind::AddrInUse => "the port is in use".to_owned(),
            io::ErrorKind::AddrNotAvailable => "this machine does not have that address".to_owned(),
            io::ErrorKind::PermissionDenied => {
                "permission denied; ports below 1024 need root or CAP_NET_BIND_SERVICE".to_owned()
            }
            _ => error.to_string(),
        };
        Self { transport, address, problem }
    }
}

/// Opens everything for an endpoint, for so many threads. Port 0 takes a free one.
pub(super) fn open(endpoint: Endpoint, threads: usize) -> Result<Opened, OpenError> {
    let mut last = None;
    for _ in 0..if endpoint.port == 0 { ATTEMPTS } else { 1 } {
        match open_once(endpoint, threads) {
            Ok(opened) => return Ok(opened),
            Err(error) => last = Some(error),
        }
    }
    Err(last.expect("there is at least one attempt"))
}

fn open_once(endpoint: Endpoint, threads: usize) -> Result<Opened, OpenError> {
    let hosts: Vec<IpAddr> = match endpoint.address {
        Some(address) => vec![address],
        None => vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
    };
    let mut port = endpoint.port;
    let mut tcp = Vec::new();
    // TCP first: unlike UDP with its shared ports, it notices when another process has the port.
    for host in &hosts {
        let address = scoped(*host, port);
        match listener(address) {
            Ok(listener) => {
                port = listener.local_addr().map_or(port, |address| address.port());
                tcp.push(listener);
            }
            Err(error) if endpoint.address.is_none() && lacks_family(&error) => {}
            Err(error) => return Err(OpenError::new("TCP", address, &error)),
        }
    }
    let mut udp: Vec<Vec<UdpSocket>> = (0..threads).map(|_| Vec::new()).collect();
    // Only plain DNS comes in datagrams.
    for sockets in udp.iter_mut().filter(|_| endpoint.scheme == Scheme::Dns) {
        for host in &hosts {
            let address = scoped(*host, port);
            match datagrams(address) {
                Ok(socket) => sockets.push(socket),
                Err(error) if endpoint.address.is_none() && lacks_family(&error) => {}
                Err(error) => return Err(OpenError::new("UDP", address, &error)),
            }
        }
    }
    Ok(Opened {
        udp,
        tcp,
        #[cfg(test)]
        port,
    })
}

fn scoped(host: IpAddr, port: u16) -> SocketAddr {
    let known = addresses::all().into_iter().find(|local| local.address == host);
    known.map_or_else(|| SocketAddr::new(host, port), |local| local.at(port))
}

fn lacks_family(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported)
        || error.raw_os_error() == Some(97)
}

fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    Ok(socket.into())
}

fn datagrams(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_port(true)?;
    // The kernel gives as much of it as it allows.
    let _ = socket.set_recv_buffer_size(BUFFER);
    let _ = socket.set_send_buffer_size(BUFFER);
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    let socket = socket.into();
    if address.ip().is_unspecified() {
        kernel::udp::learn_destination(&socket)?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn one_port_is_open_in_both_families_for_every_thread() {
        let opened = open(Endpoint { address: None, port: 0, scheme: Scheme::Dns }, 2).unwrap();
        assert_eq!(opened.udp.len(), 2);
        let hosts = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
        for host in hosts.into_iter().filter(|host| addresses::local().contains(host)) {
            let client = UdpSocket::bind((host, 0)).unwrap();
            client.connect((host, opened.port)).unwrap();
            client.send(b"?").unwrap();
            // On loopback it has arrived when `send` returns.
            let mut received = opened.udp.iter().flatten().filter_map(|socket| socket.recv_from(&mut [0; 8]).ok());
            assert_eq!(received.next(), Some((1, client.local_addr().unwrap())));
            assert!(TcpStream::connect((host, opened.port)).is_ok());
        }
    }

    #[test]
    fn a_port_that_is_taken_is_told() {
        for host in [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)] {
            let taken = TcpListener::bind((host, 0)).unwrap();
            let address = taken.local_addr().unwrap();
            let error =
                open(Endpoint { address: Some(host), port: address.port(), scheme: Scheme::Dns }, 1).err().unwrap();
            assert_eq!(error.to_string(), format!("cannot listen on TCP {address}: the port is in use"));
        }
    }
}
