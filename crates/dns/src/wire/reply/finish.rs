//! The end of a reply: header and OPT record, and what does not fit is cut.

use super::Reply;
use crate::wire::{
    Request, Section,
    code::{option, rcode, rtype},
    read,
};

/// What a finished reply may be like.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    /// Longest message in bytes.
    pub size: usize,
    /// The server's name, for who asked for it.
    pub nsid: Option<&'a [u8]>,
    /// The whole cookie, for a client that sent its half.
    pub cookie: Option<[u8; 24]>,
}

impl Reply {
    /// Writes header and OPT, cuts what is too long, and hands out the packet.
    pub fn finish(&mut self, request: &Request, limits: &Limits<'_>) -> &[u8] {
        let opt = self.opt_length(request, limits);
        let mut counts = [1, self.counts[0], self.counts[1], self.counts[2]];
        if self.bytes.len() + opt > limits.size {
            self.cut(limits.size.saturating_sub(opt), &mut counts);
        }
        if request.edns.is_some() {
            self.write_opt(request, limits);
            counts[3] += 1;
        } else if self.rcode > 15 {
            self.rcode = rcode::SERVFAIL;
        }
        let mut flags = 0;
        for (set, bit) in [(request.rd, 0x0100), (request.cd, 0x0010)] {
            flags |= if set { bit } else { 0 };
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        self.write_header(&mut bytes, request.id, counts, flags);
        self.bytes = bytes;
        &self.bytes
    }

    /// The packet, after [`Reply::finish`].
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        &self.bytes
    }

    /// The answer to a packet that was refused before it was understood: 12 bytes.
    #[must_use]
    pub fn header_only(packet: &[u8], rcode: u16) -> Option<[u8; 12]> {
        let mut header = [0; 12];
        header[..4].copy_from_slice(packet.get(..4)?);
        // Opcode and RD stay; the rest is ours.
        header[2] = 0x80 | header[2] & 0x79;
        header[3] = (rcode & 15) as u8;
        Some(header)
    }

    /// Drops records from the end until the rest fits. An answer that lost only additional records is whole.
    fn cut(&mut self, size: usize, counts: &mut [u16; 4]) {
        let mut kept = [0; 3];
        let mut at = self.question_end;
        'records: for section in Section::ALL {
            for _ in 0..self.counts[section as usize] {
                match read::place(&self.bytes, at) {
                    Ok(place) if place.end <= size => {
                        at = place.end;
                        kept[section as usize] += 1;
                    }
                    _ => break 'records,
                }
            }
        }
        self.tc |= kept[..2] != self.counts[..2];
        self.bytes.truncate(at);
        self.counts = kept;
        counts[1..].copy_from_slice(&kept);
    }

    fn opt_length(&self, request: &Request, limits: &Limits<'_>) -> usize {
        let Some(edns) = request.edns else { return 0 };
        let nsid = limits.nsid.filter(|_| edns.nsid).map_or(0, |nsid| 4 + nsid.len());
        let extended = self.extended.as_ref().map_or(0, |(_, text)| 6 + text.len());
        let passed: usize = self.passed(limits).map(|(_, value)| 4 + value.len()).sum();
        11 + passed + nsid + extended + limits.cookie.map_or(0, |cookie| 4 + cookie.len())
    }

    /// Options of an upstream that the client gets.
    fn passed(&self, limits: &Limits<'_>) -> impl Iterator<Item = &(u16, Vec<u8>)> {
        self.options.iter().filter(|(code, _)| passes(*code, limits))
    }

    fn write_opt(&mut self, request: &Request, limits: &Limits<'_>) {
        let Some(edns) = request.edns else { return };
        self.bytes.extend_from_slice(&[0, 0, rtype::OPT as u8]);
        self.bytes.extend_from_slice(&edns.size.to_be_bytes());
        self.bytes.extend_from_slice(&[(self.rcode >> 4) as u8, 0, if edns.dnssec_ok { 0x80 } else { 0 }, 0]);
        let length = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0]);
        if let Some(nsid) = limits.nsid.filter(|_| edns.nsid) {
            self.write_option(option::NSID, &[nsid]);
        }
        if let Some(cookie) = &limits.cookie {
            self.write_option(option::COOKIE, &[cookie]);
        }
        let options = std::mem::take(&mut self.options);
        for (code, value) in options.iter().filter(|(code, _)| passes(*code, limits)) {
            self.write_option(*code, &[value]);
        }
        self.options = options;
        if let Some((code, text)) = self.extended.take() {
            self.write_option(option::EDE, &[&code.to_be_bytes(), text.as_bytes()]);
            self.extended = Some((code, text));
        }
        let written = (self.bytes.len() - length - 2) as u16;
        self.bytes[length..length + 2].copy_from_slice(&written.to_be_bytes());
    }

    fn write_option(&mut self, code: u16, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.bytes.extend_from_slice(&code.to_be_bytes());
        self.bytes.extend_from_slice(&(length as u16).to_be_bytes());
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
    }

    pub(super) fn write_header(&self, bytes: &mut [u8], id: u16, counts: [u16; 4], copied: u16) {
        let mut flags = 0x8000 | copied | self.rcode & 15;
        for (set, bit) in [(self.aa, 0x0400), (self.tc, 0x0200), (self.ra, 0x0080), (self.ad, 0x0020)] {
            flags |= if set { bit } else { 0 };
        }
        bytes[..2].copy_from_slice(&id.to_be_bytes());
        bytes[2..4].copy_from_slice(&flags.to_be_bytes());
        for (index, count) in counts.into_iter().enumerate() {
            bytes[4 + 2 * index..6 + 2 * index].copy_from_slice(&count.to_be_bytes());
        }
    }
}

/// Whether an upstream's option goes on to the client: its name only where this server has none.
fn passes(code: u16, limits: &Limits<'_>) -> bool {
    !option::is_between_hosts(code) && (code != option::NSID || limits.nsid.is_none())
}
