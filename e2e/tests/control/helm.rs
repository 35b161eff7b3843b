//! A chart with hooks, a webhook and definitions is installed, upgraded, rolled back and removed by helm (`HELM`), over both families.

use crate::workloads::{Cluster, becomes};
use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{
    Output,
    webhook::{self, Webhook},
};
use serde_json::{Value, json};
use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    process::Command,
};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/helm/pair");

/// Nobody wants it red.
fn judge(request: &Value) -> Value {
    match request["object"]["spec"]["color"] == "red" {
        true => json!({"allowed": false, "status": {"code": 403, "message": "red is taken"}}),
        false => json!({"allowed": true}),
    }
}

fn helm(program: &Path, kubeconfig: &Path, words: &[&str]) -> Output {
    let home = kubeconfig.with_extension("helm");
    let done = Command::new(program)
        .args(words)
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", &home)
        .env_remove("HELM_NAMESPACE")
        .output()
        .expect("helm starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Output { success: done.status.success(), stdout: text(&done.stdout), stderr: text(&done.stderr) }
}

#[test]
fn a_chart_is_installed_upgraded_rolled_back_and_removed() {
    // Helm is a peer: its absence is no skip.
    let Some(program) = std::env::var_os("HELM").map(PathBuf::from) else { return };
    for address in ["127.0.0.1", "::1"] {
        let address: IpAddr = address.parse().expect("an address");
        let (authority, identity) = webhook::identity(address);
        let webhook = Webhook::start((address, 0).into(), &identity, judge);
        let cluster = Cluster::up();
        let Some(kubectl) = cluster.kubectls().pop() else { return };
        let namespace = kubectl.ok(&["config", "view", "--minify", "-o", "jsonpath={..namespace}"]);
        let trust = format!("webhook.caBundle={}", STANDARD.encode(authority.certificate_pem()));
        let url = format!("webhook.url=https://{}/judge", webhook.address);
        let run = |words: &[&str]| {
            let common = ["--namespace", namespace.trim(), "--set", &url, "--set", &trust];
            let common: &[&str] = if words[0] == "install" || words[0] == "upgrade" { &common } else { &common[..2] };
            helm(&program, &cluster.kubeconfig(), &[words, common].concat())
        };
        let ok = |words: &[&str]| {
            let done = run(words);
            assert!(done.success, "helm {words:?}: {}", done.stderr);
            done.stdout
        };
        ok(&["install", "app", CHART, "--wait", "--timeout", "120s"]);
        becomes(&kubectl, &["get", "deployment", "app", "-o", "jsonpath={.status.readyReplicas}"], "2");
        becomes(&kubectl, &["get", "widget", "app", "-o", "jsonpath={.spec.color}"], "green");
        becomes(&kubectl, &["get", "service", "app", "-o", "jsonpath={.spec.ipFamilies}"], r#"["IPv4","IPv6"]"#);
        // The webhook came with the chart, and refuses what helm would change.
        let refused = run(&["upgrade", "app", CHART, "--set", "color=red"]);
        assert!(!refused.success && refused.stderr.contains("red is taken"), "{}", refused.stderr);
        ok(&["upgrade", "app", CHART, "--set", "color=blue", "--set", "replicas=3", "--wait", "--timeout", "120s"]);
        becomes(&kubectl, &["get", "widget", "app", "-o", "jsonpath={.spec.color}"], "blue");
        becomes(&kubectl, &["get", "deployment", "app", "-o", "jsonpath={.status.readyReplicas}"], "3");
        becomes(&kubectl, &["get", "job", "app-post-upgrade", "-o", "jsonpath={.status.succeeded}"], "1");
        ok(&["rollback", "app", "1", "--wait", "--timeout", "120s"]);
        becomes(&kubectl, &["get", "widget", "app", "-o", "jsonpath={.spec.color}"], "green");
        let history: Value = serde_json::from_str(&ok(&["history", "app", "-o", "json"])).expect("JSON");
        assert_eq!(history[history.as_array().map_or(0, Vec::len) - 1]["status"], "deployed", "{history}");
        ok(&["uninstall", "app", "--wait", "--timeout", "120s"]);
        becomes(&kubectl, &["get", "deployments,services,widgets", "-o", "name"], "");
        becomes(&kubectl, &["get", "validatingwebhookconfigurations", "-o", "name"], "");
        webhook.stop.cancel();
    }
}
