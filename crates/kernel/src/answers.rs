//! Every reader of the kernel's answers on the same bytes: for fuzzing, where there is no kernel to ask.

use crate::{conntrack, dummy, ipset, ipvs, netlink, udp};
use std::net::{Ipv4Addr, SocketAddr};

/// Reads bytes as each sort of answer. Nothing comes of it but that it ends.
pub fn read_all(bytes: &[u8]) {
    let mut rest = bytes;
    while let Some((_, body, after)) = netlink::next_message(rest) {
        read_body(body);
        rest = after;
    }
    read_body(bytes);
    let _ = (udp::address::read(bytes), udp::control::read(bytes));
}

fn read_body(bytes: &[u8]) {
    let _ = (conntrack::read(bytes), dummy::read_address(bytes), ipvs::message::read_service(bytes));
    let at = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 80);
    let server = ipvs::ServerKey { protocol: ipvs::Protocol::Tcp, at };
    let _ = ipvs::message::read_destination(&server, bytes);
    for kind in [ipset::Kind::Ip, ipset::Kind::IpPort, ipset::Kind::IpPortIp, ipset::Kind::IpPortNet] {
        let _ = ipset::message::read(kind, bytes);
    }
}
