//! Containers of a pod: names, images, ports, restart rules; what they refer to has files of its own beside.

use super::{environment, mounts, mounts::Volumes, probes, security};
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

/// Fields that an ephemeral container may have; the rest is for containers that are part of the work.
const EPHEMERAL_FIELDS: [&str; 17] = [
    "name",
    "image",
    "command",
    "args",
    "workingDir",
    "envFrom",
    "env",
    "volumeMounts",
    "volumeDevices",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
    "securityContext",
    "stdin",
    "stdinOnce",
    "tty",
    "targetContainerName",
];

/// Checks all containers of a pod spec; mounts refer to `volumes`.
pub(super) fn validate(errors: &mut Errors, path: &Path, spec: &Value, volumes: &Volumes<'_>) {
    let at = path.child("containers");
    let containers = spec.list_at("containers");
    if containers.is_empty() {
        errors.push(FieldError::required(&at, "at least one container"));
    }
    let mut taken = BTreeSet::new();
    for (i, container) in containers.iter().enumerate() {
        let here = at.index(i);
        every_container(errors, &here, spec, container, volumes);
        if !taken.insert(container.str_at("name")) {
            errors.push(FieldError::duplicate(&here.child("name"), container.str_at("name")));
        }
        probes::lifecycle(errors, &here.child("lifecycle"), spec, container);
        probes::probes(errors, &here, spec, container);
        restart_rules(errors, &here, container);
    }
    host_ports(errors, &at, containers);
    init_containers(errors, &path.child("initContainers"), spec, volumes, &mut taken);
    ephemeral_containers(errors, &path.child("ephemeralContainers"), spec, volumes, taken);
}

/// Checks that only a pod's containers get, not those of a template: no space around the image.
pub(super) fn images(errors: &mut Errors, path: &Path, containers: &[Value]) {
    for (i, container) in containers.iter().enumerate() {
        image(errors, &path.index(i).child("image"), container.str_at("image"));
    }
}

fn image(errors: &mut Errors, path: &Path, image: &str) {
    if image.trim() != image {
        errors.push(FieldError::invalid(path, image, "no space is accepted first or last"));
    }
}

fn init_containers<'a>(
    errors: &mut Errors,
    path: &Path,
    spec: &'a Value,
    volumes: &Volumes<'_>,
    taken: &mut BTreeSet<&'a str>,
) {
    for (i, container) in spec.list_at("initContainers").iter().enumerate() {
        let here = path.index(i);
        every_container(errors, &here, spec, container, volumes);
        restart_rules(errors, &here, container);
        let name = container.str_at("name");
        if taken.contains(name) {
            errors.push(FieldError::duplicate(&here.child("name"), name));
        } else if !name.is_empty() {
            taken.insert(name);
        }
        host_ports(errors, path, std::slice::from_ref(container));
        if container.str_at("restartPolicy") == "Always" {
            probes::lifecycle(errors, &here.child("lifecycle"), spec, container);
            probes::probes(errors, &here, spec, container);
            continue;
        }
        for field in ["lifecycle"].into_iter().chain(probes::PROBES) {
            if !container.at(field).is_null() {
                let text = "only init containers with restartPolicy Always may have it";
                errors.push(FieldError::forbidden(&here.child(field), text));
            }
        }
        for (j, policy) in container.list_at("resizePolicy").iter().enumerate() {
            if policy.str_at("restartPolicy") == "RestartContainer" {
                let at = here.child("resizePolicy").index(j).child("restartPolicy");
                let text = "only init containers with restartPolicy Always can be restarted";
                errors.push(FieldError::invalid(&at, "RestartContainer", text));
            }
        }
    }
}

