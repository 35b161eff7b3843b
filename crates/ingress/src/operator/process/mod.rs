//! Routers as processes: `twinstack router` beside the operator, for machines where no nodes run Pods.
//!
//! One process for each IngressController, whatever its `replicas` say. It is started again when it ends or its settings change;
//! HAProxy, which it drives, goes on serving meanwhile. Its state is what its own health says, never a guess.

mod endpoints;
mod supervise;
#[cfg(test)]
mod tests;

use super::{
    apply::Kind,
    names::{self, OPERAND_NAMESPACE},
    plan::{
        Input,
        environment::{self, Ports},
        small,
    },
    status::operand::Operand,
};
use api::config::PublishingKind;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kernel::child::Child;
use kube::{Api, Client};
use parking_lot::Mutex;
use runtime::{atomic_file, controller::Result, task::Tasks};
use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

/// How routers are run as processes.
#[derive(Clone, Debug)]
pub struct Process {
    /// The program and its first words.
    pub program: PathBuf,
    /// `router` and its flags.
    pub words: Vec<String>,
    /// Where certificates are laid out for it.
    pub directory: PathBuf,
    /// Ports to listen on, but for the strategy HostNetwork, which brings its own.
    pub ports: Ports,
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
    shared: Arc<Shared>,
}

type Callback = Arc<dyn Fn(&str) + Send + Sync>;

#[derive(Default)]
struct Shared {
    entries: Mutex<BTreeMap<String, Entry>>,
    /// Processes that have been told to end.
    leaving: Mutex<Vec<Child>>,
    callbacks: Mutex<Vec<(u64, Callback)>>,
}

/// One router.
struct Entry {
    wanted: Wanted,
    child: Option<Child>,
    ready: bool,
    /// What there is to say while it is not ready.
    message: String,
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
    stats: u16,
    pid_file: PathBuf,
}

/// A callback's life.
#[must_use = "the callback ends when this is dropped"]
pub struct Subscription {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shared.callbacks.lock().retain(|(id, _)| *id != self.id);
    }
}

impl Processes {
    /// None yet; they are looked after in a task of its own.
    pub fn new(tasks: &Tasks) -> Self {
        let shared = Arc::<Shared>::default();
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

    /// Ends the router of an IngressController.
    pub fn stop(&self, controller: &str) {
        if let Some(child) = self.shared.entries.lock().remove(controller).and_then(|entry| entry.child) {
            child.terminate();
            self.shared.leaving.lock().push(child);
        }
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
        let folder = process.directory.join(name);
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
        // As many as this machine's limits allow; a node of a cluster has its limits set for more.
        variables.entry("ROUTER_MAX_CONNECTIONS".to_owned()).or_insert_with(|| "auto".to_owned());
        let wanted = Wanted {
            program: process.program.clone(),
            words: process.words.iter().map(|word| word.replace("{name}", name)).collect(),
            variables: variables.into_iter().collect(),
            stats: ports.stats,
            pid_file: folder.join("pid"),
        };
        let mut entries = self.shared.entries.lock();
        if entries.get(name).is_some_and(|entry| entry.wanted == wanted) {
            return Ok(());
        }
        let before = entries.insert(name.clone(), Entry::new(wanted));
        if let Some(child) = before.and_then(|entry| entry.child) {
            child.terminate();
            self.shared.leaving.lock().push(child);
        }
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
        (operand.total, operand.updated) = (running, running);
        (operand.ready, operand.available) = (count, count);
        operand
    }
}

impl Entry {
    fn new(wanted: Wanted) -> Self {
        let message = "the router process has not been started yet".to_owned();
        Self { wanted, child: None, ready: false, message, pause: 0, failures: 0 }
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

async fn read<K: Kind + kube::Resource<Scope = kube::core::NamespaceResourceScope>>(
    client: &Client,
    name: &str,
) -> Result<K> {
    Ok(Api::<K>::namespaced(client.clone(), OPERAND_NAMESPACE).get(name).await?)
}
