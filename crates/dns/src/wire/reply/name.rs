//! Names in a reply: each is written once, later ones point to it.

use super::{QUESTION, Reply, TO_QUESTION};
use crate::wire::{
    Name, Record, read,
    record::{Field, fields, split_name},
};

/// More names than this are not remembered: looking for them would cost more than their bytes.
pub(super) const NAMES: usize = 160;

impl Reply {
    /// The data of a record. Names in it are compressed where the type allows that.
    pub(super) fn write_data(&mut self, record: &Record) {
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

    /// A name, or the way to where it stands already.
    pub(super) fn write_name(&mut self, name: &Name, compress: bool) {
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
}
