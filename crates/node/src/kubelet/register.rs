//! The Node object of this machine: made, kept up to date, and vouched for by a Lease.

use super::{
    addresses::{self, NodeIps},
    machine::{Machine, arch},
    status::{self, Facts, Pressure},
};
use crate::{
    cri::{
        Runtime,
        proto::{ListImagesRequest, StatusRequest, VersionRequest},
    },
    environment::Allocatable,
};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::{ContainerImage, Node, NodeSpec, Taint},
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
};
use kube::{
    Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use parking_lot::RwLock;
use runtime::{
    client::Api,
    controller::{Key, Result, Store},
};
use serde_json::json;
use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

/// Where nodes keep their leases.
const LEASES: &str = "kube-node-lease";
/// Upstream's list in a Node's status is no longer.
const MOST_IMAGES: usize = 50;
/// How long a runtime may take to say how it is.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a node is registered with.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    pub name: String,
    pub hostname: String,
    pub ips: NodeIps,
    /// As `--node-ip` has it, for cloud controllers.
    pub provided_ips: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub provider_id: Option<String>,
    pub max_pods: u32,
    pub port: u16,
    pub lease: Duration,
    /// How often the status is looked at, and how often it is written although nothing changed.
    pub update: Duration,
    pub report: Duration,
    pub register: bool,
}

/// This machine as a Node.
pub struct Registrar {
    pub client: Client,
    pub runtime: Runtime,
    pub nodes: Store<Node>,
    pub options: NodeOptions,
    pub machine: Machine,
    pub allocatable: Allocatable,
    pub host_ips: Arc<RwLock<Vec<IpAddr>>>,
    pub pressure: Arc<RwLock<Pressure>>,
    /// Set when this node is being shut down.
    pub shutdown: Arc<RwLock<Option<String>>>,
}

impl Registrar {
    /// The Node as the API has it.
    pub fn node(&self) -> Option<Arc<Node>> {
        self.nodes.get(&Key::cluster(&self.options.name))
    }

