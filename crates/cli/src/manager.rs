//! What managers and operators share: how they reach the API, that one of several works, and where health and metrics are.

use crate::{
    component,
    flag::{AnyFlag, DefaultFlag, Flag, KUBECONFIG, LOOPBACK, duration, file, hosts, port, switch, word},
};
use kube::Client;
use net::Family;
use runtime::{
    admin::Admin,
    client,
    config::Settings,
    controller::Context,
    http::{Limits, Server},
    lease::{self, Election},
    listen::{self, Hosts},
    pki::{Authority, Identity, Purpose, Rotating},
    task::Tasks,
    tls,
    watch::report,
};
use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// How long the work of a term may take to end: others wait five seconds longer for the lease than this process renews it.
const TERM_END: Duration = Duration::from_secs(3);

#[rustfmt::skip]
mod flags {
    use super::*;

    pub(super) const ELECT: DefaultFlag<bool> = switch("leader-elect", "work only while holding a lease, so that several can run and one works").or("true");
    pub(super) const LEASE_DURATION: DefaultFlag<Duration> = duration("leader-elect-lease-duration", "others wait this long after the last sign of life").or("15s");
    pub(super) const RENEW_DEADLINE: DefaultFlag<Duration> = duration("leader-elect-renew-deadline", "give up after not having renewed for this long").or("10s");
    pub(super) const RETRY_PERIOD: DefaultFlag<Duration> = duration("leader-elect-retry-period", "time between attempts").or("2s");
    pub(super) const LEASE: Flag<String> = word("leader-elect-resource-name", "NAME", "a name", "the lease's name");
    pub(super) const LEASE_NAMESPACE: DefaultFlag<String> = word("leader-elect-resource-namespace", "NAMESPACE", "a namespace", "the lease's namespace").or(report::NAMESPACE);
    pub(super) const BIND_ADDRESS: DefaultFlag<Hosts> = hosts("bind-address", "where health and metrics are served, to everyone who can reach it").or(LOOPBACK);
    pub(super) const PORT: Flag<u16> = port("secure-port", "port for them, HTTPS; 0 serves nothing");
    pub(super) const CERTIFICATE: Flag<PathBuf> = file("tls-cert-file", "certificate to show there; one is made when not given");
    pub(super) const KEY: Flag<PathBuf> = file("tls-private-key-file", "its key");
}

/// In what a manager differs from the others.
#[derive(Clone, Copy)]
pub(crate) struct Own {
    lease: DefaultFlag<String>,
    port: DefaultFlag<u16>,
}

impl Own {
    /// The lease's name and the port where none are given.
    pub(crate) const fn new(lease: &'static str, port: &'static str) -> Self {
        Self { lease: flags::LEASE.or(lease), port: flags::PORT.or(port) }
    }

    /// The port where none is given.
    pub(crate) fn port(&self) -> u16 {
        self.port.default()
    }

    /// The lease is that of the program that this one stands for.
    pub(crate) const fn upstreams(mut self) -> Self {
        self.lease = self.lease.help("the lease's name; upstream's, so that the two never work at the same time");
        self
    }

    /// The flags that [`Manager::read`] reads, but for `--kubeconfig`.
    pub(crate) const fn flags(&'static self) -> [&'static dyn AnyFlag; 10] {
        [
            &flags::ELECT,
            &flags::LEASE_DURATION,
            &flags::RENEW_DEADLINE,
            &flags::RETRY_PERIOD,
            &self.lease,
            &flags::LEASE_NAMESPACE,
            &flags::BIND_ADDRESS,
            &self.port,
            &flags::CERTIFICATE,
            &flags::KEY,
        ]
    }
}

/// What its flags say: those of [`Own::flags`], and `--kubeconfig`.
pub(crate) struct Manager {
    kubeconfig: Option<PathBuf>,
    election: Option<lease::Settings>,
    /// Where it shows that it is alive.
    namespace: String,
    hosts: Hosts,
    port: u16,
    identity: Option<(PathBuf, PathBuf)>,
}

impl Manager {
    /// Reads the flags.
    pub(crate) fn read(given: &mut Settings, own: &Own) -> Self {
        let elect = given.get(&flags::ELECT);
        let election = election(given, own);
        let certificate = given.optional(&flags::CERTIFICATE);
        let key = given.optional(&flags::KEY);
        if certificate.is_some() != key.is_some() {
            let alone = if certificate.is_some() { flags::CERTIFICATE.name } else { flags::KEY.name };
            given.reject(alone, "needs its other half: give --tls-cert-file and --tls-private-key-file together");
        }
        Self {
            kubeconfig: given.optional(&KUBECONFIG),
            namespace: if elect { election.namespace.clone() } else { flags::LEASE_NAMESPACE.default() },
            election: elect.then_some(election),
            hosts: given.get(&flags::BIND_ADDRESS),
            port: given.get(&own.port),
            identity: certificate.zip(key),
        }
    }

