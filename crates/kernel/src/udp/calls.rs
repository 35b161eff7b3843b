//! The system calls. What they point to is on this stack or borrowed by the caller for as long as they last.

use super::{BATCH, Peer, address, control};
use std::{
    io,
    mem::zeroed,
    net::UdpSocket,
    os::fd::{AsRawFd, BorrowedFd},
};

/// What goes with a packet: its length, the other side's address, and the address of this side.
pub(super) struct Slot {
    pub(super) length: usize,
    name: [u8; address::LONGEST],
    name_length: usize,
    control: [u8; control::LONGEST],
    control_length: usize,
}

impl Slot {
    pub(super) const EMPTY: Self = Self {
        length: 0,
        name: [0; address::LONGEST],
        name_length: 0,
        control: [0; control::LONGEST],
        control_length: 0,
    };

    pub(super) fn name(&self) -> &[u8] {
        &self.name[..self.name_length.min(address::LONGEST)]
    }

    pub(super) fn control(&self) -> &[u8] {
        &self.control[..self.control_length.min(control::LONGEST)]
    }

    pub(super) fn fill(&mut self, length: usize, to: &Peer) {
        self.length = length;
        self.name_length = address::write(to.source, &mut self.name);
        self.control_length = to.asked.map_or(0, |asked| control::write(asked, &mut self.control));
    }
}

/// Makes the kernel tell of every packet to which address it was sent. For sockets that have them all.
pub fn learn_destination(socket: &UdpSocket) -> io::Result<()> {
    let (level, option) = match socket.local_addr()?.is_ipv6() {
        false => (libc::IPPROTO_IP, libc::IP_PKTINFO),
        true => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    };
    let on: libc::c_int = 1;
    let length = size_of_val(&on) as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes from `on`, which lives until it returns.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Receives up to a batch into pieces of `longest` bytes. Returns how many there were.
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    longest: usize,
    slots: &mut [Slot; BATCH],
) -> io::Result<usize> {
    // SAFETY: both are plain numbers and pointers, for which zero is a value.
    let (mut pieces, mut headers): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) = unsafe { zeroed() };
    let mut count = 0;
    for (index, (buffer, slot)) in bytes.chunks_exact_mut(longest).zip(slots.iter_mut()).enumerate() {
        pieces[index] = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let header = &mut headers[index].msg_hdr;
        header.msg_iov = &raw mut pieces[index];
        header.msg_iovlen = 1;
        header.msg_name = slot.name.as_mut_ptr().cast();
        header.msg_namelen = slot.name.len() as libc::socklen_t;
        header.msg_control = slot.control.as_mut_ptr().cast();
        header.msg_controllen = slot.control.len() as _;
        count += 1;
    }
    // SAFETY: `count` headers were filled; each points to a piece, a name and a control buffer of the lengths given, all
    // of which are borrowed exclusively until the call returns.
    let received = unsafe {
        libc::recvmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, libc::MSG_WAITFORONE, std::ptr::null_mut())
    };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    for (header, slot) in headers.iter().zip(slots.iter_mut()).take(received) {
        slot.length = header.msg_len as usize;
        slot.name_length = header.msg_hdr.msg_namelen as usize;
        slot.control_length = header.msg_hdr.msg_controllen as _;
    }
    Ok(received)
}

/// Sends packets that lie one after another in `bytes`, at most a batch. Returns how many were sent; an error is of
/// the first.
pub(super) fn send(socket: BorrowedFd<'_>, bytes: &[u8], slots: &[Slot]) -> io::Result<usize> {
    // SAFETY: as above.
    let (mut pieces, mut headers): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) = unsafe { zeroed() };
    let (mut count, mut rest) = (0, bytes);
    for (index, slot) in slots.iter().enumerate().take(BATCH) {
        let Some((packet, after)) = rest.split_at_checked(slot.length) else { break };
        rest = after;
        pieces[index] = libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
        let header = &mut headers[index].msg_hdr;
        header.msg_iov = &raw mut pieces[index];
        header.msg_iovlen = 1;
        header.msg_name = slot.name.as_ptr().cast_mut().cast();
        header.msg_namelen = slot.name_length as libc::socklen_t;
        if slot.control_length > 0 {
            header.msg_control = slot.control.as_ptr().cast_mut().cast();
            header.msg_controllen = slot.control_length as _;
        }
        count += 1;
    }
    // SAFETY: `count` headers were filled, and what they point to is borrowed until the call returns; the kernel only
    // reads it when it sends.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, libc::MSG_DONTWAIT) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}
