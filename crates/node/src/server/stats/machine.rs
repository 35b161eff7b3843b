//! What the node itself uses, from /proc and the file system.

use super::{Rates, Traffic, Usage};
use jiff::Timestamp;
use rustix::fs::statvfs;
use std::{fs, path::Path};

/// Clock ticks of /proc/stat in nanoseconds: Linux has 100 of them in a second for everybody who asks.
const TICK: u64 = 10_000_000;

/// The node at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::server) struct Machine {
    pub(in crate::server) usage: Usage,
    pub(in crate::server) available: u64,
    pub(in crate::server) processors: u64,
    pub(in crate::server) memory: u64,
    /// When it was started, in seconds since 1970.
    pub(in crate::server) started: i64,
    pub(in crate::server) traffic: Vec<Traffic>,
    pub(in crate::server) disk: Option<Disk>,
    pub(in crate::server) processes: u64,
    pub(in crate::server) most_processes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::server) struct Disk {
    pub(in crate::server) capacity: u64,
    pub(in crate::server) available: u64,
    pub(in crate::server) inodes: u64,
    pub(in crate::server) inodes_free: u64,
}

impl Machine {
    pub(in crate::server) fn look(root: &Path, rates: &Rates) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (stat, memory) = (read("/proc/stat"), read("/proc/meminfo"));
        let at = i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or_default();
        let of_memory = |name: &str| kilobytes(&memory, name);
        let (total, available) = (of_memory("MemTotal:"), of_memory("MemAvailable:"));
        let cpu = processor_time(&stat);
        let usage = Usage {
            at,
            cpu,
            cpu_rate: rates.rate("node", at, cpu),
            memory: total.saturating_sub(of_memory("MemFree:")),
            working_set: total.saturating_sub(available),
            rss: of_memory("AnonPages:"),
            page_faults: 0,
            major_page_faults: 0,
        };
        let number = |text: String| text.trim().parse().unwrap_or_default();
        Self {
            usage,
            available,
            processors: stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count() as u64,
            memory: total,
            started: word_after(&stat, "btime").unwrap_or_default(),
            traffic: traffic(&read("/proc/net/dev")),
            disk: disk(root),
            processes: read("/proc/loadavg")
                .split(['/', ' '])
                .nth(4)
                .and_then(|count| count.parse().ok())
                .unwrap_or_default(),
            most_processes: number(read("/proc/sys/kernel/pid_max")),
        }
    }
}

pub(super) fn disk(path: &Path) -> Option<Disk> {
    let found = statvfs(path).ok()?;
    Some(Disk {
        capacity: found.f_blocks * found.f_frsize,
        available: found.f_bavail * found.f_frsize,
        inodes: found.f_files,
        inodes_free: found.f_ffree,
    })
}

fn word_after(text: &str, name: &str) -> Option<i64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

fn kilobytes(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default() * 1024
}

/// All but idling and waiting.
fn processor_time(stat: &str) -> u64 {
    let line = stat.lines().find(|line| line.starts_with("cpu ")).unwrap_or_default();
    let ticks = line.split_whitespace().skip(1).take(8).map(|word| word.parse::<u64>().unwrap_or_default());
    ticks.enumerate().filter(|(at, _)| *at != 3 && *at != 4).map(|(_, ticks)| ticks * TICK).sum()
}

fn traffic(text: &str) -> Vec<Traffic> {
    let interfaces = text.lines().filter_map(|line| line.split_once(':'));
    let found = interfaces.map(|(name, rest)| {
        let words: Vec<u64> = rest.split_whitespace().map(|word| word.parse().unwrap_or_default()).collect();
        let word = |at: usize| words.get(at).copied().unwrap_or_default();
        Traffic {
            interface: name.trim().to_owned(),
            received: word(0),
            receive_errors: word(2),
            sent: word(8),
            send_errors: word(10),
        }
    });
    found.filter(|one| one.interface != "lo").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_read() {
        let stat = "cpu  10 1 20 1000 7 0 3 0 0 0\ncpu0 5 0 10 500 3 0 1 0 0 0\nbtime 1700000000\n";
        assert_eq!(processor_time(stat), 34 * TICK);
        assert_eq!(word_after(stat, "btime"), Some(1_700_000_000));
        assert_eq!(kilobytes("MemTotal:       100 kB\nMemFree: 1 kB\n", "MemTotal:"), 102_400);
        let dev = "Inter-|   Receive\n face |bytes\n    lo: 1 2 0 0 0 0 0 0 1 2 0 0 0 0 0 0\n  eth0: 100 2 3 0 0 0 0 0 200 4 5 0 0 0 0 0\n";
        let want = Traffic { interface: "eth0".into(), received: 100, receive_errors: 3, sent: 200, send_errors: 5 };
        assert_eq!(traffic(dev), [want]);
        let machine = Machine::look(Path::new("/"), &Rates::default());
        assert!(machine.processors > 0 && machine.memory > machine.available && machine.disk.is_some(), "{machine:?}");
    }
}
