//! The Deployment of routers.

use super::{Input, environment, proxy_protocol::UnknownPlatform, small};
use crate::operator::names::{self, OPERAND_NAMESPACE};
use api::config::{Placement, PublishingKind, Topology, ingress_controller::Selector};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use runtime::operator::fingerprint;
use serde_json::{Map, Value, json};

/// How many routers there are to be.
pub fn replicas(input: Input<'_>) -> i32 {
    input.controller.spec.replicas.unwrap_or_else(|| input.cluster.replicas())
}

/// The Deployment. `live` is the load balancer Service, `image` what routers run.
pub fn wanted(input: Input<'_>, live: Option<&Service>, image: &str) -> Result<Value, UnknownPlatform> {
    let (names, spec) = (input.names, &input.controller.spec);
    let replicas = replicas(input);
    let host = input.admission.strategy.kind == PublishingKind::HostNetwork;
    let single = input.cluster.router_topology() == Topology::SingleReplica;
    let ports = environment::ports(input);
    let environment = environment::environment(input, live)?;
    let mut variables: Vec<Value> =
        environment.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    for (name, value) in [
        ("DEFAULT_CERTIFICATE_DIR", "/etc/pki/tls/private"),
        ("DEFAULT_DESTINATION_CA_PATH", "/var/run/configmaps/service-ca/service-ca.crt"),
        ("STATS_USERNAME_FILE", "/var/lib/haproxy/conf/metrics-auth/statsUsername"),
        ("STATS_PASSWORD_FILE", "/var/lib/haproxy/conf/metrics-auth/statsPassword"),
    ] {
        variables.push(json!({"name": name, "value": value}));
    }
    let port = |name: &str, number: u16| match host {
        true => json!({"name": name, "containerPort": number, "hostPort": number, "protocol": "TCP"}),
        false => json!({"name": name, "containerPort": number, "protocol": "TCP"}),
    };
    let probe = |path: &str, more: Value| {
        let mut get = json!({"path": path, "port": ports.stats, "scheme": "HTTP"});
        if host {
            get["host"] = json!("localhost");
        }
        let mut probe = json!({"httpGet": get});
        merge(&mut probe, more);
        probe
    };
    let often = json!({"failureThreshold": 3, "periodSeconds": 10});
    let certificate = spec.default_certificate.as_ref().map(|some| some.name.clone()).filter(|name| !name.is_empty());
    let certificate = certificate.unwrap_or_else(|| names.certificate.clone());
    let (mut mounts, mut volumes) = mounts(input, &certificate);
    mounts.push(json!({"name": "stats-auth", "mountPath": "/var/lib/haproxy/conf/metrics-auth", "readOnly": true}));
    volumes.push(json!({"name": "stats-auth", "secret": {"secretName": names.stats}}));
    // Where the router makes its working folder, with keys and sockets: nothing of that is written into the image's own files.
    mounts.push(json!({"name": "work", "mountPath": "/var/lib/twinstack"}));
    volumes.push(json!({"name": "work", "emptyDir": {}}));
    let container = json!({
        "name": "router",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["twinstack", "router"],
        "env": variables,
        "ports": [port("http", ports.http), port("https", ports.https), port("metrics", ports.stats)],
        "livenessProbe": probe("/healthz", often.clone()),
        "readinessProbe": probe("/healthz/ready", often),
        "startupProbe": probe("/healthz/ready", json!({"failureThreshold": 120, "periodSeconds": 1})),
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
        "volumeMounts": mounts,
    });
    let mut pod = json!({
        "serviceAccountName": "router",
        "priorityClassName": "system-cluster-critical",
        "terminationGracePeriodSeconds": 3600,
        "nodeSelector": node_selector(input),
        "containers": [container],
        "volumes": volumes,
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": names.selector()},
        }],
    });
    if host {
        pod["hostNetwork"] = json!(true);
        pod["dnsPolicy"] = json!("ClusterFirstWithHostNet");
    }
    let tolerations = spec.node_placement.as_ref().map(|placement| placement.tolerations.clone()).unwrap_or_default();
    if !tolerations.is_empty() {
        pod["tolerations"] = json!(tolerations);
    }
    // Only routers of different generations share a node, so that a rollout neither doubles up nor has to wait for a free one.
    let generation = fingerprint(&pod);
    let mut affinity = if !host && !single { affinity(names, &generation) } else { json!({}) };
    if own_selector(input).is_none() {
        affinity["nodeAffinity"] = not_far_away();
    }
    if affinity.as_object().is_some_and(|affinity| !affinity.is_empty()) {
        pod["affinity"] = affinity;
    }
    let mut labels: Map<String, Value> = names.selector().into_iter().map(|(key, value)| (key, json!(value))).collect();
    labels.insert(names::HASH.to_owned(), json!(generation));
    let scc = if host { "hostnetwork" } else { "restricted" };
    Ok(json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": names.router, "namespace": OPERAND_NAMESPACE, "labels": names.owning(),
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": names.selector()},
            "minReadySeconds": 30,
            "progressDeadlineSeconds": 600,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": rollout(host, single, replicas)},
            "template": {
                "metadata": {"labels": labels, "annotations": {"openshift.io/required-scc": scc}},
                "spec": pod,
            },
        },
    }))
}

