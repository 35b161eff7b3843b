//! Amounts of cpu, memory and other resources: names, values, requests against limits.
//!
//! Called for containers, for pods as a whole and for node capacity.

use super::{
    check::{self, Errors},
    names,
    quantity::{self, Amounts},
};
use crate::{error::FieldError, object::Fields, path::Path};
use serde_json::{Map, Value};

/// Names that upstream knows without a domain beside those of containers; they are for quotas.
const QUOTA_NAMES: [&str; 17] = [
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Mistakes in `resources` of a container of the pod with this spec.
pub(super) fn container(errors: &mut Errors, path: &Path, resources: &Value, spec: &Value) {
    requirements(errors, path, resources, container_name);
    claims(errors, &path.child("claims"), resources, spec);
}

/// Mistakes in `resources` of a pod as a whole.
pub(super) fn pod(errors: &mut Errors, path: &Path, spec: &Value) {
    let resources = spec.at("resources");
    if resources.is_null() {
        return;
    }
    if spec.str_at("os.name") == "windows" {
        errors.push(FieldError::forbidden(path, "a Windows pod cannot have it"));
        return;
    }
    if !resources.at("claims").is_null() {
        errors.push(FieldError::forbidden(&path.child("claims"), "only containers have claims"));
    }
    requirements(errors, path, resources, |errors, path, name| {
        let found = errors.len();
        standard_name(errors, path, name);
        if errors.len() == found && !fits_pod(name) {
            errors.push(FieldError::not_supported(path, name, &["cpu", "hugepages-", "memory"]));
        }
    });
    let own = |kind: &str, name: &str| resources.at(kind).get(name).and_then(Value::as_str).and_then(quantity::nanos);
    for (name, total) in of_containers(spec, "requests") {
        if own("requests", &name).is_some_and(|own| own < total.nanos) {
            let text = "must not be less than the requests of the containers together";
            errors.push(FieldError::invalid(
                &path.child("requests").key(&name),
                resources.at("requests").clone(),
                text,
            ));
        }
    }
    for (name, total) in of_containers(spec, "limits").into_iter().filter(|(name, _)| is_huge_page(name)) {
        if own("limits", &name).is_some_and(|own| own < total.nanos) {
            let text = "must not be less than the limits of the containers together";
            errors.push(FieldError::invalid(&path.child("limits").key(&name), resources.at("limits").clone(), text));
        }
    }
    for (i, container) in spec.list_at("containers").iter().enumerate() {
        for (name, limit) in container.map_at("resources.limits").into_iter().flatten() {
            let most = own("limits", name);
            if limit.as_str().and_then(quantity::nanos).zip(most).is_some_and(|(limit, most)| limit > most) {
                let at = path.child("containers").index(i).key(name).child("limits");
                errors.push(FieldError::invalid(&at, limit.clone(), "must not be more than the limit of the pod"));
            }
        }
    }
}

/// Mistakes in `overhead` of a pod spec.
pub(super) fn overhead(errors: &mut Errors, path: &Path, overhead: &Value) {
    for (name, value) in overhead.as_object().into_iter().flatten() {
        let at = path.child("limits").key(name);
        container_name(errors, &at, name);
        amount(errors, &at, name, value);
    }
}

/// What the containers of a pod need together: those that run side by side, or one that starts before.
pub(crate) fn of_containers(spec: &Value, kind: &str) -> Amounts {
    needed_together(spec, |container| quantity::amounts(container.at("resources").at(kind)))
}

/// The same where `own` says what one container needs.
pub(crate) fn needed_together(spec: &Value, own: impl Fn(&Value) -> Amounts) -> Amounts {
    let mut total = Amounts::new();
    for container in spec.list_at("containers") {
        quantity::add(&mut total, &own(container));
    }
    let mut sidecars = Amounts::new();
    let mut most = Amounts::new();
    for container in spec.list_at("initContainers") {
        let mut needed = own(container);
        if container.str_at("restartPolicy") == "Always" {
            quantity::add(&mut total, &needed);
            quantity::add(&mut sidecars, &needed);
            needed.clone_from(&sidecars);
        } else {
            quantity::add(&mut needed, &sidecars);
        }
        quantity::raise(&mut most, &needed);
    }
    quantity::raise(&mut total, &most);
    total
}

/// Whether a resource can be given for a pod as a whole.
pub(crate) fn fits_pod(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_page(name)
}

/// Whether requests may be less than limits.
pub(super) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Memory in pages of a size that the name says.
pub(crate) fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn requirements(errors: &mut Errors, path: &Path, resources: &Value, name_rule: fn(&mut Errors, &Path, &str)) {
    let (limits_path, requests_path) = (path.child("limits"), path.child("requests"));
    let none = Map::new();
    let limits = resources.map_at("limits").unwrap_or(&none);
    let requests = resources.map_at("requests").unwrap_or(&none);
    for (list, at) in [(limits, &limits_path), (requests, &requests_path)] {
        for (name, value) in list {
            name_rule(errors, &at.key(name), name);
            amount(errors, &at.key(name), name, value);
            huge_pages(errors, &at.key(name), name, value);
        }
    }
    for (name, value) in requests {
        let limit = limits.get(name);
        let number = |value: &Value| value.as_str().and_then(quantity::nanos);
        match (number(value), limit.and_then(number)) {
            (_, None) if !may_overcommit(name) => {
                errors.push(FieldError::required(&limits_path, format!("{name} needs a limit equal to its request")));
            }
            (Some(request), Some(limit)) if request != limit && !may_overcommit(name) => {
                errors.push(FieldError::invalid(
                    &requests_path,
                    value.clone(),
                    format!("must equal the limit of {name}"),
                ));
            }
            (Some(request), Some(most)) if request > most => {
                let text = format!(
                    "must not be more than the limit of {name}, {}",
                    limit.and_then(Value::as_str).unwrap_or("0")
                );
                errors.push(FieldError::invalid(&requests_path, value.clone(), text));
            }
            _ => {}
        }
    }
    let has = |test: fn(&str) -> bool| limits.keys().chain(requests.keys()).any(|name| test(name));
    if has(is_huge_page) && !has(|name| matches!(name, "cpu" | "memory")) {
        errors.push(FieldError::forbidden(path, "hugepages need cpu or memory beside them"));
    }
}

/// Amounts of huge pages are whole pages.
fn huge_pages(errors: &mut Errors, path: &Path, name: &str, value: &Value) {
    let Some(size) = name.strip_prefix("hugepages-") else { return };
    let text = value.as_str().unwrap_or_default();
    let whole = quantity::nanos(size)
        .filter(|size| *size > 0 && quantity::is_whole_nanos(*size))
        .zip(quantity::nanos(text))
        .is_some_and(|(size, amount)| amount % size == 0);
    if !whole {
        errors.push(FieldError::invalid(path, text, format!("must be a multiple of {size}")));
    }
}

/// An amount of a resource: not negative, and whole where parts make no sense.
pub(super) fn amount(errors: &mut Errors, path: &Path, name: &str, value: &Value) {
    let text = value.as_str().unwrap_or_default();
    if quantity::nanos(text).is_some_and(|n| n < 0) {
        errors.push(FieldError::invalid(path, text, "must be 0 or more"));
    }
    let counted =
        QUOTA_NAMES.contains(&name) && !name.contains("cpu") && !name.contains("memory") && !name.contains("storage");
    if (counted || is_extended(name)) && !quantity::is_whole(text) {
        errors.push(FieldError::invalid(path, text, "must be a whole number"));
    }
}

fn claims(errors: &mut Errors, path: &Path, resources: &Value, spec: &Value) {
    let known: Vec<&str> = spec.list_at("resourceClaims").iter().map(|claim| claim.str_at("name")).collect();
    let mut taken: Vec<(&str, &str)> = Vec::new();
    for (i, claim) in resources.list_at("claims").iter().enumerate() {
        let (at, name, request) = (path.index(i), claim.str_at("name"), claim.str_at("request"));
        if name.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        if taken.contains(&(name, "")) {
            errors.push(FieldError::duplicate(&at, name));
        } else {
            if !request.is_empty() {
                check::dns_label(errors, &at.child("request"), request);
            }
            let clash = |other: &&(&str, &str)| other.0 == name && (other.1 == request || request.is_empty());
            if taken.iter().any(|other| clash(&other)) {
                errors.push(FieldError::duplicate(&at, name));
            }
            taken.push((name, request));
        }
        if !known.contains(&name) {
            errors.push(FieldError::not_found(&at, name));
        }
    }
}

/// A name that is known, or has a domain. Says nothing more when the name cannot be read at all.
pub(super) fn standard_name(errors: &mut Errors, path: &Path, name: &str) {
    let wrong = names::qualified_name(name);
    let known = is_container_name(name) || QUOTA_NAMES.contains(&name) || name.starts_with("requests.hugepages-");
    if wrong.is_empty() && !name.contains('/') && !known {
        errors.push(FieldError::invalid(
            path,
            name,
            "must be known to Kubernetes or have a domain, such as 'example.com/gpu'",
        ));
    }
    check::all_of(errors, path, name, wrong);
}

pub(super) fn container_name(errors: &mut Errors, path: &Path, name: &str) {
    standard_name(errors, path, name);
    if !name.contains('/') {
        if !is_container_name(name) {
            let text = "accepted are cpu, memory, ephemeral-storage, hugepages-* and names with a domain";
            errors.push(FieldError::invalid(path, name, text));
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.push(FieldError::invalid(path, name, "must be a domain and a short name, such as 'example.com/gpu'"));
    }
}

/// A name that a quota can have: one that is known, but not `storage`, or one with a slash in it.
pub(super) fn quota_name(errors: &mut Errors, path: &Path, name: &str) {
    standard_name(errors, path, name);
    if !name.contains('/') && !is_quota_name(name) {
        errors.push(FieldError::invalid(path, name, "must be a resource that quotas count, such as 'requests.cpu'"));
    }
}

/// Whether quotas count this by a name of their own.
pub(super) fn is_quota_name(name: &str) -> bool {
    let known = is_container_name(name) || QUOTA_NAMES.contains(&name) || name.starts_with("requests.hugepages-");
    known && name != "storage"
}

fn is_container_name(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge_page(name)
}

pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// A resource that somebody else than Kubernetes counts; its name fits a quota too.
fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::qualified_name(&format!("requests.{name}")).is_empty()
}
