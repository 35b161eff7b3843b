//! What may change in a pod that exists: images, a deadline, added tolerations, removed gates; and its status.

use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        edit::items,
    },
    object::Fields,
    path::Path,
};
use serde_json::Value;

/// Mistakes of an update of the spec.
pub(super) fn spec(errors: &mut Errors, pod: &Value, old: &Value) {
    let path = Path::new("spec");
    let (spec, before) = (pod.at("spec"), old.at("spec"));
    for list in ["containers", "initContainers"] {
        if spec.list_at(list).len() != before.list_at(list).len() {
            errors
                .push(FieldError::forbidden(&path.child(list), "containers of a pod can be neither added nor removed"));
            return;
        }
    }
    if !deadline(errors, &path.child("activeDeadlineSeconds"), spec, before) {
        return;
    }
    only_added_tolerations(errors, &path.child("tolerations"), spec, before);
    for (i, gate) in spec.list_at("schedulingGates").iter().enumerate() {
        if !before.list_at("schedulingGates").iter().any(|known| known.at("name") == gate.at("name")) {
            let at = path.child("schedulingGates").index(i).child("name");
            errors.push(FieldError::forbidden(&at, "gates of a pod can only be removed"));
        }
    }
    let mut allowed = spec.clone();
    for list in ["containers", "initContainers"] {
        for (container, was) in items(&mut allowed, list).zip(before.list_at(list)) {
            container.set("image", was.at("image").clone());
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        allowed.set(field, before.at(field).clone());
    }
    if !before.list_at("schedulingGates").is_empty() {
        gated_placement(errors, &path, spec, before);
        allowed.set("nodeSelector", before.at("nodeSelector").clone());
        allowed.set("affinity.nodeAffinity", before.at("affinity.nodeAffinity").clone());
    }
    if !check::same(&allowed, before) {
        let mut fields: Vec<&str> = allowed
            .as_object()
            .into_iter()
            .flatten()
            .map(|(field, _)| field.as_str())
            .chain(before.as_object().into_iter().flatten().map(|(field, _)| field.as_str()))
            .filter(|field| !check::same(allowed.at(field), before.at(field)))
            .collect();
        fields.sort_unstable();
        fields.dedup();
        let text = format!(
            "only images, activeDeadlineSeconds, tolerations (added) and schedulingGates (removed) of a pod can change; \
             changed too: {}",
            fields.join(", ")
        );
        errors.push(FieldError::forbidden(&path, text));
    }
}

/// The deadline may come, and come closer. Says whether the other checks make sense.
fn deadline(errors: &mut Errors, path: &Path, spec: &Value, before: &Value) -> bool {
    let (new, was) = (spec.int_at("activeDeadlineSeconds"), before.int_at("activeDeadlineSeconds"));
    match (new, was) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            check::in_range(errors, path, new, 0, i64::from(i32::MAX));
            false
        }
        (Some(new), Some(was)) if was < new => {
            errors.push(FieldError::invalid(path, new, format!("must not be more than before, {was}")));
            false
        }
        (None, Some(_)) => {
            errors.push(FieldError::invalid(path, Value::Null, "cannot be taken away once set"));
            true
        }
        _ => true,
    }
}

fn only_added_tolerations(errors: &mut Errors, path: &Path, spec: &Value, before: &Value) {
    let without_seconds = |toleration: &Value| {
        let mut plain = toleration.clone();
        plain.remove("tolerationSeconds");
        plain
    };
    let now: Vec<Value> = spec.list_at("tolerations").iter().map(without_seconds).collect();
    if before.list_at("tolerations").iter().any(|was| !now.contains(&without_seconds(was))) {
        errors.push(FieldError::forbidden(
            path,
            "a toleration of a pod can only be added, or change its tolerationSeconds",
        ));
    }
}

