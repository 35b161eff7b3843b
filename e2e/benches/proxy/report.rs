//! The table: one line per size and figure, with the peer's and the ratio beside it where there is one.

use crate::{
    burst::{Burst, Served},
    measure::{Figures, percentile},
    subject::Subject,
};
use std::time::Duration;

/// A size and what was measured at it.
pub(crate) type Row = (usize, Vec<(Subject, Option<Figures>)>);

/// A figure: what it is called, its value, and how it is shown.
type Figure = (&'static str, fn(&Figures) -> f64, fn(f64) -> String);

/// The same of a burst.
type BurstFigure = (&'static str, fn(&Served) -> Duration);

const FIGURES: [Figure; 9] = [
    ("start until both families serve", |figures| figures.first.as_secs_f64(), seconds),
    ("  CPU for that", |figures| figures.cpu.as_secs_f64(), seconds),
    ("memory", |figures| figures.memory as f64, mebibytes),
    ("endpoint change until it counts, p50", |figures| at(&figures.changes, 50), seconds),
    ("endpoint change until it counts, p99", |figures| at(&figures.changes, 99), seconds),
    ("  CPU for one", |figures| figures.cpu_of_change.as_secs_f64(), seconds),
    ("new connection, p50", |figures| at(&figures.connections, 50), seconds),
    ("new connection, p99", |figures| at(&figures.connections, 99), seconds),
    ("  CPU for one, on its way", |figures| figures.cpu_of_connection.as_secs_f64(), seconds),
];

const BURST_FIGURES: [BurstFigure; 2] =
    [("until all are served", |served| served.took), ("  CPU for that", |served| served.cpu)];

pub(crate) fn table(rows: &[Row], patience: u64) -> String {
    let mut text = format!(
        "{:<9} {:<38} {:>12} {:>12} {:>8}\n",
        "Services", "proxy, nftables", "twinstack", "kube-proxy", "better"
    );
    for (size, measured) in rows {
        for (name, value, show) in FIGURES {
            let of = |wanted: &str| {
                measured
                    .iter()
                    .find(|(subject, _)| subject.name() == wanted)
                    .map(|(_, figures)| figures.as_ref().map(value))
            };
            let (ours, theirs) = (of("twinstack").flatten(), of("kube-proxy"));
            let shown = |value: Option<f64>| value.map_or_else(|| format!("> {patience} s"), show);
            let peer = theirs.map_or_else(String::new, shown);
            let better =
                ours.zip(theirs.flatten()).map_or_else(String::new, |(ours, theirs)| format!("{:.1}x", theirs / ours));
            text += &format!("{size:<9} {name:<38} {:>12} {peer:>12} {better:>8}\n", shown(ours));
        }
    }
    if rows.iter().all(|(_, measured)| measured.len() < 2) {
        text += "To compare: KUBE_PROXY, the path of the program, adds kube-proxy.\n";
    }
    text
}

/// Services made at once, by mode.
pub(crate) fn bursts(bursts: &[Burst], patience: u64) -> String {
    let mut text = format!("{:<48} {:>12} {:>12}\n", "proxy, Services made at once", "twinstack", "kube-proxy");
    for Burst { mode, services, measured } in bursts {
        for (name, value) in BURST_FIGURES {
            let of = |wanted: &str| {
                let found = measured.iter().find(|(subject, _)| subject.name() == wanted);
                found.map_or_else(String::new, |(_, served)| {
                    served
                        .as_ref()
                        .map_or_else(|| format!("> {patience} s"), |served| seconds(value(served).as_secs_f64()))
                })
            };
            text += &format!(
                "{:<48} {:>12} {:>12}\n",
                format!("{services} {mode} {name}"),
                of("twinstack"),
                of("kube-proxy")
            );
        }
    }
    text
}

fn at(sorted: &[Duration], percent: usize) -> f64 {
    percentile(sorted, percent).as_secs_f64()
}

fn seconds(value: f64) -> String {
    match value {
        value if value < 0.001 => format!("{:.1} us", value * 1e6),
        value if value < 1.0 => format!("{:.1} ms", value * 1e3),
        value => format!("{value:.2} s"),
    }
}

fn mebibytes(value: f64) -> String {
    format!("{:.1} MiB", value / f64::from(1 << 20))
}
