//! Plans as tables, and real sockets on loopback.

use super::*;
use net::{Families, HasFamily};
use proptest::prelude::*;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    time::Duration,
};

fn hosts(text: &str) -> Hosts {
    text.parse().unwrap()
}

#[test]
fn text_and_type_say_the_same() {
    for text in ["0.0.0.0", "::", "0.0.0.0,::", "::,0.0.0.0", "127.0.0.1", "::1", "127.0.0.1,::1", "::1,127.0.0.1"] {
        assert_eq!(hosts(text).to_string(), text);
    }
    assert_eq!(hosts("::"), Hosts::Everywhere);
    assert_eq!(hosts("127.0.0.1, ::1"), hosts("127.0.0.1,::1"));
}

#[test]
fn what_cannot_be_listened_on_is_refused_with_what_can() {
    for text in ["", "localhost", "127.0.0.1,127.0.0.2", "::1,::2", "1.2.3.4,::1,::2", "127.0.0.1,", "1.2.3.4:80"] {
        let message = text.parse::<Hosts>().unwrap_err().to_string();
        assert!(
            message.ends_with("; give an address, one of each family (0.0.0.0,::), or :: for both families"),
            "{message}"
        );
    }
}

const WHOLE: Machine = Machine { v4: Presence::Whole, v6: Presence::Whole };
/// A kernel that was started with `ipv6.disable=1`: `socket(AF_INET6)` is EAFNOSUPPORT.
const NO_V6_SOCKETS: Machine = Machine { v6: Presence::Absent, ..WHOLE };
/// A container with `net.ipv6.conf.all.disable_ipv6=1`.
const NO_V6_LOOPBACK: Machine = Machine { v6: Presence::NoLoopback, ..WHOLE };
/// A namespace whose `lo` has no IPv4 address.
const NO_V4_LOOPBACK: Machine = Machine { v4: Presence::NoLoopback, ..WHOLE };

#[test]
fn the_plan_names_each_socket_and_does_without_a_family_where_it_may() {
    for (text, machine, expected) in [
        ("0.0.0.0", WHOLE, "0.0.0.0"),
        ("0.0.0.0", NO_V6_SOCKETS, "0.0.0.0"),
        ("::", WHOLE, "::+"),
        ("::", NO_V6_SOCKETS, "0.0.0.0"),
        ("::", NO_V6_LOOPBACK, "::+"),
        ("::", NO_V4_LOOPBACK, "::+"),
        ("0.0.0.0,::", WHOLE, "0.0.0.0 ::"),
        ("0.0.0.0,::", NO_V6_SOCKETS, "0.0.0.0"),
        ("::,0.0.0.0", WHOLE, ":: 0.0.0.0"),
        ("::,0.0.0.0", NO_V6_SOCKETS, "0.0.0.0"),
        ("127.0.0.1,::1", WHOLE, "127.0.0.1 ::1"),
        ("127.0.0.1,::1", NO_V6_SOCKETS, "127.0.0.1"),
        ("127.0.0.1,::1", NO_V6_LOOPBACK, "127.0.0.1"),
        ("127.0.0.1,::1", NO_V4_LOOPBACK, "::1"),
        ("::1,127.0.0.1", NO_V4_LOOPBACK, "::1"),
        // Who names one address, or one of the machine's own, gets it or an error.
        ("::1", NO_V6_SOCKETS, "::1"),
        ("127.0.0.1", NO_V4_LOOPBACK, "127.0.0.1"),
        ("192.0.2.1,2001:db8::1", NO_V6_SOCKETS, "192.0.2.1 2001:db8::1"),
        ("127.0.0.1,::1", Machine { v4: Presence::NoLoopback, v6: Presence::Absent }, "127.0.0.1 ::1"),
    ] {
        let sockets = plan(&hosts(text), machine).into_iter().map(|(address, serves)| match serves {
            Serves::OwnFamily => address.to_string(),
            Serves::BothFamilies => format!("{address}+"),
        });
        assert_eq!(sockets.collect::<Vec<_>>().join(" "), expected, "{text} {machine:?}");
    }
}

