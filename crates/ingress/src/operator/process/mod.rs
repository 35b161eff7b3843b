//! Routers as processes: `twinstack router` beside the operator, for machines where no nodes run Pods.
//!
//! One process for each IngressController, whatever its `replicas` say. It is started again when it ends or its settings change.
//! Its state is what its own health says, never a guess. When the operator is killed it goes on, and so does the HAProxy that it
//! drives; the next operator takes it over if it would start the same.

mod endpoints;
mod identity;
mod running;
mod supervise;
#[cfg(test)]
mod tests;

use super::{
    names::{self, OPERAND_NAMESPACE},
    plan::{
        Input,
        environment::{self, Ports},
        small,
    },
    status::operand::Operand,
};
use crate::router::haproxy::hand_over;
use api::config::PublishingKind;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::Client;
use net::DualStack;
use parking_lot::Mutex;
use running::{Folder, Found, Running};
use runtime::{atomic_file, client::Api, controller::Result, task::Tasks};
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};
pub use supervise::taken;

/// How routers are run as processes.
#[derive(Clone, Debug)]
pub struct Process {
    /// The program and its first words.
    pub program: PathBuf,
    /// `router` and its flags.
    pub words: Vec<String>,
    /// Where certificates are laid out for it. The same after a restart, so that what still runs is found.
    pub directory: PathBuf,
    /// How the operator reaches the API, and so how routers do, as an account of their own. None for a Pod's own.
    pub kubeconfig: Option<PathBuf>,
    /// Ports to listen on, but for the strategy HostNetwork, which brings its own.
    pub ports: Ports,
    /// Addresses to listen on, at most one of each family; all of the machine's when not given.
    pub listen: Option<DualStack<IpAddr>>,
    /// Addresses under which Services find it, one of each family; none leaves Services without endpoints.
    pub addresses: Vec<IpAddr>,
    /// The node that it runs on, for Services that keep traffic local.
    pub node: Option<String>,
    /// Class of load balancer Services.
    pub load_balancer_class: Option<String>,
}

/// All processes; clones share them.
#[derive(Clone)]
pub struct Processes {
    shared: Arc<RouterProcesses>,
}

type Callback = Arc<dyn Fn(&str) + Send + Sync>;

#[derive(Default)]
struct RouterProcesses {
    entries: Mutex<BTreeMap<String, Entry>>,
    /// Processes that have been told to end.
    leaving: Mutex<Vec<Running>>,
    /// Once it is used.
    folder: Mutex<Option<Folder>>,
    callbacks: Mutex<Vec<(u64, Callback)>>,
}

/// One router.
struct Entry {
    wanted: Wanted,
    child: Option<Running>,
    /// A process of an earlier operator that has been told to end.
    predecessor: Option<u32>,
    ready: bool,
    /// What there is to say while it is not ready.
    message: String,
    /// Why the router that is ready does not serve all that it should.
    refusal: Option<String>,
    /// Rounds in which HAProxy serves without a router: one with other settings is about to take it over.
    handing_over: u32,
    /// Rounds to wait before it is started again.
    pause: u32,
    failures: u32,
}

/// What a process is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    program: PathBuf,
    words: Vec<String>,
    variables: Vec<(String, String)>,
    /// Where it says whether it is ready.
    health: Vec<SocketAddr>,
    /// What the process was started with is noted there.
    record: PathBuf,
}

/// Rounds after which a router that does not come is missed.
const HAND_OVER: u32 = 60;

impl Wanted {
    /// Tells the router that runs in this one's folder, which is about to end, to leave HAProxy to it.
    fn keep_haproxy(&self) {
        let folder = self.words.iter().find_map(|word| word.strip_prefix("--working-dir="));
        if let Some(file) = folder.map(|folder| hand_over(Path::new(folder)))
            && let Err(error) = std::fs::write(&file, "")
        {
            tracing::warn!(file = %file.display(), %error, "HAProxy ends with the router that has other settings");
        }
    }
}

/// A callback's life.
#[must_use = "the callback ends when this is dropped"]
pub struct Subscription {
    shared: Arc<RouterProcesses>,
    id: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shared.callbacks.lock().retain(|(id, _)| *id != self.id);
    }
}

impl Process {
    /// The words for an IngressController's router.
    fn words_for(&self, controller: &str) -> Vec<String> {
        let identity = identity::path(&self.directory.join(controller));
        let identity = self.kubeconfig.as_ref().map(|_| format!("--kubeconfig={}", identity.display()));
        self.words.iter().map(|word| word.replace("{name}", controller)).chain(identity).collect()
    }

