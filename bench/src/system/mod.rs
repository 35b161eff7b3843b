//! A running API server with what belongs to it; all of it is gone when it is dropped.

pub(crate) mod peer;
pub(crate) mod twinstack;

use crate::{client::Target, process::Process};
use anyhow::bail;
use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Ranges for Services of both families, a million addresses each.
const SERVICE_RANGES: &str = "10.0.0.0/12,fd00::/108";

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(40);

pub(crate) struct System {
    pub(crate) name: &'static str,
    pub(crate) target: Target,
    /// When its first process was started.
    pub(crate) started: Instant,
    // Before the folder, so that nobody writes to it when it is removed.
    processes: Vec<Process>,
    folder: TempDir,
}

impl System {
    /// A folder that is gone with it.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Memory of all its processes, in bytes.
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        self.processes.iter().map(Process::resident).sum()
    }

    /// CPU time of all its processes so far.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        self.processes.iter().map(Process::cpu).sum()
    }

    /// The last lines of the logs of all its processes, and which of them have ended.
    pub(crate) fn last_words(&mut self) -> String {
        last_words(&mut self.processes)
    }

    /// Tries until there is an answer, or one of the processes ends, or it takes too long.
    pub(crate) async fn wait_for<T>(
        &mut self,
        what: &str,
        attempt: impl AsyncFnMut() -> Option<T>,
    ) -> anyhow::Result<T> {
        wait_for(&mut self.processes, what, attempt).await
    }
}

async fn wait_for<T>(
    processes: &mut [Process],
    what: &str,
    mut attempt: impl AsyncFnMut() -> Option<T>,
) -> anyhow::Result<T> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = attempt().await {
            return Ok(answer);
        }
        if processes.iter_mut().any(|process| process.check().is_err()) {
            bail!("no {what}:\n{}", last_words(processes));
        }
        if Instant::now() > end {
            bail!("no {what} within {PATIENCE:?}:\n{}", last_words(processes));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn last_words(processes: &mut [Process]) -> String {
    let words: Vec<_> = processes.iter_mut().map(Process::last_words).collect();
    words.join("\n")
}

/// Addresses on loopback that nobody listens on, all different.
fn free_addresses<const N: usize>() -> anyhow::Result<[SocketAddr; N]> {
    let listeners = (0..N).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<Vec<_>, _>>()?;
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); N];
    for (address, listener) in addresses.iter_mut().zip(&listeners) {
        *address = listener.local_addr()?;
    }
    Ok(addresses)
}
