//! The pods of a StatefulSet: their numbers, names, labels and claims.

use super::super::{owned, template};
use k8s_openapi::{
    api::{
        apps::v1::StatefulSet,
        core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::ResourceExt;

/// The label with a pod's own name, for Services of one pod.
pub const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// The label with a pod's number.
pub const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";
/// The label with the name of the revision that a pod is of.
pub const REVISION_LABEL: &str = "controller-revision-hash";

/// The number in the name of a pod of the set `parent`.
pub fn ordinal(parent: &str, name: &str) -> Option<i32> {
    let (before, number) = name.rsplit_once('-')?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if before == parent && digits { number.parse().ok() } else { None }
}

/// The name of the revision that a pod is of; empty when nobody says.
pub fn revision(pod: &Pod) -> &str {
    pod.labels().get(REVISION_LABEL).map(String::as_str).unwrap_or_default()
}

/// The first number of a set.
pub(super) fn start(set: &StatefulSet) -> i32 {
    set.spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or_default()
}

/// Whether the labels that tell who it is are there.
pub(super) fn has_identity(pod: &Pod) -> bool {
    pod.labels().get(NAME_LABEL) == pod.metadata.name.as_ref()
}

/// The labels that tell who a pod is.
pub(super) fn identity(name: &str, ordinal: i32) -> [(String, String); 2] {
    [(NAME_LABEL.to_owned(), name.to_owned()), (INDEX_LABEL.to_owned(), ordinal.to_string())]
}

/// A pod of this number from a revision's template.
pub(super) fn create(set: &StatefulSet, template: &PodTemplateSpec, revision: &str, ordinal: i32) -> Pod {
    let mut pod = template::pod(template, &owned::reference(set));
    let name = format!("{}-{ordinal}", set.name_any());
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.extend(identity(&name, ordinal));
    labels.insert(REVISION_LABEL.to_owned(), revision.to_owned());
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name.clone());
    spec.subdomain = set.spec.service_name.clone().filter(|service| !service.is_empty());
    let mut volumes: Vec<Volume> = claims(set, ordinal)
        .into_iter()
        .map(|(volume, claim)| Volume {
            name: volume,
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim.name_any(),
                ..PersistentVolumeClaimVolumeSource::default()
            }),
            ..Volume::default()
        })
        .collect();
    if !volumes.is_empty() {
        let own = spec.volumes.take().unwrap_or_default();
        let (given, others): (Vec<Volume>, Vec<Volume>) =
            own.into_iter().partition(|one| volumes.iter().any(|claimed| claimed.name == one.name));
        drop(given);
        volumes.extend(others);
        spec.volumes = Some(volumes);
    }
    pod.metadata.generate_name = None;
    pod.metadata.name = Some(name);
    pod
}

/// The claims of the pod of this number, by the volume each is for.
pub(super) fn claims(set: &StatefulSet, ordinal: i32) -> Vec<(String, PersistentVolumeClaim)> {
    let templates = set.spec.volume_claim_templates.iter().flatten();
    let claims = templates.map(|template| {
        let volume = template.name_any();
        let mut labels = template.metadata.labels.clone().unwrap_or_default();
        labels.extend(set.spec.selector.match_labels.clone().unwrap_or_default());
        let claim = PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(format!("{volume}-{}-{ordinal}", set.name_any())),
                namespace: set.namespace(),
                labels: Some(labels).filter(|labels| !labels.is_empty()),
                annotations: template.metadata.annotations.clone(),
                ..ObjectMeta::default()
            },
            spec: template.spec.clone(),
            status: None,
        };
        (volume, claim)
    });
    claims.collect()
}
