//! Both families over loopback, and bytes that no kernel would write.

use super::{Asked, BATCH, Inbox, Outbox, Peer, address, control, learn_destination, send};
use proptest::prelude::*;
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket},
    os::fd::AsFd,
    time::Duration,
};

fn server(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_nonblocking(true).unwrap();
    learn_destination(&socket).unwrap();
    socket
}

/// A client that sees only what comes from where it asked.
fn client(host: IpAddr, port: u16) -> UdpSocket {
    let any: IpAddr = if host.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).unwrap();
    socket.connect((host, port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

#[test]
fn answers_leave_from_the_address_that_was_asked() {
    // All of 127.0.0.0/8 belongs to the machine; without the address the kernel would answer from 127.0.0.1.
    for (any, hosts) in [("0.0.0.0:0", &["127.0.0.1", "127.1.2.3"][..]), ("[::]:0", &["::1"])] {
        let server = server(any);
        let port = server.local_addr().unwrap().port();
        let mut inbox = Inbox::new(512);
        let mut outbox = Outbox::new(4096);
        for host in hosts {
            let host: IpAddr = host.parse().unwrap();
            let client = client(host, port);
            for text in ["one", "two"] {
                client.send(text.as_bytes()).unwrap();
            }
            assert_eq!(inbox.receive(server.as_fd()).unwrap(), 2);
            let packets: Vec<(Vec<u8>, Peer)> = inbox.packets().map(|(bytes, peer)| (bytes.to_vec(), peer)).collect();
            let source = client.local_addr().unwrap();
            let peer = Peer { source, asked: Some(Asked { address: host, interface: 0 }) };
            assert_eq!(packets, [(b"one".to_vec(), peer), (b"two".to_vec(), peer)]);
            packets.iter().for_each(|(bytes, peer)| assert!(outbox.push(bytes, peer)));
            assert_eq!(outbox.send(server.as_fd()), 2);
            send(server.as_fd(), b"three", &peer).unwrap();
            for expected in ["one", "two", "three"] {
                let mut buffer = [0; 16];
                let length = client.recv(&mut buffer).unwrap();
                assert_eq!(&buffer[..length], expected.as_bytes());
            }
        }
        assert_eq!(inbox.receive(server.as_fd()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(inbox.packets().count(), 0);
    }
}

#[test]
fn a_socket_with_one_address_tells_none_and_answers_from_it() {
    for host in ["127.0.0.1", "::1"] {
        let host: IpAddr = host.parse().unwrap();
        let server = UdpSocket::bind((host, 0)).unwrap();
        let client = client(host, server.local_addr().unwrap().port());
        client.send(b"x").unwrap();
        let mut inbox = Inbox::new(16);
        assert_eq!(inbox.receive(server.as_fd()).unwrap(), 1);
        let (_, peer) = inbox.packets().next().unwrap();
        assert_eq!(peer, Peer { source: client.local_addr().unwrap(), asked: None });
        send(server.as_fd(), b"y", &peer).unwrap();
        assert_eq!(client.recv(&mut [0; 4]).unwrap(), 1);
    }
}

#[test]
fn a_batch_has_bounds() {
    let server = server("127.0.0.1:0");
    let address = server.local_addr().unwrap();
    let client = client(address.ip(), address.port());
    for _ in 0..=BATCH {
        client.send(&[7; 100]).unwrap();
    }
    let mut inbox = Inbox::new(64);
    assert_eq!(inbox.receive(server.as_fd()).unwrap(), BATCH);
    assert!(inbox.packets().all(|(bytes, _)| bytes == [7; 64]), "what is too long loses its end");
    assert_eq!(inbox.receive(server.as_fd()).unwrap(), 1);

    let peer = Peer { source: client.local_addr().unwrap(), asked: None };
    let mut outbox = Outbox::new(100);
    assert!(outbox.push(&[1; 200], &peer), "one always fits");
    assert!(!outbox.push(&[2; 1], &peer));
    assert_eq!(outbox.send(server.as_fd()), 1);
    assert!((0..BATCH).all(|_| outbox.push(&[3], &peer)));
    assert!(!outbox.push(&[3], &peer));
    assert_eq!(outbox.send(server.as_fd()), BATCH);
    assert_eq!(outbox.send(server.as_fd()), 0);
}

#[test]
fn one_packet_that_cannot_be_sent_keeps_no_other_back() {
    let server = server("127.0.0.1:0");
    let address = server.local_addr().unwrap();
    let client = client(address.ip(), address.port());
    let good = Peer { source: client.local_addr().unwrap(), asked: None };
    let wrong_family = Peer { source: "[::1]:9".parse().unwrap(), asked: None };
    let foreign = Asked { address: "192.0.2.1".parse().unwrap(), interface: 0 };
    let not_ours = Peer { asked: Some(foreign), ..good };
    let mut outbox = Outbox::new(64);
    for (bytes, peer) in [(b"a", &wrong_family), (b"b", &good), (b"c", &not_ours), (b"d", &good)] {
        assert!(outbox.push(bytes, peer));
    }
    assert_eq!(outbox.send(server.as_fd()), 2);
    for expected in [b"b", b"d"] {
        let mut buffer = [0; 1];
        client.recv(&mut buffer).unwrap();
        assert_eq!(&buffer, expected);
    }
}

#[test]
fn link_local_addresses_keep_their_interface_and_others_have_none() {
    for (text, interface, expected) in [("fe80::1", 3, 3), ("fd00::1", 3, 0), ("::1", 1, 0)] {
        let mut bytes = [0; control::LONGEST];
        let written = Asked { address: text.parse().unwrap(), interface };
        let length = control::write(written, &mut bytes);
        assert_eq!(control::read(&bytes[..length]), Some(Asked { interface: expected, ..written }), "{text}");
    }
}

fn any_address() -> impl Strategy<Value = SocketAddr> {
    prop_oneof![
        (any::<[u8; 4]>(), any::<u16>()).prop_map(|(ip, port)| SocketAddr::from((ip, port))),
        (any::<[u8; 16]>(), any::<u16>(), any::<u32>()).prop_map(|(ip, port, scope)| SocketAddrV6::new(
            ip.into(),
            port,
            0,
            scope
        )
        .into()),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(source in any_address()) {
        let mut name = [0; address::LONGEST];
        let length = address::write(source, &mut name);
        prop_assert_eq!(address::read(&name[..length]), Some(source));
        let asked = Asked { address: source.ip(), interface: 0 };
        let mut bytes = [0; control::LONGEST];
        let length = control::write(asked, &mut bytes);
        prop_assert_eq!(control::read(&bytes[..length]), Some(asked));
    }

    #[test]
    fn any_bytes_are_an_address_or_none(
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
        length in 0usize..64,
        cut in 0usize..80,
    ) {
        let _ = address::read(&bytes);
        let _ = control::read(&bytes);
        // With a length that makes sense, so that what follows is looked at.
        let mut framed = length.to_ne_bytes().to_vec();
        framed.extend_from_slice(&bytes);
        let _ = control::read(&framed[..cut.min(framed.len())]);
        // And behind a message of another kind.
        let mut second = [0; control::LONGEST];
        let asked = Asked { address: "fe80::1".parse().unwrap(), interface: 2 };
        let written = control::write(asked, &mut second);
        let mut two = 24usize.to_ne_bytes().to_vec();
        two.extend([9, 9, 9, 9, 9, 9, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8]);
        two.extend_from_slice(&second[..written]);
        prop_assert_eq!(control::read(&two), Some(asked));
    }
}
