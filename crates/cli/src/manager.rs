//! What managers and operators share: how they reach the API, that one of several works, and where health and metrics are.

use crate::{
    component,
    flag::{Flag, flag},
    kubeconfig, read,
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
};
use std::{
    path::{Path, PathBuf},
    str::FromStr,
    time::{Duration, SystemTime},
};

const LOOPBACK: &str = "127.0.0.1,::1";
const NAMESPACE: &str = "kube-system";
/// How long the work of a term may take to end: others wait five seconds longer for the lease than this process renews it.
const TERM_END: Duration = Duration::from_secs(3);

/// In what a manager differs from the others.
#[derive(Clone, Copy)]
pub(crate) struct Own {
    lease: Flag,
    port: Flag,
    port_number: u16,
}

impl Own {
    /// The lease's name and the port where none are given. What is no port does not compile.
    pub(crate) const fn new(lease: &'static str, port: &'static str) -> Self {
        let Ok(port_number) = u16::from_str_radix(port, 10) else { panic!("the port is no number") };
        Self {
            lease: flag("leader-elect-resource-name", "NAME", lease, "the lease's name"),
            port: flag("secure-port", "PORT", port, "port for them, HTTPS; 0 serves nothing"),
            port_number,
        }
    }

    /// The port where none is given.
    pub(crate) const fn port(&self) -> u16 {
        self.port_number
    }

    /// The lease is that of the program that this one stands for.
    pub(crate) const fn upstreams(mut self) -> Self {
        self.lease.help = "the lease's name; upstream's, so that the two never work at the same time";
        self
    }

    /// The flags that [`Manager::read`] reads, but for `--kubeconfig`.
    #[rustfmt::skip]
    pub(crate) const fn flags(self) -> [Flag; 10] {
        [
            flag("leader-elect", "BOOL", "true", "work only while holding a lease, so that several can run and one works"),
            flag("leader-elect-lease-duration", "DURATION", "15s", "others wait this long after the last sign of life"),
            flag("leader-elect-renew-deadline", "DURATION", "10s", "give up after not having renewed for this long"),
            flag("leader-elect-retry-period", "DURATION", "2s", "time between attempts"),
            self.lease,
            flag("leader-elect-resource-namespace", "NAMESPACE", NAMESPACE, "the lease's namespace"),
            flag("bind-address", "ADDRESS[,ADDRESS]", LOOPBACK, "where health and metrics are served, to everyone who can reach it"),
            self.port,
            flag("tls-cert-file", "FILE", "", "certificate to show there; one is made when not given"),
            flag("tls-private-key-file", "FILE", "", "its key"),
        ]
    }
}

/// What its flags say: those of [`Own::flags`], and `--kubeconfig`.
pub(crate) struct Manager {
    kubeconfig: Option<PathBuf>,
    election: Option<lease::Settings>,
    hosts: Hosts,
    port: u16,
    identity: Option<(PathBuf, PathBuf)>,
}

impl Manager {
    /// Reads the flags.
    pub(crate) fn read(given: &mut Settings, own: &Own) -> Option<Self> {
        let elect = given.or("leader-elect", true, "true, false", str::parse::<bool>);
        let election = election(given, own.lease.default);
        let certificate = given.optional("tls-cert-file", "a file", read::path);
        let key = given.optional("tls-private-key-file", "a file", read::path);
        if certificate.is_some() != key.is_some() {
            let alone = if certificate.is_some() { "tls-cert-file" } else { "tls-private-key-file" };
            given.reject(alone, "needs its other half: give --tls-cert-file and --tls-private-key-file together");
        }
        let loopback = Hosts::from_str(LOOPBACK).ok()?;
        Some(Self {
            kubeconfig: kubeconfig::read(given),
            election: elect.then_some(election),
            hosts: given.or("bind-address", loopback, "one address, or one of each family", Hosts::from_str),
            port: given.or("secure-port", own.port_number, "a port from 0 to 65535", str::parse::<u16>),
            identity: certificate.zip(key),
        })
    }

    /// How the API is reached; none for a pod's service account.
    pub(crate) fn kubeconfig(&self) -> Option<&Path> {
        self.kubeconfig.as_deref()
    }

    /// Reaches the API under this name, and serves health and metrics.
    pub(crate) async fn connect(&self, agent: &'static str, admin: &Admin, tasks: &Tasks) -> anyhow::Result<Client> {
        let client = client::connect(self.kubeconfig(), agent).await?;
        let component = agent.strip_prefix("twinstack-").unwrap_or(agent);
        let namespace = self.election.as_ref().map_or(NAMESPACE, |election| &election.namespace);
        component::report(client.clone(), component, namespace.to_owned(), tasks);
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
    let mut settings = lease::Settings::new(NAMESPACE, name, lease::identity());
    let name = |text: &str| if text.is_empty() { Err("is empty") } else { Ok(text.to_owned()) };
    settings.name = given.or("leader-elect-resource-name", settings.name, "a name", name);
    settings.namespace = given.or("leader-elect-resource-namespace", settings.namespace, "a namespace", name);
    settings.lease = given.or("leader-elect-lease-duration", settings.lease, read::DURATION, read::duration);
    settings.renew = given.or("leader-elect-renew-deadline", settings.renew, read::DURATION, read::duration);
    settings.retry = given.or("leader-elect-retry-period", settings.retry, read::DURATION, read::duration);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(own: Own, flags: &[(&str, &str)]) -> Manager {
        let flags = flags.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Settings::new("test").flags(flags).read(|given| Manager::read(given, &own)).unwrap()
    }

    /// Everything but the identity, which is different each time.
    fn told(manager: Manager) -> String {
        let Manager { kubeconfig, election, hosts, port, identity } = manager;
        let election = election.map(|lease| lease::Settings { identity: String::new(), ..lease });
        format!("{kubeconfig:?} {election:?} {hosts:?} {port} {identity:?}")
    }

    #[test]
    fn what_help_shows_as_defaults_is_what_counts_without_them() {
        for own in [Own::new("a", "1"), Own::new("b", "65535").upstreams()] {
            let flags = own.flags();
            let shown: Vec<_> =
                flags.iter().map(|flag| (flag.name, flag.default)).filter(|row| !row.1.is_empty()).collect();
            assert_eq!(told(read(own, &shown)), told(read(own, &[])));
        }
    }

    #[test]
    fn every_flag_in_the_table_is_read() {
        let own = Own::new("a", "1");
        // They are only taken together.
        let files = [("tls-cert-file", "y"), ("tls-private-key-file", "y")];
        let plain = told(read(own, &files));
        for flag in own.flags().iter().chain([&kubeconfig::FLAG]) {
            let text = match (flag.value, flag.name) {
                ("BOOL", _) => "false",
                ("DURATION", "leader-elect-retry-period") => "3s",
                ("DURATION", _) => "11s",
                ("PORT", _) => "7",
                ("ADDRESS[,ADDRESS]", _) => "::1",
                _ => "x",
            };
            let others = files.into_iter().filter(|row| row.0 != flag.name);
            let rows: Vec<_> = others.chain([(flag.name, text)]).collect();
            assert_ne!(told(read(own, &rows)), plain, "{}", flag.name);
        }
    }
}
