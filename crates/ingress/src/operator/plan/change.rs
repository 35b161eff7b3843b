//! What of a live load balancer Service is brought up to date.
//!
//! Three classes, as upstream has them: what is always managed, what is added and changed but never taken away, and what counts
//! at creation only, which is `progress`'s. A pending change of the type leaves the live Service alone altogether.

use super::{Input, balancer::annotation, live};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;

/// Added, changed and removed at once.
const MANAGED: [&str; 9] = [
    annotation::AWS_INTERVAL,
    annotation::AWS_IDLE,
    annotation::AWS_PROXY,
    annotation::AWS_TAGS,
    annotation::GCP_GLOBAL,
    annotation::LOCAL_WITH_FALLBACK,
    annotation::IBM_FEATURES,
    annotation::AZURE_INTERNAL,
    annotation::GCP_TYPE,
];
/// Added and changed, never removed: somebody may have set it by hand.
const ONE_WAY: [&str; 2] = [annotation::AWS_TARGET_GROUP, annotation::AWS_GROUPS];
/// The Service to write instead of the live one; nothing when it is as it should be.
pub fn update(input: Input<'_>, live: &Service, wanted: &Service) -> Option<Service> {
    if live::kind_is_pending(input, Some(live)) {
        return None;
    }
    let mut new = live.clone();
    let annotations = new.annotations_mut();
    for key in MANAGED {
        match wanted.annotations().get(key) {
            Some(value) => drop(annotations.insert(key.to_owned(), value.clone())),
            None => drop(annotations.remove(key)),
        }
    }
    for key in ONE_WAY {
        if let Some(value) = wanted.annotations().get(key) {
            annotations.insert(key.to_owned(), value.clone());
        }
    }
    if annotations.get(annotation::AWS_INTERNAL).is_some_and(|value| value == "0.0.0.0/0") {
        annotations.insert(annotation::AWS_INTERNAL.to_owned(), "true".to_owned());
    }
    let ranges = wanted.spec.as_ref().and_then(|spec| spec.load_balancer_source_ranges.clone());
    if ranges.is_some() {
        annotations.remove(annotation::SOURCE_RANGES);
    }
    if let (Some(spec), Some(asked)) = (&mut new.spec, &wanted.spec) {
        if ranges.is_some() {
            spec.load_balancer_source_ranges = ranges;
        }
        if asked.ip_families.is_some() && !first_family_differs(live, wanted) && spec.ip_families != asked.ip_families {
            spec.ip_families.clone_from(&asked.ip_families);
            // The API server gives the second address, or takes it back; the first stays.
            if let Some(addresses) = &mut spec.cluster_ips {
                addresses.truncate(1.max(asked.ip_families.as_ref().map_or(1, Vec::len)));
            }
        }
        if asked.ip_family_policy.is_some() && !first_family_differs(live, wanted) {
            spec.ip_family_policy.clone_from(&asked.ip_family_policy);
        }
    }
    (new.metadata.annotations != live.metadata.annotations || new.spec != live.spec).then_some(new)
}

/// The first family of a Service never changes.
pub(super) fn first_family_differs(live: &Service, wanted: &Service) -> bool {
    let first = |service: &Service| service.spec.as_ref()?.ip_families.as_ref()?.first().cloned();
    first(wanted).is_some_and(|family| first(live).is_some_and(|live| live != family))
}
