//! A reply while it is being made: header, question and records in one buffer that is used again and again.
//!
//! Plugins add records; [`Reply::finish`] writes the header and the OPT record and cuts what does not fit. Names are
//! compressed; the owner of most records is the question, so the case that the client chose is kept for free.

use super::code::{option, rcode, rtype};
use super::record::{Field, fields, split_name};
use super::{Message, Name, Record, Request, Section, read};
use std::net::IpAddr;

/// Where the question begins.
const QUESTION: usize = 12;
/// A pointer to the question's name.
const TO_QUESTION: [u8; 2] = [0xc0, 12];
/// More names than this are not remembered: looking for them would cost more than their bytes.
const NAMES: usize = 160;

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

/// A reply in the making.
#[derive(Clone, Debug)]
pub struct Reply {
    bytes: Vec<u8>,
    question_end: usize,
    counts: [u16; 3],
    /// Where labels begin that a name may point to. Filled when first needed.
    names: Vec<u16>,
    /// Response code, also those above 15.
    pub rcode: u16,
    /// Authoritative answer.
    pub aa: bool,
    /// Recursion available.
    pub ra: bool,
    /// Authentic data.
    pub ad: bool,
    /// Truncated.
    pub tc: bool,
    /// An extended error (RFC 8914).
    pub extended: Option<(u16, String)>,
    /// For the log of `errors`; not sent.
    pub error: Option<String>,
    /// The plugin that answered.
    pub by: &'static str,
    /// Whether a cache above may keep it.
    pub cacheable: bool,
    /// Nothing is to be sent at all.
    pub dropped: bool,
}

impl Default for Reply {
    fn default() -> Self {
        Self::new()
    }
}

