//! Opening the planned sockets. Called through `listen::tcp` and `listen::udp`.

use super::{Hosts, Machine, Serves, holder, plan};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    fmt, io,
    net::{IpAddr, SocketAddr, TcpListener, UdpSocket},
};

/// What is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Streams.
    Tcp,
    /// Datagrams.
    Udp,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// A socket that could not be opened. Retrying helps only after the operator has changed the flag or the machine.
#[derive(Debug)]
pub struct ListenError {
    flag: &'static str,
    transport: Transport,
    address: SocketAddr,
    holder: Option<String>,
    source: io::Error,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { flag, transport, address, holder, source } = self;
        write!(f, "--{flag}: cannot listen on {transport} {address}: ")?;
        match (source.kind(), holder) {
            (io::ErrorKind::AddrInUse, Some(holder)) => write!(f, "the port is held by {holder}"),
            (io::ErrorKind::AddrInUse, None) => f.write_str("the port is in use"),
            (io::ErrorKind::AddrNotAvailable, _) => f.write_str("this machine does not have that address"),
            (io::ErrorKind::PermissionDenied, _) => {
                f.write_str("permission denied; ports below 1024 need root or CAP_NET_BIND_SERVICE")
            }
            _ => write!(f, "{source}"),
        }
    }
}

impl std::error::Error for ListenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Opens listening TCP sockets, non-blocking. `flag` is the flag the address came from, for the error. Port 0 takes any
/// free port, the same one for a pair.
pub fn tcp(flag: &'static str, hosts: &Hosts, port: u16) -> Result<Vec<TcpListener>, ListenError> {
    Ok(open_all(flag, Transport::Tcp, hosts, port)?.into_iter().map(TcpListener::from).collect())
}

/// Opens bound UDP sockets, non-blocking, by the same rules as [`tcp`].
pub fn udp(flag: &'static str, hosts: &Hosts, port: u16) -> Result<Vec<UdpSocket>, ListenError> {
    Ok(open_all(flag, Transport::Udp, hosts, port)?.into_iter().map(UdpSocket::from).collect())
}

fn open_all(flag: &'static str, transport: Transport, hosts: &Hosts, port: u16) -> Result<Vec<Socket>, ListenError> {
    let machine = Machine::look();
    let sockets = plan(hosts, machine);
    if let Some(lacking) = hosts.lacking(machine) {
        let on: Vec<String> = sockets.iter().map(|(address, _)| address.to_string()).collect();
        tracing::warn!(flag, %hosts, on = on.join(","), "{lacking}; listening on what is there");
    }
    // A free port of one family may be taken in the other; with a few attempts that does not matter.
    let attempts = if port == 0 && sockets.len() > 1 { 16 } else { 1 };
    let mut attempt = 1;
    loop {
        match open_with_one_port(transport, &sockets, port) {
            Err((_, error)) if error.kind() == io::ErrorKind::AddrInUse && attempt < attempts => attempt += 1,
            opened => {
                return opened.map_err(|(address, source)| {
                    let in_use = source.kind() == io::ErrorKind::AddrInUse;
                    let holder = in_use.then(|| holder::of_port(transport, address.port())).flatten();
                    ListenError { flag, transport, address, holder, source }
                });
            }
        }
    }
}

fn open_with_one_port(
    transport: Transport,
    sockets: &[(IpAddr, Serves)],
    mut port: u16,
) -> Result<Vec<Socket>, (SocketAddr, io::Error)> {
    let mut opened = Vec::new();
    for (address, serves) in sockets {
        let address = SocketAddr::new(*address, port);
        let socket = open(transport, address, *serves).map_err(|error| (address, error))?;
        let bound = socket.local_addr().map_err(|error| (address, error))?;
        port = bound.as_socket().map_or(port, |bound| bound.port());
        opened.push(socket);
    }
    Ok(opened)
}

fn open(transport: Transport, address: SocketAddr, serves: Serves) -> io::Result<Socket> {
    let (kind, protocol) = match transport {
        Transport::Tcp => (Type::STREAM, Protocol::TCP),
        Transport::Udp => (Type::DGRAM, Protocol::UDP),
    };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if address.is_ipv6() {
        socket.set_only_v6(serves == Serves::OwnFamily)?;
    }
    if transport == Transport::Tcp {
        // Lets a restarted process have its port back while old connections time out; it does not allow two listeners.
        socket.set_reuse_address(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    if transport == Transport::Tcp {
        // The kernel lowers this to net.core.somaxconn.
        socket.listen(4096)?;
    }
    Ok(socket)
}
