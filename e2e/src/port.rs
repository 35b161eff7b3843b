//! Ports for programs that have to be told theirs.

use std::{
    io::ErrorKind,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket},
    sync::atomic::{AtomicU32, Ordering},
};

/// Below the ports that kernels give to whoever asks for any, and below the node ports.
const FIRST: u32 = 20_000;
const COUNT: u32 = 10_000;

/// A port of loopback that nobody has, and that nobody gets by chance before it is used: no socket is given one of these unasked, this function gives
/// none twice, and other processes begin elsewhere.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(97);
    let next = || FIRST + start.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % COUNT;
    let found = (0..COUNT).find_map(|_| u16::try_from(next()).ok().filter(|port| is_free(*port)));
    found.expect("a free port")
}

/// For datagrams and connections, in both families; a family that the machine lacks is not taken.
fn is_free(port: u16) -> bool {
    [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()].into_iter().all(|host| {
        let at = SocketAddr::new(host, port);
        let tried = UdpSocket::bind(at).map(drop).and_then(|()| TcpListener::bind(at).map(drop));
        tried.map_or_else(|error| error.kind() == ErrorKind::AddrNotAvailable, |()| true)
    })
}
