//! What the kernel knows about this process, under the names every Prometheus client uses. Read from `/proc` at each
//! scrape.

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};
use std::fmt;

/// USER_HZ, the unit of times in `/proc/<pid>/stat`: 100 on every architecture Twinstack is built for.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(stats) = ProcessStats::now() else { return Ok(()) };
        let mut metric = |name: &str, help: &str, metric: &dyn Encode| metric.encode_into(&mut encoder, name, help);
        metric(
            "process_cpu_seconds",
            "Time spent on a processor, in user and kernel mode.",
            &ConstCounter::new(stats.cpu_seconds),
        )?;
        metric(
            "process_start_time_seconds",
            "Start of the process, in seconds since 1970.",
            &ConstGauge::new(stats.start_time),
        )?;
        metric("process_resident_memory_bytes", "Memory held in RAM.", &ConstGauge::new(stats.resident_bytes))?;
        metric("process_virtual_memory_bytes", "Address space in use.", &ConstGauge::new(stats.virtual_bytes))?;
        metric("process_open_fds", "Open file descriptors.", &ConstGauge::new(stats.open_fds))?;
        metric("process_max_fds", "File descriptors that may be open.", &ConstGauge::new(stats.max_fds))
    }
}

/// A metric of any type under a name.
trait Encode {
    fn encode_into(&self, encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str) -> fmt::Result;
}

impl<M: EncodeMetric> Encode for M {
    fn encode_into(&self, encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str) -> fmt::Result {
        self.encode(encoder.encode_descriptor(name, help, None, self.metric_type())?)
    }
}

/// One look at `/proc`.
#[derive(Debug, PartialEq)]
struct ProcessStats {
    cpu_seconds: f64,
    start_time: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    open_fds: u64,
    max_fds: u64,
}

impl ProcessStats {
    /// `None` where there is no `/proc`.
    fn now() -> Option<Self> {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let open_fds = std::fs::read_dir("/proc/self/fd").ok()?.count() as u64;
        Self::parse(
            &read("/proc/self/stat")?,
            &read("/proc/self/status")?,
            &read("/proc/self/limits")?,
            &read("/proc/stat")?,
            open_fds,
        )
    }

    fn parse(stat: &str, status: &str, limits: &str, system_stat: &str, open_fds: u64) -> Option<Self> {
        // The second field is the program's name in brackets and may hold blanks and brackets itself; the third starts
        // after it.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let kilobytes = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse::<u64>().ok())
        };
        let boot_time: f64 = system_stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())?;
        let max_fds = limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next());
        Some(Self {
            cpu_seconds: (ticks(14)? + ticks(15)?) / TICKS_PER_SECOND,
            start_time: boot_time + ticks(22)? / TICKS_PER_SECOND,
            resident_bytes: kilobytes("VmRSS:")? * 1024,
            virtual_bytes: kilobytes("VmSize:")? * 1024,
            open_fds,
            // Not a number is "unlimited".
            max_fds: max_fds?.parse().unwrap_or(u64::MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 4 0 12345 1000 200 18446744073709551615";
        let status = "Name:\ta\nVmSize:\t   2048 kB\nVmRSS:\t   1024 kB\n";
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 4096                 files\n";
        let stats = ProcessStats::parse(stat, status, limits, "cpu 1 2\nbtime 1000\n", 9).unwrap();
        let expected = ProcessStats {
            cpu_seconds: 2.0,
            start_time: 1123.45,
            resident_bytes: 1_048_576,
            virtual_bytes: 2_097_152,
            open_fds: 9,
            max_fds: 1024,
        };
        assert_eq!(stats, expected);
    }

    #[test]
    fn garbage_is_no_process() {
        assert_eq!(ProcessStats::parse("", "", "", "", 0), None);
        assert_eq!(ProcessStats::parse("7 (a) S 1", "VmRSS: x", "", "btime", 0), None);
    }
}
