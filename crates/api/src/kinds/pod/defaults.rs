//! Defaults of pods and of pod templates.
//!
//! Called by `pod` and by every workload with a template. Mirrors the defaulting functions of core/v1 PodSpec, Container,
//! Probe and the volume sources.

use crate::{
    kinds::{
        edit::{existing, fill, items},
        quantity, resources,
    },
    object::Fields,
};
use serde_json::{Value, json};

/// Containers of every sort in a pod spec.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Defaults of a pod spec, in a pod or in a template.
pub fn spec(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    if spec.str_at("serviceAccountName").is_empty() && !spec.str_at("serviceAccount").is_empty() {
        spec.set("serviceAccountName", spec.at("serviceAccount").clone());
    }
    match spec.str_at("serviceAccountName") {
        "" => drop(spec.remove("serviceAccount")),
        _ => spec.set("serviceAccount", spec.at("serviceAccountName").clone()),
    }
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "restartPolicy", "Always");
    fill(spec, "schedulerName", "default-scheduler");
    spec.set_default("securityContext", json!({}));
    spec.set_default("terminationGracePeriodSeconds", 30);
    round_amounts(spec);
    for volume in items(spec, "volumes") {
        volume_defaults(volume);
    }
    for list in CONTAINERS {
        for container in items(spec, list) {
            container_defaults(container);
        }
    }
}

/// What a pod gets beyond its spec's defaults; templates do not.
pub fn pod(pod: &mut Value) {
    if pod.int_at("spec.terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        pod.set("spec.terminationGracePeriodSeconds", 1);
    }
    pod.set_default("spec.enableServiceLinks", true);
    let host_network = pod.is_true("spec.hostNetwork");
    for list in ["spec.containers", "spec.initContainers"] {
        for container in items(pod, list) {
            requests_from_limits(container);
            if host_network {
                for port in items(container, "ports") {
                    let number = port.int_at("containerPort").unwrap_or_default();
                    fill(port, "hostPort", number);
                }
            }
        }
    }
    status(pod);
}

/// Fills in the resources of a pod that has some of its own: it asks for what its containers ask for together, else for
/// its limits, and is limited like them where all of them are. Done when the pod is created, after everything that may
/// add containers.
pub fn pod_resources(pod: &mut Value) {
    let spec = pod.at("spec");
    let own = |kind: &str| spec.at("resources").map_at(kind).cloned().unwrap_or_default();
    let (mut limits, mut requests) = (own("limits"), own("requests"));
    if limits.is_empty() && requests.is_empty() {
        return;
    }
    let together = resources::of_containers(spec, "limits");
    for (name, total) in together.iter().filter(|(name, _)| resources::is_huge_page(name)) {
        if !requests.contains_key(name) {
            limits.entry(name).or_insert_with(|| quantity::text(total.nanos, true).into());
        }
    }
    for (name, total) in resources::of_containers(spec, "requests") {
        if resources::fits_pod(&name) && resources::may_overcommit(&name) {
            let binary = name == "memory";
            requests.entry(name).or_insert_with(|| quantity::text(total.nanos, binary).into());
        }
    }
    for (name, limit) in limits.iter().filter(|(name, _)| resources::fits_pod(name)) {
        requests.entry(name.clone()).or_insert_with(|| limit.clone());
    }
    let containers = || spec.list_at("containers").iter().chain(spec.list_at("initContainers"));
    for (name, request) in requests.iter().filter(|(name, _)| resources::fits_pod(name)) {
        let Some(total) = together.get(name).filter(|_| !limits.contains_key(name)) else { continue };
        if containers().all(|container| container.at("resources.limits").get(name).is_some()) {
            let more = request.as_str().and_then(quantity::nanos).is_some_and(|request| request > total.nanos);
            let limit = if more { request.clone() } else { quantity::text(total.nanos, name != "cpu").into() };
            limits.insert(name.clone(), limit);
        }
    }
    for (kind, list) in [("limits", limits), ("requests", requests)] {
        if !list.is_empty() {
            pod.set(&format!("spec.resources.{kind}"), list);
        }
    }
}

