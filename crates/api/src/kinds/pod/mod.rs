//! Pod: rules of the kind; templates of workloads share its defaults and its validation.
//!
//! Mirrors `pkg/registry/core/pod`. What admission adds upstream (service account token, tolerations, priority) is not here.

pub(super) mod advice;
mod app_armor;
mod columns;
mod containers;
mod debug;
pub mod defaults;
mod environment;
mod mounts;
mod paths;
mod probe_family;
mod probes;
mod projections;
mod resize;
pub(super) mod scheduling;
mod security;
mod update;
mod validate;
mod volumes;

pub(super) use paths::no_backsteps;
pub(super) use scheduling::node_selector;
pub use validate::template;
pub(super) use volumes::source as volume_source;

use super::{
    check::Errors,
    columns::{AGE, NAME, columns as define},
    quantity,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules, carry_over_all_but_status, change_only, scalar_text, take_over},
};
use serde_json::{Value, json};

/// Rules of v1 Pod.
pub struct Pod;

impl Rules for Pod {
    fn kept_by_status(&self) -> &'static [&'static str] {
        &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"]
    }

    fn default(&self, pod: &mut Value) {
        defaults::spec(pod.at_mut("spec"));
        defaults::pod(pod);
    }

    fn prepare_create(&self, pod: &mut Value) {
        defaults::label_keys(pod);
        app_armor::to_fields(pod);
        defaults::pod_resources(pod);
        let mut status = json!({"phase": "Pending", "qosClass": quality(pod)});
        if !pod.list_at("spec.schedulingGates").is_empty() {
            status["conditions"] = json!([{
                "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                "message": "the pod waits until its scheduling gates are removed",
                "lastProbeTime": null, "lastTransitionTime": null,
            }]);
        }
        pod.set("status", status);
    }

    fn prepare_update(&self, pod: &mut Value, old: &Value) {
        pod.set("status", old.at("status").clone());
        // A client that does not know resources of whole pods leaves them out.
        if pod.at("spec.resources").is_null() && !old.at("spec.resources").is_null() {
            pod.set("spec.resources", old.at("spec.resources").clone());
        }
    }

    fn prepare_status(&self, pod: &mut Value, old: &Value) {
        carry_over_all_but_status(pod, old);
        // Owners belong to the spec side: a kubelet that writes status must not lose them.
        take_over(pod, old, "metadata.ownerReferences");
        if pod.str_at("status.qosClass").is_empty() && !old.at("status.qosClass").is_null() {
            pod.set("status.qosClass", old.at("status.qosClass").clone());
        }
        if pod.int_at("status.observedGeneration").unwrap_or_default() == 0
            && let Some(generation) = old.int_at("status.observedGeneration")
        {
            pod.set("status.observedGeneration", generation);
        }
    }

    fn prepare_below(&self, subresource: &str, pod: &mut Value, old: &Value) {
        match subresource {
            "ephemeralcontainers" => change_only(pod, old, &["spec.ephemeralContainers"]),
            "resize" => resize::prepare(pod, old),
            _ => change_only(pod, old, &[]),
        }
    }

    fn applied_below(&self, subresource: &str, config: &Value) -> Value {
        match subresource {
            "resize" => resize::applied(config),
            _ => debug::applied(config),
        }
    }

    fn validate(&self, pod: &Value) -> Errors {
        let mut errors = validate::pod(pod, None);
        app_armor::validate(&mut errors, &Path::root(), pod);
        probe_family::validate(&mut errors, &Path::root(), pod);
        let path = Path::new("spec");
        if !pod.list_at("spec.ephemeralContainers").is_empty() {
            errors
                .push(FieldError::forbidden(&path.child("ephemeralContainers"), "a new pod has none; add them later"));
        }
        if !pod.str_at("spec.nodeName").is_empty() && !pod.list_at("spec.schedulingGates").is_empty() {
            let text = "cannot be set before all scheduling gates are removed";
            errors.push(FieldError::forbidden(&path.child("nodeName"), text));
        }
        errors
    }

    fn validate_update(&self, pod: &Value, old: &Value) -> Errors {
        let mut errors = validate::pod(pod, Some(old));
        update::spec(&mut errors, pod, old);
        errors
    }

    fn validate_status(&self, pod: &Value, old: &Value) -> Errors {
        update::status(pod, old)
    }

    fn validate_below(&self, subresource: &str, pod: &Value, old: &Value) -> Errors {
        match subresource {
            "resize" => resize::validate(pod, old),
            _ => debug::validate(pod, old),
        }
    }

    fn warnings(&self, pod: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = advice::spec(&Path::new("spec"), pod.at("spec"));
        warnings.extend(advice::host_name(pod).filter(|_| old.is_none()));
        warnings
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn grace_period(&self, pod: &Value) -> Option<i64> {
        let unscheduled = pod.str_at("spec.nodeName").is_empty();
        let finished = matches!(pod.str_at("status.phase"), "Failed" | "Succeeded");
        if unscheduled || finished {
            return None;
        }
        match pod.int_at("spec.terminationGracePeriodSeconds").unwrap_or_default() {
            seconds if seconds < 0 => Some(1),
            seconds => Some(seconds),
        }
    }

    /// Every kubelet lists and watches its own.
    fn indexed(&self) -> Option<&'static str> {
        Some("spec.nodeName")
    }

    fn selected(&self, pod: &Value, path: &str) -> String {
        match path {
            "spec.hostNetwork" => pod.is_true(path).to_string(),
            "status.podIPs" => String::new(),
            _ => scalar_text(pod.at(path)),
        }
    }

    fn columns(&self) -> Vec<Column> {
        define(&[
            NAME,
            ("Ready", "string", 0, "Containers that are ready, of all"),
            ("Status", "string", 0, "The state of the pod in one word"),
            ("Restarts", "string", 0, "How often containers were restarted, and when last"),
            AGE,
            ("IP", "string", 1, "First address of the pod"),
            ("Node", "string", 1, "Node that the pod is bound to"),
            ("Nominated Node", "string", 1, "Node where room is being made for the pod"),
            ("Readiness Gates", "string", 1, "Readiness gates that are open, of all"),
        ])
    }

    fn cells(&self, pod: &Value, now: jiff::Timestamp) -> Vec<Value> {
        columns::cells(pod, now)
    }
}

