//! Volumes inside a pod are of the kinds that any author may use; storage of other kinds goes through a claim.

use super::{super::pod::PodView, Violation, plural, quoted, sorted};
use api::object::Fields;
use serde_json::Value;

const ALLOWED: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

const KNOWN: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

pub(super) fn check(pod: PodView<'_>) -> Option<Violation> {
    let has = |volume: &Value, kinds: &[&'static str]| kinds.iter().copied().find(|kind| !volume.at(kind).is_null());
    let volumes = pod.spec().list_at("volumes").iter().filter(|volume| has(volume, &ALLOWED).is_none());
    let (names, types): (Vec<&str>, Vec<&str>) =
        volumes.map(|volume| (volume.str_at("name"), has(volume, &KNOWN).unwrap_or("unknown"))).unzip();
    let types = sorted(types);
    (!names.is_empty()).then(|| Violation {
        reason: "restricted volume types",
        detail: format!(
            "{} {} {} {} {}",
            plural(&names, "volume", "volumes"),
            quoted(&names),
            plural(&names, "uses", "use"),
            plural(&types, "restricted volume type", "restricted volume types"),
            quoted(&types)
        ),
    })
}