fn ephemeral_containers<'a>(
    errors: &mut Errors,
    path: &Path,
    spec: &'a Value,
    volumes: &Volumes<'_>,
    mut taken: BTreeSet<&'a str>,
) {
    let others = taken.clone();
    for (i, container) in spec.list_at("ephemeralContainers").iter().enumerate() {
        let here = path.index(i);
        every_container(errors, &here, spec, container, volumes);
        image(errors, &here.child("image"), container.str_at("image"));
        if !taken.insert(container.str_at("name")) {
            errors.push(FieldError::duplicate(&here.child("name"), container.str_at("name")));
        }
        let target = container.str_at("targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.push(FieldError::not_found(&here.child("targetContainerName"), target));
        }
        const TEXT: &str = "an ephemeral container cannot have it";
        for (field, value) in container.as_object().into_iter().flatten() {
            let given = !check::same(value, &Value::Null);
            if given && !EPHEMERAL_FIELDS.contains(&field.as_str()) {
                errors.push(FieldError::forbidden(&here.child(field), TEXT));
            }
        }
        for (j, mount) in container.list_at("volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !mount.str_at(field).is_empty() {
                    errors.push(FieldError::forbidden(&here.child("volumeMounts").index(j).child(field), TEXT));
                }
            }
        }
    }
}

fn every_container(errors: &mut Errors, path: &Path, spec: &Value, container: &Value, volumes: &Volumes<'_>) {
    match container.str_at("name") {
        "" => errors.push(FieldError::required(&path.child("name"), "")),
        name => check::dns_label(errors, &path.child("name"), name),
    }
    if container.str_at("image").is_empty() {
        errors.push(FieldError::required(&path.child("image"), ""));
    }
    let policy = container.str_at("terminationMessagePolicy");
    let at = path.child("terminationMessagePolicy");
    check::required_one_of(errors, &at, policy, &["File", "FallbackToLogsOnError"]);
    ports(errors, &path.child("ports"), container);
    environment::validate(errors, path, container);
    mounts::validate(errors, path, container, volumes);
    pull_policy(errors, &path.child("imagePullPolicy"), container.str_at("imagePullPolicy"));
    resources::container(errors, &path.child("resources"), container.at("resources"), spec);
    resize_policy(errors, &path.child("resizePolicy"), spec, container);
    security::container(errors, &path.child("securityContext"), spec, container.at("securityContext"));
}

/// When an image is pulled; of containers and of image volumes.
pub(super) fn pull_policy(errors: &mut Errors, path: &Path, policy: &str) {
    check::required_one_of(errors, path, policy, &["Always", "IfNotPresent", "Never"]);
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

fn resize_policy(errors: &mut Errors, path: &Path, spec: &Value, container: &Value) {
    let mut taken = BTreeSet::new();
    for (i, policy) in container.list_at("resizePolicy").iter().enumerate() {
        let (name, restart) = (policy.str_at("resourceName"), policy.str_at("restartPolicy"));
        if !taken.insert(name) {
            errors.push(FieldError::duplicate(&path.index(i), name));
        }
        check::required_one_of(errors, path, name, &["cpu", "memory"]);
        check::required_one_of(errors, path, restart, &["NotRequired", "RestartContainer"]);
        if spec.str_at("restartPolicy") == "Never" && restart != "NotRequired" {
            errors.push(FieldError::invalid(
                path,
                restart,
                "must be NotRequired, because the pod's restartPolicy is Never",
            ));
        }
    }
}

/// The restart policy of one container, and the exit codes that make an exception of it.
fn restart_rules(errors: &mut Errors, path: &Path, container: &Value) {
    let (policy, rules) = (container.at("restartPolicy").as_str(), container.list_at("restartPolicyRules"));
    let at = path.child("restartPolicy");
    match policy {
        None if rules.is_empty() => return,
        None => errors.push(FieldError::required(&at, "because restartPolicyRules are given")),
        Some(policy) => check::one_of(errors, &at, policy, &["Always", "Never", "OnFailure"]),
    }
    let at = path.child("restartPolicyRules");
    if rules.len() > 20 {
        errors.push(FieldError::too_many(&at, rules.len(), 20));
    }
    for (i, rule) in rules.iter().enumerate() {
        let here = at.index(i);
        check::one_of(errors, &here.child("action"), rule.str_at("action"), &["Restart", "RestartAllContainers"]);
        let codes = rule.at("exitCodes");
        if codes.is_null() {
            errors.push(FieldError::required(&here.child("exitCodes"), ""));
            continue;
        }
        check::one_of(errors, &here.child("exitCodes").child("operator"), codes.str_at("operator"), &["In", "NotIn"]);
        let values = codes.list_at("values");
        if values.len() > 255 {
            errors.push(FieldError::too_many(&here.child("exitCodes").child("values"), values.len(), 255));
        }
    }
}