    /// How the API is reached; none for a pod's service account.
    pub(crate) fn kubeconfig(&self) -> Option<&Path> {
        self.kubeconfig.as_deref()
    }

    /// Reaches the API under this name, and serves health and metrics.
    pub(crate) async fn connect(&self, agent: &'static str, admin: &Admin, tasks: &Tasks) -> anyhow::Result<Client> {
        let client = client::connect(self.kubeconfig(), agent).await?;
        let component = agent.strip_prefix("twinstack-").unwrap_or(agent);
        component::report(client.clone(), component, self.namespace.clone(), tasks);
        if self.port != 0 {
            serve_admin(&self.hosts, self.port, self.identity.as_ref(), admin, tasks)?;
        }
        Ok(client)
    }

    /// Starts the work of an operator whose servers may run in or beside this process: at once, or for each term in which
    /// this process leads. In between the servers go on.
    pub(crate) fn lead_in_terms<O>(
        self,
        context: Context<O>,
        after: AfterLoss,
        start: impl Fn(&Context<O>) + Send + Sync + 'static,
    ) where
        O: Send + Sync + 'static,
    {
        match self.election {
            None => start(&context),
            Some(settings) => elect_in_terms(Election::new(context.client(), settings), context, after, start),
        }
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

/// What a process does when another one leads instead of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterLoss {
    /// Its servers are for the other one to run.
    End,
    /// Its servers answer whoever leads.
    Wait,
}

/// Runs something for each term in which this process leads. An API that is away ends the term and not the process: what
/// serves in or beside it would end as well.
fn elect_in_terms<O: Send + Sync + 'static>(
    mut election: Election,
    context: Context<O>,
    after: AfterLoss,
    start: impl Fn(&Context<O>) + Send + Sync + 'static,
) {
    let tasks = context.tasks().clone();
    tasks.clone().once("leader-election", move |stop| async move {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = election.acquire() => {}
        }
        loop {
            let term = tasks.group();
            start(&context.term(&term));
            let stopped = tokio::select! {
                () = stop.cancelled() => true,
                () = election.hold() => false,
            };
            term.stop(TERM_END).await;
            if stopped {
                election.release().await;
                return Ok(());
            }
            tracing::warn!("the servers go on as they are");
            let regained = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                regained = election.regain() => regained,
            };
            match (regained, after) {
                (Ok(()), _) => {}
                (Err(other), AfterLoss::End) => return Err(other),
                (Err(other), AfterLoss::Wait) => {
                    tracing::info!(other, "waits for the lease");
                    tokio::select! {
                        () = stop.cancelled() => return Ok(()),
                        () = election.acquire() => {}
                    }
                }
            }
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
    let listeners = listen::tcp(flags::BIND_ADDRESS.name, hosts, port)?;
    for address in listeners.iter().filter_map(|listener| listener.local_addr().ok()) {
        tracing::info!(%address, "health and metrics");
    }
    let config = tls::server_config(Rotating::new(&identity)?, None)?;
    let server = Server { listeners, tls: Some(config), limits: Limits::default() };
    let service = admin.clone().service();
    tasks.serve("health-and-metrics", |stop| async move { server.run(service, stop).await.map(|_| ()) });
    Ok(())
}

/// The flags of leader election.
fn election(given: &mut Settings, own: &Own) -> lease::Settings {
    let settings = lease::Settings {
        namespace: given.get(&flags::LEASE_NAMESPACE),
        name: given.get(&own.lease),
        identity: lease::identity(),
        lease: given.get(&flags::LEASE_DURATION),
        renew: given.get(&flags::RENEW_DEADLINE),
        retry: given.get(&flags::RETRY_PERIOD),
    };
    if settings.retry.is_zero() {
        given.reject(flags::RETRY_PERIOD.name, "must be longer than 0");
    }
    if settings.renew <= settings.retry {
        given.reject(flags::RENEW_DEADLINE.name, "must be longer than --leader-elect-retry-period");
    }
    if settings.lease <= settings.renew || settings.lease < Duration::from_secs(1) {
        given.reject(
            flags::LEASE_DURATION.name,
            "must be a second or more, and longer than --leader-elect-renew-deadline",
        );
    }
    settings
}
