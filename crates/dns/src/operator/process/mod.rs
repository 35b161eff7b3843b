//! The operand in this process: it watches the rendered ConfigMap, adapts it to this machine, and has the server take it up.
//!
//! Independent of the operator's controller: it goes on when another process leads, and begins with the file it wrote last
//! when the API is away.

mod adapt;

use super::{
    DNS, NAME, NAMESPACE, OWNER_LABEL,
    servers::{Report, Reports, refusals, running_hash},
};
use crate::{
    compile::{self, Lasting},
    corefile::{self, Corefile, Disk},
    server::{self, Settings},
    sha512::sha512,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use runtime::{
    admin::Admin,
    atomic_file,
    controller::{Scope, Store},
    listen::Hosts,
    metrics::TextFormat,
    task::Tasks,
};
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr, TcpListener, UdpSocket},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::sync::Notify;

/// By this the server is known in conditions.
const SERVER: &str = "this process";
/// Says which folder a bundle of authorities is expected in.
pub(super) const FOLDER_ANNOTATION: &str = "dns.operator.openshift.io/folder";
/// How often it is looked whether the server has taken up a file, and whether it can start by now.
const PAUSE: Duration = Duration::from_millis(500);

/// Where and how the server of this process answers.
#[derive(Clone, Debug)]
pub struct Local {
    /// Addresses.
    pub hosts: Hosts,
    /// Port for UDP and TCP; 0 takes free ones.
    pub port: u16,
    /// How it reaches the API; the Pod's account when not given.
    pub kubeconfig: Option<PathBuf>,
    /// Where its files are kept.
    pub folder: PathBuf,
    /// Whether it also answers what DNSRecords of the cluster ask for.
    pub records: bool,
    /// Threads for UDP.
    pub threads: usize,
}

impl Local {
    fn file(&self) -> PathBuf {
        self.folder.join("Corefile")
    }

    fn addresses(&self) -> Vec<IpAddr> {
        match &self.hosts {
            Hosts::Everywhere => Vec::new(),
            Hosts::Each(addresses) => addresses.iter().copied().collect(),
        }
    }

    /// The Corefile of the cluster, as it is run here.
    fn adapted(&self, text: &str) -> Result<Corefile, corefile::Problem> {
        Ok(adapt::adapt(corefile::parse("Corefile", text, &Disk)?, self))
    }

    /// The hash by which the server of this process knows the Corefile of the cluster.
    #[must_use]
    pub fn hash(&self, text: &str) -> Option<String> {
        self.adapted(text).ok().map(|file| sha512(&file.to_string()))
    }
}

/// Runs the server; it goes on as tasks.
pub fn start(client: Client, local: Local, reports: Reports, admin: &Admin, tasks: &Tasks) {
    let (admin, own_tasks) = (admin.clone(), tasks.clone());
    let state = Arc::new(tokio::sync::Mutex::new(Process {
        local,
        reports,
        admin,
        tasks: own_tasks,
        text: None,
        wanted: None,
        problem: None,
        started: None,
        refused: 0,
    }));
    tasks.restarting("dns-operand", move |stop| {
        let (state, client) = (Arc::clone(&state), client.clone());
        async move {
            let mut process = state.lock().await;
            tokio::select! {
                () = stop.cancelled() => Ok::<_, runtime::controller::Error>(()),
                result = process.follow(client) => result,
            }
        }
    });
}

struct Process {
    local: Local,
    reports: Reports,
    admin: Admin,
    tasks: Tasks,
    /// The newest Corefile of the cluster.
    text: Option<String>,
    /// The hash of the newest that was written for the server.
    wanted: Option<String>,
    /// Why the newest does not run.
    problem: Option<String>,
    /// Where the server answers, once it does.
    started: Option<Vec<SocketAddr>>,
    /// Corefiles that the server has refused so far.
    refused: u64,
}

impl Process {
    async fn follow(&mut self, client: Client) -> Result<(), runtime::controller::Error> {
        atomic_file::private_directory(&self.local.folder)?;
        self.write().await;
        let (maps, changed) = (Store::<ConfigMap>::default(), Arc::new(Notify::new()));
        let bell = Arc::clone(&changed);
        let _told = maps.on_change(move |_| bell.notify_one());
        let scope = Scope::namespace(NAMESPACE).labels(&format!("{OWNER_LABEL}={DNS}"));
        let mut following = std::pin::pin!(scope.follow(client, &maps));
        let mut look = tokio::time::interval(PAUSE);
        loop {
            tokio::select! {
                () = &mut following => return Err("the watch ended".into()),
                () = changed.notified() => {
                    maps.all().iter().for_each(|map| self.take(map));
                    self.write().await;
                }
                _ = look.tick() => self.look().await,
            }
        }
    }

