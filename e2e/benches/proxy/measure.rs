//! What is measured of a program at one size.

use crate::{
    cluster::{PROBE, probe_slice},
    subject::Subject,
};
use e2e::{
    Process,
    proxy_lab::{Lab, ask_here, ip},
    wait_for,
};
use kernel::netns::Namespace;
use std::{
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

const CHANGES: usize = 60;
/// A process that used no CPU for so long has nothing left to do.
const REST: Duration = Duration::from_secs(1);
const CONNECTIONS: usize = 2000;

/// All figures of a program at one size.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// From the start of the process until both families serve.
    pub(crate) first: Duration,
    /// CPU time for that, with what follows until the process rests.
    pub(crate) cpu: Duration,
    /// Resident memory after the changes.
    pub(crate) memory: u64,
    /// From the answer of the API to a change until connections follow, sorted.
    pub(crate) changes: Vec<Duration>,
    /// CPU time for each change.
    pub(crate) cpu_of_change: Duration,
    /// Times of new connections, sorted.
    pub(crate) connections: Vec<Duration>,
    /// CPU time of the client for one of them. The way of a packet through the node is walked by the sender's thread, so this
    /// has what rules cost in it, however busy the machine is.
    pub(crate) cpu_of_connection: Duration,
}

/// `None` when it does not serve in time.
pub(crate) fn all(lab: &Lab, subject: &Subject, patience: Duration) -> Option<Figures> {
    eprintln!("bench: {}", subject.name());
    for family in [0, 1] {
        lab.apply(&probe_slice(family, 0));
    }
    let start = Instant::now();
    let process = subject.start(lab);
    let served = [0, 1].into_iter().all(|family| until(&lab.client, family, 0, start + patience));
    let first = start.elapsed();
    let figures = served.then(|| {
        let cpu = at_rest(&process);
        let (changes, cpu_of_change) = changes(lab, &process);
        let memory = process.usage().resident;
        let (connections, cpu_of_connection) = connections(&lab.client);
        Figures { first, cpu, memory, changes, cpu_of_change, connections, cpu_of_connection }
    });
    if figures.is_none() {
        let log = process.output();
        let lines: Vec<&str> = log.lines().collect();
        eprintln!("bench: {} does not serve; {}", subject.name(), lines[lines.len().saturating_sub(3)..].join("\n"));
    }
    drop(process);
    subject.clean_up(lab);
    figures
}

/// CPU time once it grows no more.
fn at_rest(process: &Process) -> Duration {
    let mut last = process.usage().cpu;
    let mut since = Instant::now();
    let rested = wait_for(Duration::from_secs(60), || {
        let now = process.usage().cpu;
        if now != last {
            (last, since) = (now, Instant::now());
        }
        (since.elapsed() > REST).then_some(now)
    });
    rested.unwrap_or(last)
}

fn probe(family: usize) -> SocketAddr {
    SocketAddr::new(ip(PROBE[family]), 80)
}

/// Asks until this pod answers.
fn until(from: &Namespace, family: usize, pod: usize, end: Instant) -> bool {
    let asked = from.within(|| {
        while Instant::now() < end {
            if ask_here(probe(family), Duration::from_millis(100)).is_ok_and(|(answered, _)| answered == pod) {
                return true;
            }
        }
        false
    });
    asked.expect("entered")
}

/// The probe's endpoint moves, in both families in turn.
fn changes(lab: &Lab, process: &Process) -> (Vec<Duration>, Duration) {
    let before = process.usage().cpu;
    let mut times: Vec<Duration> = (0..CHANGES)
        .map(|change| {
            // Each family changes twice before the other does, so that either pod is left and reached.
            let (family, pod) = (change / 2 % 2, 1 - change % 2);
            lab.apply(&probe_slice(family, pod));
            let start = Instant::now();
            assert!(until(&lab.client, family, pod, start + Duration::from_secs(60)), "{}", process.output());
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    let spent = process.usage().cpu.saturating_sub(before);
    (times, spent / u32::try_from(CHANGES).unwrap_or(1))
}

/// How long `connect` takes, in both families in turn, and the CPU time of one.
fn connections(from: &Namespace) -> (Vec<Duration>, Duration) {
    let measured = from.within(|| {
        let one = |number: usize| {
            let start = Instant::now();
            // One that is refused says nothing about how long one takes.
            TcpStream::connect(probe(number % 2)).ok().map(|_| start.elapsed())
        };
        let cpu = own_cpu();
        let times = (0..CONNECTIONS).filter_map(one).collect::<Vec<Duration>>();
        (times, own_cpu().saturating_sub(cpu))
    });
    let (mut times, cpu) = measured.expect("entered");
    times.sort_unstable();
    let each = cpu / u32::try_from(times.len().max(1)).unwrap_or(u32::MAX);
    (times, each)
}

/// CPU time of this thread.
fn own_cpu() -> Duration {
    // Until it is made to, the kernel counts only at each tick.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|spent| spent.parse().ok()).unwrap_or_default())
}

/// The value below which so many percent are.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted.get((sorted.len().saturating_sub(1)) * percent / 100).copied().unwrap_or_default()
}