    /// Where a router's health is asked for.
    fn health(&self, port: u16) -> Vec<SocketAddr> {
        let listens = self.listen.iter().flat_map(|pair| pair.iter().copied()).filter(|ip| !ip.is_unspecified());
        let addresses: Vec<IpAddr> = listens.collect();
        let loopback = || net::Family::BOTH.map(net::Family::loopback).to_vec();
        let addresses = if addresses.is_empty() { loopback() } else { addresses };
        addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect()
    }
}

impl Processes {
    /// None yet; they are looked after in a task of its own.
    pub fn new(tasks: &Tasks) -> Self {
        let shared = Arc::<RouterProcesses>::default();
        let looked_after = Arc::clone(&shared);
        tasks.restarting("router-processes", move |stop| supervise::run(Arc::clone(&looked_after), stop));
        Self { shared }
    }

    /// Calls with the name of an IngressController whose router has become ready or has ceased to be.
    pub fn on_change(&self, callback: impl Fn(&str) + Send + Sync + 'static) -> Subscription {
        let mut all = self.shared.callbacks.lock();
        let id = all.last().map_or(0, |(id, _)| id + 1);
        all.push((id, Arc::new(callback)));
        Subscription { shared: Arc::clone(&self.shared), id }
    }

    /// Ends the router of an IngressController, also one that an earlier operator started.
    pub fn stop(&self, process: Option<&Process>, controller: &str) {
        let known = self.shared.entries.lock().remove(controller).and_then(|entry| entry.child);
        let left_behind = || {
            let process = process.filter(|process| self.take_folder(&process.directory).is_ok())?;
            let found = Found::look_for(&process.program, &process.words_for(controller))?;
            // To be told twice means to let go of connections.
            (!self.is_leaving(found.id)).then(|| Running::Adopted(found))
        };
        if let Some(child) = known.or_else(left_behind) {
            child.terminate();
            self.shared.leaving.lock().push(child);
        }
    }

    /// Whether a process has been told to end.
    fn is_leaving(&self, id: u32) -> bool {
        self.shared.leaving.lock().iter().any(|leaving| leaving.id() == id)
    }

    /// Makes sure that no other operator works in the folder.
    fn take_folder(&self, path: &Path) -> std::result::Result<(), String> {
        let mut folder = self.shared.folder.lock();
        if !folder.as_ref().is_some_and(|folder| folder.is(path)) {
            *folder = Some(Folder::take(path)?);
        }
        Ok(())
    }

    /// Makes a router run as the plan says.
    pub async fn run(
        &self,
        client: &Client,
        process: &Process,
        input: Input<'_>,
        live: Option<&Service>,
    ) -> Result<()> {
        let host = input.admission.strategy.kind == PublishingKind::HostNetwork;
        let name = &input.names.controller;
        if !host && name != names::DEFAULT {
            return Err(
                "as a process, an IngressController other than \"default\" needs the strategy HostNetwork, with ports \
                        of its own"
                    .into(),
            );
        }
        let ports = if host { environment::ports(input) } else { process.ports };
        self.take_folder(&process.directory)?;
        let folder = process.directory.join(name);
        if let Some(own) = &process.kubeconfig {
            // What an earlier operator left may be of an API that is no more.
            let anew = !self.shared.entries.lock().contains_key(name);
            identity::write(client, own, &folder, anew).await?;
        }
        certificate(client, input, &folder).await?;
        let mut variables = environment::environment(input, live)?;
        variables.extend(maps(client, input, &folder).await?);
        for (name, value) in [
            ("ROUTER_SERVICE_HTTP_PORT", ports.http.to_string()),
            ("ROUTER_SERVICE_HTTPS_PORT", ports.https.to_string()),
            ("STATS_PORT", ports.stats.to_string()),
            ("DEFAULT_CERTIFICATE_DIR", folder.display().to_string()),
            ("ROUTER_GRACEFUL_SHUTDOWN_DELAY", "0s".to_owned()),
        ] {
            variables.insert(name.to_owned(), value);
        }
        if let Some(listen) = &process.listen {
            let addresses: Vec<String> = listen.iter().map(ToString::to_string).collect();
            variables.insert("ROUTER_LISTEN_ADDRESSES".to_owned(), addresses.join(","));
            // Who asks on this machine need not have the families that Pods have.
            variables.insert("ROUTER_IP_V4_V6_MODE".to_owned(), mode(listen).to_owned());
        }
        // As many as this machine's limits allow; a node of a cluster has its limits set for more.
        variables.entry("ROUTER_MAX_CONNECTIONS".to_owned()).or_insert_with(|| "auto".to_owned());
        let wanted = Wanted {
            program: process.program.clone(),
            words: process.words_for(name),
            variables: variables.into_iter().collect(),
            health: process.health(ports.stats),
            record: folder.join("started-with"),
        };
        let known = self.shared.entries.lock().get(name).map(|entry| entry.wanted == wanted);
        let entry = match known {
            Some(true) => return Ok(()),
            Some(false) => Entry::new(wanted),
            // What still runs is never told to be away, not even for a moment: Services would lose their endpoints.
            None => Entry::resumed(wanted, |id| self.is_leaving(id)).await,
        };
        let mut entries = self.shared.entries.lock();
        let before = entries.insert(name.clone(), entry);
        let Some((child, was_ready)) = before.and_then(|entry| Some((entry.child?, entry.ready))) else {
            return Ok(());
        };
        if let Some(entry) = entries.get_mut(name) {
            entry.wanted.keep_haproxy();
            entry.ready = was_ready;
            entry.handing_over = if was_ready { HAND_OVER } else { 0 };
        }
        child.terminate();
        self.shared.leaving.lock().push(child);
        Ok(())
    }

