//! The round that looks after router processes: starts what should run, asks what runs whether it is ready.

use super::{
    Entry, RouterProcesses,
    running::{Found, Running},
};
use runtime::http;
use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Between two rounds.
const ROUND: Duration = Duration::from_millis(250);
/// Rounds that one waits at most before it is started again.
const LONGEST_PAUSE: u32 = 120;
/// How long processes have to end when the operator does.
const FAREWELL: Duration = Duration::from_secs(5);

/// Goes round until it is stopped; then all processes are told to end.
pub(super) async fn run(shared: Arc<RouterProcesses>, stop: CancellationToken) -> std::io::Result<()> {
    while !stop.is_cancelled() {
        shared.leaving.lock().retain_mut(|child| child.ended().is_none());
        let names: Vec<String> = shared.entries.lock().keys().cloned().collect();
        for name in names {
            round(&shared, &name).await;
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(ROUND) => {}
        }
    }
    let mut children: Vec<Running> =
        std::mem::take(&mut *shared.entries.lock()).into_values().filter_map(|entry| entry.child).collect();
    children.append(&mut shared.leaving.lock());
    children.iter().for_each(Running::terminate);
    let gone = async {
        while children.iter_mut().any(|child| child.ended().is_none()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // Those that take longer have been told.
    let _ = tokio::time::timeout(FAREWELL, gone).await;
    Ok(())
}

async fn round(shared: &Arc<RouterProcesses>, name: &str) {
    let waits = !shared.leaving.lock().is_empty();
    let (probe, message_before) = {
        let mut entries = shared.entries.lock();
        let Some(entry) = entries.get_mut(name) else { return };
        let message = entry.message.clone();
        if !waits {
            entry.keep_running();
        }
        (entry.child.is_some().then(|| entry.wanted.health.clone()), message)
    };
    let answer = match &probe {
        Some(addresses) => ask(addresses, "/healthz/ready").await,
        None => Err("the router process does not run".to_owned()),
    };
    let refusal = match (&answer, &probe) {
        (Ok(_), Some(addresses)) => ask(addresses, "/readyz").await.err(),
        _ => None,
    };
    let changed = {
        let mut entries = shared.entries.lock();
        let Some(entry) = entries.get_mut(name) else { return };
        let answers = answer.is_ok() && entry.child.is_some();
        // While a router is replaced, HAProxy serves on.
        entry.handing_over = if answers { 0 } else { entry.handing_over.saturating_sub(1) };
        let ready = answers || entry.handing_over > 0;
        if let (Err(message), true) = (answer, entry.child.is_some()) {
            entry.message = message;
        }
        if answers {
            entry.failures = 0;
        }
        let refused = std::mem::replace(&mut entry.refusal, refusal.clone()) != refusal;
        let other_reason = !ready && entry.message != message_before;
        std::mem::replace(&mut entry.ready, ready) != ready || refused || other_reason
    };
    if changed {
        let callbacks: Vec<_> = shared.callbacks.lock().iter().map(|(_, callback)| Arc::clone(callback)).collect();
        callbacks.iter().for_each(|callback| callback(name));
    }
}

impl Entry {
    /// Starts the process, or takes over one that runs, unless there is one or it has to wait.
    pub(super) fn keep_running(&mut self) {
        if let Some(how) = self.child.as_mut().and_then(Running::ended) {
            tracing::warn!(how, "a router process has ended and is started again");
            self.message = format!("the router process has ended: {how}");
            self.child = None;
            self.wait();
        }
        if self.child.is_some() {
            return;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        match Found::look_for(&self.wanted.program, &self.wanted.words) {
            Some(found) if self.predecessor.is_none() && found.is_as(&self.wanted) => {
                self.take_over(found);
            }
            // It holds the ports. Told once: to be told twice means to let go of connections.
            Some(found) if self.predecessor == Some(found.id) => {}
            Some(found) => {
                tracing::info!(id = found.id, "a router process with other settings is told to end");
                self.message = format!("waits for the router process {}, which has other settings, to end", found.id);
                self.wanted.keep_haproxy();
                found.terminate();
                self.predecessor = Some(found.id);
            }
            None => match taken(&self.wanted.health) {
                Some(place) => {
                    self.message = format!("somebody else listens on {place}, which is to be the router's own");
                    tracing::warn!(%place, "a router is not started, as somebody else listens where it would");
                    self.wait();
                }
                None => self.start(),
            },
        }
    }

    /// Longer each time.
    fn wait(&mut self) {
        self.pause = (4 << self.failures.min(5)).min(LONGEST_PAUSE);
        self.failures += 1;
    }

    /// Goes on with a process that an earlier operator started.
    pub(super) fn take_over(&mut self, found: Found) {
        tracing::info!(id = found.id, "a router process that runs already is taken over");
        self.message = "the router process has been taken over".to_owned();
        self.child = Some(Running::Adopted(found));
    }

    fn start(&mut self) {
        self.predecessor = None;
        match Running::start(&self.wanted) {
            Ok(child) => {
                self.message = "the router process has been started".to_owned();
                self.child = Some(child);
            }
            Err(error) => {
                self.message = format!("the router process cannot be started: {error}");
                self.pause = LONGEST_PAUSE;
            }
        }
    }
}

/// Where somebody listens already. Health that is asked for there would be another router's.
pub fn taken(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    let in_use = |error: std::io::Error| error.kind() == std::io::ErrorKind::AddrInUse;
    addresses.iter().copied().find(|address| TcpListener::bind(address).is_err_and(in_use))
}

/// Whether the router says that it is ready, at any of these addresses.
pub(super) async fn ask(addresses: &[SocketAddr], path: &str) -> Result<(), String> {
    let mut last = String::new();
    for address in addresses {
        match http::ask(*address, "localhost", path).await {
            Ok((200, _)) => return Ok(()),
            Ok((_, reason)) if !reason.is_empty() => last = reason.trim_start_matches("not ready: ").to_owned(),
            Ok((status, _)) => last = format!("the router's health check answers {status}"),
            Err(error) if last.is_empty() => last = format!("the router's health check cannot be reached: {error}"),
            Err(_) => {}
        }
    }
    Err(last)
}
