//! Containers of a pod: names, images, ports, environment, mounts, resources, probes.

use super::volumes::{key_ref, local_path};
use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        names, resources,
    },
    object::Fields,
    path::Path,
};
use serde_json::Value;
use std::collections::BTreeSet;

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Checks all containers of a pod spec; mounts refer to `volumes`.
pub(super) fn validate(errors: &mut Errors, path: &Path, spec: &Value, volumes: &BTreeSet<&str>) {
    let at = path.child("containers");
    let containers = spec.list_at("containers");
    if containers.is_empty() {
        errors.push(FieldError::required(&at, "at least one container"));
    }
    let mut taken = BTreeSet::new();
    for (i, container) in containers.iter().enumerate() {
        let here = at.index(i);
        every_container(errors, &here, container, volumes);
        unique_name(errors, &here, container, &mut taken);
        lifecycle(errors, &here, container);
        probes(errors, &here, container);
    }
    host_ports(errors, &at, containers);
    init_containers(errors, &path.child("initContainers"), spec, volumes, &mut taken);
    for (i, container) in spec.list_at("ephemeralContainers").iter().enumerate() {
        let here = path.child("ephemeralContainers").index(i);
        every_container(errors, &here, container, volumes);
        unique_name(errors, &here, container, &mut taken);
    }
}

fn init_containers<'a>(
    errors: &mut Errors, path: &Path, spec: &'a Value, volumes: &BTreeSet<&str>, taken: &mut BTreeSet<&'a str>,
) {
    for (i, container) in spec.list_at("initContainers").iter().enumerate() {
        let here = path.index(i);
        every_container(errors, &here, container, volumes);
        unique_name(errors, &here, container, taken);
        host_ports(errors, path, std::slice::from_ref(container));
        if container.str_at("restartPolicy") == "Always" {
            lifecycle(errors, &here, container);
            probes(errors, &here, container);
            continue;
        }
        for field in ["lifecycle"].into_iter().chain(PROBES) {
            if !container.at(field).is_null() {
                let text = "only init containers with restartPolicy Always may have it";
                errors.push(FieldError::forbidden(&here.child(field), text));
            }
        }
    }
}

fn unique_name<'a>(errors: &mut Errors, path: &Path, container: &'a Value, taken: &mut BTreeSet<&'a str>) {
    let name = container.str_at("name");
    if !name.is_empty() && !taken.insert(name) {
        errors.push(FieldError::duplicate(&path.child("name"), name));
    }
}

fn every_container(errors: &mut Errors, path: &Path, container: &Value, volumes: &BTreeSet<&str>) {
    match container.str_at("name") {
        "" => errors.push(FieldError::required(&path.child("name"), "")),
        name => check::dns_label(errors, &path.child("name"), name),
    }
    let image = container.str_at("image");
    if image.is_empty() {
        errors.push(FieldError::required(&path.child("image"), ""));
    } else if image.trim() != image {
        errors.push(FieldError::invalid(&path.child("image"), image, "no space is accepted first or last"));
    }
    let policy = container.str_at("terminationMessagePolicy");
    let at = path.child("terminationMessagePolicy");
    check::required_one_of(errors, &at, policy, &["File", "FallbackToLogsOnError"]);
    ports(errors, &path.child("ports"), container);
    environment(errors, path, container);
    mounts(errors, &path.child("volumeMounts"), container, volumes);
    let pull = container.str_at("imagePullPolicy");
    check::required_one_of(errors, &path.child("imagePullPolicy"), pull, &["Always", "IfNotPresent", "Never"]);
    resources::validate(errors, &path.child("resources"), container.at("resources"));
    security(errors, &path.child("securityContext"), container.at("securityContext"));
}

fn ports(errors: &mut Errors, path: &Path, container: &Value) {
    let mut taken = BTreeSet::new();
    for (i, port) in container.list_at("ports").iter().enumerate() {
        let at = path.index(i);
        let name = port.str_at("name");
        if !name.is_empty() {
            let wrong = names::port_name(name);
            if wrong.is_empty() && !taken.insert(name) {
                errors.push(FieldError::duplicate(&at.child("name"), name));
            }
            check::all_of(errors, &at.child("name"), name, wrong);
        }
        match port.int_at("containerPort").unwrap_or_default() {
            0 => errors.push(FieldError::required(&at.child("containerPort"), "1 to 65535")),
            number => check::port(errors, &at.child("containerPort"), number),
        }
        match port.int_at("hostPort").unwrap_or_default() {
            0 => {}
            number => check::port(errors, &at.child("hostPort"), number),
        }
        check::protocol(errors, &at.child("protocol"), port.str_at("protocol"));
    }
}

