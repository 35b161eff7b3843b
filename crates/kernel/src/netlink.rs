//! Messages to and from the kernel over netlink. Used by `conntrack`, `nft`, `ipvs`, `ipset` and `dummy`.
//!
//! A message is a header, a small header of the kernel's room it goes to (netfilter, generic, routing), and attributes:
//! length, kind, value, padded to four bytes. Numbers of headers are in the machine's order, those inside netfilter's
//! attributes in the network's.

use net::Family;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType,
    netlink::{GENERIC, NETFILTER, SocketAddrNetlink},
    recv, sendto, socket_with,
    sockopt::{self, set_socket_timeout},
};
use std::{io, os::fd::OwnedFd};

const HEADER: usize = 16;
const NETFILTER_HEADER: usize = 4;
const REQUEST: u16 = 0x1;
const ACK: u16 = 0x4;
const DUMP: u16 = 0x300;
const CREATE: u16 = 0x400;
const EXCLUSIVE: u16 = 0x200;
const ERROR: u16 = 0x2;
const DONE: u16 = 0x3;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NESTED: u16 = 0x8000;
/// A dump comes in pieces of at most 32 KiB.
const BUFFER: usize = 64 * 1024;
/// The kernel answers at once; silence means that something is wrong.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// A conversation with netfilter, in the network namespace in which it was opened.
pub(crate) struct Socket {
    socket: OwnedFd,
}

/// Who listens in the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Room {
    Netfilter,
    /// Numbered at run time; IPVS is one.
    Generic,
    /// Links, addresses, routes.
    Routing,
}

/// A message in the making.
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// `kind` is the subsystem in the high byte and the command in the low one.
    pub(crate) fn new(kind: u16, family: Family) -> Self {
        let family = match family {
            Family::V4 => AddressFamily::INET,
            Family::V6 => AddressFamily::INET6,
        };
        Self::with_header(kind, &[u8::try_from(family.as_raw()).unwrap_or_default(), 0, 0, 0])
    }

    /// One with another header than netfilter's.
    pub(crate) fn with_header(kind: u16, header: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes.extend(header);
        Self { bytes }
    }

    /// Adds an attribute.
    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) {
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Adds a text, which ends with a zero.
    pub(crate) fn text(&mut self, kind: u16, value: &str) {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(kind, &bytes);
    }

    /// Adds an attribute whose value is attributes.
    pub(crate) fn nested(&mut self, kind: u16, value: &[u8]) {
        self.attribute(kind | NESTED, value);
    }

    /// The bytes, for tests that compare them.
    #[cfg(test)]
    pub(crate) fn golden(self) -> String {
        self.bytes[HEADER..].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn finish(mut self, flags: u16) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[6..8].copy_from_slice(&(flags | REQUEST).to_ne_bytes());
        self.bytes
    }
}

/// The attributes that `write` writes, without a header: the value of a nested attribute.
pub(crate) fn attributes_of(write: impl FnOnce(&mut Message) -> Option<()>) -> Option<Vec<u8>> {
    let mut attributes = Message { bytes: Vec::new() };
    write(&mut attributes)?;
    Some(attributes.bytes)
}

/// Messages that take effect together or not at all.
pub(crate) struct Batch {
    subsystem: u16,
    messages: Vec<Message>,
}

impl Batch {
    pub(crate) fn new(subsystem: u16) -> Self {
        Self { subsystem, messages: Vec::new() }
    }

    pub(crate) fn push(&mut self, message: Message) {
        self.messages.push(message);
    }

    /// Begin, messages numbered from 1 of which the last is to be acknowledged, end; and the number of that one.
    fn finish(self) -> (Vec<u8>, u32) {
        let mark = |kind: u16| {
            let mut message = Message { bytes: vec![0; HEADER + NETFILTER_HEADER] };
            message.bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            message.bytes[HEADER + 2..].copy_from_slice(&self.subsystem.to_be_bytes());
            message.finish(0)
        };
        let (begin, end) = (mark(BATCH_BEGIN), mark(BATCH_END));
        let mut bytes = begin;
        let last = u32::try_from(self.messages.len()).unwrap_or(u32::MAX);
        for (number, message) in (1..).zip(self.messages) {
            let mut message = message.finish(if number == last { CREATE | ACK } else { CREATE });
            message[8..12].copy_from_slice(&number.to_ne_bytes());
            bytes.extend(message);
        }
        bytes.extend(end);
        (bytes, last)
    }
}

