//! Storage: claims get volumes, volumes come and go, and nothing goes that is in use.
//!
//! Mirrors kube-controller-manager's controllers of the same names, and adds a provisioner that makes volumes of folders on this
//! machine (`twinstack.dev/host-path`). The scheduler chooses nodes for claims that wait for their first consumer.

pub mod matching;

mod attach;
mod bind;
mod ephemeral;
pub mod host_path;
mod protect;
#[cfg(test)]
mod tests;

use crate::framework::{Controller, Key};
use k8s_openapi::api::{
    core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use std::{collections::BTreeMap, fmt, path::PathBuf};

/// The controllers of this room.
pub const CONTROLLERS: &[Controller] = &[
    Controller {
        name: "persistentvolume-binder-controller",
        alias: "persistentvolume-binder",
        default_on: true,
        run: |context| Box::pin(bind::run(context)),
    },
    Controller {
        name: "persistentvolumeclaim-protection-controller",
        alias: "pvc-protection",
        default_on: true,
        run: |context| Box::pin(protect::run_claims(context)),
    },
    Controller {
        name: "persistentvolume-protection-controller",
        alias: "pv-protection",
        default_on: true,
        run: |context| Box::pin(protect::run_volumes(context)),
    },
    Controller {
        name: "persistentvolume-attach-detach-controller",
        alias: "attachdetach",
        default_on: true,
        run: |context| Box::pin(attach::run(context)),
    },
    Controller {
        name: "ephemeral-volume-controller",
        alias: "ephemeral-volume",
        default_on: true,
        run: |context| Box::pin(ephemeral::run(context)),
    },
    Controller {
        name: "host-path-provisioner-controller",
        alias: "",
        default_on: true,
        run: |context| Box::pin(host_path::run(context)),
    },
];

/// What flags decide here.
#[derive(Clone, Debug, Default)]
pub struct StorageOptions {
    /// `--host-path-provisioner-dir`: where folders become volumes. Nothing is provisioned without.
    pub host_path_dir: Option<PathBuf>,
}

/// Claim: it and its volume know each other.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Claim or volume: it was bound by a controller and not by somebody's wish.
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Volume: who made it, and will take it away.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Claim: who is to make its volume; the second name is for older provisioners.
const PROVISIONER: [&str; 2] =
    ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"];
/// Claim: the node that the scheduler chose for its first consumer.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Classes of this provisioner have only the volumes that somebody makes by hand.
pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// What a controller of this room looks at: a claim, or a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Which {
    Claim(Key),
    Volume(Key),
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(key) => write!(f, "claim {key}"),
            Self::Volume(key) => write!(f, "volume {key}"),
        }
    }
}

type Annotations = Option<BTreeMap<String, String>>;

fn annotation<'a>(annotations: &'a Annotations, key: &str) -> Option<&'a str> {
    annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str)
}

/// The class of a claim; empty for one that wants none.
#[must_use]
pub fn class_of(claim: &PersistentVolumeClaim) -> &str {
    let spec = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
    annotation(&claim.metadata.annotations, api::kinds::storage::CLASS_ANNOTATION).or(spec).unwrap_or_default()
}

/// The volume that a claim names.
#[must_use]
pub fn volume_of(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default()
}

/// Whether a claim and its volume know each other.
#[must_use]
pub fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    !volume_of(claim).is_empty() && annotation(&claim.metadata.annotations, BIND_COMPLETED).is_some()
}

/// The node that was chosen for a claim.
#[must_use]
pub fn selected_node(claim: &PersistentVolumeClaim) -> Option<&str> {
    annotation(&claim.metadata.annotations, SELECTED_NODE).filter(|node| !node.is_empty())
}

/// Whether claims of this class wait until a pod wants them.
#[must_use]
pub fn waits_for_consumer(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}

/// Who has a volume.
fn claim_ref(volume: &PersistentVolume) -> Option<&ObjectReference> {
    volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref())
}

/// The names of the claims of a pod, in its namespace, also of those that are made for it.
#[must_use]
pub fn claims_of(pod: &Pod) -> Vec<String> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.clone()),
            (None, Some(_)) => Some(format!("{}-{}", pod.metadata.name.as_deref().unwrap_or_default(), volume.name)),
            _ => None,
        })
        .collect()
}

/// The amount in billionths.
fn amount(amounts: Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>) -> i128 {
    let text = amounts.and_then(|amounts| amounts.get("storage")).map(|amount| amount.0.as_str()).unwrap_or_default();
    api::kinds::quantity::nanos(text).unwrap_or_default()
}
