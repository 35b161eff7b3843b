//! A whole message taken apart: what upstream servers answer, and what plugins change after the fact.

use super::{
    Name, Record,
    code::rtype,
    read::{self, Malformed},
};

/// The three lists of records, in the order they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// What was asked for.
    Answer,
    /// Who is responsible, or why there is nothing.
    Authority,
    /// What may be of use as well.
    Additional,
}

impl Section {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Answer, Self::Authority, Self::Additional];
}

/// A message with one question. The OPT record is not among the records: only its part of the response code is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Chosen by who asked.
    pub id: u16,
    /// Whether this is a response.
    pub response: bool,
    /// Authoritative answer.
    pub aa: bool,
    /// Truncated.
    pub tc: bool,
    /// Recursion available.
    pub ra: bool,
    /// Authentic data.
    pub ad: bool,
    /// With the part from the OPT record.
    pub rcode: u16,
    /// Asked for: name, type, class.
    pub question: (Name, u16, u16),
    /// See [`Section`].
    pub sections: [Vec<Record>; 3],
    /// Whether it had an OPT record.
    pub edns: bool,
    /// What the OPT record has to say, by code.
    pub options: Vec<(u16, Vec<u8>)>,
}

impl Message {
    /// An answer that is nothing but a code, to this question.
    #[must_use]
    pub fn failure(id: u16, rcode: u16, question: (Name, u16, u16)) -> Self {
        Self {
            id,
            response: true,
            aa: false,
            tc: false,
            ra: false,
            ad: false,
            rcode,
            question,
            sections: Default::default(),
            edns: false,
            options: Vec::new(),
        }
    }

    /// Reads a packet, all of it.
    pub fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        let flags = read::u16(packet, 2)?;
        if read::u16(packet, 4)? != 1 {
            return Err(Malformed);
        }
        let (name, at) = read::name(packet, 12)?;
        let mut message = Self {
            id: read::u16(packet, 0)?,
            response: flags & 0x8000 != 0,
            aa: flags & 0x0400 != 0,
            tc: flags & 0x0200 != 0,
            ra: flags & 0x0080 != 0,
            ad: flags & 0x0020 != 0,
            rcode: flags & 15,
            question: (name, read::u16(packet, at)?, read::u16(packet, at + 2)?),
            sections: Default::default(),
            edns: false,
            options: Vec::new(),
        };
        let mut at = at + 4;
        for (index, section) in Section::ALL.into_iter().enumerate() {
            for _ in 0..read::u16(packet, 6 + 2 * index)? {
                let place = read::place(packet, at)?;
                if read::u16(packet, place.fixed)? == rtype::OPT {
                    message.edns = true;
                    message.rcode |= u16::from(packet[place.fixed + 4]) << 4;
                    message.options = read::options(packet, place)?;
                } else {
                    message.sections[section as usize].push(Record::read(packet, place)?);
                }
                at = place.end;
            }
        }
        Ok(message)
    }

    /// Records that answer the question.
    #[must_use]
    pub fn answer(&self) -> &[Record] {
        &self.sections[Section::Answer as usize]
    }

    /// Records of the authority section.
    #[must_use]
    pub fn authority(&self) -> &[Record] {
        &self.sections[Section::Authority as usize]
    }

    /// Records of the additional section.
    #[must_use]
    pub fn additional(&self) -> &[Record] {
        &self.sections[Section::Additional as usize]
    }

    /// All records.
    pub fn records_mut(&mut self) -> impl Iterator<Item = &mut Record> {
        self.sections.iter_mut().flatten()
    }
}
