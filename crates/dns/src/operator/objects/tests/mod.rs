//! Which objects there are for which cluster.

mod changed;
mod shape;

use super::*;
use crate::operator::{Local, Program};
use net::Family;
use runtime::{listen::Hosts, operator::discovery};
use std::path::PathBuf;

fn workload() -> Operand {
    Operand::Workload { image: "example.test/twinstack:1".to_owned(), program: Program::Twinstack }
}

fn process() -> Operand {
    let folder = PathBuf::from("/tmp");
    Operand::Process(Local { hosts: Hosts::Everywhere, port: 0, kubeconfig: None, folder, records: false, threads: 1 })
}

fn objects(operand: &Operand, served: &Served, address: Option<IpAddr>) -> Vec<Value> {
    let bundles = [Bundle { name: "corp".to_owned(), certificates: "pem".to_owned(), folder: "/etc/pki/x".to_owned() }];
    let placement = NodePlacement::default();
    let parts = Parts { corefile: Some("text"), operand, placement: &placement, address, bundles: &bundles, served };
    wanted(&parts)
}

fn names(objects: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    objects.iter().map(|object| format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))).collect()
}

#[test]
fn kinds_that_the_api_lacks_are_not_made() {
    let usual = [
        "Namespace openshift-dns",
        "ServiceAccount dns",
        "ClusterRole openshift-dns",
        "ClusterRoleBinding openshift-dns",
        "ConfigMap ca-corp",
        "ConfigMap dns-default",
        "DaemonSet dns-default",
        "Service dns-default",
        "Service dns-default-metrics",
    ];
    let more = [
        "NetworkPolicy deny-all",
        "NetworkPolicy dns-default",
        "ServiceMonitor dns-default",
        "PrometheusRule dns-default",
    ];
    assert_eq!(names(&objects(&workload(), &Served::default(), None)), usual);
    let all: &Served =
        &[discovery::NETWORK_POLICY, discovery::SERVICE_MONITOR, discovery::PROMETHEUS_RULE].into_iter().collect();
    assert_eq!(names(&objects(&workload(), all, None)), [&usual[..], &more[..]].concat());
    let alone = ["Namespace openshift-dns", "ConfigMap ca-corp", "ConfigMap dns-default", "Service dns-default"];
    assert_eq!(names(&objects(&process(), all, None)), alone);
}

#[test]
fn the_service_has_every_family_there_is() {
    for family in Family::BOTH {
        for operand in [workload(), process()] {
            let all = objects(&operand, &Served::default(), Some(family.loopback()));
            let service =
                all.iter().find(|object| object["metadata"]["name"] == NAME && object["kind"] == "Service").unwrap();
            assert_eq!(service["spec"]["ipFamilyPolicy"], "PreferDualStack");
            assert_eq!(service["spec"]["clusterIP"], family.loopback().to_string());
            // A hollow Pod must not be taken for the server of this process.
            assert_eq!(service["spec"]["selector"].is_null(), matches!(operand, Operand::Process(_)));
        }
    }
}

#[test]
fn placement_replaces_the_defaults() {
    let given: NodePlacement = serde_json::from_value(json!({
        "nodeSelector": {"dns": "yes"}, "tolerations": [{"operator": "Exists"}]
    }))
    .unwrap();
    for (placement, selector, tolerations) in
        [(NodePlacement::default(), json!({"kubernetes.io/os": "linux"}), 2), (given, json!({"dns": "yes"}), 1)]
    {
        let set = daemonset("image", Program::CoreDns, &placement, &[]);
        let pod = &set["spec"]["template"]["spec"];
        assert_eq!(pod["nodeSelector"], selector);
        assert_eq!(pod["tolerations"].as_array().unwrap().len(), tolerations);
        assert_eq!(pod["containers"][0]["command"], json!(["coredns", "-conf", "/etc/coredns/Corefile"]));
    }
}

#[test]
fn bundles_are_mounted_where_the_corefile_expects_them() {
    let all = objects(&workload(), &Served::default(), None);
    let set = all.iter().find(|object| object["kind"] == "DaemonSet").unwrap();
    let pod = &set["spec"]["template"]["spec"];
    assert_eq!(pod["volumes"][2]["configMap"]["name"], "ca-corp");
    assert_eq!(pod["containers"][0]["volumeMounts"][2]["mountPath"], "/etc/pki/x");
}

#[test]
fn a_corefile_that_stays_keeps_the_authorities_that_it_names() {
    let copy = |name: &str, folder: &str| -> ConfigMap {
        let metadata = json!({"name": name, "annotations": {FOLDER_ANNOTATION: folder}});
        serde_json::from_value(json!({"metadata": metadata, "data": {"ca-bundle.crt": "PEM"}})).unwrap()
    };
    let copies =
        [copy("ca-used", "/etc/pki/a-ca-used-7"), copy("ca-other", "/etc/pki/a-ca-other-8"), copy("dns-default", "/x")];
    let corefile = "tls /etc/pki/a-ca-used-7/ca-bundle.crt";
    let expected =
        Bundle { name: "used".to_owned(), certificates: "PEM".to_owned(), folder: "/etc/pki/a-ca-used-7".to_owned() };
    assert_eq!(bundles_of(corefile, copies.iter()), [expected]);
    assert_eq!(bundles_of("tls", copies.iter()), []);
}
