//! Many Services made at once, as an installation of many charts does: how long until every one of them answers.

use crate::{
    cluster::{self, Leads},
    subject::Subject,
};
use e2e::{
    Process,
    proxy_lab::{Lab, ip},
};
use std::{
    net::{SocketAddr, TcpStream},
    process::Command,
    time::{Duration, Instant},
};

/// `BENCH_PROXY_BURST` has another number.
const SERVICES: usize = 1_000;
const MODES: [&str; 2] = ["nftables", "iptables"];

/// A mode, and how each program did in it.
pub(crate) struct Burst {
    pub(crate) mode: &'static str,
    pub(crate) services: usize,
    /// `None` when not all were served in time.
    pub(crate) measured: Vec<(Subject, Option<Served>)>,
}

/// Until all Services answer in both families.
pub(crate) struct Served {
    pub(crate) took: Duration,
    pub(crate) cpu: Duration,
}

pub(crate) fn all(patience: Duration) -> Vec<Burst> {
    let named = std::env::var("BENCH_PROXY_BURST").ok().and_then(|text| text.parse().ok());
    let services = named.unwrap_or(SERVICES);
    let measure = |mode| {
        let measured = Subject::all().into_iter().map(|subject| {
            eprintln!("bench: {services} Services at once, {}, {mode}", subject.name());
            let served = one(&subject, mode, services, patience);
            (subject, served)
        });
        Burst { mode, services, measured: measured.collect() }
    };
    MODES.into_iter().map(measure).collect()
}

/// On a machine of its own, with the pauses between two changes that each program has unless told otherwise. The program sleeps while
/// the Services are made: an API server may take longer to make them than a proxy to serve them.
fn one(subject: &Subject, mode: &str, services: usize, patience: Duration) -> Option<Served> {
    let lab = Lab::new();
    let process = started(subject, &lab, mode)?;
    let cpu = process.usage().cpu;
    signal(&process, "-STOP");
    cluster::fill(&lab, 0..services, Leads::ToPod);
    let start = Instant::now();
    signal(&process, "-CONT");
    let to = (0..services).flat_map(cluster::addresses).map(|text| SocketAddr::new(ip(&text), 80)).collect();
    let served = lab.client.within(|| all_answer(to, start + patience)).expect("entered");
    served.then(|| Served { took: start.elapsed(), cpu: process.usage().cpu.saturating_sub(cpu) })
}

fn signal(process: &Process, signal: &str) {
    let done = Command::new("kill").args([signal, &process.id().to_string()]).status();
    assert!(done.is_ok_and(|status| status.success()), "kill {signal}");
}

fn started(subject: &Subject, lab: &Lab, mode: &str) -> Option<Process> {
    match subject {
        Subject::Twinstack => {
            let process = lab.proxy_with(
                "twinstack.log",
                &["--log-level=info", "--iptables-sync-period=30s", &format!("--proxy-mode={mode}")],
            );
            lab.wait_in_place(&process);
            Some(process)
        }
        Subject::KubeProxy(_) => lab.kube_proxy(mode, &[]),
    }
}

/// One after the other: what counts is when the last one does.
fn all_answer(mut to: Vec<SocketAddr>, end: Instant) -> bool {
    while let Some(next) = to.last() {
        match TcpStream::connect_timeout(next, Duration::from_millis(100)) {
            Ok(_) => drop(to.pop()),
            Err(_) if Instant::now() > end => return false,
            Err(_) => {}
        }
    }
    true
}
