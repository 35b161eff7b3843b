//! A reply while it is being made: header, question and records in one buffer that is used again and again.
//!
//! Plugins add records; [`Reply::finish`] writes the header and the OPT record and cuts what does not fit. Names are
//! compressed; the owner of most records is the question, so the case that the client chose is kept for free.

mod finish;
mod name;

use super::{
    Message, Name, Record, Section,
    code::{rcode, rtype},
    read,
};
use std::net::IpAddr;

pub use finish::Limits;

use name::NAMES;

/// Where the question begins.
const QUESTION: usize = 12;
/// A pointer to the question's name.
const TO_QUESTION: [u8; 2] = [0xc0, 12];

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
    /// Options of an upstream's OPT record, by code.
    pub options: Vec<(u16, Vec<u8>)>,
    /// For the log of `errors`; not sent.
    pub error: Option<String>,
    /// The plugin that answered.
    pub by: &'static str,
    /// Whether a cache above may keep it.
    pub cacheable: bool,
    /// Nothing is to be sent at all.
    pub dropped: bool,
    /// Set by a plugin on the way up that must wait for more before the answer goes on.
    pub waits: bool,
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
            options: Vec::new(),
            error: None,
            by: "",
            cacheable: false,
            dropped: false,
            waits: false,
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
        self.options.clear();
        self.error = None;
        self.by = "";
        self.cacheable = false;
        self.dropped = false;
        self.waits = false;
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

    /// Whether the answer has a record of this type.
    #[must_use]
    pub fn answers_with(&self, rtype: u16) -> bool {
        let mut at = self.question_end;
        for _ in 0..self.counts[0] {
            let Ok(place) = read::place(&self.bytes, at) else { return false };
            if read::u16(&self.bytes, place.fixed) == Ok(rtype) {
                return true;
            }
            at = place.end;
        }
        false
    }

    /// Removes everything but the answer.
    pub fn keep_answer(&mut self) {
        let mut at = self.question_end;
        for _ in 0..self.counts[0] {
            let Ok(place) = read::place(&self.bytes, at) else { return };
            at = place.end;
        }
        if self.counts[1..] != [0, 0] {
            self.bytes.truncate(at);
            self.counts[1..].fill(0);
            self.names.retain(|place| usize::from(*place) < at);
        }
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
        let options = std::mem::take(&mut self.options);
        let (cacheable, dropped) = (self.cacheable, self.dropped);
        let (name, rtype, class) = &message.question;
        self.reset(name, *rtype, *class);
        (self.rcode, self.aa, self.ra) = (message.rcode, message.aa, message.ra);
        (self.ad, self.tc) = (message.ad, message.tc);
        (self.extended, self.error, self.by) = (extended, error, by);
        (self.cacheable, self.dropped) = (cacheable, dropped);
        self.options = options;
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
}
