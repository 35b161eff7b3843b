//! When watchers are woken: at once where few wait; where many do, no more often than they can be served.
//!
//! One wake-up hands over everything that has happened since the last one, so waking a thousand watchers for each of a hundred
//! changes would cost a hundred times as many tasks, TLS records and system calls as are needed, and starve the writer besides.
//! A bell that has woken many therefore rests, for a time in proportion to their number, and rings once for all that came
//! meanwhile. The first change after a rest is told without delay.

use futures::task::AtomicWaker;
use parking_lot::{Condvar, Mutex};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Up to here the writer wakes them itself, each time.
const FEW: usize = 32;

/// How long a bell rests per watcher woken: about what it costs to hand one of them a record over TLS, both ends counted.
const REST_PER_WATCHER: Duration = Duration::from_micros(25);

/// The longest rest, however many there are.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// How long the thread of a ringer waits for more to do.
const LINGER: Duration = Duration::from_secs(2);

/// Wakes the watchers of one hub. Rung after the state's lock is released.
#[derive(Debug, Default)]
pub(crate) struct Bell(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    wakers: Vec<Arc<AtomicWaker>>,
    /// Until when it rests.
    rests_until: Option<Instant>,
    /// A ringer has it.
    queued: bool,
}

impl Bell {
    pub(crate) fn join(&self, waker: Arc<AtomicWaker>) {
        self.0.lock().wakers.push(waker);
    }

    /// Takes a watcher away; true if it was the last.
    pub(crate) fn leave(&self, waker: &Arc<AtomicWaker>) -> bool {
        let mut inside = self.0.lock();
        if let Some(place) = inside.wakers.iter().position(|other| Arc::ptr_eq(other, waker)) {
            inside.wakers.swap_remove(place);
        }
        inside.wakers.is_empty()
    }

    /// Wakes them all, and begins a rest.
    fn ring(&self) {
        let mut inside = self.0.lock();
        inside.queued = false;
        let rest = REST_PER_WATCHER.saturating_mul(u32::try_from(inside.wakers.len()).unwrap_or(u32::MAX));
        inside.rests_until = Some(Instant::now() + rest.min(LONGEST_REST));
        for waker in &inside.wakers {
            waker.wake();
        }
    }

    /// Wakes them if they are few; answers when it is to be rung otherwise, unless somebody else was answered that already.
    fn ring_or_defer(&self) -> Option<Instant> {
        let mut inside = self.0.lock();
        if inside.wakers.len() <= FEW {
            for waker in &inside.wakers {
                waker.wake();
            }
            return None;
        }
        let now = Instant::now();
        let due = inside.rests_until.map_or(now, |until| until.max(now));
        (!std::mem::replace(&mut inside.queued, true)).then_some(due)
    }
}

/// Rings bells. Those of many watchers are rung by a thread of its own, which exists while there is something to do.
#[derive(Debug, Default)]
pub(crate) struct Ringer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    bells: Vec<(Instant, Arc<Bell>)>,
    has_thread: bool,
}

impl Ringer {
    /// Sees to it that everyone who waits at these bells looks again.
    pub(crate) fn ring(&self, bells: Vec<Arc<Bell>>) {
        for bell in bells {
            if let Some(due) = bell.ring_or_defer() {
                self.defer(due, bell);
            }
        }
    }

    fn defer(&self, due: Instant, bell: Arc<Bell>) {
        let mut queue = self.0.queue.lock();
        queue.bells.push((due, bell));
        if std::mem::replace(&mut queue.has_thread, true) {
            drop(queue);
            self.0.wake.notify_one();
            return;
        }
        drop(queue);
        let shared = Arc::clone(&self.0);
        let started = std::thread::Builder::new().name("store-bells".into()).spawn(move || shared.run());
        if started.is_err() {
            // Without a thread everyone is woken each time, which only costs more.
            let mut queue = self.0.queue.lock();
            queue.has_thread = false;
            let bells = std::mem::take(&mut queue.bells);
            drop(queue);
            bells.iter().for_each(|(_, bell)| bell.ring());
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut queue = self.queue.lock();
        loop {
            let now = Instant::now();
            if let Some(place) = queue.bells.iter().position(|(due, _)| *due <= now) {
                let (_, bell) = queue.bells.swap_remove(place);
                drop(queue);
                bell.ring();
                queue = self.queue.lock();
                continue;
            }
            let next = queue.bells.iter().map(|(due, _)| *due).min();
            let timed_out = self.wake.wait_until(&mut queue, next.unwrap_or(now + LINGER)).timed_out();
            if timed_out && queue.bells.is_empty() {
                queue.has_thread = false;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::{Wake, Waker},
    };

    #[derive(Default)]
    struct Counts(AtomicUsize);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    type Watchers = Vec<(Arc<Counts>, Arc<AtomicWaker>)>;

    /// A bell with so many watchers that always listen.
    fn bell(watchers: usize) -> (Arc<Bell>, Watchers) {
        let bell = Arc::<Bell>::default();
        let all = (0..watchers).map(|_| {
            let (counts, waker) = (Arc::<Counts>::default(), Arc::<AtomicWaker>::default());
            bell.join(Arc::clone(&waker));
            (counts, waker)
        });
        let all = all.collect();
        (bell, all)
    }

    fn listen(watchers: &[(Arc<Counts>, Arc<AtomicWaker>)]) {
        for (counts, waker) in watchers {
            waker.register(&Waker::from(Arc::clone(counts)));
        }
    }

    fn woken(watchers: &[(Arc<Counts>, Arc<AtomicWaker>)]) -> usize {
        watchers.iter().map(|(counts, _)| counts.0.load(Ordering::SeqCst)).sum()
    }

    fn wait_until(what: &str, done: impl Fn() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(30), "{what}");
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    #[test]
    fn few_are_woken_by_whoever_rings() {
        let (bell, watchers) = bell(FEW);
        let ringer = Ringer::default();
        for round in 1..=3 {
            listen(&watchers);
            ringer.ring(vec![Arc::clone(&bell)]);
            assert_eq!(woken(&watchers), FEW * round);
        }
    }

    #[test]
    fn many_are_woken_once_for_all_that_comes_while_the_bell_rests() {
        let (bell, watchers) = bell(1_000);
        let ringer = Ringer::default();
        listen(&watchers);
        ringer.ring(vec![Arc::clone(&bell)]);
        wait_until("the first change is told", || woken(&watchers) == 1_000);
        listen(&watchers);
        // Longer than the test may take to ring, however busy the machine is.
        bell.0.lock().rests_until = Some(Instant::now() + Duration::from_secs(1));
        for _ in 0..100 {
            ringer.ring(vec![Arc::clone(&bell)]);
        }
        wait_until("what came meanwhile is told", || woken(&watchers) == 2_000);
        assert!(ringer.0.queue.lock().bells.is_empty() && !bell.0.lock().queued, "and told once");
    }

    #[test]
    fn nobody_is_forgotten_after_the_last_change() {
        let (bell, watchers) = bell(200);
        let ringer = Ringer::default();
        for _ in 0..50 {
            listen(&watchers);
            let before = woken(&watchers);
            ringer.ring(vec![Arc::clone(&bell)]);
            wait_until("all are woken", || woken(&watchers) >= before + 200);
        }
    }
}
