//! Who is connected: so many in all, so many from one source, and who idles makes room for who comes.
//!
//! Nobody waits here: a newcomer gets a place, takes that of a connection that does nothing, or is turned away, so that the
//! loop that accepts never stands still.

use parking_lot::Mutex;
use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

/// What counts as one source: an IPv4 address, or the /64 of an IPv6 address, as any host has all of its /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Source(IpAddr);

impl Source {
    fn of(address: IpAddr) -> Self {
        const NETWORK: u128 = !0 << 64;
        match address.to_canonical() {
            IpAddr::V6(v6) if !v6.is_loopback() => Self(Ipv6Addr::from_bits(v6.to_bits() & NETWORK).into()),
            other => Self(other),
        }
    }
}

/// What one connection is doing.
#[derive(Debug)]
pub(super) struct Activity {
    began: Instant,
    /// Requests that were not answered to the end.
    requests: AtomicUsize,
    /// When the last one ended, in milliseconds since `began`.
    idle_since: AtomicU64,
    /// When the first bytes came that are no request yet, in the same measure and counted up by one; 0 if none have.
    head_since: AtomicU64,
    /// Told to end, because its place is needed.
    pub(super) evicted: CancellationToken,
}

impl Activity {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            requests: AtomicUsize::new(0),
            idle_since: AtomicU64::new(0),
            head_since: AtomicU64::new(0),
            evicted: CancellationToken::new(),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Bytes came. Between requests they begin the next one, if the connection speaks HTTP/1.
    fn hear(&self) {
        if self.requests.load(Ordering::Acquire) == 0 && self.head_since.load(Ordering::Relaxed) == 0 {
            self.head_since.store(self.now().saturating_add(1), Ordering::Relaxed);
        }
    }

    /// For how long a request has been arriving that is not whole yet.
    pub(super) fn in_head(&self) -> Option<Duration> {
        let since = self.head_since.load(Ordering::Relaxed).checked_sub(1)?;
        Some(Duration::from_millis(self.now().saturating_sub(since)))
    }

    /// From now on it is busy until it ends: it was handed over to another protocol.
    pub(super) fn hand_over(&self) {
        self.requests.fetch_add(1, Ordering::AcqRel);
    }

    /// For how long there has been no request; none while there is one.
    pub(super) fn idle(&self) -> Option<Duration> {
        if self.requests.load(Ordering::Acquire) > 0 {
            return None;
        }
        Some(Duration::from_millis(self.now().saturating_sub(self.idle_since.load(Ordering::Acquire))))
    }
}

/// A request from its head to the end of its answer.
pub(super) struct InRequest(Arc<Activity>);

impl InRequest {
    pub(super) fn begin(activity: &Arc<Activity>) -> Self {
        activity.requests.fetch_add(1, Ordering::AcqRel);
        activity.head_since.store(0, Ordering::Relaxed);
        Self(Arc::clone(activity))
    }
}

impl Drop for InRequest {
    fn drop(&mut self) {
        self.0.idle_since.store(self.0.now(), Ordering::Release);
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// All connections of a server.
#[derive(Debug)]
pub(super) struct Slots {
    most: usize,
    per_source: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    total: usize,
    sources: HashMap<Source, Vec<Arc<Activity>>>,
}

/// Why somebody was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// As many as may be, all of them busy.
    Server,
    /// As many as one source may have, all of them busy.
    Source,
}

impl Slots {
    pub(super) fn new(most: usize, per_source: usize) -> Arc<Self> {
        Arc::new(Self { most, per_source, table: Mutex::default() })
    }

    /// A place for a connection.
    pub(super) fn enter(self: &Arc<Self>, address: SocketAddr) -> Result<Slot, Full> {
        let source = Source::of(address.ip());
        let mut table = self.table.lock();
        if table.sources.get(&source).is_some_and(|own| own.len() >= self.per_source) && !table.evict(source) {
            return Err(Full::Source);
        }
        if table.total >= self.most && !table.make_room() {
            return Err(Full::Server);
        }
        let activity = Arc::new(Activity::new());
        table.sources.entry(source).or_default().push(Arc::clone(&activity));
        table.total += 1;
        Ok(Slot { slots: Arc::clone(self), source, activity })
    }

    /// Ends an idle connection, whosever it is: the machine has nothing left for a new one.
    pub(super) fn make_room(&self) -> bool {
        self.table.lock().make_room()
    }
}

impl Table {
    /// Takes the place of the connection that has been idle for longest, from whom has most of them.
    fn make_room(&mut self) -> bool {
        let idle = |own: &Vec<Arc<Activity>>| own.iter().any(|activity| activity.idle().is_some());
        let most = self.sources.iter().filter(|(_, own)| idle(own)).max_by_key(|(_, own)| own.len());
        most.map(|(source, _)| *source).is_some_and(|source| self.evict(source))
    }

    fn evict(&mut self, source: Source) -> bool {
        let own = self.sources.get(&source).into_iter().flatten();
        let longest = own.filter_map(|activity| Some((activity.idle()?, activity))).max_by_key(|(idle, _)| *idle);
        let Some(activity) = longest.map(|(_, activity)| Arc::clone(activity)) else { return false };
        activity.evicted.cancel();
        self.remove(source, &activity);
        true
    }

    fn remove(&mut self, source: Source, activity: &Arc<Activity>) {
        let Some(own) = self.sources.get_mut(&source) else { return };
        let Some(at) = own.iter().position(|other| Arc::ptr_eq(other, activity)) else { return };
        own.swap_remove(at);
        self.total -= 1;
        if own.is_empty() {
            self.sources.remove(&source);
        }
    }
}

/// A place; given back when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    source: Source,
    pub(super) activity: Arc<Activity>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.table.lock().remove(self.source, &self.activity);
    }
}

/// A connection with its place, which it keeps also when it is handed over to another protocol.
pub(super) struct SlottedIo<I> {
    io: I,
    slot: Slot,
}

impl<I> SlottedIo<I> {
    pub(super) fn new(io: I, slot: Slot) -> Self {
        Self { io, slot }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for SlottedIo<I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.slot.activity.hear();
        }
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for SlottedIo<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().unwrap(), 1)
    }

    #[test]
    fn a_source_is_an_address_or_a_slash_64() {
        for (one, other, same) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("2001:db8::1", "2001:db8::ffff:2", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("::1", "127.0.0.1", false),
        ] {
            let source = |text: &str| Source::of(text.parse().unwrap());
            assert_eq!(source(one) == source(other), same, "{one} {other}");
        }
    }

    #[test]
    fn who_idles_makes_room_and_who_works_stays() {
        let slots = Slots::new(3, 2);
        let first = slots.enter(from("192.0.2.1")).unwrap();
        let busy = InRequest::begin(&first.activity);
        let second = slots.enter(from("192.0.2.1")).unwrap();
        let third = slots.enter(from("192.0.2.1")).expect("the idle one of the same source goes");
        assert!(second.activity.evicted.is_cancelled() && !first.activity.evicted.is_cancelled());
        let _third_busy = InRequest::begin(&third.activity);
        assert_eq!(slots.enter(from("192.0.2.1")).err(), Some(Full::Source));
        let other = slots.enter(from("2001:db8::1")).unwrap();
        let _other_busy = InRequest::begin(&other.activity);
        assert_eq!(slots.enter(from("198.51.100.1")).err(), Some(Full::Server));
        drop(busy);
        let _newcomer = slots.enter(from("198.51.100.1")).expect("the first idles now");
        assert!(first.activity.evicted.is_cancelled());
        drop((first, second, third, other));
        assert_eq!(slots.table.lock().total, 1);
    }
}