    /// What is deleted leaves the server as it is.
    fn take(&mut self, map: &ConfigMap) {
        let data = map.data.iter().flatten();
        let mut data = data.map(|(key, text)| (key.as_str(), text));
        if map.metadata.name.as_deref() == Some(NAME) {
            self.text = data.find(|(key, _)| *key == "Corefile").map(|(_, text)| text.clone());
        } else if let Some((_, certificates)) = data.find(|(key, _)| *key == "ca-bundle.crt")
            && let Some(folder) = map.metadata.annotations.iter().flatten().find(|(key, _)| *key == FOLDER_ANNOTATION)
        {
            self.keep(folder.1, certificates);
        }
    }

    /// Writes a bundle of authorities to where the adapted Corefile expects it.
    fn keep(&self, folder: &str, certificates: &str) {
        let folder = adapt::here(folder, &self.local.folder);
        let file = folder.join("ca-bundle.crt");
        let written = atomic_file::private_directory(&folder)
            .and_then(|()| atomic_file::write(&file, certificates.as_bytes(), atomic_file::PUBLIC));
        if let Err(error) = written {
            tracing::warn!(%error, file = %file.display(), "a bundle of authorities cannot be kept");
        }
    }

    /// Gives the server the newest Corefile, if it can be used, and tells how that went.
    async fn write(&mut self) {
        self.problem = self.try_write().await.err();
        self.report();
    }

    async fn try_write(&mut self) -> Result<(), String> {
        if let Some(text) = &self.text {
            let file = self.local.adapted(text).map_err(|problem| problem.to_string())?;
            compile::compile(&file, self.local.folder.clone(), self.local.port, &Lasting::default())
                .map_err(|problem| problem.to_string())?;
            let file = file.to_string();
            let hash = sha512(&file);
            if self.wanted.as_ref() != Some(&hash) {
                let path = self.local.file();
                let written = atomic_file::write(&path, file.as_bytes(), atomic_file::PUBLIC);
                written.map_err(|error| format!("{}: {error}", path.display()))?;
                self.wanted = Some(hash);
            }
        }
        if self.started.is_some() || !self.local.file().is_file() { Ok(()) } else { self.begin().await }
    }

    async fn begin(&mut self) -> Result<(), String> {
        self.free()?;
        let Local { port, threads, .. } = self.local;
        let settings = Settings { conf: self.local.file(), port, threads };
        let started = Box::pin(server::start(settings, self.admin.clone(), &self.tasks)).await;
        let addresses = started.map_err(|error| error.to_string())?.addresses;
        for address in &addresses {
            tracing::info!(%address, "DNS server listens");
        }
        self.started = Some(addresses);
        Ok(())
    }

    /// Whether the port can be had on every address; asked before the server starts, which it can do only once.
    fn free(&self) -> Result<(), String> {
        for address in self.local.addresses().into_iter().filter(|_| self.local.port != 0) {
            let socket = (address, self.local.port);
            let taken = UdpSocket::bind(socket).map(drop).and_then(|()| TcpListener::bind(socket).map(drop));
            taken.map_err(|error| format!("{address} port {}: {error}", self.local.port))?;
        }
        Ok(())
    }

    /// Looks whether the server has come to the newest file. What did not go is tried again.
    async fn look(&mut self) {
        let known = self.reports.all();
        let reached = |report: &Report| report.problem.is_none() && report.hash.is_some() && report.hash == self.wanted;
        if !known.get(SERVER).is_some_and(reached) {
            self.write().await;
        }
    }

    /// Tells the controller what runs, and why the newest does not.
    fn report(&mut self) {
        let metrics = match &self.started {
            Some(_) => self.admin.metrics.render(TextFormat::Classic).body,
            None => String::new(),
        };
        let (hash, refused) = (running_hash(&metrics), refusals(&metrics));
        let newly = refused > self.refused && hash != self.wanted;
        if hash == self.wanted {
            self.refused = refused;
        }
        let refusal = newly.then(|| "the server refused the newest Corefile; its log says why".to_owned());
        let problem = self.problem.clone().or(refusal);
        let addresses = self.started.clone().unwrap_or_default();
        let reports = BTreeMap::from([(SERVER.to_owned(), Report { hash, problem, addresses, ..Report::default() })]);
        self.reports.set(reports);
    }
}

#[cfg(test)]
mod tests;