fn rollout(host: bool, single: bool, replicas: i32) -> Value {
    match (host, single) {
        // A port of the host is free only when its router is gone.
        (true, _) => json!({"maxUnavailable": "25%", "maxSurge": 0}),
        (false, true) => json!({"maxUnavailable": "25%", "maxSurge": "25%"}),
        (false, false) => json!({"maxUnavailable": if replicas < 4 { "50%" } else { "25%" }, "maxSurge": "25%"}),
    }
}

fn own_selector(input: Input<'_>) -> Option<&Selector> {
    input.controller.spec.node_placement.as_ref().and_then(|placement| placement.node_selector.as_ref())
}

/// Nodes at a distant site are for what was sent there on purpose.
fn not_far_away() -> Value {
    let far = json!({"key": "node.openshift.io/remote-worker", "operator": "NotIn", "values": [""]});
    json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [far]}]}})
}

fn node_selector(input: Input<'_>) -> Value {
    if let Some(given) = own_selector(input) {
        return json!(given.match_labels);
    }
    let role = match input.cluster.placement {
        Placement::Workers => "node-role.kubernetes.io/worker",
        Placement::ControlPlane => "node-role.kubernetes.io/master",
    };
    json!({"kubernetes.io/os": "linux", (role): ""})
}

fn affinity(names: &names::Names, generation: &str) -> Value {
    let term = |operator: &str| {
        json!({
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchExpressions": [
                {"key": names::DEPLOYMENT, "operator": "In", "values": [names.controller]},
                {"key": names::HASH, "operator": operator, "values": [generation]},
            ]},
        })
    };
    json!({
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "podAffinityTerm": term("NotIn")},
        ]},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term("In")]},
    })
}

/// Volumes of what a router reads.
fn mounts(input: Input<'_>, certificate: &str) -> (Vec<Value>, Vec<Value>) {
    let mut mounts =
        vec![json!({"name": "default-certificate", "mountPath": "/etc/pki/tls/private", "readOnly": true})];
    let mut volumes = vec![json!({"name": "default-certificate", "secret": {"secretName": certificate}})];
    let mut map = |name: &str, path: &str, source: Value| {
        mounts.push(json!({"name": name, "mountPath": path, "readOnly": true}));
        volumes.push(json!({"name": name, "configMap": source}));
    };
    // Filled by whoever signs certificates of Services; where nobody does, reencrypt Routes need an authority of their own.
    let items = json!([{"key": "service-ca.crt", "path": "service-ca.crt"}]);
    let source = json!({"name": small::SERVICE_CA, "optional": true, "items": items});
    map("service-ca-bundle", "/var/run/configmaps/service-ca", source);
    for copy in small::copies(input) {
        map(copy.volume, copy.path, json!({"name": copy.name}));
    }
    (mounts, volumes)
}
/// Somebody who has set how long probes may take keeps that; all else about probes is ours.
pub fn keep_timeouts(wanted: &mut Value, live: &Deployment) {
    let template = live.spec.template.spec.as_ref();
    let Some(router) = template.and_then(|pod| pod.containers.iter().find(|container| container.name == "router"))
    else {
        return;
    };
    let probes = [
        ("livenessProbe", &router.liveness_probe),
        ("readinessProbe", &router.readiness_probe),
        ("startupProbe", &router.startup_probe),
    ];
    for (field, probe) in probes {
        if let Some(seconds) = probe.as_ref().and_then(|probe| probe.timeout_seconds).filter(|seconds| *seconds > 1) {
            wanted["spec"]["template"]["spec"]["containers"][0][field]["timeoutSeconds"] = json!(seconds);
        }
    }
}

fn merge(into: &mut Value, more: Value) {
    if let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) {
        into.extend(more);
    }
}
