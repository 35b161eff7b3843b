//! The bytes of protobuf: tags, varints, lengths. Reading never looks past the end and never panics. Writing is public: the
//! API server writes the protobuf of OpenAPI with it.

use super::Error;

/// One field of a message as it stands in the bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Raw<'a> {
    /// Whole numbers and booleans.
    Varint(u64),
    /// Doubles.
    Fixed64(u64),
    /// Text, bytes, messages, packed lists.
    Bytes(&'a [u8]),
    /// Floats; no Kubernetes type has one.
    Fixed32,
}

impl<'a> Raw<'a> {
    pub(super) fn varint(self) -> Result<u64, Error> {
        match self {
            Self::Varint(value) => Ok(value),
            _ => Err(Error::malformed("expected a varint")),
        }
    }

    pub(super) fn bytes(self) -> Result<&'a [u8], Error> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(Error::malformed("expected a length and bytes")),
        }
    }
}

/// The fields of a message, one after the other.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0_u64;
        for (index, byte) in self.0.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.0 = &self.0[index + 1..];
                return Ok(value);
            }
        }
        Err(Error::malformed(if self.0.len() < 10 { "ends in the middle of a varint" } else { "a varint is too long" }))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Error> {
        let split = usize::try_from(length).ok().and_then(|length| self.0.split_at_checked(length));
        let (taken, rest) = split.ok_or_else(|| Error::malformed("ends before its length"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u32, Raw<'a>), Error> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0);
        let number = number.ok_or_else(|| Error::malformed("a field number is out of range"))?;
        let raw = match tag & 7 {
            0 => Raw::Varint(self.varint()?),
            1 => {
                let bytes = self.take(8)?;
                Raw::Fixed64(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
            }
            2 => {
                let length = self.varint()?;
                Raw::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Raw::Fixed32
            }
            _ => return Err(Error::malformed("groups are not supported")),
        };
        Ok((number, raw))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Raw<'a>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// The varints of a packed list.
pub(super) fn packed(bytes: &[u8]) -> Result<Vec<u64>, Error> {
    let mut rest = Fields(bytes);
    let mut values = Vec::new();
    while !rest.0.is_empty() {
        values.push(rest.varint()?);
    }
    Ok(values)
}

/// Appends a varint.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a whole number or boolean with its tag.
pub fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3);
    put_varint(out, value);
}

/// Appends bytes with their tag and length.
pub fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a double with its tag.
pub fn put_double(out: &mut Vec<u8>, number: u32, value: f64) {
    put_varint(out, u64::from(number) << 3 | 1);
    out.extend(value.to_bits().to_le_bytes());
}
