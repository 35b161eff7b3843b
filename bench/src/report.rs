//! The table: what was measured, with the peer's figures and the ratio beside them where there are any.

use crate::measure::{Block, Defined, Results, definitions};
use std::time::Duration;

/// Which way is better.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Better {
    Less,
    More,
}

/// One line of the table.
struct Row {
    what: String,
    better: Better,
    /// How many times better than the peer it should be.
    target: Option<f64>,
    value: fn(&Results) -> f64,
    show: fn(f64) -> String,
}

fn rows(results: &Results) -> Vec<Row> {
    let row = |what: &str, better, target, value, show| Row { what: what.into(), better, target, value, show };
    let made = results.creates.services;
    vec![
        row("ready from empty", Better::Less, Some(10.0), |results| results.ready.as_secs_f64(), seconds),
        row("memory, idle", Better::Less, Some(10.0), |results| results.idle as f64, mebibytes),
        row("durable creates, 16 connections", Better::More, Some(10.0), |results| results.creates.rate(), per_second),
        row(&format!("memory with {made} Services"), Better::Less, None, |results| results.filled as f64, mebibytes),
        row("GET, 16 connections", Better::More, Some(5.0), |results| results.gets, per_second),
        row(
            &format!("LIST of {made} Services"),
            Better::Less,
            None,
            |results| results.list.took.as_secs_f64(),
            seconds,
        ),
        row("  length of the answer", Better::Less, None, |results| results.list.bytes as f64, mebibytes),
        row(
            "100 events to 1,000 watchers",
            Better::Less,
            Some(10.0),
            |results| results.fan_out.took.as_secs_f64(),
            seconds,
        ),
        row("  CPU of the server", Better::Less, Some(10.0), |results| results.fan_out.cpu.as_secs_f64(), seconds),
    ]
}

/// The table of all measurements.
pub(crate) fn table(ours: &Results, peer: Option<&Results>) -> String {
    let mut text = match peer {
        Some(_) => format!(
            "{:<34} {:>12} {:>22} {:>9} {:>8}\n",
            "API server", "twinstack", "kube-apiserver + etcd", "better", "target"
        ),
        None => format!("{:<34} {:>12}\n", "API server", "twinstack"),
    };
    for Row { what, better, target, value, show } in rows(ours) {
        let our = value(ours);
        text += &match peer.map(value) {
            Some(their) => {
                let target = target.map_or_else(String::new, |target| format!("{target:.0}x"));
                let better = format!("{:.1}x", ratio(better, our, their));
                format!("{what:<34} {:>12} {:>22} {better:>9} {target:>8}\n", show(our), show(their))
            }
            None => format!("{what:<34} {:>12}\n", show(our)),
        };
    }
    match peer {
        Some(peer) if peer.creates.services < ours.creates.services => {
            text += &format!(
                "kube-apiserver made only {} Services in the time given; its figures are with those.\n",
                peer.creates.services
            );
        }
        Some(_) => {}
        None => text += "To compare: KUBE_APISERVER and ETCD, the paths of both programs, add kube-apiserver + etcd.\n",
    }
    text
}