/// Writes the labels that the pod itself has into the selectors that name their keys.
pub fn label_keys(pod: &mut Value) {
    let labels = pod.at("metadata.labels").clone();
    let add = |term: &mut Value| {
        if term.at("labelSelector").is_null() {
            return;
        }
        let mut rules = term.list_at("labelSelector.matchExpressions").to_vec();
        for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
            let keys = term.list_at(field).iter().filter_map(Value::as_str);
            let known = keys.filter_map(|key| Some((key, labels.get(key)?)));
            rules.extend(known.map(|(key, value)| json!({"key": key, "operator": operator, "values": [value]})));
        }
        if !rules.is_empty() {
            term.set("labelSelector.matchExpressions", rules);
        }
    };
    items(pod, "spec.topologySpreadConstraints").for_each(add);
    for kind in ["podAffinity", "podAntiAffinity"] {
        let of = format!("spec.affinity.{kind}");
        items(pod, &format!("{of}.requiredDuringSchedulingIgnoredDuringExecution")).for_each(add);
        for wish in items(pod, &format!("{of}.preferredDuringSchedulingIgnoredDuringExecution")) {
            existing(wish, "podAffinityTerm").into_iter().for_each(add);
        }
    }
}

/// Amounts have no part smaller than a thousandth.
fn round_amounts(holder: &mut Value) {
    for kind in ["resources.limits", "resources.requests", "overhead"] {
        let Some(Value::Object(list)) = existing(holder, kind) else { continue };
        for amount in list.values_mut() {
            if let Some(rounded) = amount.as_str().and_then(quantity::rounded_to_milli) {
                *amount = rounded.into();
            }
        }
    }
}

/// Keeps `podIP` and `podIPs` in step. The singular wins, as for clients that know nothing else; a list that says an
/// address twice says it once.
fn status(pod: &mut Value) {
    let mut ips: Vec<String> = Vec::new();
    for entry in pod.list_at("status.podIPs") {
        let ip = entry.str_at("ip");
        if !ips.iter().any(|known| known == ip) {
            ips.push(ip.to_owned());
        }
    }
    let single = pod.str_at("status.podIP").to_owned();
    match (single.as_str(), ips.first()) {
        ("", None) => return,
        ("", Some(first)) => pod.set("status.podIP", first.clone()),
        (ip, first) if first.is_none_or(|first| first != ip) => ips = vec![single],
        _ => {}
    }
    pod.set("status.podIPs", ips.into_iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>());
}

fn requests_from_limits(container: &mut Value) {
    let Some(limits) = container.map_at("resources.limits").cloned() else { return };
    for (name, amount) in limits {
        let requests = container.at_mut("resources.requests");
        if !requests.is_object() {
            *requests = json!({});
        }
        if let Some(requests) = requests.as_object_mut() {
            requests.entry(name).or_insert(amount);
        }
    }
}

