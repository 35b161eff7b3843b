//! One resource record, with its data in uncompressed wire form.

use super::{
    Name,
    code::{class, rtype},
    read::{self, Malformed, RecordSpan},
};
use std::net::IpAddr;

/// A resource record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Owner.
    pub name: Name,
    /// Type.
    pub rtype: u16,
    pub class: u16,
    /// Seconds that it may be kept.
    pub ttl: u32,
    /// Data in wire form; names in it are not compressed.
    pub data: Vec<u8>,
}

/// What a type's data consists of, as far as names are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// A name that senders may compress.
    Name,
    /// A name that they must not (RFC 3597), though old ones did.
    PlainName,
    /// So many bytes.
    Bytes(usize),
    /// Whatever is left.
    Rest,
}

/// The fields of a type. The types of RFC 1035 are compressed, later ones never.
pub(super) fn fields(rtype: u16) -> &'static [Field] {
    use Field::{Bytes, Name, PlainName, Rest};
    match rtype {
        rtype::NS | rtype::CNAME | rtype::PTR | rtype::MD | rtype::MF | rtype::MB | rtype::MG | rtype::MR => &[Name],
        rtype::DNAME => &[PlainName],
        rtype::MX => &[Bytes(2), Name],
        rtype::AFSDB | rtype::RT | rtype::KX => &[Bytes(2), PlainName],
        rtype::SOA => &[Name, Name, Bytes(20)],
        rtype::MINFO => &[Name, Name],
        rtype::RP => &[PlainName, PlainName],
        rtype::SRV => &[Bytes(6), PlainName],
        _ => &[Rest],
    }
}

impl Record {
    /// A or AAAA of class IN.
    #[must_use]
    pub fn address(name: Name, ttl: u32, address: IpAddr) -> Self {
        let (rtype, data) = match address {
            IpAddr::V4(v4) => (rtype::A, v4.octets().to_vec()),
            IpAddr::V6(v6) => (rtype::AAAA, v6.octets().to_vec()),
        };
        Self { name, rtype, class: class::IN, ttl, data }
    }

    /// The address of an A or AAAA record.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match self.rtype {
            rtype::A => <[u8; 4]>::try_from(self.data.as_slice()).ok().map(IpAddr::from),
            rtype::AAAA => <[u8; 16]>::try_from(self.data.as_slice()).ok().map(IpAddr::from),
            _ => None,
        }
    }

    /// A record of class IN whose data is a name: CNAME, NS, PTR.
    #[must_use]
    pub fn pointer(name: Name, rtype: u16, ttl: u32, target: &Name) -> Self {
        Self { name, rtype, class: class::IN, ttl, data: target.wire().to_vec() }
    }

    /// A TXT record with one string, cut at 255 bytes.
    #[must_use]
    pub fn txt(name: Name, class: u16, ttl: u32, text: &str) -> Self {
        let bytes = &text.as_bytes()[..text.len().min(255)];
        let mut data = vec![bytes.len() as u8];
        data.extend_from_slice(bytes);
        Self { name, rtype: rtype::TXT, class, ttl, data }
    }

    /// The name that is the whole of a CNAME's, NS's or PTR's data.
    #[must_use]
    pub fn target(&self) -> Option<Name> {
        match self.rtype {
            rtype::CNAME | rtype::NS | rtype::PTR | rtype::DNAME => Name::from_wire(&self.data).ok(),
            _ => None,
        }
    }

    /// Applies `change` to every name in the data that may be seen as such.
    pub fn map_names(&mut self, mut change: impl FnMut(Name) -> Name) {
        let mut data = Vec::with_capacity(self.data.len());
        let mut rest = self.data.as_slice();
        for field in fields(self.rtype) {
            let length = match field {
                Field::Bytes(length) => (*length).min(rest.len()),
                Field::Rest => rest.len(),
                Field::Name | Field::PlainName => {
                    let Some((name, tail)) = split_name(rest) else { return };
                    data.extend_from_slice(change(name).wire());
                    rest = tail;
                    continue;
                }
            };
            data.extend_from_slice(&rest[..length]);
            rest = &rest[length..];
        }
        data.extend_from_slice(rest);
        self.data = data;
    }

    /// The record at `place` of a packet.
    pub(super) fn read(packet: &[u8], place: RecordSpan) -> Result<Self, Malformed> {
        let (name, _) = read::name(packet, place.start)?;
        let rtype = read::u16(packet, place.fixed)?;
        let mut data = Vec::with_capacity(place.end - place.data);
        let mut at = place.data;
        for field in fields(rtype) {
            match field {
                Field::Bytes(length) => {
                    data.extend_from_slice(packet[..place.end].get(at..at + length).ok_or(Malformed)?);
                    at += length;
                }
                Field::Rest => {
                    data.extend_from_slice(&packet[at..place.end]);
                    at = place.end;
                }
                Field::Name | Field::PlainName => {
                    let (name, end) = read::name(&packet[..place.end], at)?;
                    data.extend_from_slice(name.wire());
                    at = end;
                }
            }
        }
        if at != place.end {
            return Err(Malformed);
        }
        Ok(Self {
            name,
            rtype,
            class: read::u16(packet, place.fixed + 2)?,
            ttl: read::u32(packet, place.fixed + 4)?,
            data,
        })
    }
}

/// The uncompressed name at the beginning, and what follows.
pub(super) fn split_name(bytes: &[u8]) -> Option<(Name, &[u8])> {
    let mut at = 0;
    loop {
        match bytes.get(at)? {
            0 => break,
            length => at += 1 + usize::from(*length),
        }
    }
    let (name, rest) = bytes.split_at(at + 1);
    Name::from_wire(name).ok().map(|name| (name, rest))
}

/// The reverse name of an address: `1.0.0.127.in-addr.arpa.`, or nibbles under `ip6.arpa.`.
#[cfg(test)]
pub(super) fn reverse(address: IpAddr) -> Result<Name, super::NameError> {
    let text = match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa.")
        }
        IpAddr::V6(v6) => {
            let nibbles = v6.octets().into_iter().rev().map(|byte| format!("{:x}.{:x}.", byte & 15, byte >> 4));
            nibbles.chain(["ip6.arpa.".to_owned()]).collect()
        }
    };
    Name::parse(&text)
}

/// The address that a whole reverse name stands for.
pub(crate) fn from_reverse(name: &Name) -> Option<IpAddr> {
    let lower = name.lower();
    let labels: Vec<&[u8]> = lower.labels().collect();
    let (rest, suffix) = labels.split_at_checked(labels.len().checked_sub(2)?)?;
    match suffix {
        [b"in-addr", b"arpa"] if rest.len() == 4 => {
            let mut octets = [0u8; 4];
            for (octet, label) in octets.iter_mut().rev().zip(rest) {
                let text = std::str::from_utf8(label).ok()?;
                let plain =
                    text.bytes().all(|byte| byte.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
                *octet = text.parse().ok().filter(|_| plain)?;
            }
            Some(octets.into())
        }
        [b"ip6", b"arpa"] if rest.len() == 32 => {
            let mut octets = [0u8; 16];
            for (index, label) in rest.iter().enumerate() {
                let [digit] = label else { return None };
                let value = char::from(*digit).to_digit(16)? as u8;
                octets[15 - index / 2] |= if index % 2 == 0 { value } else { value << 4 };
            }
            Some(octets.into())
        }
        _ => None,
    }
}
