//! Plans as tables, and real sockets on loopback.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use net::{Families, HasFamily};
use proptest::prelude::*;

use super::*;

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

#[test]
fn the_plan_names_each_socket_and_does_without_ipv6_where_it_may() {
    use Serves::{BothFamilies as Both, OwnFamily as Own};
    for (text, with_ipv6, without) in [
        ("0.0.0.0", vec![("0.0.0.0", Own)], vec![("0.0.0.0", Own)]),
        ("::", vec![("::", Both)], vec![("0.0.0.0", Own)]),
        ("0.0.0.0,::", vec![("0.0.0.0", Own), ("::", Own)], vec![("0.0.0.0", Own)]),
        ("::,0.0.0.0", vec![("::", Own), ("0.0.0.0", Own)], vec![("0.0.0.0", Own)]),
        ("::1", vec![("::1", Own)], vec![("::1", Own)]),
        ("127.0.0.1,::1", vec![("127.0.0.1", Own), ("::1", Own)], vec![("127.0.0.1", Own), ("::1", Own)]),
    ] {
        let shown = |has_ipv6| -> Vec<(String, Serves)> {
            plan(&hosts(text), has_ipv6).into_iter().map(|(address, serves)| (address.to_string(), serves)).collect()
        };
        let expected = |list: Vec<(&str, Serves)>| -> Vec<(String, Serves)> {
            list.into_iter().map(|(address, serves)| (address.to_owned(), serves)).collect()
        };
        assert_eq!(shown(true), expected(with_ipv6), "{text} with IPv6");
        assert_eq!(shown(false), expected(without), "{text} without IPv6");
    }
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