fn host_ports(errors: &mut Errors, path: &Path, containers: &[Value]) {
    let mut taken = BTreeSet::new();
    for (i, container) in containers.iter().enumerate() {
        for (j, port) in container.list_at("ports").iter().enumerate() {
            let number = port.int_at("hostPort").unwrap_or_default();
            let key = format!("{}/{}/{number}", port.str_at("protocol"), port.str_at("hostIP"));
            if number != 0 && !taken.insert(key.clone()) {
                errors.push(FieldError::duplicate(&path.index(i).child("ports").index(j).child("hostPort"), key));
            }
        }
    }
}

fn environment(errors: &mut Errors, path: &Path, container: &Value) {
    for (i, variable) in container.list_at("env").iter().enumerate() {
        let at = path.child("env").index(i);
        match variable.str_at("name") {
            "" => errors.push(FieldError::required(&at.child("name"), "")),
            name => check::all_of(errors, &at.child("name"), name, names::env_name(name)),
        }
        value_from(errors, &at.child("valueFrom"), variable);
    }
    for (i, source) in container.list_at("envFrom").iter().enumerate() {
        let prefix = source.str_at("prefix");
        let at = path.child("envFrom").index(i);
        check::all_of(errors, &at.child("prefix"), prefix, names::env_name(prefix));
        let given: Vec<_> = ["configMapRef", "secretRef"].into_iter().filter(|f| !source.at(f).is_null()).collect();
        for kind in &given {
            check::dns_subdomain(errors, &at.child(kind).child("name"), source.at(kind).str_at("name"));
        }
        if given.len() != 1 {
            errors.push(FieldError::invalid(&path.child("envFrom"), "", "each needs one of configMapRef and secretRef"));
        }
    }
}

fn value_from(errors: &mut Errors, path: &Path, variable: &Value) {
    let from = variable.at("valueFrom");
    if from.is_null() {
        return;
    }
    const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let given: Vec<_> = SOURCES.into_iter().filter(|source| !from.at(source).is_null()).collect();
    for source in &given {
        let at = path.child(source);
        match *source {
            "fieldRef" => field_ref(errors, &at, from.at(source)),
            "resourceFieldRef" => resource_ref(errors, &at, from.at(source).str_at("resource")),
            "configMapKeyRef" | "secretKeyRef" => key_ref(errors, &at, from.at(source)),
            _ => {}
        }
    }
    let text = match (given.len(), variable.str_at("value").is_empty()) {
        (0, _) => "must have one of fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef and fileKeyRef",
        (_, false) => "cannot stand beside a value",
        (1, _) => return,
        _ => "must have one source only",
    };
    errors.push(FieldError::invalid(path, "", text));
}

fn field_ref(errors: &mut Errors, path: &Path, reference: &Value) {
    const FIELDS: [&str; 9] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    for field in ["apiVersion", "fieldPath"] {
        if reference.str_at(field).is_empty() {
            errors.push(FieldError::required(&path.child(field), ""));
            return;
        }
    }
    let field = reference.str_at("fieldPath");
    let subscript = |of: &str| field.strip_prefix(of)?.strip_prefix("['")?.strip_suffix("']");
    if let Some(key) = subscript("metadata.labels") {
        check::qualified_name(errors, path, key);
    } else if let Some(key) = subscript("metadata.annotations") {
        check::qualified_name(errors, path, &key.to_lowercase());
    } else if field.contains("['") || !FIELDS.contains(&field) && !is_whole_map(field) {
        errors.push(FieldError::invalid(&path.child("fieldPath"), field, format!("accepted are {}", FIELDS.join(", "))));
    } else {
        check::one_of(errors, &path.child("fieldPath"), field, &FIELDS);
    }
}

/// These two are known paths, but only files of a volume can hold them.
fn is_whole_map(field: &str) -> bool {
    matches!(field, "metadata.labels" | "metadata.annotations")
}

