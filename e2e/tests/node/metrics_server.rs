//! metrics-server, where `METRICS_SERVER` names it: it reads real kubelets and answers for `metrics.k8s.io` behind this API server,
//! over each family, in place of what the server itself has for it.

use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{
    node_lab::{Lab, PATIENCE, Shape, server_pod},
    wait_for,
};
use runtime::pki::{Authority, Purpose};
use serde_json::json;
use std::{fs, time::SystemTime};

const PORT: u16 = 4443;
/// The hub of the lab, where it runs.
const HUB: [(&str, &str); 2] = [("IPv4", "192.168.78.254"), ("IPv6", "fd78::fe")];

#[track_caller]
fn register(lab: &Lab, bundle: &str, (family, address): (&str, &str)) {
    lab.apply(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "metrics-server", "namespace": "kube-system"},
        "spec": {"ipFamilies": [family], "ports": [{"name": "https", "port": 443, "targetPort": PORT}]},
    }));
    lab.apply(&json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "metrics-server", "namespace": "kube-system", "labels": {"kubernetes.io/service-name": "metrics-server"}},
        "addressType": family, "ports": [{"name": "https", "port": PORT, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
    }));
    lab.apply(&json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {
            "group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": {"namespace": "kube-system", "name": "metrics-server"}, "caBundle": bundle,
        },
    }));
}

#[test]
fn metrics_server_shows_what_nodes_and_pods_use() {
    let Some(program) = std::env::var_os("METRICS_SERVER") else { return };
    let program = program.to_str().expect("a path").to_owned();
    for (shape, hub) in [(Shape::V4V6, HUB[0]), (Shape::V6V4, HUB[1])] {
        let Some(lab) = super::lab(shape, 1, &[]) else { return };
        lab.apply(&server_pod("web"));
        lab.ready("web");
        let now = SystemTime::now();
        let authority = Authority::create("metrics", now).expect("an authority");
        let purpose = Purpose::Serving { names: vec!["metrics-server.kube-system.svc".into()], addresses: vec![] };
        let serving = authority.issue(&purpose, now).expect("a certificate");
        let (shown, key) = (lab.folder().join("metrics.crt"), lab.folder().join("metrics.key"));
        fs::write(&shown, serving.chain_pem()).expect("a file");
        fs::write(&key, serving.key_pem().expose()).expect("a file");
        let kubeconfig = lab.kubeconfig().display().to_string();
        let words = [
            program.clone(),
            format!("--kubeconfig={kubeconfig}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            format!("--bind-address={}", hub.1),
            format!("--secure-port={PORT}"),
            format!("--tls-cert-file={}", shown.display()),
            format!("--tls-private-key-file={}", key.display()),
            "--kubelet-insecure-tls".to_owned(),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            "--metric-resolution=10s".to_owned(),
        ];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut server = lab.network.hub_process(&words, &lab.folder().join("metrics.log"));
        register(&lab, &STANDARD.encode(authority.certificate_pem()), hub);
        lab.until(&["get", "apiservice", "v1beta1.metrics.k8s.io"], |service| {
            let condition = &service["status"]["conditions"][0];
            (condition["status"] == "True" && condition["reason"] == "Passed").then_some(())
        });
        for (words, row) in [(["top", "nodes"], lab.nodes[0].name.as_str()), (["top", "pods"], "web")] {
            let shown = wait_for(PATIENCE, || lab.kubectl(&words, "").ok().filter(|table| table.contains(row)));
            let table =
                shown.unwrap_or_else(|| panic!("{:?}\n{}\n{}", lab.kubectl(&words, ""), server.output(), lab.logs()));
            assert!(table.contains("Mi"), "{table}");
        }
        // It is the one that was asked.
        server.kill();
        assert!(lab.kubectl(&["top", "nodes"], "").is_err(), "nobody else answers for it");
    }
}
