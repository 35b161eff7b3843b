//! Which addresses this server connects to on behalf of others. Every dial asks here, once the name is resolved.
//!
//! Pods and nodes report their own addresses, and whoever may proxy chooses among them: a bad one could otherwise point the
//! server at itself, at services of its machine, or at a cloud's metadata service with the machine's credentials. An address
//! that wraps an IPv4 address (mapped, translated, 6to4) is judged by what it wraps.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Metadata and platform services of clouds that are not link-local: Azure, Alibaba, Oracle.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192)];
/// The same of Google and Oracle.
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe)];

/// Which addresses a proxied request may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Unicast addresses of other machines, and of this one but loopback and the server itself.
    GlobalUnicast,
    /// Loopback as well, for tests and for labs whose nodes are on this machine.
    AlsoLoopback,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// Logs and streams of a node's kubelet, which may run on this machine.
    Kubelet,
    /// A proxied request.
    Proxy,
    /// A webhook at a URL that an administrator wrote down: wherever that leads.
    Webhook,
}

/// The decision, with what it needs to know of this server.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// How far proxied requests go.
    pub reach: Reach,
    /// The port that this server listens on.
    pub own_port: Option<u16>,
}

impl Filter {
    /// Why a connection to `to` is refused; none when it is not.
    pub fn refusal(&self, via: Via, to: SocketAddr) -> Option<&'static str> {
        self.judge(via, to, is_of_this_machine)
    }

    fn judge(&self, via: Via, to: SocketAddr, is_local: impl Fn(IpAddr) -> bool) -> Option<&'static str> {
        if via == Via::Webhook {
            return None;
        }
        if self.own_port == Some(to.port()) && is_local(to.ip()) {
            return Some("is this server itself");
        }
        let loopback_is_open = via == Via::Kubelet || self.reach == Reach::AlsoLoopback;
        let refused = |address: IpAddr| class(address).filter(|class| !(loopback_is_open && *class == LOOPBACK));
        refused(to.ip()).or_else(|| match to.ip() {
            IpAddr::V4(_) => None,
            IpAddr::V6(v6) => wrapped(v6).into_iter().flatten().find_map(|v4| refused(IpAddr::V4(v4))),
        })
    }
}

const LOOPBACK: &str = "is a loopback address";

/// What is special about an address.
fn class(address: IpAddr) -> Option<&'static str> {
    if address.is_unspecified() {
        return Some("is no address of a machine");
    }
    if address.is_multicast() {
        return Some("is a multicast address");
    }
    if address.is_loopback() {
        return Some(LOOPBACK);
    }
    match address {
        IpAddr::V4(v4) if v4.octets()[0] == 0 || v4.octets()[0] >= 240 => Some("is no address of a machine"),
        IpAddr::V4(v4) if v4.is_link_local() => Some("is a link-local address"),
        IpAddr::V4(v4) if METADATA_V4.contains(&v4) => Some("is a cloud's metadata service"),
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Some("is a link-local address"),
        // Amazon keeps fd00:ec2::/64 for its services on every machine: metadata at ::254, names at ::253, time at ::123.
        IpAddr::V6(v6) if METADATA_V6.contains(&v6) || v6.segments()[..4] == [0xfd00, 0xec2, 0, 0] => {
            Some("is a cloud's metadata service")
        }
        _ => None,
    }
}

/// The IPv4 addresses that an IPv6 address may lead to.
fn wrapped(v6: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let v4 = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match v6.segments() {
        // ::1 and :: are judged as they are.
        [0, 0, 0, 0, 0, 0, 0, _] => [None, None],
        // Compatible, mapped, translated (RFC 4291, 2765).
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => [v4(high, low), None],
        // NAT64 (RFC 6052), and its prefix for local use (RFC 8215), whose address may also stand after bit 48.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => [v4(high, low), None],
        [0x64, 0xff9b, 1, 0, 0, 0, high, low] => [v4(high, low), None],
        [0x64, 0xff9b, 1, one, two, three, high, low] => {
            [v4(one, ((two & 0xff) << 8) | (three >> 8)), v4(high, low).filter(|v4| !v4.is_unspecified())]
        }
        // 6to4 (RFC 3056).
        [0x2002, high, low, ..] => [v4(high, low), None],
        _ => [None, None],
    }
}

