//! What a pod spec may say, in a pod or in a template.
//!
//! Called by `pod` and by the workloads. Containers, volumes and scheduling have files of their own beside.

use super::{MIRROR, app_armor, containers, environment, probe_family, scheduling, security, volumes};
use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        meta, names, resources,
    },
    object::Fields,
    path::Path,
};
use serde_json::Value;

/// Mistakes in the spec of a pod; `old` is the pod before an update.
pub(super) fn pod(pod: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let path = Path::new("spec");
    let pod_spec = pod.at("spec");
    annotations(&mut errors, pod);
    spec(&mut errors, &path, pod_spec, old.map(|old| old.at("spec")), pod.str_at("metadata.name"));
    for list in ["containers", "initContainers"] {
        containers::images(&mut errors, &path.child(list), pod_spec.list_at(list));
    }
    host_ports_match(&mut errors, &path, pod_spec, true);
    check::not_negative(&mut errors, &path, pod_spec, "terminationGracePeriodSeconds");
    if pod_spec.str_at("serviceAccountName").is_empty() {
        for (i, volume) in pod_spec.list_at("volumes").iter().enumerate() {
            for (j, source) in volume.list_at("projected.sources").iter().enumerate() {
                if !source.at("serviceAccountToken").is_null() {
                    let at = path.child("volumes").index(i).child("projected").child("sources").index(j);
                    let text = "needs serviceAccountName";
                    errors.push(FieldError::forbidden(&at.child("serviceAccountToken"), text));
                }
            }
        }
    }
    errors
}

/// Mistakes in a pod template; `path` is that of the template.
pub fn template(errors: &mut Errors, path: &Path, template: &Value, old: Option<&Value>) {
    meta::labels_and_annotations(errors, path, template.at("metadata"));
    app_armor::validate(errors, path, template);
    probe_family::validate(errors, path, template);
    spec(errors, &path.child("spec"), template.at("spec"), old.map(|old| old.at("spec")), "");
    host_ports_match(errors, &path.child("spec"), template.at("spec"), false);
    if !template.list_at("spec.ephemeralContainers").is_empty() {
        let at = path.child("spec").child("ephemeralContainers");
        errors.push(FieldError::forbidden(&at, "a template has none; they are added to running pods"));
    }
}

/// Annotations that mean something to Kubernetes itself.
fn annotations(errors: &mut Errors, pod: &Value) {
    const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    let path = Path::new("metadata").child("annotations");
    let annotation = |name: &str| pod.at("metadata.annotations").get(name).and_then(Value::as_str);
    if let Some(value) = annotation(MIRROR).filter(|_| pod.str_at("spec.nodeName").is_empty()) {
        errors.push(FieldError::invalid(&path.key(MIRROR), value, "a mirror pod needs spec.nodeName"));
    }
    let is_cost = |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        text.parse::<i32>().is_ok() && (digits == "0" && text == "0" || !digits.starts_with(['0', '+']))
    };
    if let Some(value) = annotation(DELETION_COST).filter(|value| !is_cost(value)) {
        errors.push(FieldError::invalid(&path.key(DELETION_COST), value, "must be a whole number of 32 bits"));
    }
}

