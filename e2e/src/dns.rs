//! A small DNS client, independent of the server's own reading and writing of packets.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket},
    time::Duration,
};

/// Type A.
pub const A: u16 = 1;
/// Type PTR.
pub const PTR: u16 = 12;
/// Type AAAA.
pub const AAAA: u16 = 28;
/// Type SRV.
pub const SRV: u16 = 33;
const OPT: u16 = 41;
const ID: [u8; 2] = [0x12, 0x34];

/// What a server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Response code.
    pub rcode: u8,
    /// Authoritative answer.
    pub authoritative: bool,
    pub truncated: bool,
    /// Recursion available.
    pub recursion: bool,
    /// Answer, authority and additional section; without OPT, which is between two hosts.
    pub sections: [Vec<Record>; 3],
}

/// A record as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// Whose it is, as it was written.
    pub owner: String,
    /// Its type.
    pub rtype: u16,
    /// Addresses and names in full; SRV as priority, weight, port and target; of a SOA all but the serial; else bytes.
    pub data: String,
    /// How long it is good.
    pub ttl: u32,
}

impl Answer {
    /// The data of the answer section, sorted.
    pub fn data(&self) -> Vec<&str> {
        let mut data: Vec<&str> = self.sections[0].iter().map(|record| record.data.as_str()).collect();
        data.sort_unstable();
        data
    }
}

/// A question for the class IN, with the offer of 1232 bytes if `edns`.
pub fn question(name: &str, rtype: u16, edns: bool) -> Vec<u8> {
    let mut packet = ID.to_vec();
    packet.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(edns)]);
    for label in name.split('.').filter(|label| !label.is_empty()) {
        packet.push(label.len() as u8);
        packet.extend(label.bytes());
    }
    packet.push(0);
    packet.extend(rtype.to_be_bytes());
    packet.extend([0, 1]);
    if edns {
        packet.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    }
    packet
}

/// Asks in a datagram, once. The socket is connected: an answer from another address would not be seen.
pub fn udp(server: SocketAddr, packet: &[u8], patience: Duration) -> Option<Answer> {
    let any: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(server).ok()?;
    socket.set_read_timeout(Some(patience)).ok()?;
    socket.send(packet).ok()?;
    let mut buffer = [0; 4096];
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => return Some(parse(&buffer[..length])),
            // A socket that waits for a time does not go on waiting by itself after a signal.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                eprintln!("no answer from {server}: {error}");
                return None;
            }
        }
    }
}

/// Asks on a connection.
pub fn tcp(server: SocketAddr, packet: &[u8], patience: Duration) -> Option<Answer> {
    let mut stream = TcpStream::connect(server).ok()?;
    stream.set_read_timeout(Some(patience)).ok()?;
    stream.write_all(&(packet.len() as u16).to_be_bytes()).ok()?;
    stream.write_all(packet).ok()?;
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer).ok()?;
    Some(parse(&answer))
}

/// A name with its final dot, and where it ends.
pub fn name_at(packet: &[u8], mut at: usize) -> (String, usize) {
    let (mut name, mut end) = (String::new(), None);
    loop {
        match packet[at] {
            0 if name.is_empty() => return (".".to_owned(), end.unwrap_or(at + 1)),
            0 => return (name, end.unwrap_or(at + 1)),
            pointer if pointer >= 0xc0 => {
                end.get_or_insert(at + 2);
                at = usize::from(pointer & 0x3f) << 8 | usize::from(packet[at + 1]);
            }
            length => {
                name.push_str(&String::from_utf8_lossy(&packet[at + 1..at + 1 + usize::from(length)]));
                name.push('.');
                at += 1 + usize::from(length);
            }
        }
    }
}

/// Reads an answer to a [`question`].
pub fn parse(packet: &[u8]) -> Answer {
    let number = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    assert_eq!(packet[..2], ID, "the id is echoed");
    let mut sections: [Vec<Record>; 3] = Default::default();
    let mut at = if number(4) == 1 { name_at(packet, 12).1 + 4 } else { 12 };
    for (index, section) in sections.iter_mut().enumerate() {
        for _ in 0..number(6 + 2 * index) {
            let (owner, fixed) = name_at(packet, at);
            let (rtype, start) = (number(fixed), fixed + 10);
            let ttl = u32::from(number(fixed + 4)) << 16 | u32::from(number(fixed + 6));
            at = start + usize::from(number(fixed + 8));
            if rtype != OPT {
                section.push(Record { owner, rtype, data: data(packet, rtype, start, at), ttl });
            }
        }
        section.sort();
    }
    let flag = |byte: usize, bit: u8| packet[byte] & bit != 0;
    Answer {
        rcode: packet[3] & 15,
        authoritative: flag(2, 4),
        truncated: flag(2, 2),
        recursion: flag(3, 0x80),
        sections,
    }
}

fn data(packet: &[u8], rtype: u16, at: usize, end: usize) -> String {
    let number = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    match (rtype, &packet[at..end]) {
        (A, bytes) if bytes.len() == 4 => Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).to_string(),
        (AAAA, bytes) if bytes.len() == 16 => {
            Ipv6Addr::from(<[u8; 16]>::try_from(bytes).expect("sixteen bytes")).to_string()
        }
        // NS, CNAME.
        (2 | 5 | PTR, _) => name_at(packet, at).0,
        // SOA.
        (6, _) => {
            let (first, next) = name_at(packet, at);
            let (second, numbers) = name_at(packet, next);
            format!("{first} {second} {:?}", &packet[numbers + 4..end])
        }
        // MX.
        (15, _) => format!("{} {}", number(at), name_at(packet, at + 2).0),
        (SRV, _) => {
            format!("{} {} {} {}", number(at), number(at + 2), number(at + 4), name_at(packet, at + 6).0)
        }
        (_, bytes) => format!("{bytes:?}"),
    }
}
