//! Reading bytes that came from the network. Nothing here trusts a length or a pointer.

use super::name::{Builder, Name};

/// Length of a message's header.
const HEADER: usize = 12;

/// A message that breaks off, points in circles, or holds a name that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed message")]
pub struct Malformed;

/// The 16-bit number at `at`.
pub(super) fn u16(packet: &[u8], at: usize) -> Result<u16, Malformed> {
    let bytes = packet.get(at..at + 2).ok_or(Malformed)?;
    Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// The 32-bit number at `at`.
pub(super) fn u32(packet: &[u8], at: usize) -> Result<u32, Malformed> {
    let bytes = packet.get(at..at + 4).ok_or(Malformed)?;
    Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// The name at `at`, and where it ends. A pointer must point before everything read so far, so there are no circles.
pub(super) fn name(packet: &[u8], at: usize) -> Result<(Name, usize), Malformed> {
    let mut builder = Builder::new();
    let (mut at, mut end, mut bound) = (at, None, at);
    loop {
        let length = *packet.get(at).ok_or(Malformed)?;
        match length {
            0 => {
                let name = builder.finish().map_err(|_| Malformed)?;
                return Ok((name, end.unwrap_or(at + 1)));
            }
            1..=63 => {
                let label = packet.get(at + 1..at + 1 + usize::from(length)).ok_or(Malformed)?;
                builder.label(label).map_err(|_| Malformed)?;
                at += 1 + usize::from(length);
            }
            192.. => {
                let target = usize::from(u16(packet, at)? & 0x3fff);
                end.get_or_insert(at + 2);
                // Nor is there a name in the header.
                if target >= bound || target < HEADER {
                    return Err(Malformed);
                }
                bound = target;
                at = target;
            }
            _ => return Err(Malformed),
        }
    }
}

/// Where the name at `at` ends, without following pointers.
pub(super) fn skip_name(packet: &[u8], mut at: usize) -> Result<usize, Malformed> {
    loop {
        match *packet.get(at).ok_or(Malformed)? {
            0 => return Ok(at + 1),
            length @ 1..=63 => at += 1 + usize::from(length),
            192.. => return if at + 2 <= packet.len() { Ok(at + 2) } else { Err(Malformed) },
            _ => return Err(Malformed),
        }
    }
}

/// A record's place in a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordSpan {
    /// Where its owner begins.
    pub(super) start: usize,
    /// Where its type is.
    pub(super) fixed: usize,
    /// Where its data begins.
    pub(super) data: usize,
    /// Where it ends.
    pub(super) end: usize,
}

/// The record at `start`.
pub(super) fn place(packet: &[u8], start: usize) -> Result<RecordSpan, Malformed> {
    let fixed = skip_name(packet, start)?;
    let data = fixed + 10;
    let end = data + usize::from(u16(packet, fixed + 8)?);
    if end > packet.len() {
        return Err(Malformed);
    }
    Ok(RecordSpan { start, fixed, data, end })
}

/// What the OPT record at `place` has to say, by code.
pub(super) fn options(packet: &[u8], place: RecordSpan) -> Result<Vec<(u16, Vec<u8>)>, Malformed> {
    let mut found = Vec::new();
    let mut at = place.data;
    while at < place.end {
        let (code, length) = (u16(packet, at)?, usize::from(u16(packet, at + 2)?));
        let value = packet[..place.end].get(at + 4..at + 4 + length).ok_or(Malformed)?;
        found.push((code, value.to_vec()));
        at += 4 + length;
    }
    Ok(found)
}
