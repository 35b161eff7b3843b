//! The Pods of this node: from what the API says they should be to sandboxes and containers, and back to their status.
//!
//! `index` holds what should be, `observe` what the runtime has, `plan` decides, `sync` with `start`, `stop` and `finish` bring it about, `status`
//! says what the API is told. `relist` wakes whoever changed in the runtime.

mod admit;
pub mod archives;
pub mod cgroup;
pub mod config;
pub mod containers;
pub mod failures;
mod finish;
pub mod images;
pub mod index;
mod labels;
pub mod logs;
pub mod observe;
pub mod plan;
mod relist;
pub mod resources;
pub mod security;
mod sources;
mod start;
pub mod status;
mod stop;
mod sync;
mod tell;
mod termination;
#[cfg(test)]
mod tests;

pub use index::Index;
pub use sources::ApiSources;
pub use sync::Syncer;

use crate::{cri::Runtime, environment::Allocatable, probes::Probes, volumes::Volumes};
use cgroup::Hierarchy;
use config::Folders;
use failures::Failures;
use images::Images;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use parking_lot::{Mutex, RwLock};
use runtime::controller::{Events, Queue};
use status::Ended;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
    path::PathBuf,
    sync::Arc,
};

/// What does not change while a kubelet runs.
#[derive(Clone, Debug)]
pub struct PodsOptions {
    pub node_name: String,
    pub folders: Folders,
    pub cluster_domain: String,
    pub cluster_dns: Vec<IpAddr>,
    /// The host's name servers, for Pods that ask for them.
    pub resolv_conf: PathBuf,
    /// The host's names, for Pods on its network.
    pub hosts: PathBuf,
    pub seccomp_default: bool,
    /// Sysctls that Pods may set beside the safe ones.
    pub allowed_sysctls: Vec<String>,
    /// Whether somebody else's CNI plugins open host ports.
    pub port_mappings: bool,
    pub hierarchy: Hierarchy,
    pub allocatable: Allocatable,
    /// As `containerd` or `cri-o`.
    pub runtime_name: String,
}

/// The parts that work on Pods share.
pub struct Pods {
    pub runtime: Runtime,
    pub client: Client,
    pub options: PodsOptions,
    pub index: Index,
    pub volumes: Arc<Volumes>,
    pub probes: Probes,
    pub sources: Arc<ApiSources>,
    pub images: Images,
    pub host_ports: Arc<dyn HostPorts>,
    pub events: Events,
    /// Uids of Pods to look at.
    pub queue: Queue<String>,
    /// The node's addresses, its primary family first.
    pub host_ips: Arc<RwLock<Vec<IpAddr>>>,
    memory: Mutex<HashMap<String, Arc<Mutex<Memory>>>>,
}

/// Opens ports of the node for Pods.
pub trait HostPorts: Send + Sync {
    /// Leads the host ports of a Pod to these addresses of it; nothing of it when there are none.
    fn set(&self, pod: &Pod, ips: &[IpAddr]) -> Result<(), String>;
    /// Closes all ports of the Pod of this uid.
    fn clear(&self, uid: &str) -> Result<(), String>;
}

/// What is remembered of a Pod between looks at it. Lost with the process: what matters is in the runtime and the API.
#[derive(Debug, Default)]
struct Memory {
    failures: Failures,
    /// Containers that are being started or ended, and by when they must have ended.
    busy: BTreeMap<String, Option<Timestamp>>,
    /// Sandboxes whose network has been given back.
    stopped: BTreeSet<String>,
    /// Why it was ended before its time.
    ended: Option<Ended>,
    /// As it was when the API had it last.
    last: Option<Arc<Pod>>,
    /// Back-offs that an event has told of.
    told: BTreeSet<String>,
    /// Whether its volumes and cgroup have been given back.
    released: bool,
}

/// Everything that [`Pods`] is made of.
pub struct PodsParts {
    pub runtime: Runtime,
    pub client: Client,
    pub options: PodsOptions,
    pub index: Index,
    pub volumes: Arc<Volumes>,
    pub probes: Probes,
    pub sources: Arc<ApiSources>,
    pub images: Images,
    pub host_ports: Arc<dyn HostPorts>,
    pub events: Events,
    pub queue: Queue<String>,
    pub host_ips: Arc<RwLock<Vec<IpAddr>>>,
}

impl Pods {
    #[must_use]
    pub fn new(parts: PodsParts) -> Arc<Self> {
        let PodsParts {
            runtime,
            client,
            options,
            index,
            volumes,
            probes,
            sources,
            images,
            host_ports,
            events,
            queue,
            host_ips,
        } = parts;
        Arc::new(Self {
            runtime,
            client,
            options,
            index,
            volumes,
            probes,
            sources,
            images,
            host_ports,
            events,
            queue,
            host_ips,
            memory: Mutex::default(),
        })
    }

    fn memory(&self, uid: &str) -> Arc<Mutex<Memory>> {
        Arc::clone(self.memory.lock().entry(uid.to_owned()).or_default())
    }

    fn host_addresses(&self) -> Vec<IpAddr> {
        self.host_ips.read().clone()
    }

    /// Ends a Pod before its time, such as for lack of memory. It is not started again.
    pub fn end(&self, uid: &str, reason: &str, message: String) {
        let memory = self.memory(uid);
        memory.lock().ended.get_or_insert_with(|| Ended { reason: reason.to_owned(), message });
        self.queue.add(uid.to_owned());
    }
}

/// The time as the API has it.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