    /// Makes the Node, or brings the labels of one that is there up to date. Tried until it works.
    pub async fn register(&self) {
        let mut told = false;
        loop {
            match self.try_register().await {
                Ok(node) => {
                    tracing::info!(node = self.options.name, "node is registered");
                    return self.nodes.remember(node);
                }
                Err(error) => {
                    if !told {
                        tracing::warn!(
                            node = self.options.name,
                            error = runtime::client::error_line(&*error),
                            "node is not registered; tried again"
                        );
                        told = true;
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    async fn try_register(&self) -> Result<Node> {
        let api: Api<Node> = Api::all(self.client.clone());
        let name = &self.options.name;
        if let Some(node) = api.get_opt(name).await? {
            let patch = json!({"metadata": {"labels": self.labels(), "annotations": self.annotations()}});
            let same = self.labels().iter().all(|(label, value)| node.labels().get(label) == Some(value));
            return if same {
                Ok(node)
            } else {
                Ok(api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
            };
        }
        if !self.options.register {
            return Err(format!("there is no Node {name}, and --register-node is false").into());
        }
        let annotations = Some(self.annotations()).filter(|all| !all.is_empty());
        let metadata =
            ObjectMeta { name: Some(name.clone()), labels: Some(self.labels()), annotations, ..ObjectMeta::default() };
        let taints = Some(self.options.taints.clone()).filter(|taints| !taints.is_empty());
        let spec = NodeSpec { provider_id: self.options.provider_id.clone(), taints, ..NodeSpec::default() };
        let mut node = Node { metadata, spec: Some(spec), status: None };
        node.status = Some(self.status(&node).await);
        match api.create(&PostParams::default(), &node).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(api.get(name).await?),
            answer => Ok(answer?),
        }
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let own = [
            ("kubernetes.io/hostname", self.options.hostname.as_str()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", arch()),
            ("beta.kubernetes.io/os", "linux"),
            ("beta.kubernetes.io/arch", arch()),
        ];
        let mut labels: BTreeMap<_, _> =
            own.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        labels.extend(self.options.labels.clone());
        labels
    }

    fn annotations(&self) -> BTreeMap<String, String> {
        let given = self.options.provided_ips.clone();
        given.into_iter().map(|ips| ("alpha.kubernetes.io/provided-node-ip".to_owned(), ips)).collect()
    }

    /// Writes the status when it is not what the API has, and now and then all the same. Never ends.
    pub async fn keep_status(&self) {
        let mut reported: Option<Instant> = None;
        loop {
            if let Some(node) = self.node() {
                let wanted = self.status(&node).await;
                let due = reported.is_none_or(|at| at.elapsed() >= self.options.report);
                if due || !node.status.as_ref().is_some_and(|told| status::is_same(told, &wanted)) {
                    let api: Api<Node> = Api::all(self.client.clone());
                    let changed = Node { status: Some(wanted), ..(*node).clone() };
                    match api.replace_status(&self.options.name, &PostParams::default(), &changed).await {
                        Ok(stored) => {
                            reported = Some(Instant::now());
                            self.nodes.remember(stored);
                        }
                        Err(kube::Error::Api(answer)) if answer.code == 409 => {
                            tokio::time::sleep(Duration::from_millis(100)).await;
                            continue;
                        }
                        Err(error) => tracing::debug!(
                            error = runtime::client::error_line(&error),
                            "the node's status is not written; tried again"
                        ),
                    }
                }
            } else if self.nodes.is_empty() {
                // Somebody deleted it; a node that runs is there.
                self.register().await;
            }
            // Until the node is ready it is looked at often.
            let ready = self.node().is_some_and(|node| is_ready(&node));
            tokio::time::sleep(if ready { self.options.update } else { Duration::from_millis(500) }).await;
        }
    }

    async fn status(&self, node: &Node) -> k8s_openapi::api::core::v1::NodeStatus {
        let ips = match addresses::find(&self.options.ips) {
            Ok(ips) => {
                self.host_ips.write().clone_from(&ips);
                Ok(ips)
            }
            Err(error) => Err(error),
        };
        let (runtime, trouble) = self.runtime_state().await;
        let problem = self.shutdown.read().clone().or_else(|| ips.as_ref().err().map(ToString::to_string)).or(trouble);
        let pressure = *self.pressure.read();
        status::status(
            node,
            &Facts {
                machine: &self.machine,
                allocatable: &self.allocatable,
                addresses: ips.as_deref().unwrap_or_default(),
                hostname: &self.options.hostname,
                max_pods: self.options.max_pods,
                runtime: &runtime,
                problem,
                pressure,
                port: self.options.port,
                images: self.images().await,
                now: crate::kubelet::now(),
            },
        )
    }

    /// The runtime's name and version, and why it cannot run Pods.
    async fn runtime_state(&self) -> (String, Option<String>) {
        let version = self.runtime.call_within(VersionRequest::default(), PATIENCE).await;
        let name =
            version.as_ref().map(|one| format!("{}://{}", one.runtime_name, one.runtime_version)).unwrap_or_default();
        let state = match self.runtime.call_within(StatusRequest::default(), PATIENCE).await {
            Ok(answer) => answer.status.unwrap_or_default(),
            Err(error) => return (name, Some(format!("container runtime is down: {error}"))),
        };
        let bad: Vec<_> = state
            .conditions
            .iter()
            .filter(|one| !one.status)
            .map(|one| match one.r#type.as_str() {
                "NetworkReady" => format!(
                    "container runtime network not ready: NetworkReady=false reason:{} message:{}",
                    one.reason, one.message
                ),
                kind => {
                    format!("container runtime not ready: {kind}=false reason:{} message:{}", one.reason, one.message)
                }
            })
            .collect();
        (name, (!bad.is_empty()).then(|| bad.join(", ")))
    }

    async fn images(&self) -> Vec<ContainerImage> {
        let Ok(answer) = self.runtime.call_within(ListImagesRequest::default(), PATIENCE).await else {
            return Vec::new();
        };
        let mut images: Vec<_> = answer
            .images
            .into_iter()
            .map(|image| ContainerImage {
                names: Some(image.repo_digests.into_iter().chain(image.repo_tags).collect()),
                size_bytes: i64::try_from(image.size).ok(),
            })
            .collect();
        images.sort_by(|a, b| (b.size_bytes, &a.names).cmp(&(a.size_bytes, &b.names)));
        images.truncate(MOST_IMAGES);
        images
    }

    /// Says four times in its length that this node lives. Never ends.
    pub async fn keep_lease(&self) {
        loop {
            if let Err(error) = self.renew().await {
                tracing::debug!(error = runtime::client::error_line(&*error), "the lease is not renewed; tried again");
            }
            tokio::time::sleep(self.options.lease / 4).await;
        }
    }

    async fn renew(&self) -> Result<()> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), LEASES);
        let name = &self.options.name;
        let time = MicroTime(Timestamp::now());
        let seconds = i32::try_from(self.options.lease.as_secs()).unwrap_or(40);
        let patch = json!({"spec": {"holderIdentity": name, "leaseDurationSeconds": seconds, "renewTime": time}});
        match api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            answer => return Ok(answer.map(drop)?),
        }
        let owner = self.node().map(|node| OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: name.clone(),
            uid: node.uid().unwrap_or_default(),
            ..OwnerReference::default()
        });
        let spec = LeaseSpec {
            holder_identity: Some(name.clone()),
            lease_duration_seconds: Some(seconds),
            renew_time: Some(time),
            ..LeaseSpec::default()
        };
        let metadata = ObjectMeta {
            name: Some(name.clone()),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        };
        api.create(&PostParams::default(), &Lease { metadata, spec: Some(spec) }).await?;
        Ok(())
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
}

/// A taint of a key, a value and an effect.
#[must_use]
pub fn taint((key, value, effect): (String, String, String)) -> Taint {
    Taint { key, value: Some(value).filter(|value| !value.is_empty()), effect, time_added: None }
}
