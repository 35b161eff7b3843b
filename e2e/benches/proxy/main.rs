//! `twinstack proxy` as a process, in namespaces of its own, on an API server full of Services; beside kube-proxy where
//! `KUBE_PROXY` names it. Run by `scripts/bench`; `TWINSTACK` names the program to measure.
//!
//! Per size: from the start of the process until both families serve, CPU and memory for that; from the change of an endpoint in
//! the API until connections follow it; how long a new connection takes. Then, for each mode: a thousand Services made at once.

mod burst;
mod cluster;
mod measure;
mod report;
mod subject;

use cluster::Leads;
use e2e::proxy_lab::{self, Lab};
use measure::Figures;
use std::time::Duration;
use subject::Subject;

/// Services beside the one that is measured. `BENCH_PROXY_SIZES` has others, separated by commas; 0 leaves this part out.
const SIZES: [usize; 3] = [10, 5_000, 30_000];
/// A program that does not serve after this time is not measured further at this size; `BENCH_PROXY_PATIENCE` has other seconds.
const PATIENCE: u64 = 150;

fn main() {
    if let Some(how) = proxy_lab::missing() {
        println!("proxy, as a process: skipped; {how}");
        return;
    }
    let list = std::env::var("BENCH_PROXY_SIZES").unwrap_or_default();
    let named: Vec<usize> = list.split(',').filter_map(|size| size.trim().parse().ok()).collect();
    let sizes = if named.is_empty() { SIZES.to_vec() } else { named };
    let patience = std::env::var("BENCH_PROXY_PATIENCE").ok().and_then(|text| text.parse().ok()).unwrap_or(PATIENCE);
    let sizes: Vec<usize> = sizes.into_iter().filter(|size| *size > 0).collect();
    let rows = if sizes.is_empty() { Vec::new() } else { by_size(sizes, patience) };
    print!("{}", report::table(&rows, patience));
    print!("{}", report::bursts(&burst::all(Duration::from_secs(patience)), patience));
}

fn by_size(sizes: Vec<usize>, patience: u64) -> Vec<report::Row> {
    let lab = Lab::new();
    cluster::make_probe(&lab);
    let mut made = 0;
    let mut rows = Vec::new();
    for size in sizes {
        eprintln!("bench: {size} Services");
        cluster::fill(&lab, made..size, Leads::Nowhere);
        made = made.max(size);
        let measured: Vec<(Subject, Option<Figures>)> = Subject::all()
            .into_iter()
            .map(|subject| {
                let figures = measure::all(&lab, &subject, Duration::from_secs(patience));
                (subject, figures)
            })
            .collect();
        rows.push((size, measured));
    }
    rows
}
