//! Components whose view of the API is old: the Leases that they renew only while they see everything.

use super::{About, Finding, Severity};
use crate::Snapshot;
use k8s_openapi::api::coordination::v1::Lease;
use std::time::SystemTime;

/// The component that a Lease speaks for; `runtime::watch::report` writes it.
const LABEL: &str = "twinstack.dev/view-of";

pub(super) fn check(snapshot: &Snapshot) -> Vec<Finding> {
    // Objects from a file are of some other time.
    let Some(now) = snapshot.taken else { return Vec::new() };
    snapshot.leases.iter().filter_map(|lease| old(lease, now)).collect()
}

fn old(lease: &Lease, now: SystemTime) -> Option<Finding> {
    let component = lease.metadata.labels.as_ref()?.get(LABEL)?;
    let spec = lease.spec.as_ref()?;
    // Given up: the component was stopped in order.
    let host = spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())?;
    let renewed = SystemTime::from(spec.renew_time.as_ref()?.0);
    let age = now.duration_since(renewed).unwrap_or_default().as_secs();
    if age <= spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default() {
        return None;
    }
    let about = About::of("lease", &lease.metadata);
    let mend = format!(
        "look at its log and its /readyz on {host}; if it is gone for good: kubectl delete lease -n {} {}",
        about.namespace, about.name
    );
    Some(Finding {
        severity: Severity::Error,
        about,
        problem: format!("{component} on {host} has had no current view of the API for {age} seconds"),
        why: "it is gone, or cut off from the API: what it serves is what it knew then".to_owned(),
        mend,
    })
}