/// A gated pod may be placed more narrowly, never elsewhere.
fn gated_placement(errors: &mut Errors, path: &Path, spec: &Value, before: &Value) {
    let lost = before
        .map_at("nodeSelector")
        .into_iter()
        .flatten()
        .any(|(key, value)| spec.at("nodeSelector").get(key) != Some(value));
    if lost {
        let value = spec.at("nodeSelector").clone();
        errors.push(FieldError::invalid(&path.child("nodeSelector"), value, "labels can only be added"));
    }
    let field = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let (terms, was) = (spec.list_at(field), before.list_at(field));
    let at = field.split('.').fold(path.clone(), |path, step| path.child(step));
    if was.is_empty() {
        return;
    }
    if terms.len() != was.len() {
        errors.push(FieldError::invalid(&at, spec.at(field).clone(), "terms can be neither added nor removed"));
        return;
    }
    for (i, (term, was)) in terms.iter().zip(was).enumerate() {
        let is_empty = |term: &Value| ["matchExpressions", "matchFields"].iter().all(|f| term.list_at(f).is_empty());
        let narrowed = ["matchExpressions", "matchFields"].iter().all(|f| term.list_at(f).starts_with(was.list_at(f)));
        if !narrowed || is_empty(was) && !is_empty(term) {
            errors.push(FieldError::invalid(&at.index(i), term.clone(), "expressions can only be added"));
        }
    }
}

/// Mistakes of an update of the status.
pub(super) fn status(pod: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let path = Path::new("status");
    let (status, before) = (pod.at("status"), old.at("status"));
    for (i, condition) in status.list_at("conditions").iter().enumerate() {
        let kind = condition.str_at("type");
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            check::qualified_name(&mut errors, &path.child("conditions").index(i).child("Type"), kind);
        }
    }
    let nominated = status.str_at("nominatedNodeName");
    if !nominated.is_empty() && nominated != before.str_at("nominatedNodeName") {
        check::dns_subdomain(&mut errors, &path.child("nominatedNodeName"), nominated);
    }
    check::not_negative(&mut errors, &path, status, "observedGeneration");
    check::immutable(&mut errors, &path.child("qosClass"), status.at("qosClass"), before.at("qosClass"));
    addresses(&mut errors, &path, status, before, "podIP", "podIPs");
    addresses(&mut errors, &path, status, before, "hostIP", "hostIPs");
    no_going_back(&mut errors, &path, pod, old);
    errors
}

/// One or two addresses, one of each family, the first the same as the singular field.
fn addresses(errors: &mut Errors, path: &Path, status: &Value, before: &Value, single: &str, plural: &str) {
    let ips =
        |status: &Value| -> Vec<String> { status.list_at(plural).iter().map(|e| e.str_at("ip").to_owned()).collect() };
    let (list, was) = (ips(status), ips(before));
    let at = path.child(plural);
    for (i, ip) in list.iter().enumerate() {
        check::ip(errors, &at.index(i), ip, was.iter().map(String::as_str));
    }
    let parsed: Vec<_> = list.iter().filter_map(|ip| net::legacy::parse_stored_ip(ip).ok()).collect();
    if list.len() > 1 {
        check::one_per_family(errors, &at, status.at(plural), &parsed, "addresses");
    }
    match list.first() {
        Some(first) if *first != status.str_at(single) => {
            errors.push(FieldError::invalid(&at.index(0).child("ip"), first.as_str(), format!("must be {single}")));
        }
        None if plural == "podIPs" && !status.str_at(single).is_empty() => {
            errors.push(FieldError::invalid(&at, Value::Null, format!("must be given beside {single}")));
        }
        _ => {}
    }
}

/// A container that ended for good stays ended.
fn no_going_back(errors: &mut Errors, path: &Path, pod: &Value, old: &Value) {
    let policy = old.str_at("spec.restartPolicy");
    if policy == "Always" {
        return;
    }
    let at = path.child("containerStatuses");
    let now = pod.list_at("status.containerStatuses");
    for was in old.list_at("status.containerStatuses") {
        let ended = was.at("state.terminated");
        let for_good = ended.is_object() && (policy == "Never" || ended.int_at("exitCode").unwrap_or_default() == 0);
        if !for_good {
            continue;
        }
        let revived = now
            .iter()
            .position(|status| status.at("name") == was.at("name") && !status.at("state.terminated").is_object());
        if let Some(i) = revived {
            let text = "a container that has ended cannot run again";
            errors.push(FieldError::forbidden(&at.index(i).child("state"), text));
        }
    }
}