/// A row: what is measured, how it is read and written, and the target.
type Measured = (String, fn(&Defined) -> f64, fn(f64) -> String, &'static str);

/// The table of definitions.
pub(crate) fn defined(ours: &Defined, peer: Option<&Defined>) -> String {
    let (all, first) = (ours.taken, definitions::FIRST.min(ours.taken));
    let rows: [Measured; 5] = [
        (format!("first {first} established"), |one| one.first.as_secs_f64(), seconds, "1 s"),
        (format!("the other {}", all - first), |one| one.rest.as_secs_f64(), seconds, ""),
        (format!("CPU for all {all}"), |one| one.cpu.as_secs_f64(), seconds, ""),
        ("memory before".into(), |one| one.memory[0] as f64, mebibytes, ""),
        ("memory with them".into(), |one| one.memory[1] as f64, mebibytes, "4x"),
    ];
    let mut text = format!("{:<34} {:>12}", "definitions", "twinstack");
    if peer.is_some() {
        text += &format!(" {:>22} {:>9} {:>8}", "kube-apiserver + etcd", "better", "target");
    }
    text.push('\n');
    for (what, value, show, target) in rows {
        let our = value(ours);
        text += &format!("{what:<34} {:>12}", show(our));
        if let Some(their) = peer.map(value) {
            let better = format!("{:.1}x", ratio(Better::Less, our, their));
            text += &format!(" {:>22} {better:>9} {target:>8}", show(their));
        }
        text.push('\n');
    }
    if let Some(peer) = peer.filter(|peer| peer.taken != ours.taken) {
        text += &format!("kube-apiserver took {} of them.\n", peer.taken);
    }
    text
}

/// What a Service costs, by how many there are.
pub(crate) fn blocks(blocks: &[Block]) -> String {
    let mut text = format!("\n{:<34} {:>12} {:>16}\n", "dual-stack Services", "creates", "CPU per create");
    for block in blocks {
        let what = format!("{} to {}", block.before, block.before + block.services);
        text += &format!("{what:<34} {:>12} {:>16}\n", per_second(block.rate()), microseconds(block.cpu_each()));
    }
    if let [first, .., last] = blocks {
        let growth = last.cpu_each().as_secs_f64() / first.cpu_each().as_secs_f64();
        text += &format!("{:<34} {:>12} {:>16}\n", "last against first", "", format!("{growth:.2}x"));
    }
    text
}

/// How many times better ours is.
fn ratio(better: Better, ours: f64, theirs: f64) -> f64 {
    match better {
        Better::Less => theirs / ours,
        Better::More => ours / theirs,
    }
}

fn seconds(value: f64) -> String {
    if value < 1.0 { format!("{:.1} ms", value * 1e3) } else { format!("{value:.2} s") }
}

fn mebibytes(value: f64) -> String {
    format!("{:.1} MiB", value / f64::from(1 << 20))
}

fn per_second(value: f64) -> String {
    format!("{value:.0}/s")
}

fn microseconds(value: Duration) -> String {
    format!("{:.0} us", value.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{FanOut, Listed};

    fn results(scale: u32) -> Results {
        let creates =
            Block { before: 0, services: 10_000, took: Duration::from_secs(4) * scale, cpu: Duration::from_secs(2) };
        Results {
            ready: Duration::from_millis(150) * scale,
            idle: (16 << 20) * u64::from(scale),
            creates,
            filled: (40 << 20) * u64::from(scale),
            gets: 20_000.0 / f64::from(scale),
            list: Listed { took: Duration::from_millis(20) * scale, bytes: 9 << 20 },
            fan_out: FanOut { took: Duration::from_millis(600) * scale, cpu: Duration::from_millis(300) * scale },
        }
    }

    #[test]
    fn without_a_peer_the_figures_are_absolute_and_the_way_to_one_is_told() {
        assert_eq!(
            table(&results(1), None),
            "API server                            twinstack\n\
             ready from empty                       150.0 ms\n\
             memory, idle                           16.0 MiB\n\
             durable creates, 16 connections          2500/s\n\
             memory with 10000 Services             40.0 MiB\n\
             GET, 16 connections                     20000/s\n\
             LIST of 10000 Services                  20.0 ms\n\
             \x20 length of the answer                  9.0 MiB\n\
             100 events to 1,000 watchers           600.0 ms\n\
             \x20 CPU of the server                    300.0 ms\n\
             To compare: KUBE_APISERVER and ETCD, the paths of both programs, add kube-apiserver + etcd.\n"
        );
    }

    #[test]
    fn with_a_peer_every_ratio_says_how_many_times_better() {
        let text = table(&results(1), Some(&results(20)));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[1],
            "ready from empty                       150.0 ms                 3.00 s     20.0x      10x"
        );
        assert_eq!(
            lines[5],
            "GET, 16 connections                     20000/s                 1000/s     20.0x       5x"
        );
        assert_eq!(
            lines[7],
            "  length of the answer                  9.0 MiB                9.0 MiB      1.0x         "
        );
    }
}
