//! The objects in the shape that upstream's tests ask for.

use super::*;

/// The object of this kind and name in a cluster that has everything.
fn find(kind: &str, name: &str) -> Value {
    let all: &Served =
        &[discovery::NETWORK_POLICY, discovery::SERVICE_MONITOR, discovery::PROMETHEUS_RULE].into_iter().collect();
    let mut found = objects(&workload(), all, Some("172.30.0.10".parse().unwrap()));
    found.retain(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    assert_eq!(found.len(), 1, "{kind} {name}");
    found.remove(0)
}

#[test]
fn the_daemonset_runs_one_server_that_is_asked_how_it_is() {
    let set = find("DaemonSet", "dns-default");
    let pod = &set["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    for (what, value, expected) in [
        ("program", &container["command"], json!(["twinstack", "dns", "--conf", "/etc/coredns/Corefile"])),
        (
            "ports",
            &container["ports"],
            json!([
                {"name": "dns", "containerPort": 5353, "protocol": "UDP"},
                {"name": "dns-tcp", "containerPort": 5353, "protocol": "TCP"},
                {"name": "metrics", "containerPort": 9153, "protocol": "TCP"}
            ]),
        ),
        (
            "readiness",
            &container["readinessProbe"]["httpGet"],
            json!({"path": "/ready", "port": 8181, "scheme": "HTTP"}),
        ),
        (
            "liveness",
            &container["livenessProbe"]["httpGet"],
            json!({"path": "/health", "port": 8080, "scheme": "HTTP"}),
        ),
        ("requests", &container["resources"]["requests"], json!({"cpu": "50m", "memory": "70Mi"})),
        ("read-only", &container["securityContext"]["readOnlyRootFilesystem"], json!(true)),
        ("resolver", &pod["dnsPolicy"], json!("Default")),
        ("priority", &pod["priorityClassName"], json!("system-node-critical")),
        ("ready for", &set["spec"]["minReadySeconds"], json!(9)),
        ("surge", &set["spec"]["updateStrategy"]["rollingUpdate"], json!({"maxSurge": "10%", "maxUnavailable": 0})),
    ] {
        assert_eq!(*value, expected, "{what}");
    }
    // Pods are found by the label that the DaemonSet and the Service select.
    let labels = &set["spec"]["template"]["metadata"]["labels"];
    assert_eq!(*labels, set["spec"]["selector"]["matchLabels"]);
    assert_eq!(*labels, find("Service", "dns-default")["spec"]["selector"]);
}

#[test]
fn the_service_leaves_the_choice_of_families_to_the_api() {
    let service = find("Service", "dns-default");
    let spec = service["spec"].as_object().unwrap();
    assert_eq!(
        spec["ports"],
        json!([
            {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "dns"},
            {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": "dns-tcp"}
        ])
    );
    assert_eq!(spec["clusterIP"], "172.30.0.10");
    // What the API filled in is nobody's here: an unrelated change leaves it alone.
    for field in ["clusterIPs", "ipFamilies", "internalTrafficPolicy", "sessionAffinity"] {
        assert!(!spec.contains_key(field), "{field}");
    }
}

#[test]
fn servers_may_list_and_watch_and_nothing_else() {
    let role = find("ClusterRole", "openshift-dns");
    let mut may = Vec::new();
    for rule in role["rules"].as_array().unwrap() {
        assert_eq!(rule["verbs"], json!(["list", "watch"]));
        may.extend(rule["resources"].as_array().unwrap().iter().map(|resource| resource.as_str().unwrap().to_owned()));
    }
    assert_eq!(may, ["endpoints", "services", "pods", "namespaces", "endpointslices"]);
    let binding = find("ClusterRoleBinding", "openshift-dns");
    assert_eq!(binding["roleRef"]["name"], "openshift-dns");
    assert_eq!(binding["subjects"], json!([{"kind": "ServiceAccount", "name": "dns", "namespace": "openshift-dns"}]));
}

#[test]
fn policies_let_questions_in_and_out_in_both_families() {
    assert_eq!(
        find("NetworkPolicy", "deny-all")["spec"],
        json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})
    );
    let allow = find("NetworkPolicy", "dns-default");
    let spec = &allow["spec"];
    assert_eq!(
        spec["ingress"][0],
        json!({"ports": [{"port": 5353, "protocol": "UDP"}, {"port": 5353, "protocol": "TCP"}]})
    );
    assert_eq!(spec["ingress"][1]["ports"], json!([{"port": 9153, "protocol": "TCP"}]));
    assert_eq!(spec["egress"], json!([{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}, {"ipBlock": {"cidr": "::/0"}}]}]));
}

#[test]
fn the_monitoring_finds_the_service_of_the_metrics() {
    let monitor = find("ServiceMonitor", "dns-default");
    let service = find("Service", "dns-default-metrics");
    for (label, value) in monitor["spec"]["selector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(service["metadata"]["labels"][label], *value);
    }
    assert_eq!(monitor["spec"]["endpoints"][0]["port"], service["spec"]["ports"][0]["name"]);
    assert_eq!(find("Namespace", "openshift-dns")["metadata"]["labels"]["openshift.io/cluster-monitoring"], "true");
}

#[test]
fn tolerations_and_selectors_replace_the_defaults_one_by_one() {
    let exists = json!([{"operator": "Exists"}]);
    let own =
        json!([{"key": "dns", "operator": "Equal", "value": "only", "effect": "NoExecute", "tolerationSeconds": 120}]);
    let usual = json!([
        {"key": "node-role.kubernetes.io/master", "operator": "Exists"},
        {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}
    ]);
    let linux = json!({"kubernetes.io/os": "linux"});
    for (given, selector, tolerations) in [
        (json!({}), &linux, &usual),
        (json!({"nodeSelector": {}}), &linux, &usual),
        (json!({"tolerations": []}), &linux, &usual),
        (json!({"tolerations": exists}), &linux, &exists),
        (json!({"tolerations": own}), &linux, &own),
        (json!({"nodeSelector": {"a": "b"}}), &json!({"a": "b"}), &usual),
        (json!({"nodeSelector": {"a": "b"}, "tolerations": own}), &json!({"a": "b"}), &own),
    ] {
        let placement: NodePlacement = serde_json::from_value(given.clone()).unwrap();
        let set = daemonset("image", Program::Twinstack, &placement, &[]);
        let pod = &set["spec"]["template"]["spec"];
        assert_eq!((&pod["nodeSelector"], &pod["tolerations"]), (selector, tolerations), "{given}");
    }
}
