//! What the environment says: which programs to measure, and how many Services to make.

use crate::measure;
use anyhow::{Context, ensure};
use std::{env, path::PathBuf};

/// Services made at the end, to see whether the cost of one stays the same.
const SERVICES: usize = 50_000;

/// Pods that turn ready, to see how far behind their endpoints are.
const PODS: usize = 20_000;

pub(crate) struct Settings {
    /// The program to measure.
    pub(crate) twinstack: PathBuf,
    /// What to compare it with.
    pub(crate) peer: Option<Peer>,
    /// How many Services are made in all.
    pub(crate) services: usize,
    /// Where the definitions are that `definitions` creates.
    pub(crate) definitions: Option<PathBuf>,
    pub(crate) kube_controller_manager: Option<PathBuf>,
    /// How many Pods turn ready.
    pub(crate) pods: usize,
}

/// The programs of the peer.
pub(crate) struct Peer {
    pub(crate) kube_apiserver: PathBuf,
    pub(crate) etcd: PathBuf,
}

impl Settings {
    /// Reads the environment and checks it.
    pub(crate) fn from_environment() -> anyhow::Result<Self> {
        let beside = env::current_exe()?.with_file_name("twinstack");
        let twinstack = env::var_os("TWINSTACK").map_or(beside, PathBuf::from);
        ensure!(
            twinstack.is_file(),
            "{}: no such program; build it with `cargo build --release --package cli`, or name it in TWINSTACK",
            twinstack.display()
        );
        let peer = match (program("KUBE_APISERVER")?, program("ETCD")?) {
            (Some(kube_apiserver), Some(etcd)) => Some(Peer { kube_apiserver, etcd }),
            (Some(_), None) => anyhow::bail!("KUBE_APISERVER is set, but ETCD is not; both are needed to compare"),
            (None, _) => None,
        };
        let services = match env::var("BENCH_SERVICES") {
            Ok(text) => text.parse().ok().filter(|services| *services >= measure::SERVICES).with_context(|| {
                format!("BENCH_SERVICES: {text:?} is not accepted; a whole number from {} on is", measure::SERVICES)
            })?,
            Err(_) => SERVICES,
        };
        let pods = match env::var("BENCH_PODS") {
            Ok(text) => text
                .parse()
                .ok()
                .filter(|pods| *pods > 0)
                .with_context(|| format!("BENCH_PODS: {text:?} is not accepted; a whole number from 1 on is"))?,
            Err(_) => PODS,
        };
        let kube_controller_manager = program("KUBE_CONTROLLER_MANAGER")?;
        let definitions = env::var_os("BENCH_DEFINITIONS").filter(|path| !path.is_empty()).map(PathBuf::from);
        Ok(Self { twinstack, peer, services, definitions, kube_controller_manager, pods })
    }
}

/// The program that a variable names.
fn program(variable: &str) -> anyhow::Result<Option<PathBuf>> {
    let Some(path) = env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from) else { return Ok(None) };
    ensure!(path.is_file(), "{variable}: {}: no such program; the path of one is accepted", path.display());
    Ok(Some(path))
}