#[test]
fn what_is_lacking_is_said() {
    for (text, machine, expected) in [
        ("127.0.0.1,::1", WHOLE, None),
        ("127.0.0.1", NO_V6_SOCKETS, None),
        ("127.0.0.1,::1", NO_V6_LOOPBACK, Some("this machine has no IPv6 (::1)")),
        ("127.0.0.1,::1", NO_V4_LOOPBACK, Some("this machine has no IPv4 (127.0.0.1)")),
        ("0.0.0.0,::", NO_V6_SOCKETS, Some("this machine has no IPv6 (::)")),
        ("::", NO_V6_SOCKETS, Some("this machine has no IPv6")),
        ("::", NO_V4_LOOPBACK, Some("this machine has no IPv4")),
    ] {
        assert_eq!(hosts(text).lacking(machine).as_deref(), expected, "{text} {machine:?}");
    }
}

#[test]
fn clients_are_sent_where_they_get_through() {
    for (text, bound, machine, expected) in [
        ("127.0.0.1,::1", "127.0.0.1:1 [::1]:1", WHOLE, "127.0.0.1:1 [::1]:1"),
        ("127.0.0.1,::1", "[::1]:1", NO_V4_LOOPBACK, "[::1]:1"),
        ("::", "[::]:1", WHOLE, "[::1]:1 127.0.0.1:1"),
        ("::", "[::]:1", NO_V6_LOOPBACK, "127.0.0.1:1"),
        ("::", "[::]:1", NO_V4_LOOPBACK, "[::1]:1"),
        ("::", "0.0.0.0:1", NO_V6_SOCKETS, "127.0.0.1:1"),
        ("0.0.0.0,::", "0.0.0.0:1 [::]:1", WHOLE, "127.0.0.1:1 [::1]:1"),
        ("0.0.0.0,::", "0.0.0.0:1 [::]:1", NO_V6_LOOPBACK, "127.0.0.1:1"),
        ("0.0.0.0,::", "0.0.0.0:1 [::]:1", NO_V4_LOOPBACK, "[::1]:1"),
        ("192.0.2.1", "192.0.2.1:1", NO_V4_LOOPBACK, "192.0.2.1:1"),
        // Better a wrong address than none.
        ("0.0.0.0", "0.0.0.0:1", NO_V4_LOOPBACK, "127.0.0.1:1"),
    ] {
        let bound: Vec<SocketAddr> = bound.split(' ').map(|address| address.parse().unwrap()).collect();
        let found: Vec<String> = reachable(&hosts(text), &bound, machine).iter().map(ToString::to_string).collect();
        assert_eq!(found.join(" "), expected, "{text} {machine:?}");
    }
    assert_eq!(WHOLE.loopback(), Family::V4.loopback());
    assert_eq!(NO_V4_LOOPBACK.loopback(), Family::V6.loopback());
}

fn local(listeners: &[TcpListener]) -> Vec<SocketAddr> {
    listeners.iter().map(|listener| listener.local_addr().unwrap()).collect()
}

/// Whether a client gets through to one of the listeners.
fn reaches(target: SocketAddr, listeners: &[TcpListener]) -> bool {
    let Ok(mut client) = TcpStream::connect(target) else { return false };
    let from = client.local_addr().unwrap();
    client.write_all(b"x").unwrap();
    listeners.iter().any(|listener| match listener.accept() {
        Ok((mut stream, peer)) => {
            stream.set_nonblocking(false).unwrap();
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            peer.port() == from.port()
        }
        Err(_) => false,
    })
}

fn loopback(family: Family, port: u16) -> SocketAddr {
    SocketAddr::new(family.loopback(), port)
}

#[test]
fn every_shape_of_loopback_serves_exactly_its_families_on_one_port() {
    for families in Families::ALL {
        let hosts = Hosts::Each(DualStack::build(families, Family::loopback));
        let listeners = tcp("bind-address", &hosts, 0).unwrap();
        let addresses = local(&listeners);
        let port = addresses[0].port();
        assert!(addresses.iter().all(|address| address.port() == port && port != 0), "{addresses:?}");
        let order: Vec<Family> = addresses.iter().map(|address| address.ip().family()).collect();
        assert_eq!(order, families.iter().collect::<Vec<_>>());
        for family in families.iter() {
            assert!(reaches(loopback(family, port), &listeners), "{hosts} {family:?}");
        }
    }
}

