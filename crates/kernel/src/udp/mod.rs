//! Datagrams in batches: one system call takes, or sends, as many as there are up to [`BATCH`].
//!
//! Called by the DNS server for every packet. A socket for all addresses of the machine learns to which of them a packet
//! was sent ([`learn_destination`]), and the answer leaves from there. Addresses and control messages are read and
//! written as bytes ([`address`], [`control`]); the three system calls are in [`calls`], and nothing else here is unsafe.

pub(crate) mod address;
#[allow(unsafe_code)]
mod calls;
pub(crate) mod control;
#[cfg(test)]
mod tests;

pub use calls::learn_destination;

use calls::Slot;
use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::BorrowedFd,
};

/// Packets of one system call.
pub const BATCH: usize = 64;

/// Who sent a packet, and to which address of this machine, if the socket tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Where it came from, and the answer goes to.
    pub source: SocketAddr,
    /// The address that was asked, and answers.
    pub asked: Option<Asked>,
}

/// An address of this machine, with the interface that a link-local one needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Of the same family as the socket.
    pub address: IpAddr,
    /// Its number; 0 leaves the choice to the routes.
    pub interface: u32,
}

/// Room for a batch on its way in.
pub struct Inbox {
    bytes: Box<[u8]>,
    /// How much of it a packet has.
    longest: usize,
    slots: Box<[Slot; BATCH]>,
    count: usize,
}

impl Inbox {
    /// For packets of up to so many bytes; longer ones lose the rest.
    #[must_use]
    pub fn new(longest: usize) -> Self {
        Self {
            bytes: vec![0; longest * BATCH].into(),
            longest,
            slots: Box::new([const { Slot::EMPTY }; BATCH]),
            count: 0,
        }
    }

    /// Takes what has arrived, in the place of the batch before. Returns how many there are. When there is nothing, a
    /// socket that may block waits for the first, and another one says `WouldBlock`.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.count = 0;
        self.count = calls::receive(socket, &mut self.bytes, self.longest, &mut self.slots)?;
        Ok(self.count)
    }

    /// The packets of the last batch. One whose sender has no address that could be answered is left out.
    pub fn packets(&self) -> impl Iterator<Item = (&[u8], Peer)> {
        let packets = self.bytes.chunks_exact(self.longest).zip(self.slots.iter()).take(self.count);
        packets.filter_map(|(bytes, slot)| {
            let peer = Peer { source: address::read(slot.name())?, asked: control::read(slot.control()) };
            Some((&bytes[..slot.length.min(self.longest)], peer))
        })
    }
}

/// A batch on its way out.
pub struct Outbox {
    bytes: Vec<u8>,
    slots: Box<[Slot; BATCH]>,
    count: usize,
}

impl Outbox {
    /// With room for so many bytes in all.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self { bytes: Vec::with_capacity(room), slots: Box::new([const { Slot::EMPTY }; BATCH]), count: 0 }
    }

    /// Adds a packet. False when there is no room for it: then [`Outbox::send`] comes first.
    #[must_use]
    pub fn push(&mut self, packet: &[u8], to: &Peer) -> bool {
        let room = self.bytes.capacity() - self.bytes.len();
        if self.count == BATCH || (packet.len() > room && self.count > 0) {
            return false;
        }
        self.bytes.extend_from_slice(packet);
        self.slots[self.count].fill(packet.len(), to);
        self.count += 1;
        true
    }

    /// Sends the packets, without waiting, and forgets them. Returns how many were sent: those that a full buffer has
    /// no room for are lost, as they may be on the network, and one that cannot be sent keeps no other back.
    pub fn send(&mut self, socket: BorrowedFd<'_>) -> usize {
        let mut sent = 0;
        let (mut bytes, mut slots) = (self.bytes.as_slice(), &self.slots[..self.count]);
        while !slots.is_empty() {
            let done = match calls::send(socket, bytes, slots) {
                Ok(done) => {
                    sent += done;
                    done
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // Of the first packet: an address without a route, or an older packet's closed port, told by ICMP.
                Err(_) => 1,
            };
            let length: usize = slots[..done].iter().map(|slot| slot.length).sum();
            (bytes, slots) = (&bytes[length..], &slots[done..]);
        }
        self.bytes.clear();
        self.count = 0;
        sent
    }
}

/// Sends one packet; `WouldBlock` when the buffer is full.
pub fn send(socket: BorrowedFd<'_>, packet: &[u8], to: &Peer) -> io::Result<()> {
    let mut slot = Slot::EMPTY;
    slot.fill(packet.len(), to);
    calls::send(socket, packet, std::slice::from_ref(&slot)).map(drop)
}
