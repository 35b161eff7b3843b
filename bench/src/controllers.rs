//! How far EndpointSlices are behind Pods that turn ready, and what that costs: `twinstack controller-manager`, and
//! kube-controller-manager where it is named. Each runs against a `twinstack apiserver` of its own, over TLS.

use crate::{
    client::{Connection, Target},
    process::Process,
    progress,
    settings::Settings,
    system::{System, twinstack},
};
use anyhow::{Context, bail};
use futures::future::try_join_all;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

const PODS_PER_SERVICE: usize = 20;
/// Pods that turn ready in a second.
const RATE: usize = 1_000;
const CONNECTIONS: usize = 16;
/// How long a manager may take for its first pass, and be behind at the end.
const PATIENCE: Duration = Duration::from_secs(90);

const SERVICES: &str = "/api/v1/namespaces/default/services";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";

/// What was measured of one manager.
struct Results {
    /// From its start until every Service has its slices.
    first: Duration,
    /// Bytes of memory then.
    resident: u64,
    /// CPU time for all Pods turning ready.
    cpu: Duration,
    /// From a Pod being ready to both families' slices saying so, sorted.
    lags: Vec<Duration>,
}

/// Measures and prints.
pub(crate) async fn run(settings: &Settings) -> anyhow::Result<()> {
    let ours =
        ["controller-manager", "--controllers=endpointslice-controller", "--leader-elect=false", "--secure-port=0"];
    let ours = measured(settings, &settings.twinstack, &ours).await.context("twinstack controller-manager")?;
    let peer = match &settings.kube_controller_manager {
        // Its own limit of 20 requests a second would be what is measured.
        Some(program) => {
            let flags = [
                "--controllers=endpointslice-controller",
                "--leader-elect=false",
                "--kube-api-qps=10000",
                "--kube-api-burst=10000",
                "--secure-port=0",
            ];
            Some(measured(settings, program, &flags).await.context("kube-controller-manager")?)
        }
        None => None,
    };
    print!("{}", table(settings.pods, &ours, peer.as_ref()));
    Ok(())
}

async fn measured(settings: &Settings, program: &Path, flags: &[&str]) -> anyhow::Result<Results> {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut system = twinstack::start(&settings.twinstack).await?;
    let target = system.target.clone();
    system.wait_for("ready server", async || target.connect().await.ok()?.read("/readyz").await.ok()).await?;
    progress(&format!("{name}: making {} Pods", settings.pods));
    fill(&system, settings.pods).await?;
    let kubeconfig = format!("--kubeconfig={}", system.folder().join(twinstack::KUBECONFIG).display());
    let folder = system.folder().join("manager");
    std::fs::create_dir(&folder)?;
    let started = Instant::now();
    let mut manager = Process::start(program, flags.iter().copied().chain([&*kubeconfig]), &folder)?;
    progress(&format!("{name}: first pass"));
    let wanted = 2 * settings.pods.div_ceil(PODS_PER_SERVICE) as u64;
    let version = until_slices(&system, wanted).await.with_context(|| manager.last_words())?;
    let first = started.elapsed();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (resident, before) = (manager.resident()?, manager.cpu()?);
    progress(&format!("{name}: {} Pods turn ready", settings.pods));
    let lags = turn_ready(&system, settings.pods, &version).await.with_context(|| manager.last_words())?;
    Ok(Results { first, resident, cpu: manager.cpu()? - before, lags })
}

async fn connections(target: &Target) -> anyhow::Result<Vec<Connection>> {
    try_join_all((0..CONNECTIONS).map(|_| target.connect())).await
}

/// Pods with addresses of both families that are not ready, and their Services.
async fn fill(system: &System, pods: usize) -> anyhow::Result<()> {
    let mut first = system.target.connect().await?;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    first.create("/api/v1/nodes", &node).await?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    first.create("/api/v1/namespaces/default/serviceaccounts", &account).await?;
    let each = connections(&system.target).await?.into_iter().enumerate();
    try_join_all(each.map(async |(first, mut connection)| {
        for index in (first..pods.div_ceil(PODS_PER_SERVICE)).step_by(CONNECTIONS) {
            connection.create(SERVICES, &service(index)).await?;
        }
        for index in (first..pods).step_by(CONNECTIONS) {
            connection.create(PODS, &pod(index)).await?;
            connection.merge(&status_path(index), &json!({"status": status(index)})).await?;
        }
        anyhow::Ok(())
    }))
    .await?;
    Ok(())
}

fn service(index: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{index}")},
        "spec": {"ipFamilyPolicy": "RequireDualStack", "selector": {"app": format!("a{index}")},
                 "ports": [{"name": "http", "port": 80}]},
    })
}

fn pod(index: usize) -> Value {
    let labels = json!({"app": format!("a{}", index / PODS_PER_SERVICE), "tier": "web"});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{index}"), "labels": labels},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    })
}

fn status(index: usize) -> Value {
    let four = format!("10.{}.{}.{}", 64 + index / 65536, index / 256 % 256, index % 256);
    let six = format!("fd00:1::{:x}:{:x}", 1 + index / 65536, index % 65536);
    json!({"phase": "Running", "podIP": four, "podIPs": [{"ip": four}, {"ip": six}],
           "conditions": [{"type": "Ready", "status": "False"}]})
}

fn status_path(index: usize) -> String {
    format!("{PODS}/p{index}/status")
}