    /// What there is to see of a router.
    pub fn operand(&self, controller: &str) -> Operand {
        let entries = self.shared.entries.lock();
        let mut operand = Operand::nothing(1);
        let Some(entry) = entries.get(controller) else { return operand };
        let count = i32::from(entry.ready);
        let running = i32::from(entry.child.is_some());
        operand.is_current = true;
        operand.is_available = Some(entry.ready);
        operand.message.clone_from(&entry.message);
        operand.refusal.clone_from(&entry.refusal);
        (operand.total, operand.updated) = (running, running);
        (operand.ready, operand.available) = (count, count);
        operand
    }
}

impl Entry {
    /// Nothing runs yet.
    fn new(wanted: Wanted) -> Self {
        let message = "the router process has not been started yet".to_owned();
        Self {
            wanted,
            child: None,
            predecessor: None,
            ready: false,
            message,
            refusal: None,
            handing_over: 0,
            pause: 0,
            failures: 0,
        }
    }

    /// With the process of an earlier operator if there is one that can stay, and with what it says of itself.
    async fn resumed(wanted: Wanted, is_leaving: impl Fn(u32) -> bool) -> Self {
        let mut entry = Self::new(wanted);
        let found = Found::look_for(&entry.wanted.program, &entry.wanted.words);
        if let Some(found) = found.filter(|found| !is_leaving(found.id) && found.is_as(&entry.wanted)) {
            entry.take_over(found);
            entry.ready = supervise::ask(&entry.wanted.health, "/healthz/ready").await.is_ok();
        }
        entry
    }
}

/// Both families, or the one of the only address.
fn mode(listen: &DualStack<IpAddr>) -> &'static str {
    match (listen.is_dual(), listen.primary()) {
        (true, _) => "v4v6",
        (false, IpAddr::V4(_)) => "v4",
        (false, IpAddr::V6(_)) => "v6",
    }
}

/// Lays out the default certificate where the router looks for it.
async fn certificate(client: &Client, input: Input<'_>, folder: &Path) -> Result<()> {
    let given = input.controller.spec.default_certificate.as_ref().map(|some| some.name.clone());
    let name = given.filter(|name| !name.is_empty()).unwrap_or_else(|| input.names.certificate.clone());
    let secret: Secret = read(client, &name).await?;
    let data = secret.data.unwrap_or_default();
    atomic_file::private_directory(folder)?;
    for file in ["tls.crt", "tls.key"] {
        let content = data.get(file).ok_or_else(|| format!("the Secret {OPERAND_NAMESPACE}/{name} has no {file}"))?;
        let path = folder.join(file);
        if std::fs::read(&path).ok().as_ref() != Some(&content.0) {
            atomic_file::write(&path, &content.0, 0o600)?;
        }
    }
    Ok(())
}

/// Lays out what comes from ConfigMaps, and says where.
async fn maps(client: &Client, input: Input<'_>, folder: &Path) -> Result<Vec<(String, String)>> {
    let mut variables = Vec::new();
    for copy in small::copies(input) {
        let data = read::<ConfigMap>(client, copy.name).await?.data.unwrap_or_default();
        let files: &[(&str, &str)] = match copy.path {
            environment::CLIENT_CA => &[("ROUTER_MUTUAL_TLS_AUTH_CA", environment::CLIENT_CA_FILE)],
            _ => &environment::ERROR_FILES,
        };
        for (variable, file) in files {
            let path = folder.join(file);
            variables.push(((*variable).to_owned(), path.display().to_string()));
            match data.get(*file) {
                Some(content) => atomic_file::write(&path, content.as_bytes(), 0o600)?,
                // A page that is not given is HAProxy's own.
                None if path.exists() => std::fs::remove_file(&path)?,
                None => {}
            }
        }
    }
    Ok(variables)
}

async fn read<K>(client: &Client, name: &str) -> Result<K>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: objects::Decode,
{
    Ok(Api::<K>::namespaced(client.clone(), OPERAND_NAMESPACE).get(name).await?)
}