#[test]
fn the_wildcards_serve_the_families_they_say() {
    for (text, v4, v6) in
        [("0.0.0.0", true, false), ("::", true, true), ("0.0.0.0,::", true, true), ("::,0.0.0.0", true, true)]
    {
        let listeners = tcp("bind-address", &hosts(text), 0).unwrap();
        let port = local(&listeners)[0].port();
        assert_eq!(reaches(loopback(Family::V4, port), &listeners), v4, "{text} IPv4");
        assert_eq!(reaches(loopback(Family::V6, port), &listeners), v6, "{text} IPv6");
    }
}

#[test]
fn datagrams_follow_the_same_rules() {
    let sockets = udp("dns-address", &hosts("127.0.0.1,::1"), 0).unwrap();
    let port = sockets[0].local_addr().unwrap().port();
    for (socket, family) in sockets.iter().zip([Family::V4, Family::V6]) {
        assert_eq!(socket.local_addr().unwrap(), loopback(family, port));
        let client = UdpSocket::bind(loopback(family, 0)).unwrap();
        client.send_to(b"hello", loopback(family, port)).unwrap();
        socket.set_nonblocking(false).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut buffer = [0; 16];
        let (length, from) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], from), (&b"hello"[..], client.local_addr().unwrap()));
    }
}

#[test]
fn a_taken_port_names_flag_address_and_holder() {
    for family in Family::BOTH {
        let hosts = Hosts::Each(DualStack::one(family.loopback()));
        let first = tcp("bind-address", &hosts, 0).unwrap();
        let address = local(&first)[0];
        let message = tcp("bind-address", &hosts, address.port()).unwrap_err().to_string();
        let start = format!("--bind-address: cannot listen on tcp {address}: the port is held by ");
        assert!(message.starts_with(&start), "{message}");
        assert!(message.ends_with(&format!("(pid {})", std::process::id())), "{message}");
    }
}

#[test]
fn an_address_of_another_machine_is_explained() {
    for (text, shown) in [("192.0.2.1", "192.0.2.1:1234"), ("2001:db8::1", "[2001:db8::1]:1234")] {
        assert_eq!(
            tcp("bind-address", &hosts(text), 1234).unwrap_err().to_string(),
            format!("--bind-address: cannot listen on tcp {shown}: this machine does not have that address")
        );
    }
}

proptest! {
    #[test]
    fn any_text_is_taken_or_refused_without_panic(text in "[0-9a-f:.,%/ ]{0,40}") {
        if let Ok(hosts) = text.parse::<Hosts>() {
            prop_assert_eq!(hosts.to_string().parse::<Hosts>(), Ok(hosts));
        }
    }
}

#[test]
fn other_machines_are_told_addresses_that_they_can_reach() {
    let here = |family: Family| -> Option<IpAddr> {
        Some(if family == Family::V4 { "192.0.2.7" } else { "2001:db8::7" }.parse().unwrap())
    };
    let none = |_: Family| None;
    for (hosts, bound, preferred, want) in [
        ("::", "[::]:6443", Family::V4, "192.0.2.7,2001:db8::7"),
        ("::", "[::]:6443", Family::V6, "2001:db8::7,192.0.2.7"),
        ("0.0.0.0", "0.0.0.0:6443", Family::V6, "192.0.2.7"),
        ("198.51.100.1", "198.51.100.1:6443", Family::V4, "198.51.100.1"),
        ("127.0.0.1", "127.0.0.1:6443", Family::V4, ""),
    ] {
        let hosts: Hosts = hosts.parse().unwrap();
        let text = |found: Option<DualStack<IpAddr>>| {
            found.map(|pair| pair.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")).unwrap_or_default()
        };
        let bound = [bound.parse().unwrap()];
        assert_eq!(text(advertised(&hosts, &bound, preferred, here)), want);
        let fixed = matches!(hosts, Hosts::Each(_)) && want == "198.51.100.1";
        assert_eq!(text(advertised(&hosts, &bound, preferred, none)), if fixed { want } else { "" });
    }
}