fn resource_ref(errors: &mut Errors, path: &Path, resource: &str) {
    let known = ["limits.", "requests."].iter().any(|kind| {
        resource.strip_prefix(kind).is_some_and(|name| {
            matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
        })
    });
    if resource.is_empty() {
        errors.push(FieldError::required(&path.child("resource"), ""));
    } else if !known {
        let accepted = ["limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu",
            "requests.ephemeral-storage", "requests.memory"];
        errors.push(FieldError::not_supported(&path.child("resource"), resource, &accepted));
    }
}

fn mounts(errors: &mut Errors, path: &Path, container: &Value, volumes: &BTreeSet<&str>) {
    let mut taken = BTreeSet::new();
    for (i, mount) in container.list_at("volumeMounts").iter().enumerate() {
        let at = path.index(i);
        let (name, target) = (mount.str_at("name"), mount.str_at("mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        }
        if !volumes.contains(name) {
            errors.push(FieldError::not_found(&at.child("name"), name));
        }
        if target.is_empty() {
            errors.push(FieldError::required(&at.child("mountPath"), ""));
        }
        if !taken.insert(target) {
            errors.push(FieldError::invalid(&at.child("mountPath"), target, "is mounted twice"));
        }
        for field in ["subPath", "subPathExpr"] {
            local_path(errors, &path.child(field), mount.str_at(field));
        }
        if !mount.str_at("subPath").is_empty() && !mount.str_at("subPathExpr").is_empty() {
            let value = mount.str_at("subPathExpr");
            errors.push(FieldError::invalid(&at.child("subPathExpr"), value, "cannot stand beside subPath"));
        }
    }
}

fn security(errors: &mut Errors, path: &Path, context: &Value) {
    for field in ["runAsUser", "runAsGroup"] {
        if let Some(id) = context.int_at(field) {
            check::in_range(errors, &path.child(field), id, 0, i64::from(i32::MAX));
        }
    }
    if context.is_true("privileged") && context.at("allowPrivilegeEscalation") == false {
        let text = "privileged cannot be true while allowPrivilegeEscalation is false";
        errors.push(FieldError::invalid(path, context.clone(), text));
    }
}

fn lifecycle(errors: &mut Errors, path: &Path, container: &Value) {
    for hook in ["postStart", "preStop"] {
        let handler = container.at("lifecycle").at(hook);
        if handler.is_object() {
            action(errors, &path.child("lifecycle").child(hook), handler);
        }
    }
}

fn probes(errors: &mut Errors, path: &Path, container: &Value) {
    for name in PROBES {
        let probe = container.at(name);
        if !probe.is_object() {
            continue;
        }
        let at = path.child(name);
        action(errors, &at, probe);
        let numbers = ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];
        check::none_negative(errors, &at, probe, &numbers);
        if let Some(seconds) = probe.int_at("terminationGracePeriodSeconds").filter(|seconds| *seconds <= 0) {
            errors.push(FieldError::invalid(&at.child("terminationGracePeriodSeconds"), seconds, "must be 1 or more"));
        }
        let successes = probe.int_at("successThreshold").unwrap_or_default();
        if name != "readinessProbe" && successes != 1 {
            errors.push(FieldError::invalid(&at.child("successThreshold"), successes, "must be 1"));
        }
    }
}

/// What a probe or a hook does: one thing.
fn action(errors: &mut Errors, path: &Path, handler: &Value) {
    const ACTIONS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
    let mut given = ACTIONS.into_iter().filter(|name| !handler.at(name).is_null());
    let Some(kind) = given.next() else {
        errors.push(FieldError::required(path, "one of exec, httpGet, tcpSocket and grpc"));
        return;
    };
    for extra in given {
        errors.push(FieldError::forbidden(&path.child(extra), "only one action is accepted"));
    }
    let (at, what) = (path.child(kind), handler.at(kind));
    match kind {
        "exec" if what.list_at("command").is_empty() => errors.push(FieldError::required(&at.child("command"), "")),
        "httpGet" => {
            if what.str_at("path").is_empty() {
                errors.push(FieldError::required(&at.child("path"), ""));
            }
            check::port_or_name(errors, &at.child("port"), what.at("port"));
            check::one_of(errors, &at.child("scheme"), what.str_at("scheme"), &["HTTP", "HTTPS"]);
            for header in what.list_at("httpHeaders") {
                let name = header.str_at("name");
                if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
                    errors.push(FieldError::invalid(&at.child("httpHeaders"), name, "accepted are letters, digits and '-'"));
                }
            }
        }
        "tcpSocket" | "grpc" => check::port_or_name(errors, &at.child("port"), what.at("port")),
        _ => {}
    }
}