impl Reply {
    /// Empty; [`Reply::reset`] makes it an answer to something.
    #[must_use]
    pub fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(4096),
            question_end: 0,
            counts: [0; 3],
            names: Vec::with_capacity(NAMES),
            rcode: rcode::NOERROR,
            aa: false,
            ra: false,
            ad: false,
            tc: false,
            extended: None,
            error: None,
            by: "",
            cacheable: false,
            dropped: false,
        }
    }

    /// Begins a reply to this question.
    pub fn reset(&mut self, name: &Name, rtype: u16, class: u16) {
        self.bytes.clear();
        self.bytes.resize(QUESTION, 0);
        self.bytes.extend_from_slice(name.wire());
        self.bytes.extend_from_slice(&rtype.to_be_bytes());
        self.bytes.extend_from_slice(&class.to_be_bytes());
        self.question_end = self.bytes.len();
        self.counts = [0; 3];
        self.names.clear();
        self.rcode = rcode::NOERROR;
        (self.aa, self.ra, self.ad, self.tc) = (false, false, false, false);
        self.extended = None;
        self.error = None;
        self.by = "";
        self.cacheable = false;
        self.dropped = false;
    }

    /// Removes all records and flags and says only this.
    pub fn fail(&mut self, rcode: u16, error: Option<String>) {
        self.clear();
        self.rcode = rcode;
        self.aa = false;
        self.error = error;
    }

    /// Removes the records.
    pub fn clear(&mut self) {
        self.bytes.truncate(self.question_end);
        self.counts = [0; 3];
        self.names.clear();
    }

    /// How many records a section has.
    #[must_use]
    pub fn count(&self, section: Section) -> u16 {
        self.counts[section as usize]
    }

    /// The bytes of all records, in the order of the sections.
    #[must_use]
    pub fn records(&self) -> &[u8] {
        &self.bytes[self.question_end..]
    }

    /// How many records each section has.
    #[must_use]
    pub fn counts(&self) -> [u16; 3] {
        self.counts
    }

    /// Adds a record.
    pub fn add(&mut self, section: Section, record: &Record) {
        self.add_as(section, &record.name, record);
    }

    /// Adds a record under another name.
    pub fn add_as(&mut self, section: Section, owner: &Name, record: &Record) {
        if self.later_section_has_records(section) {
            return self.insert(section, &Record { name: *owner, ..record.clone() });
        }
        self.write_name(owner, true);
        self.bytes.extend_from_slice(&record.rtype.to_be_bytes());
        self.bytes.extend_from_slice(&record.class.to_be_bytes());
        self.bytes.extend_from_slice(&record.ttl.to_be_bytes());
        let length = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0]);
        self.write_data(record);
        let written = (self.bytes.len() - length - 2) as u16;
        self.bytes[length..length + 2].copy_from_slice(&written.to_be_bytes());
        self.counts[section as usize] += 1;
    }

    /// Adds an A or AAAA record of class IN, without making a [`Record`] first.
    pub fn add_address(&mut self, section: Section, name: &Name, ttl: u32, address: IpAddr) {
        if self.later_section_has_records(section) {
            return self.insert(section, &Record::address(*name, ttl, address));
        }
        self.write_name(name, true);
        match address {
            IpAddr::V4(v4) => {
                self.bytes.extend_from_slice(&[0, 1, 0, 1]);
                self.bytes.extend_from_slice(&ttl.to_be_bytes());
                self.bytes.extend_from_slice(&[0, 4]);
                self.bytes.extend_from_slice(&v4.octets());
            }
            IpAddr::V6(v6) => {
                self.bytes.extend_from_slice(&[0, 28, 0, 1]);
                self.bytes.extend_from_slice(&ttl.to_be_bytes());
                self.bytes.extend_from_slice(&[0, 16]);
                self.bytes.extend_from_slice(&v6.octets());
            }
        }
        self.counts[section as usize] += 1;
    }

    /// Adds a SOA record of class IN, without making a [`Record`] first. The numbers are serial, refresh, retry, expire
    /// and minimum.
    pub fn add_soa(&mut self, section: Section, zone: &Name, ttl: u32, names: [&Name; 2], numbers: [u32; 5]) {
        self.write_name(zone, true);
        self.bytes.extend_from_slice(&[0, rtype::SOA as u8, 0, 1]);
        self.bytes.extend_from_slice(&ttl.to_be_bytes());
        let length = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0]);
        names.iter().for_each(|name| self.write_name(name, true));
        numbers.iter().for_each(|number| self.bytes.extend_from_slice(&number.to_be_bytes()));
        let written = (self.bytes.len() - length - 2) as u16;
        self.bytes[length..length + 2].copy_from_slice(&written.to_be_bytes());
        self.counts[section as usize] += 1;
    }

    /// Adds records whose owner is a pointer to the question, as [`Reply::records`] of another reply has them.
    pub fn add_answers(&mut self, count: u16, records: &[u8]) {
        self.bytes.extend_from_slice(records);
        self.counts[0] += count;
    }

    /// Adds records as they were written into another reply to the same name: [`Reply::records`] and
    /// [`Reply::counts`]. `lifetimes` says where in them TTLs are, and `ttl` what they become.
    pub fn add_written(&mut self, counts: [u16; 3], records: &[u8], lifetimes: &[u16], ttl: impl Fn(u32) -> u32) {
        self.clear();
        self.bytes.extend_from_slice(records);
        for place in lifetimes {
            let at = self.question_end + usize::from(*place);
            if let Some(Ok(bytes)) = self.bytes.get_mut(at..at + 4).map(<&mut [u8; 4]>::try_from) {
                *bytes = ttl(u32::from_be_bytes(*bytes)).to_be_bytes();
            }
        }
        self.counts = counts;
    }

    /// Where in [`Reply::records`] the TTLs are.
    #[must_use]
    pub fn lifetimes(&self) -> Vec<u16> {
        let mut found = Vec::new();
        let mut at = self.question_end;
        while let Ok(place) = read::place(&self.bytes, at) {
            found.push((place.fixed + 4 - self.question_end) as u16);
            at = place.end;
        }
        found
    }

    /// Everything taken apart, for plugins that change answers after the fact.
    #[must_use]
    pub fn message(&self) -> Option<Message> {
        let mut bytes = self.bytes.clone();
        self.write_header(&mut bytes, 0, [1, self.counts[0], self.counts[1], self.counts[2]], 0);
        Message::parse(&bytes).ok().map(|message| Message { rcode: self.rcode, ..message })
    }

    /// Takes over question, records, code and flags of a message.
    pub fn set_message(&mut self, message: &Message) {
        let (extended, error, by) = (self.extended.take(), self.error.take(), self.by);
        let (cacheable, dropped) = (self.cacheable, self.dropped);
        let (name, rtype, class) = &message.question;
        self.reset(name, *rtype, *class);
        (self.rcode, self.aa, self.ra) = (message.rcode, message.aa, message.ra);
        (self.ad, self.tc) = (message.ad, message.tc);
        (self.extended, self.error, self.by) = (extended, error, by);
        (self.cacheable, self.dropped) = (cacheable, dropped);
        for section in Section::ALL {
            for record in &message.sections[section as usize] {
                self.add(section, record);
            }
        }
    }

    /// Puts addresses of the answer into another order, in place, if it consists of A or AAAA records of the question
    /// alone. `pick(n)` chooses below `n`. False when the answer is of another form.
    pub fn shuffle_addresses(&mut self, mut pick: impl FnMut(usize) -> usize) -> bool {
        let count = usize::from(self.counts[0]);
        let mut at = self.question_end;
        let mut stride = 0;
        for _ in 0..count {
            let Ok(place) = read::place(&self.bytes, at) else { return false };
            let rtype = read::u16(&self.bytes, place.fixed).unwrap_or_default();
            let address = (rtype == rtype::A || rtype == rtype::AAAA) && self.bytes[at..at + 2] == TO_QUESTION;
            if !address || (stride != 0 && stride != place.end - at) {
                return false;
            }
            stride = place.end - at;
            at = place.end;
        }
        let records = &mut self.bytes[self.question_end..self.question_end + count * stride];
        for last in (1..count).rev() {
            let other = pick(last + 1);
            if other < last {
                let (left, right) = records.split_at_mut(last * stride);
                left[other * stride..(other + 1) * stride].swap_with_slice(&mut right[..stride]);
            }
        }
        true
    }

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

    fn later_section_has_records(&self, section: Section) -> bool {
        self.counts[section as usize + 1..].iter().any(|count| *count > 0)
    }

    /// Adding to an earlier section is rare: everything is written again.
    fn insert(&mut self, section: Section, record: &Record) {
        if let Some(mut message) = self.message() {
            message.sections[section as usize].push(record.clone());
            self.set_message(&message);
        }
    }

    fn write_data(&mut self, record: &Record) {
        let mut rest = record.data.as_slice();
        for field in fields(record.rtype) {
            match field {
                Field::Bytes(length) => {
                    let (bytes, tail) = rest.split_at((*length).min(rest.len()));
                    self.bytes.extend_from_slice(bytes);
                    rest = tail;
                }
                Field::Name | Field::PlainName => {
                    let Some((name, tail)) = split_name(rest) else { break };
                    self.write_name(&name, *field == Field::Name);
                    rest = tail;
                }
                Field::Rest => break,
            }
        }
        self.bytes.extend_from_slice(rest);
    }

    fn write_name(&mut self, name: &Name, compress: bool) {
        if !compress {
            self.bytes.extend_from_slice(name.wire());
            return;
        }
        if &self.bytes[QUESTION..self.question_end - 4] == name.wire() {
            self.bytes.extend_from_slice(if name.is_root() { &[0] } else { &TO_QUESTION });
            return;
        }
        if self.names.is_empty() {
            let mut at = QUESTION;
            while self.bytes[at] != 0 {
                self.names.push(at as u16);
                at += 1 + usize::from(self.bytes[at]);
            }
        }
        let remembered = self.names.len();
        for suffix in name.suffixes() {
            let length = usize::from(suffix[0]);
            if length == 0 {
                self.bytes.push(0);
                return;
            }
            let known = self.names[..remembered].iter().find(|at| self.is_at(usize::from(**at), suffix));
            if let Some(at) = known {
                self.bytes.extend_from_slice(&(0xc000 | at).to_be_bytes());
                return;
            }
            if self.bytes.len() < 0x4000 && self.names.len() < NAMES {
                self.names.push(self.bytes.len() as u16);
            }
            self.bytes.extend_from_slice(&suffix[..1 + length]);
        }
    }

    /// Whether the name at `at` of what is written is this one, letter by letter.
    fn is_at(&self, mut at: usize, mut wire: &[u8]) -> bool {
        loop {
            let Some(length) = self.bytes.get(at) else { return false };
            if *length >= 192 {
                let Ok(target) = read::u16(&self.bytes, at) else { return false };
                at = usize::from(target & 0x3fff);
                continue;
            }
            let span = 1 + usize::from(*length);
            match (self.bytes.get(at..at + span), wire.get(..span)) {
                (Some(written), Some(wanted)) if written == wanted => {}
                _ => return false,
            }
            if span == 1 {
                return true;
            }
            (at, wire) = (at + span, &wire[span..]);
        }
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
        11 + nsid + extended + limits.cookie.map_or(0, |cookie| 4 + cookie.len())
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

    fn write_header(&self, bytes: &mut [u8], id: u16, counts: [u16; 4], copied: u16) {
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

impl Request {
    /// The packet that asks this of another server, under another id. Cookies and other options stay behind: they are
    /// between two hosts.
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
            bytes.extend_from_slice(&edns.size.to_be_bytes());
            bytes.extend_from_slice(&[0, 0, if edns.dnssec_ok { 0x80 } else { 0 }, 0, 0, 0]);
        }
        bytes
    }
}