/// The quality-of-service class: `Guaranteed` when every container limits cpu and memory to what it requests,
/// `BestEffort` when none says anything, else `Burstable`.
pub(crate) fn quality(pod: &Value) -> &'static str {
    const COMPUTE: [&str; 2] = ["cpu", "memory"];
    let amount = |holder: &Value, kind: &str, name: &str| {
        holder.at("resources").at(kind).get(name).and_then(Value::as_str).and_then(quantity::nanos).filter(|n| *n > 0)
    };
    let pod_level = COMPUTE
        .iter()
        .any(|name| ["limits", "requests"].iter().any(|kind| amount(pod.at("spec"), kind, name).is_some()));
    let holders: Vec<&Value> = if pod_level {
        vec![pod.at("spec")]
    } else {
        pod.list_at("spec.containers").iter().chain(pod.list_at("spec.initContainers")).collect()
    };
    let mut guaranteed = true;
    let mut nothing = true;
    for holder in holders {
        for name in COMPUTE {
            let (request, limit) = (amount(holder, "requests", name), amount(holder, "limits", name));
            nothing &= request.is_none() && limit.is_none();
            guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (nothing, guaranteed) {
        (true, _) => "BestEffort",
        (_, true) => "Guaranteed",
        _ => "Burstable",
    }
}

/// The annotation of a pod that a kubelet runs by itself and shows to the API.
const MIRROR: &str = "kubernetes.io/config.mirror";

fn is_mirror(pod: &Value) -> bool {
    pod.map_at("metadata.annotations").is_some_and(|all| all.contains_key(MIRROR))
}

/// The head of an applied configuration: what names the object it is for.
fn head(config: &Value) -> Value {
    let mut kept = json!({});
    for path in
        ["apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"]
    {
        if !config.at(path).is_null() {
            kept.set(path, config.at(path).clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests;
