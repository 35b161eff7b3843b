//! `twinstack kubelet` in a storm of Pods, beside upstream's where `KUBELET` names it. Run by `scripts/bench`; `TWINSTACK` names the
//! program to measure, `BENCH_PODS` how many Pods one node gets at once (100).
//!
//! Same machine, containerd, CNI plugins and API server for both: only the kubelet differs. From one ReplicaSet made until all of its Pods
//! are ready, from its deletion until they are gone, and what that cost the kubelet.

use e2e::{
    node_lab::{Lab, PATIENCE, Parts, Shape, Usage, items, missing, pod, shell},
    wait_for,
};
use serde_json::json;
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

struct Figures {
    idle: Usage,
    ready: Duration,
    busy: Usage,
    gone: Duration,
    end: Usage,
}

fn main() {
    if let Some(how) = missing() {
        println!("kubelet, as a process: skipped; {how}");
        return;
    }
    let many = std::env::var("BENCH_PODS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let ours = measure(None, many);
    let peer = std::env::var_os("KUBELET").map(|program| measure(Some(program.into()), many));
    print(&ours, peer.as_ref(), many);
}

fn measure(kubelet: Option<PathBuf>, many: usize) -> Figures {
    let upstream = kubelet.is_some();
    eprintln!("bench: {many} Pods with {}", if upstream { "upstream's kubelet" } else { "twinstack kubelet" });
    let lab = Lab::of(&Parts { kubelet, ..Parts::new(Shape::V4V6, 1, &[]) });
    if upstream {
        lab.connect();
    }
    lab.node_ready("n0");
    let idle = lab.nodes[0].kubelet_usage();
    let containers = pod("x", &[shell("c", "exec sleep 3600")])["spec"]["containers"].clone();
    let template = json!({"metadata": {"labels": {"app": "storm"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": containers}});
    let begun = Instant::now();
    lab.apply(&json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "storm"},
        "spec": {"replicas": many, "selector": {"matchLabels": {"app": "storm"}}, "template": template}}));
    let all = |set: &serde_json::Value| (set["status"]["readyReplicas"] == many).then_some(());
    wait_for(2 * PATIENCE, || all(&lab.get(&["get", "replicaset", "storm"])?))
        .unwrap_or_else(|| panic!("{}", lab.logs()));
    let (ready, busy) = (begun.elapsed(), lab.nodes[0].kubelet_usage());
    let begun = Instant::now();
    lab.kubectl(&["delete", "replicaset", "storm", "--wait=false"], "").expect("it is deleted");
    let none = || items(&lab.get(&["get", "pods", "-l", "app=storm"])?["items"]).is_empty().then_some(());
    wait_for(2 * PATIENCE, none).unwrap_or_else(|| panic!("{}", lab.logs()));
    Figures { idle, ready, busy, gone: begun.elapsed(), end: lab.nodes[0].kubelet_usage() }
}

fn print(ours: &Figures, peer: Option<&Figures>, many: usize) {
    let seconds = |time: Duration| time.as_secs_f64();
    let mebibytes = |usage: Usage| usage.resident as f64 / f64::from(1 << 20);
    type Row<'a> = (&'a str, &'a str, &'a dyn Fn(&Figures) -> f64);
    let rows: [Row<'_>; 6] = [
        ("all ready", "s", &|one| seconds(one.ready)),
        ("CPU for that", "s", &|one| seconds(one.busy.cpu.saturating_sub(one.idle.cpu))),
        ("memory, no Pods yet", "MiB", &|one| mebibytes(one.idle)),
        ("memory, all Pods", "MiB", &|one| mebibytes(one.busy)),
        ("all gone", "s", &|one| seconds(one.gone)),
        ("CPU for that", "s", &|one| seconds(one.end.cpu.saturating_sub(one.busy.cpu))),
    ];
    println!("{:<34}{:>14}{:>14}{:>9}", format!("kubelet, {many} Pods at once"), "twinstack", "kubelet", "better");
    for (name, unit, figure) in rows {
        let mine = figure(ours);
        let (theirs, better) = peer.map(figure).map_or_else(
            || ("-".to_owned(), String::new()),
            |theirs| (format!("{theirs:.2} {unit}"), format!("{:.1}x", theirs / mine.max(0.001))),
        );
        println!("{name:<34}{:>14}{theirs:>14}{better:>9}", format!("{mine:.2} {unit}"));
    }
}