/// The kernel binds only to addresses that the machine has.
fn is_of_this_machine(address: IpAddr) -> bool {
    UdpSocket::bind((address.to_canonical(), 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(reach: Reach, via: Via, address: &str, port: u16) -> Option<&'static str> {
        let filter = Filter { reach, own_port: Some(6443) };
        let own: [IpAddr; 3] =
            ["192.0.2.10".parse().unwrap(), "2001:db8::10".parse().unwrap(), "127.0.0.1".parse().unwrap()];
        let is_local = |address: IpAddr| own.contains(&address.to_canonical());
        filter.judge(via, SocketAddr::new(address.parse().unwrap(), port), is_local)
    }

    #[test]
    fn proxied_requests_stay_away_from_this_machine_its_links_and_clouds() {
        for (address, global, lab, kubelet) in [
            ("192.0.2.1", true, true, true),
            ("10.0.0.1", true, true, true),
            ("100.64.0.1", true, true, true),
            ("2001:db8::1", true, true, true),
            ("fd00::1", true, true, true),
            ("fd00:ec3::254", true, true, true),
            ("64:ff9b::192.0.2.1", true, true, true),
            ("64:ff9b:1::192.0.2.1", true, true, true),
            ("64:ff9b:1:c000:2:100::", true, true, true),
            ("127.0.0.1", false, true, true),
            ("127.9.9.9", false, true, true),
            ("::1", false, true, true),
            ("::ffff:127.0.0.1", false, true, true),
            ("64:ff9b::127.0.0.1", false, true, true),
            ("169.254.169.254", false, false, false),
            ("169.254.170.2", false, false, false),
            ("168.63.129.16", false, false, false),
            ("100.100.100.200", false, false, false),
            ("::ffff:169.254.169.254", false, false, false),
            ("::169.254.169.254", false, false, false),
            ("::ffff:0:169.254.169.254", false, false, false),
            ("64:ff9b::169.254.169.254", false, false, false),
            ("64:ff9b::a83f:8110", false, false, false),
            ("64:ff9b:1::169.254.169.254", false, false, false),
            ("64:ff9b:1:a9fe:a9:fe00::", false, false, false),
            ("2002:a9fe:a9fe::1", false, false, false),
            ("fe80::1", false, false, false),
            ("febf::1", false, false, false),
            ("fe80::a9fe:a9fe", false, false, false),
            ("fd00:ec2::254", false, false, false),
            ("fd00:ec2::253", false, false, false),
            ("fd20:ce::254", false, false, false),
            ("fd00:c1::a9fe:a9fe", false, false, false),
            ("0.0.0.0", false, false, false),
            ("0.1.2.3", false, false, false),
            ("::", false, false, false),
            ("::ffff:0.0.0.0", false, false, false),
            ("224.0.0.1", false, false, false),
            ("::ffff:224.0.0.1", false, false, false),
            ("ff02::1", false, false, false),
            ("240.0.0.1", false, false, false),
            ("255.255.255.255", false, false, false),
        ] {
            let found = [
                judge(Reach::GlobalUnicast, Via::Proxy, address, 80),
                judge(Reach::AlsoLoopback, Via::Proxy, address, 80),
                judge(Reach::GlobalUnicast, Via::Kubelet, address, 10250),
            ];
            assert_eq!(found.map(|refusal| refusal.is_none()), [global, lab, kubelet], "{address} {found:?}");
        }
    }

    #[test]
    fn nobody_makes_the_server_talk_to_itself() {
        for address in ["192.0.2.10", "2001:db8::10", "::ffff:192.0.2.10", "127.0.0.1"] {
            for via in [Via::Kubelet, Via::Proxy] {
                let found = judge(Reach::AlsoLoopback, via, address, 6443);
                assert_eq!(found, Some("is this server itself"), "{address} {via:?}");
            }
            assert_eq!(judge(Reach::AlsoLoopback, Via::Proxy, address, 10250), None, "a node beside the server");
        }
        assert_eq!(judge(Reach::GlobalUnicast, Via::Proxy, "192.0.2.1", 6443), None, "the same port elsewhere");
        assert!(is_of_this_machine(Ipv4Addr::LOCALHOST.into()) && !is_of_this_machine("192.0.2.77".parse().unwrap()));
    }
}