/// `pod` is the name of the pod, empty in a template.
fn spec(errors: &mut Errors, path: &Path, spec: &Value, old: Option<&Value>, pod: &str) {
    if spec.at("terminationGracePeriodSeconds").is_null() {
        errors.push(FieldError::required(&path.child("terminationGracePeriodSeconds"), ""));
    }
    let known = volumes::validate(errors, &path.child("volumes"), spec.list_at("volumes"), pod);
    containers::validate(errors, path, spec, &known);
    resources::pod(errors, &path.child("resources"), spec);
    let restart = spec.str_at("restartPolicy");
    check::required_one_of(errors, &path.child("restartPolicy"), restart, &["Always", "OnFailure", "Never"]);
    let dns = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    check::required_one_of(errors, &path.child("dnsPolicy"), spec.str_at("dnsPolicy"), &dns);
    check::labels(errors, &path.child("nodeSelector"), spec.at("nodeSelector"));
    security::pod(errors, &path.child("securityContext"), spec);
    if spec.is_true("shareProcessNamespace") && spec.is_true("hostPID") {
        errors.push(FieldError::invalid(
            &path.child("shareProcessNamespace"),
            true,
            "cannot be true when hostPID is true",
        ));
    }
    scheduling::validate(errors, path, spec);
    dns_config(errors, &path.child("dnsConfig"), spec, old);
    for (i, gate) in spec.list_at("readinessGates").iter().enumerate() {
        let at = path.child("readinessGates").index(i).child("conditionType");
        check::qualified_name(errors, &at, gate.str_at("conditionType"));
    }
    security::host_users(errors, path, spec);
    host_name(errors, &path.child("hostnameOverride"), spec);
    referenced_names(errors, path, spec);
    if let Some(seconds) = spec.int_at("activeDeadlineSeconds") {
        check::in_range(errors, &path.child("activeDeadlineSeconds"), seconds, 1, i64::from(i32::MAX));
    }
    host_aliases(errors, &path.child("hostAliases"), spec, old);
    if let Some(policy) = spec.at("preemptionPolicy").as_str() {
        check::required_one_of(errors, &path.child("preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
    }
    resources::overhead(errors, &path.child("overhead"), spec.at("overhead"));
    security::operating_system(errors, path, spec);
    environment::file_volumes(errors, path, spec);
}

/// Ports of a pod on the node's network are the node's; a template may leave that to the pod's defaults.
fn host_ports_match(errors: &mut Errors, path: &Path, spec: &Value, is_pod: bool) {
    if !spec.is_true("hostNetwork") {
        return;
    }
    for (i, container) in spec.list_at("containers").iter().enumerate() {
        for (j, port) in container.list_at("ports").iter().enumerate() {
            let number = |field: &str| port.int_at(field).unwrap_or_default();
            let host = number("hostPort");
            if (is_pod || host != 0) && host != number("containerPort") {
                let at = path.child("containers").index(i).child("ports").index(j).child("hostPort");
                errors.push(FieldError::invalid(&at, host, "must be the containerPort, because hostNetwork is true"));
            }
        }
    }
}

fn host_name(errors: &mut Errors, path: &Path, spec: &Value) {
    let Some(name) = spec.at("hostnameOverride").as_str() else { return };
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.is_true(field) {
            errors.push(FieldError::forbidden(path, format!("not while {field} is true")));
        }
    }
    if name.len() > 64 {
        errors.push(FieldError::too_long(path, 64));
    }
    check::dns_subdomain(errors, path, name);
}

fn dns_config(errors: &mut Errors, path: &Path, spec: &Value, old: Option<&Value>) {
    let config = spec.at("dnsConfig");
    let servers = check::texts(config, "nameservers");
    if spec.str_at("dnsPolicy") == "None" {
        if config.is_null() {
            errors.push(FieldError::required(path, "dnsPolicy None needs it"));
            return;
        }
        if servers.is_empty() {
            errors.push(FieldError::required(&path.child("nameservers"), "dnsPolicy None needs at least one"));
            return;
        }
    }
    if servers.len() > 3 {
        let at = path.child("nameservers");
        errors.push(FieldError::invalid(&at, config.at("nameservers").clone(), "at most 3 are accepted"));
    }
    let before = old.map(|old| check::texts(old, "dnsConfig.nameservers")).unwrap_or_default();
    for (i, server) in servers.iter().enumerate() {
        check::ip(errors, &path.child("nameservers").index(i), server, before.iter().copied());
    }
    let searches = check::texts(config, "searches");
    let length = searches.iter().map(|s| s.len()).sum::<usize>() + searches.len().saturating_sub(1);
    let at = path.child("searches");
    for (wrong, text) in [
        (searches.len() > 32, "at most 32 are accepted"),
        (length > 2048, "at most 2048 characters are accepted, spaces between them included"),
    ] {
        if wrong {
            errors.push(FieldError::invalid(&at, config.at("searches").clone(), text));
        }
    }
    for (i, search) in searches.iter().enumerate().filter(|(_, search)| **search != ".") {
        let name = search.strip_suffix('.').unwrap_or(search);
        check::all_of(errors, &at.index(i), name, names::subdomain_with_underscore(name));
    }
    for (i, option) in config.list_at("options").iter().enumerate() {
        if option.str_at("name").is_empty() {
            errors.push(FieldError::required(&path.child("options").index(i), "a name"));
        }
    }
}

/// Names of other objects and of the pod itself in DNS.
fn referenced_names(errors: &mut Errors, path: &Path, spec: &Value) {
    for field in ["serviceAccountName", "nodeName", "priorityClassName"] {
        let name = spec.str_at(field);
        if !name.is_empty() {
            check::dns_subdomain(errors, &path.child(field), name);
        }
    }
    if let Some(name) = spec.at("runtimeClassName").as_str() {
        check::dns_subdomain(errors, &path.child("runtimeClassName"), name);
    }
    for field in ["hostname", "subdomain"] {
        let name = spec.str_at(field);
        if !name.is_empty() {
            check::dns_label(errors, &path.child(field), name);
        }
    }
}

fn host_aliases(errors: &mut Errors, path: &Path, spec: &Value, old: Option<&Value>) {
    let before: Vec<&str> =
        old.into_iter().flat_map(|old| old.list_at("hostAliases")).map(|a| a.str_at("ip")).collect();
    for (i, alias) in spec.list_at("hostAliases").iter().enumerate() {
        let at = path.index(i);
        check::ip(errors, &at.child("ip"), alias.str_at("ip"), before.iter().copied());
        for (j, name) in check::texts(alias, "hostnames").into_iter().enumerate() {
            check::dns_subdomain(errors, &at.child("hostnames").index(j), name);
        }
    }
}