/// Waits until there are as many; the version of the list that says so.
async fn until_slices(system: &System, wanted: u64) -> anyhow::Result<String> {
    let end = Instant::now() + PATIENCE;
    let mut connection = system.target.connect().await?;
    let path = format!("{SLICES}?limit=1");
    while Instant::now() < end {
        let list: Value = serde_json::from_slice(&connection.read(&path).await?)?;
        let listed = list["items"].as_array().map_or(0, Vec::len) as u64;
        // The API server's own Service has slices too, where it is asked for them: none of ours is forgotten by that.
        if listed + list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0) >= wanted {
            return Ok(list["metadata"]["resourceVersion"].as_str().context("a list without a version")?.to_owned());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("not every Service had its slices within {PATIENCE:?}")
}

/// When each Pod was first seen ready, by family.
type ObservedAt = Arc<Mutex<HashMap<(String, String), Instant>>>;

async fn turn_ready(system: &System, pods: usize, version: &str) -> anyhow::Result<Vec<Duration>> {
    let seen: ObservedAt = Arc::default();
    let mut watcher = system.target.connect().await?;
    let mut body = watcher.watch(&format!("{SLICES}?watch=true&resourceVersion={version}")).await?;
    let watch = async {
        let mut rest = Vec::new();
        loop {
            let frame = body.frame().await.context("the watch ended")??;
            rest.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            let now = Instant::now();
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                note(&serde_json::from_slice(&line)?, now, &seen);
            }
        }
        #[expect(unreachable_code, reason = "says what the block may fail with")]
        anyhow::Ok(())
    };
    let asked = Mutex::new(HashMap::with_capacity(pods));
    let begun = Instant::now();
    // A step that no number of Pods has in common, so that neighbours in time are of different Services.
    let order: Vec<usize> = (0..pods).map(|index| index * 7919 % pods).collect();
    let write = async {
        let each = connections(&system.target).await?.into_iter().enumerate();
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        try_join_all(each.map(async |(first, mut connection)| {
            for turn in (first..pods).step_by(CONNECTIONS) {
                tokio::time::sleep_until((begun + Duration::from_secs_f64(turn as f64 / RATE as f64)).into()).await;
                connection.merge(&status_path(order[turn]), &ready).await?;
                asked.lock().expect("nobody panics with it").insert(order[turn], Instant::now());
            }
            anyhow::Ok(())
        }))
        .await?;
        let end = Instant::now() + PATIENCE;
        let wanted = 2 * asked.lock().expect("nobody panics with it").len();
        while seen.lock().expect("nobody panics with it").len() < wanted {
            if Instant::now() > end {
                let had = seen.lock().expect("nobody panics with it").len();
                bail!("{had} of {wanted} endpoints were ready {PATIENCE:?} after the last Pod");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    };
    tokio::select! {
        ended = watch => ended?,
        done = write => done?,
    }
    let (asked, seen) = (asked.into_inner()?, seen.lock().expect("nobody panics with it"));
    let lag = |(index, asked): (&usize, &Instant)| {
        ["IPv4", "IPv6"].map(|family| {
            let time = seen.get(&(format!("p{index}"), family.to_owned()));
            time.map_or(Duration::MAX, |time| time.saturating_duration_since(*asked))
        })
    };
    let mut lags: Vec<Duration> = asked.iter().flat_map(lag).collect();
    lags.sort_unstable();
    Ok(lags)
}

fn note(event: &Value, now: Instant, seen: &ObservedAt) {
    let slice = &event["object"];
    let family = slice["addressType"].as_str().unwrap_or_default();
    let mut seen = seen.lock().expect("nobody panics with it");
    for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
        if let (Some(true), Some(pod)) =
            (endpoint["conditions"]["ready"].as_bool(), endpoint["targetRef"]["name"].as_str())
        {
            seen.entry((pod.to_owned(), family.to_owned())).or_insert(now);
        }
    }
}

/// What a line is of, its unit, and its figure.
type Row<'a> = (&'a str, &'a str, &'a dyn Fn(&Results) -> f64);

fn table(pods: usize, ours: &Results, peer: Option<&Results>) -> String {
    let at = |results: &Results, share: f64| {
        let index = (results.lags.len().saturating_sub(1)) as f64 * share;
        results.lags.get(index as usize).map_or(0.0, Duration::as_secs_f64) * 1e3
    };
    let rows: [Row<'_>; 6] = [
        ("first pass over all Services", "ms", &|results| results.first.as_secs_f64() * 1e3),
        ("memory then", "MiB", &|results| results.resident as f64 / f64::from(1 << 20)),
        ("CPU per Pod that turns ready", "us", &|results| results.cpu.as_secs_f64() * 1e6 / pods as f64),
        ("slices are behind: half", "ms", &|results| at(results, 0.5)),
        ("  99 of 100", "ms", &|results| at(results, 0.99)),
        ("  all", "ms", &|results| at(results, 1.0)),
    ];
    let title = format!("EndpointSlices, {pods} Pods at {RATE}/s");
    let mut text = match peer {
        Some(_) => format!("{title:<38} {:>14} {:>26} {:>9}\n", "twinstack", "kube-controller-manager", "better"),
        None => format!("{title:<38} {:>14}\n", "twinstack"),
    };
    for (what, unit, value) in rows {
        let our = value(ours);
        let ours = format!("{our:.1} {unit}");
        text += &match peer.map(value) {
            Some(their) => {
                let theirs = format!("{their:.1} {unit}");
                format!("{what:<38} {ours:>14} {theirs:>26} {:>8.1}x\n", their / our)
            }
            None => format!("{what:<38} {ours:>14}\n"),
        };
    }
    text
}