impl Socket {
    /// Does all of a batch. The first refusal is the answer.
    pub(crate) fn commit(&self, batch: Batch) -> io::Result<()> {
        let (bytes, last) = batch.finish();
        self.send(&bytes)?;
        let mut buffer = vec![0; BUFFER];
        loop {
            let (length, _) = recv(&self.socket, &mut buffer[..], RecvFlags::empty())?;
            let mut rest = &buffer[..length];
            while let Some((kind, body, after)) = next_message(rest) {
                if kind == ERROR {
                    error(body)?;
                    let number = rest.get(8..).and_then(|number| number.first_chunk());
                    if number.is_some_and(|number| u32::from_ne_bytes(*number) == last) {
                        return Ok(());
                    }
                }
                rest = after;
            }
        }
    }

    /// Opens one; reading the connection table needs CAP_NET_ADMIN.
    pub(crate) fn open() -> io::Result<Self> {
        Self::open_to(Room::Netfilter)
    }

    /// Opens one to a room of the kernel.
    pub(crate) fn open_to(room: Room) -> io::Result<Self> {
        let protocol = match room {
            Room::Netfilter => Some(NETFILTER),
            Room::Generic => Some(GENERIC),
            // Number 0, which is what no number means.
            Room::Routing => None,
        };
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
        Ok(Self { socket })
    }

    /// Like `ask`, for something new: what is there already is an error.
    pub(crate) fn make(&self, message: Message) -> io::Result<()> {
        self.send(&message.finish(ACK | CREATE | EXCLUSIVE))?;
        self.receive(|_| {})
    }

    /// Like `ask`; `each` is given the attributes of the answer, after a header as long as netfilter's.
    pub(crate) fn get(&self, message: Message, each: impl FnMut(&[u8])) -> io::Result<()> {
        self.send(&message.finish(ACK))?;
        self.receive(each)
    }

    /// Like `dump`; `each` is given every answer with its header.
    pub(crate) fn dump_whole(&self, message: Message, each: impl FnMut(&[u8])) -> io::Result<()> {
        self.send(&message.finish(DUMP))?;
        self.receive_whole(each)
    }

    /// Sends a message and waits until the kernel says that it is done.
    pub(crate) fn ask(&self, message: Message) -> io::Result<()> {
        self.send(&message.finish(ACK))?;
        self.receive(|_| {})
    }

    /// Asks for a list; `each` is given the attributes of every answer.
    pub(crate) fn dump(&self, message: Message, each: impl FnMut(&[u8])) -> io::Result<()> {
        self.send(&message.finish(DUMP))?;
        self.receive(each)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        sendto(&self.socket, bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        Ok(())
    }

    fn receive(&self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        self.receive_whole(|body| each(body.get(NETFILTER_HEADER..).unwrap_or_default()))
    }

    fn receive_whole(&self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER];
        loop {
            let (length, _) = recv(&self.socket, &mut buffer[..], RecvFlags::empty())?;
            let mut rest = &buffer[..length];
            while let Some((kind, body, after)) = next_message(rest) {
                match kind {
                    DONE => return Ok(()),
                    ERROR => return error(body),
                    _ => each(body),
                }
                rest = after;
            }
        }
    }
}

/// An error of 0 is the acknowledgement.
fn error(body: &[u8]) -> io::Result<()> {
    let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) }
}

/// Kind and body of the first message, and what follows it.
pub(crate) fn next_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::try_from(u32::from_ne_bytes(*bytes.first_chunk()?)).ok()?;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let body = bytes.get(HEADER..length)?;
    Some((kind, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// The attributes in a piece of a message; what is cut off is left out.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & 0x3fff;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of one attribute.
pub(crate) fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reads_back_as_it_was_written() {
        let mut inner = Message { bytes: Vec::new() };
        inner.attribute(1, &[9, 9, 9]);
        let mut message = Message::new(0x0102, Family::V6);
        message.nested(1, &inner.bytes);
        message.attribute(12, &7u32.to_be_bytes());
        let bytes = message.finish(ACK);
        let (kind, body, rest) = next_message(&bytes).unwrap();
        assert_eq!((kind, body[0], rest.len()), (0x0102, 10, 0));
        let body = &body[NETFILTER_HEADER..];
        assert_eq!(attribute(attribute(body, 1).unwrap(), 1), Some(&[9, 9, 9][..]));
        assert_eq!(attribute(body, 12), Some(&[0, 0, 0, 7][..]));
    }

    #[test]
    fn cut_off_bytes_are_no_messages() {
        let mut message = Message::new(1, Family::V4);
        message.attribute(1, &[1, 2, 3, 4]);
        let bytes = message.finish(0);
        for cut in 0..bytes.len() {
            assert!(next_message(&bytes[..cut]).is_none(), "{cut}");
            // Nothing to check but that it ends.
            let _ = attributes(&bytes[..cut]).count();
        }
        assert!(error(&(-2i32).to_ne_bytes()).is_err());
        assert!(error(&0i32.to_ne_bytes()).is_ok());
    }
}
