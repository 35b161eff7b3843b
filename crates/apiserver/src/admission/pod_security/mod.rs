//! Pod Security: what pods may ask for, by the labels of their namespace.
//!
//! Mirrors the PodSecurity admission plugin. `policy` reads labels, `checks` judges a pod (pure, one file per rule), `namespace`
//! looks at changes of the labels themselves, `config` is the administrator's say. Pods are refused; workloads that would make
//! such pods only get a warning and a note in the audit log.

mod checks;
mod config;
mod namespace;
mod pod;
mod policy;

pub use config::{Exemptions, PodSecurity};
pub use policy::{Level, Policy, Standard, Version};

use self::{
    checks::{Violation, violations},
    pod::PodView,
    policy::PREFIX,
};
use crate::call::Call;
use api::{error::ApiError, object::Fields};
use serde_json::Value;

/// Subresources of pods that do not change what a pod may do.
const HARMLESS: [&str; 8] = ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

/// Refuses, notes or warns of a new or changed namespace; `old` is absent on create.
pub(super) async fn check_namespace(call: &Call, object: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    match config(call) {
        Some(config) if call.request.subresource.is_empty() => namespace::check(call, config, object, old).await,
        _ => Ok(()),
    }
}

/// The same of a Pod.
pub(super) fn check_pod(call: &Call, object: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    match config(call) {
        Some(config) if !HARMLESS.contains(&call.request.subresource.as_str()) => pods(call, config, object, old),
        _ => Ok(()),
    }
}

/// Notes or warns of what will become of a workload's Pods.
pub(super) fn advise(call: &Call, object: &Value, template: &str) {
    if let Some(config) =
        config(call).filter(|_| call.request.subresource.is_empty() && object.at(template).is_object())
    {
        workload(call, config, object.at(template));
    }
}

fn config(call: &Call) -> Option<&PodSecurity> {
    call.server.config.admission.pod_security.as_deref()
}

fn pods(call: &Call, config: &PodSecurity, pod: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    if is_exempt(call, config) {
        return Ok(());
    }
    let name = &call.request.namespace;
    let namespace = call.server.object(&format!("namespaces/{name}"));
    let namespace = namespace.ok_or_else(|| ApiError::internal(format!("failed to lookup namespace {name:?}")))?;
    let (policy, errors) = Policy::of(namespace.map_at("metadata.labels"), config.defaults);
    if errors.is_empty() && policy.is_privileged() {
        note(call, "enforce-policy", Standard::PRIVILEGED.to_string());
        return Ok(());
    }
    if old.is_some_and(|old| !is_significant(pod, old)) || is_exempt_class(call, config, pod.at("spec")) {
        return Ok(());
    }
    note_errors(call, &errors);
    note(call, "enforce-policy", policy.enforce.to_string());
    let view = PodView::new(pod);
    note_audit(call, policy, view);
    let broken = violations(policy.enforce, view);
    if !broken.is_empty() {
        let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, in_full(&broken));
        return Err(ApiError::forbidden("pods", "", pod.str_at("metadata.name"), why));
    }
    warn(call, policy, view);
    Ok(())
}

/// Never refused: what counts is the pods that come of it.
fn workload(call: &Call, config: &PodSecurity, template: &Value) {
    if is_exempt(call, config) {
        return;
    }
    let Some(namespace) = call.server.object(&format!("namespaces/{}", call.request.namespace)) else { return };
    let (policy, errors) = Policy::of(namespace.map_at("metadata.labels"), config.defaults);
    if is_exempt_class(call, config, template.at("spec")) {
        return;
    }
    note_errors(call, &errors);
    let view = PodView::new(template);
    note_audit(call, policy, view);
    warn(call, policy, view);
}

fn warn(call: &Call, policy: Policy, pod: PodView<'_>) {
    let broken = violations(policy.warn, pod);
    if !broken.is_empty() {
        call.warn([format!("would violate PodSecurity \"{}\": {}", policy.warn, in_full(&broken))]);
    }
}

fn note_audit(call: &Call, policy: Policy, pod: PodView<'_>) {
    let broken = violations(policy.audit, pod);
    if !broken.is_empty() {
        let text = format!("would violate PodSecurity \"{}\": {}", policy.audit, in_full(&broken));
        note(call, "audit-violations", text);
    }
}

fn note_errors(call: &Call, errors: &[api::error::FieldError]) {
    if !errors.is_empty() {
        let list: Vec<String> = errors.iter().map(ToString::to_string).collect();
        note(call, "error", format!("Failed to parse policy: {}", list.join(", ")));
    }
}

fn is_exempt(call: &Call, config: &PodSecurity) -> bool {
    let exemptions = &config.exemptions;
    let why = if exemptions.of_namespace(&call.request.namespace) {
        "namespace"
    } else if exemptions.of_user(&call.user.name) {
        "user"
    } else {
        return false;
    };
    note(call, "exempt", why.to_owned());
    true
}

fn is_exempt_class(call: &Call, config: &PodSecurity, spec: &Value) -> bool {
    let class = spec.str_at("runtimeClassName");
    let exempt = !class.is_empty() && config.exemptions.of_runtime_class(class);
    if exempt {
        note(call, "exempt", "runtimeClass".to_owned());
    }
    exempt
}

/// Whether an update changes what runs in the pod. Everything else that the checks look at cannot be changed.
fn is_significant(pod: &Value, old: &Value) -> bool {
    let images = |pod: &Value, list: &str| -> Vec<String> {
        pod.list_at(list).iter().map(|container| container.str_at("image").to_owned()).collect()
    };
    let changed = ["spec.containers", "spec.initContainers"].iter().any(|list| images(pod, list) != images(old, list));
    let before = old.list_at("spec.ephemeralContainers");
    changed
        || pod.list_at("spec.ephemeralContainers").iter().any(|container| {
            let same = |other: &&Value| other.str_at("name") == container.str_at("name");
            before.iter().find(same).is_none_or(|other| other.str_at("image") != container.str_at("image"))
        })
}

/// For the audit log.
fn note(call: &Call, key: &str, text: String) {
    call.annotate(format!("{PREFIX}{key}"), text);
}

/// `host namespaces (hostPID=true), privileged (container "a" ...)`.
fn in_full(broken: &[Violation]) -> String {
    broken.iter().map(|one| format!("{} ({})", one.reason, one.detail)).collect::<Vec<_>>().join(", ")
}
