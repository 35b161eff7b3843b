//! The headers of the PROXY protocol as load balancers write them.

use std::net::SocketAddr;

/// The text form. Both addresses are of one family.
pub fn proxy_v1(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
    format!("PROXY {family} {} {} {} {}\r\n", from.ip(), to.ip(), from.port(), to.port()).into_bytes()
}

/// Signature of the binary form.
const SIGNATURE: [u8; 12] = [0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a];

/// The binary form, with further fields behind the addresses.
pub fn proxy_v2(from: SocketAddr, to: SocketAddr, fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    let family: u8 = match (from, to) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => {
            body.extend(from.ip().octets());
            body.extend(to.ip().octets());
            0x11
        }
        (SocketAddr::V6(from), SocketAddr::V6(to)) => {
            body.extend(from.ip().octets());
            body.extend(to.ip().octets());
            0x21
        }
        _ => panic!("both addresses are of one family"),
    };
    body.extend(from.port().to_be_bytes());
    body.extend(to.port().to_be_bytes());
    for (kind, value) in fields {
        body.push(*kind);
        body.extend(u16::try_from(value.len()).expect("a short field").to_be_bytes());
        body.extend(*value);
    }
    framed(0x21, family, &body)
}

/// The binary form of a load balancer that speaks for itself, as in health checks.
pub fn proxy_v2_local() -> Vec<u8> {
    framed(0x20, 0x00, &[])
}

fn framed(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    header.extend([command, family]);
    header.extend(u16::try_from(body.len()).expect("a short header").to_be_bytes());
    header.extend(body);
    header
}
