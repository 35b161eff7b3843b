//! Whether this machine has a way to an address, and whether its ways have changed.

use super::text;
use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

/// Whether there is a route. Nothing is sent: connecting a datagram socket only asks for one.
pub(super) fn reaches(ip: IpAddr) -> bool {
    let from: IpAddr = match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let connect = |socket: UdpSocket| socket.connect(SocketAddr::new(ip, 9));
    UdpSocket::bind(SocketAddr::new(from, 0)).and_then(connect).is_ok()
}

/// The same as long as the same destinations lead to the same devices.
pub(super) fn fingerprint() -> String {
    let columns = |path: &str, wanted: &[usize]| {
        let table = fs::read_to_string(path).unwrap_or_default();
        let pick = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            wanted.iter().filter_map(|at| words.get(*at).copied()).collect::<Vec<_>>().join(" ")
        };
        table.lines().map(pick).collect::<Vec<_>>().join("\n")
    };
    // Device, destination, gateway and mask; destination, length, gateway and device. The rest are counters.
    let (v4, v6) = (columns("/proc/net/route", &[0, 1, 2, 7]), columns("/proc/net/ipv6_route", &[0, 1, 4, 9]));
    text::fingerprint(&format!("{v4}\n\n{v6}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_reached_and_the_ways_stay_the_same() {
        assert!(reaches(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(fingerprint(), fingerprint());
    }
}