fn container_defaults(container: &mut Value) {
    let policy = pull_policy(container.str_at("image"));
    fill(container, "imagePullPolicy", policy);
    round_amounts(container);
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    for port in items(container, "ports") {
        fill(port, "protocol", "TCP");
    }
    for variable in items(container, "env") {
        if let Some(field) = existing(variable, "valueFrom.fieldRef") {
            fill(field, "apiVersion", "v1");
        }
        if let Some(file) = existing(variable, "valueFrom.fileKeyRef") {
            file.set_default("optional", false);
        }
    }
    for probe in PROBES {
        if let Some(probe) = existing(container, probe) {
            for (field, value) in
                [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
            {
                fill(probe, field, value);
            }
            if let Some(grpc) = existing(probe, "grpc") {
                grpc.set_default("service", "");
            }
        }
    }
    let handlers = PROBES.into_iter().chain(["lifecycle.postStart", "lifecycle.preStop"]);
    for handler in handlers {
        if let Some(get) = existing(container, &format!("{handler}.httpGet")) {
            fill(get, "path", "/");
            fill(get, "scheme", "HTTP");
        }
    }
}

fn volume_defaults(volume: &mut Value) {
    let has_source = volume.as_object().is_some_and(|map| map.keys().any(|key| key != "name"));
    if !has_source {
        volume.set("emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = existing(volume, source) {
            source.set_default("defaultMode", 0o644);
        }
    }
    for (source, field, value) in [
        ("iscsi", "iscsiInterface", "default"),
        ("rbd", "pool", "rbd"),
        ("rbd", "user", "admin"),
        ("rbd", "keyring", "/etc/ceph/keyring"),
        ("azureDisk", "cachingMode", "ReadWrite"),
        ("azureDisk", "fsType", "ext4"),
        ("azureDisk", "kind", "Shared"),
        ("scaleIO", "storageMode", "ThinProvisioned"),
        ("scaleIO", "fsType", "xfs"),
    ] {
        if let Some(source) = existing(volume, source) {
            fill(source, field, value);
        }
    }
    if let Some(disk) = existing(volume, "azureDisk") {
        disk.set_default("readOnly", false);
    }
    if let Some(path) = existing(volume, "hostPath") {
        path.set_default("type", "");
    }
    if let Some(image) = existing(volume, "image") {
        let policy = pull_policy(image.str_at("reference"));
        fill(image, "pullPolicy", policy);
    }
    if let Some(claim) = existing(volume, "ephemeral.volumeClaimTemplate.spec") {
        claim.set_default("volumeMode", "Filesystem");
    }
    downward_files(volume, "downwardAPI.items");
    for source in items(volume, "projected.sources") {
        downward_files(source, "downwardAPI.items");
        if let Some(token) = existing(source, "serviceAccountToken") {
            token.set_default("expirationSeconds", 3600);
        }
    }
}

fn downward_files(holder: &mut Value, path: &str) {
    for file in items(holder, path) {
        if let Some(field) = existing(file, "fieldRef") {
            fill(field, "apiVersion", "v1");
        }
    }
}

/// `Always` for an image that is, or is taken to be, `:latest`.
fn pull_policy(image: &str) -> &'static str {
    if is_latest(image) { "Always" } else { "IfNotPresent" }
}

/// Longest name of a repository.
const REPOSITORY_MAX: usize = 255;

fn is_latest(image: &str) -> bool {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match name[last..].split_once(':') {
        Some((repository, tag)) => (&name[..last + repository.len()], Some(tag)),
        None => (name, None),
    };
    let path = match name.split_once('/') {
        Some((host, path))
            if host.contains(['.', ':']) || host == "localhost" || host.bytes().any(|b| b.is_ascii_uppercase()) =>
        {
            path
        }
        _ => name,
    };
    let readable = path.split('/').all(is_repository_part);
    readable && path.len() <= REPOSITORY_MAX && (tag == Some("latest") || tag.is_none() && digest.is_none())
}

/// Runs of letters and digits with one dot, one or two underscores or any number of dashes between.
fn is_repository_part(part: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let separator = |run: &str| matches!(run, "." | "_" | "__") || run.bytes().all(|b| b == b'-');
    part.starts_with(plain) && part.ends_with(plain) && part.split(plain).all(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_latest_images_are_pulled_always() {
        for (image, latest) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1", false),
            ("localhost:5000/nginx", true),
            ("localhost:5000/nginx:1", false),
            ("example.com/a/b", true),
            ("example.com/a/b@sha256:00", false),
            ("a:latest@sha256:00", true),
            ("", false),
            ("UPPER", false),
            ("-a", false),
            ("a..b", false),
            ("a.b__c--d/e", true),
            ("Host/a", true),
        ] {
            assert_eq!(is_latest(image), latest, "{image}");
        }
    }

    #[test]
    fn pod_ips_follow_the_singular_and_lose_repetitions() {
        for (given, wanted) in [
            (json!({}), json!({})),
            (json!({"podIP": "10.0.0.1"}), json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]})),
            (json!({"podIPs": [{"ip": "fd00::1"}]}), json!({"podIP": "fd00::1", "podIPs": [{"ip": "fd00::1"}]})),
            (
                json!({"podIP": "fd00::1", "podIPs": [{"ip": "fd00::1"}, {"ip": "10.0.0.1"}]}),
                json!({"podIP": "fd00::1", "podIPs": [{"ip": "fd00::1"}, {"ip": "10.0.0.1"}]}),
            ),
            (
                json!({"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}),
                json!({"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}]}),
            ),
            (
                json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}),
                json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}),
            ),
        ] {
            let mut pod = json!({"spec": {}, "status": given});
            super::pod(&mut pod);
            assert_eq!(pod["status"], wanted);
        }
    }
}
