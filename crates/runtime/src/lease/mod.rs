//! Leader election: of several processes that could do the same, one does. Compatible with client-go's.
//!
//! `decide` says what to do with the Lease as it was read; this file asks and writes. Clocks are never compared between
//! machines: a lease has run out when it did not change for its duration by our own clock.

mod decide;

use crate::client::{Api, error_line};
use decide::{Action, ObservedLease, decide};
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Client, api::PostParams};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Which lease, in whose name, and how patiently. The defaults are upstream's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `--leader-elect-resource-namespace`.
    pub namespace: String,
    /// `--leader-elect-resource-name`.
    pub name: String,
    /// Who asks; different for each process.
    pub identity: String,
    /// `--leader-elect-lease-duration`: others wait this long after the last sign of life.
    pub lease: Duration,
    /// `--leader-elect-renew-deadline`: a leader gives up when it could not renew for this long.
    pub renew: Duration,
    /// `--leader-elect-retry-period`: between attempts.
    pub retry: Duration,
}

/// An identity for this process: the host's name and a random number, as upstream has it.
#[must_use]
pub fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let random = getrandom::u64().unwrap_or_else(|_| std::process::id().into());
    format!("{}_{random:016x}", if host.trim().is_empty() { "host" } else { host.trim() })
}

/// One candidate.
#[derive(Debug)]
pub struct Election {
    settings: Settings,
    api: Api<Lease>,
    seen: Option<ObservedLease>,
}

impl Election {
    /// A candidate that has not asked yet.
    #[must_use]
    pub fn new(client: Client, settings: Settings) -> Self {
        let api = Api::namespaced(client, &settings.namespace);
        Self { settings, api, seen: None }
    }

    /// Waits until this process leads.
    pub async fn acquire(&mut self) {
        while !self.attempt().await {
            let jitter = 1.0 + 0.2 * crate::backoff::random();
            sleep(self.settings.retry.mul_f64(jitter)).await;
        }
        tracing::info!(lease = self.settings.name, identity = self.settings.identity, "leads");
    }

    /// Waits until this process leads again; with an error as soon as another one is seen to. Somebody's old name in the
    /// lease, as a restored API may show, is no sign of that: who leads renews.
    pub async fn regain(&mut self) -> Result<(), String> {
        loop {
            let before = self.seen.as_ref().map(|seen| seen.lease.spec.clone());
            if self.attempt().await {
                tracing::info!(lease = self.settings.name, identity = self.settings.identity, "leads again");
                return Ok(());
            }
            if let (Some(before), Some(seen)) = (before, &self.seen)
                && let Some(other) = seen.is_renewed_by_another(before.as_ref(), &self.settings.identity)
            {
                return Err(format!("{other} leads now"));
            }
            sleep(self.settings.retry).await;
        }
    }

    /// Renews while it can; returns when this process must no longer act as leader.
    pub async fn hold(&mut self) {
        let mut renewed = Instant::now();
        while renewed.elapsed() < self.settings.renew {
            sleep(self.settings.retry).await;
            // One attempt even when the process was stopped for long: the lease may still be ours.
            let left = self.settings.renew.saturating_sub(renewed.elapsed()).max(self.settings.retry);
            match timeout(left, self.attempt()).await {
                Ok(true) => renewed = Instant::now(),
                Ok(false) if !self.is_leader() => break,
                Ok(false) | Err(_) => {}
            }
        }
        tracing::warn!(lease = self.settings.name, "no longer leads");
    }

    /// Gives the lease up, so that another need not wait.
    pub async fn release(&mut self) {
        let Some(seen) = self.seen.as_ref().filter(|_| self.is_leader()) else { return };
        let mut lease = seen.lease.clone();
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            spec.renew_time = Some(MicroTime(Timestamp::now()));
        }
        if let Err(error) = self.api.replace(&self.settings.name, &PostParams::default(), &lease).await {
            tracing::debug!(error = error_line(&error), "lease was not given up; it runs out by itself");
        }
        self.seen = None;
    }

    fn is_leader(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.holder() == Some(&self.settings.identity))
    }

    /// Asks once. Whether this process leads now.
    async fn attempt(&mut self) -> bool {
        match self.try_once().await {
            Ok(leads) => leads,
            Err(error) => {
                tracing::debug!(error = error_line(&error), "lease was neither read nor written");
                false
            }
        }
    }

    async fn try_once(&mut self) -> Result<bool, kube::Error> {
        let stored = self.api.get_opt(&self.settings.name).await?;
        self.seen = stored.map(|lease| ObservedLease::again(self.seen.take(), lease, Instant::now()));
        let action = decide(self.seen.as_ref(), &self.settings.identity, Instant::now());
        let spec = |transitions, acquired| LeaseSpec {
            holder_identity: Some(self.settings.identity.clone()),
            lease_duration_seconds: i32::try_from(self.settings.lease.as_secs()).ok(),
            acquire_time: Some(acquired),
            renew_time: Some(MicroTime(Timestamp::now())),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        };
        let written = match action {
            Action::Wait => return Ok(false),
            Action::Create => {
                let metadata = ObjectMeta { name: Some(self.settings.name.clone()), ..ObjectMeta::default() };
                let lease = Lease { metadata, spec: Some(spec(0, MicroTime(Timestamp::now()))) };
                self.api.create(&PostParams::default(), &lease).await?
            }
            Action::Write { mut lease, transitions, acquired } => {
                lease.spec = Some(spec(transitions, acquired.unwrap_or_else(|| MicroTime(Timestamp::now()))));
                self.api.replace(&self.settings.name, &PostParams::default(), &lease).await?
            }
        };
        self.seen = Some(ObservedLease::again(None, written, Instant::now()));
        Ok(true)
    }
}
