//! Domain names in wire form. 255 bytes inline, so that the way of a query needs no allocation for them.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

/// Longest name in wire form, with the root label (RFC 1035, section 2.3.4).
const MAX: usize = 255;
/// Longest label.
const MAX_LABEL: usize = 63;

/// An absolute domain name. Keeps the case it was written in; equality and hashes ignore it (RFC 4343).
#[derive(Clone, Copy)]
pub struct Name {
    len: u8,
    bytes: [u8; MAX],
}

/// Text or bytes that are no domain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// More than 255 bytes.
    #[error("is longer than 255 bytes")]
    TooLong,
    /// A part between dots with more than 63 bytes.
    #[error("has a label of more than 63 bytes")]
    LongLabel,
    /// Two dots in a row, or one at the beginning.
    #[error("has an empty label")]
    EmptyLabel,
    /// A backslash that does not introduce a character or three digits up to 255.
    #[error("has a backslash without a character or three digits after it")]
    Escape,
    /// Not a wire form: it ends early or goes on after its end.
    #[error("is not a name in wire form")]
    Wire,
}

impl Name {
    /// The root, `.`.
    pub const ROOT: Self = Self { len: 1, bytes: [0; MAX] };

    /// Reads presentation form, with or without the final dot; `\.` and `\123` are understood.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text == "." || text.is_empty() {
            return Ok(Self::ROOT);
        }
        let mut builder = Builder::new();
        let mut label: [u8; MAX_LABEL] = [0; MAX_LABEL];
        let mut length = 0;
        let mut bytes = text.bytes();
        let mut ended = false;
        while let Some(byte) = bytes.next() {
            ended = false;
            let byte = match byte {
                b'.' => {
                    builder.label(&label[..length])?;
                    length = 0;
                    ended = true;
                    continue;
                }
                b'\\' => escaped(&mut bytes)?,
                plain => plain,
            };
            *label.get_mut(length).ok_or(NameError::LongLabel)? = byte;
            length += 1;
        }
        if !ended {
            builder.label(&label[..length])?;
        }
        builder.finish()
    }

    /// Takes uncompressed wire form, all of it.
    pub fn from_wire(wire: &[u8]) -> Result<Self, NameError> {
        if wire.len() > MAX {
            return Err(NameError::TooLong);
        }
        let mut at = 0;
        loop {
            match wire.get(at) {
                Some(0) if at + 1 == wire.len() => break,
                Some(length @ 1..=63) => at += 1 + usize::from(*length),
                _ => return Err(NameError::Wire),
            }
        }
        let mut name = Self { len: u8::try_from(wire.len()).map_err(|_| NameError::TooLong)?, bytes: [0; MAX] };
        name.bytes[..wire.len()].copy_from_slice(wire);
        Ok(name)
    }

    /// These labels in front of `suffix`.
    pub fn under<'a>(labels: impl IntoIterator<Item = &'a [u8]>, suffix: &'a Self) -> Result<Self, NameError> {
        let mut builder = Builder::new();
        for label in labels.into_iter().chain(suffix.labels()) {
            builder.label(label)?;
        }
        builder.finish()
    }

    /// The wire form, with the root label at its end.
    #[must_use]
    pub fn wire(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The same in lower case.
    #[must_use]
    pub fn lower(&self) -> Self {
        let mut lower = *self;
        // A length is at most 63 and so never looks like a capital letter.
        lower.bytes[..usize::from(self.len)].make_ascii_lowercase();
        lower
    }

    /// The labels from the left, without the root.
    pub fn labels(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.wire();
        std::iter::from_fn(move || {
            let (length, tail) = rest.split_first()?;
            let (label, after) = tail.split_at_checked(usize::from(*length))?;
            rest = after;
            (!label.is_empty()).then_some(label)
        })
    }

    /// The name itself, its parent, and so on to the root, as wire forms.
    pub fn suffixes(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = Some(self.wire());
        std::iter::from_fn(move || {
            let now = rest?;
            rest = match now.first() {
                Some(0) | None => None,
                Some(length) => now.get(1 + usize::from(*length)..),
            };
            Some(now)
        })
    }

    /// Whether this is `zone` or below it.
    #[must_use]
    pub fn is_within(&self, zone: &Self) -> bool {
        self.above(zone).is_some()
    }

    /// What stands to the left of `zone`, as wire form without an end; `None` when this is not within it.
    #[must_use]
    pub fn above(&self, zone: &Self) -> Option<&[u8]> {
        let cut = self.wire().len().checked_sub(zone.wire().len())?;
        let (left, right) = self.wire().split_at(cut);
        if !right.eq_ignore_ascii_case(zone.wire()) {
            return None;
        }
        // The cut must be between labels.
        let mut at = 0;
        while at < cut {
            at += 1 + usize::from(left[at]);
        }
        (at == cut).then_some(left)
    }

    /// Whether this is the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.len == 1
    }

    /// How many labels it has, without the root.
    #[must_use]
    pub fn label_count(&self) -> usize {
        self.labels().count()
    }
}

fn escaped(bytes: &mut std::str::Bytes<'_>) -> Result<u8, NameError> {
    let first = bytes.next().ok_or(NameError::Escape)?;
    if !first.is_ascii_digit() {
        return Ok(first);
    }
    let mut value = u32::from(first - b'0');
    for _ in 0..2 {
        let digit = bytes.next().filter(u8::is_ascii_digit).ok_or(NameError::Escape)?;
        value = value * 10 + u32::from(digit - b'0');
    }
    u8::try_from(value).map_err(|_| NameError::Escape)
}

/// Puts labels one after another.
pub(super) struct Builder {
    len: usize,
    bytes: [u8; MAX],
}

impl Builder {
    pub(super) fn new() -> Self {
        Self { len: 0, bytes: [0; MAX] }
    }

    pub(super) fn label(&mut self, label: &[u8]) -> Result<(), NameError> {
        let length = u8::try_from(label.len()).map_err(|_| NameError::LongLabel)?;
        if label.is_empty() {
            return Err(NameError::EmptyLabel);
        }
        if label.len() > MAX_LABEL {
            return Err(NameError::LongLabel);
        }
        // One byte is kept for the root.
        let end = self.len + 1 + label.len();
        if end >= MAX {
            return Err(NameError::TooLong);
        }
        self.bytes[self.len] = length;
        self.bytes[self.len + 1..end].copy_from_slice(label);
        self.len = end;
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Name, NameError> {
        let len = u8::try_from(self.len + 1).map_err(|_| NameError::TooLong)?;
        Ok(Name { len, bytes: self.bytes })
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.wire().eq_ignore_ascii_case(other.wire())
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.lower().wire().hash(state);
    }
}

impl fmt::Display for Name {
    /// With the final dot; dots and backslashes in labels are escaped, and what does not print is `\123`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        if self.is_root() {
            return f.write_char('.');
        }
        for label in self.labels() {
            for byte in label {
                match byte {
                    b'.' | b'\\' | b' ' | b'\'' | b'@' | b';' | b'(' | b')' | b'"' => {
                        f.write_char('\\')?;
                        f.write_char(char::from(*byte))?;
                    }
                    b'!'..=b'~' => f.write_char(char::from(*byte))?,
                    other => write!(f, "\\{other:03}")?,
                }
            }
            f.write_char('.')?;
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}
