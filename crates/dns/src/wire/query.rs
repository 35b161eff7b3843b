//! A request as it arrives, and as it is passed on: one question, perhaps EDNS. What is refused before any plugin sees it is decided here.

use super::{
    Name,
    code::{option, rcode, rtype},
    read::{self, Malformed},
};

/// The first bit of the flags: this is a response.
const QR: u16 = 0x8000;
const RD: u16 = 0x0100;
const AD: u16 = 0x0020;
const CD: u16 = 0x0010;
/// Largest UDP answer that is asked of another server: what passes every network in one piece (DNS Flag Day 2020). A client may
/// offer 65,535; fragments of such an answer get lost, or are forged.
const UPSTREAM_SIZE: u16 = 1232;

/// What an OPT record says (RFC 6891).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// How large a UDP answer may be.
    pub size: u16,
    /// DNSSEC records are wanted.
    pub dnssec_ok: bool,
    /// 0 is the only one there is.
    pub version: u8,
    /// The server's name is wanted (RFC 5001).
    pub nsid: bool,
    /// The client's half of a cookie (RFC 7873).
    pub cookie: Option<[u8; 8]>,
}

/// A request with one question.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Chosen by the client.
    pub id: u16,
    /// Recursion desired.
    pub rd: bool,
    /// Authentic data is understood.
    pub ad: bool,
    /// Checking disabled.
    pub cd: bool,
    /// As it was written.
    pub name: Name,
    /// Type asked for.
    pub rtype: u16,
    /// Class asked for.
    pub class: u16,
    /// If there was an OPT record.
    pub edns: Option<Edns>,
}

/// A packet that no plugin gets to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// Not a request at all: no answer, so that two servers cannot play ball.
    Ignore,
    /// Answered with this code and the header alone.
    Answer(u16),
}

impl From<Malformed> for Reject {
    fn from(_: Malformed) -> Self {
        Self::Answer(rcode::FORMERR)
    }
}

impl Request {
    /// Reads a packet.
    pub fn parse(packet: &[u8]) -> Result<Self, Reject> {
        if packet.len() < 12 {
            return Err(Reject::Ignore);
        }
        let flags = read::u16(packet, 2)?;
        if flags & QR != 0 {
            return Err(Reject::Ignore);
        }
        // Everything but QUERY; NOTIFY and UPDATE have nobody here to take them.
        if flags & 0x7800 != 0 {
            return Err(Reject::Answer(rcode::NOTIMP));
        }
        let (questions, answers, authority, additional) =
            (read::u16(packet, 4)?, read::u16(packet, 6)?, read::u16(packet, 8)?, read::u16(packet, 10)?);
        // RFC 9619 for the question; the other bounds are those of every known server.
        if questions != 1 || answers > 1 || authority > 1 || additional > 2 {
            return Err(Reject::Answer(rcode::FORMERR));
        }
        let (name, at) = read::name(packet, 12)?;
        let (rtype, class) = (read::u16(packet, at)?, read::u16(packet, at + 2)?);
        let mut at = at + 4;
        let mut edns = None;
        for index in 0..answers + authority + additional {
            let place = read::place(packet, at)?;
            if read::u16(packet, place.fixed)? == rtype::OPT {
                let misplaced = index < answers + authority || packet[place.start] != 0;
                if misplaced || edns.is_some() {
                    return Err(Reject::Answer(rcode::FORMERR));
                }
                edns = Some(opt(packet, place)?);
            }
            at = place.end;
        }
        let id = read::u16(packet, 0)?;
        Ok(Self { id, rd: flags & RD != 0, ad: flags & AD != 0, cd: flags & CD != 0, name, rtype, class, edns })
    }

    /// The options of a packet that was read as a request, but for those that are between two hosts.
    #[must_use]
    pub fn options(packet: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let opt = || -> Result<Vec<(u16, Vec<u8>)>, Malformed> {
            let mut at = read::skip_name(packet, 12)? + 4;
            while at < packet.len() {
                let place = read::place(packet, at)?;
                if read::u16(packet, place.fixed)? == rtype::OPT {
                    return read::options(packet, place);
                }
                at = place.end;
            }
            Ok(Vec::new())
        };
        let mut options = opt().unwrap_or_default();
        options.retain(|(code, _)| !option::is_between_hosts(*code));
        options
    }

    /// The packet that asks this of another server, under another id, without options.
    /// The size that the client takes stays behind where it is more than is sure to arrive.
    #[must_use]
    pub fn to_wire(&self, id: u16) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + self.name.wire().len());
        let mut flags: u16 = 0;
        for (set, bit) in [(self.rd, 0x0100), (self.ad, 0x0020), (self.cd, 0x0010)] {
            flags |= if set { bit } else { 0 };
        }
        bytes.extend_from_slice(&id.to_be_bytes());
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, u8::from(self.edns.is_some())]);
        bytes.extend_from_slice(self.name.wire());
        bytes.extend_from_slice(&self.rtype.to_be_bytes());
        bytes.extend_from_slice(&self.class.to_be_bytes());
        if let Some(edns) = self.edns {
            bytes.extend_from_slice(&[0, 0, rtype::OPT as u8]);
            bytes.extend_from_slice(&edns.size.min(UPSTREAM_SIZE).to_be_bytes());
            bytes.extend_from_slice(&[0, 0, if edns.dnssec_ok { 0x80 } else { 0 }, 0, 0, 0]);
        }
        bytes
    }
}

fn opt(packet: &[u8], place: read::RecordSpan) -> Result<Edns, Malformed> {
    let ttl = read::u32(packet, place.fixed + 4)?;
    let mut edns = Edns {
        size: read::u16(packet, place.fixed + 2)?.max(512),
        dnssec_ok: ttl & 0x8000 != 0,
        version: (ttl >> 16 & 0xff) as u8,
        nsid: false,
        cookie: None,
    };
    let mut at = place.data;
    while at < place.end {
        let (code, length) = (read::u16(packet, at)?, usize::from(read::u16(packet, at + 2)?));
        let value = packet[..place.end].get(at + 4..at + 4 + length).ok_or(Malformed)?;
        match code {
            option::NSID => edns.nsid = true,
            option::COOKIE => {
                // RFC 7873, section 5.2.2: 8 bytes, or 16 to 40.
                if value.len() != 8 && !(16..=40).contains(&value.len()) {
                    return Err(Malformed);
                }
                edns.cookie = value.first_chunk::<8>().copied();
            }
            _ => {}
        }
        at += 4 + length;
    }
    Ok(edns)
}
