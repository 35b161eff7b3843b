//! What managers and operators share: how they reach the API, that one of several works, and where health and metrics are.

use crate::read;
use kube::Client;
use net::Family;
use runtime::{
    admin::Admin,
    client,
    config::Settings,
    http::{Limits, Server},
    lease::{self, Election},
    listen::{self, Hosts},
    pki::{Authority, Identity, Purpose, Rotating},
    task::Tasks,
    tls,
};
use std::{
    path::{Path, PathBuf},
    str::FromStr,
    time::{Duration, SystemTime},
};

const DURATION: &str = "a length of time such as 90s or 1h30m";

/// What its flags say: `--kubeconfig`, `--leader-elect...`, `--bind-address`, `--secure-port` and `--tls-...`.
pub(crate) struct Manager {
    kubeconfig: Option<PathBuf>,
    election: Option<lease::Settings>,
    hosts: Hosts,
    port: u16,
    identity: Option<(PathBuf, PathBuf)>,
}

impl Manager {
    /// Reads the flags; `lease` and `port` are its own where they are not given.
    pub(crate) fn read(given: &mut Settings, lease: &str, port: u16) -> Option<Self> {
        let elect = given.or("leader-elect", true, "true, false", str::parse::<bool>);
        let election = election(given, lease);
        let certificate = given.optional("tls-cert-file", "a file", read::path);
        let key = given.optional("tls-private-key-file", "a file", read::path);
        if certificate.is_some() != key.is_some() {
            let alone = if certificate.is_some() { "tls-cert-file" } else { "tls-private-key-file" };
            given.reject(alone, "needs its other half: give --tls-cert-file and --tls-private-key-file together");
        }
        let loopback = Hosts::from_str("127.0.0.1,::1").ok()?;
        Some(Self {
            kubeconfig: given.optional("kubeconfig", "a file", read::path),
            election: elect.then_some(election),
            hosts: given.or("bind-address", loopback, "one address, or one of each family", Hosts::from_str),
            port: given.or("secure-port", port, "a port from 0 to 65535", str::parse::<u16>),
            identity: certificate.zip(key),
        })
    }

    /// How the API is reached; none for a pod's service account.
    pub(crate) fn kubeconfig(&self) -> Option<&Path> {
        self.kubeconfig.as_deref()
    }

    /// Reaches the API under this name, and serves health and metrics.
    pub(crate) async fn connect(&self, agent: &str, admin: &Admin, tasks: &Tasks) -> anyhow::Result<Client> {
        let client = client::connect(self.kubeconfig(), agent).await?;
        if self.port != 0 {
            serve_admin(&self.hosts, self.port, self.identity.as_ref(), admin, tasks)?;
        }
        Ok(client)
    }

    /// Starts the work: at once, or when this process leads.
    pub(crate) fn lead(self, client: Client, tasks: &Tasks, start: impl FnOnce() + Send + 'static) {
        match self.election {
            None => start(),
            Some(settings) => elect(Election::new(client, settings), tasks, start),
        }
    }
}

/// Runs something while this process leads. Having lost the lease it ends, so that nothing it began goes on beside another.
fn elect(mut election: Election, tasks: &Tasks, start: impl FnOnce() + Send + 'static) {
    tasks.once("leader-election", move |stop| async move {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = election.acquire() => {}
        }
        start();
        tokio::select! {
            () = stop.cancelled() => {
                election.release().await;
                Ok(())
            }
            () = election.hold() => Err("the lease is lost"),
        }
    });
}

/// Serves health and metrics over HTTPS, with a certificate of its own when none is given.
fn serve_admin(
    hosts: &Hosts,
    port: u16,
    files: Option<&(PathBuf, PathBuf)>,
    admin: &Admin,
    tasks: &Tasks,
) -> anyhow::Result<()> {
    let identity = match files {
        Some((certificate, key)) => Identity::load_pair(certificate, key)?,
        None => {
            let names = vec!["localhost".to_owned()];
            let addresses = Family::BOTH.map(Family::loopback).to_vec();
            let now = SystemTime::now();
            Authority::create("twinstack", now)?.issue(&Purpose::Serving { names, addresses }, now)?
        }
    };
    let listeners = listen::tcp("bind-address", hosts, port)?;
    for address in listeners.iter().filter_map(|listener| listener.local_addr().ok()) {
        tracing::info!(%address, "health and metrics");
    }
    let config = tls::server_config(Rotating::new(&identity)?, None)?;
    let server = Server { listeners, tls: Some(config), limits: Limits::default() };
    let service = admin.clone().service();
    tasks.serve("health-and-metrics", |stop| async move { server.run(service, stop).await.map(|_| ()) });
    Ok(())
}

/// The flags of leader election; `name` is the lease's where it is not given.
fn election(given: &mut Settings, name: &str) -> lease::Settings {
    let mut settings = lease::Settings::new("kube-system", name, lease::identity());
    let name = |text: &str| if text.is_empty() { Err("is empty") } else { Ok(text.to_owned()) };
    settings.name = given.or("leader-elect-resource-name", settings.name, "a name", name);
    settings.namespace = given.or("leader-elect-resource-namespace", settings.namespace, "a namespace", name);
    settings.lease = given.or("leader-elect-lease-duration", settings.lease, DURATION, read::duration);
    settings.renew = given.or("leader-elect-renew-deadline", settings.renew, DURATION, read::duration);
    settings.retry = given.or("leader-elect-retry-period", settings.retry, DURATION, read::duration);
    if settings.retry.is_zero() {
        given.reject("leader-elect-retry-period", "must be longer than 0");
    }
    if settings.renew <= settings.retry {
        given.reject("leader-elect-renew-deadline", "must be longer than --leader-elect-retry-period");
    }
    if settings.lease <= settings.renew || settings.lease < Duration::from_secs(1) {
        given.reject(
            "leader-elect-lease-duration",
            "must be a second or more, and longer than --leader-elect-renew-deadline",
        );
    }
    settings
}
