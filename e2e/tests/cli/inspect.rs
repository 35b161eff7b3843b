//! `twinstack doctor` on a cluster that is made wrong: what it says is so, and what it says to type mends it. `twinstack trace` on the same.

use e2e::{Etcd, KubeApiserver, Kubectl, Server, run};
use serde_json::{Value, json};
use std::process::Command;

struct Cluster {
    kubectl: Kubectl,
    server: Server,
}

impl Cluster {
    fn start(ranges: &str) -> Option<Self> {
        let server = Server::start(&[ranges]);
        let kubectl = server.kubectls().pop()?;
        kubectl.ok(&["create", "namespace", "shop"]);
        kubectl.ok(&["create", "serviceaccount", "default", "--namespace=shop"]);
        Some(Self { kubectl, server })
    }

    fn make(&self, object: &Value) {
        let made = self.kubectl.ok_with(&["create", "-f", "-", "-o", "json"], &object.to_string());
        let Some(status) = object.get("status") else { return };
        let mut made: Value = serde_json::from_str(&made).expect("JSON");
        made["status"] = status.clone();
        let path = match object["kind"].as_str() {
            Some("Node") => "/api/v1/nodes/n1/status".to_owned(),
            _ => format!(
                "/api/v1/namespaces/shop/pods/{}/status",
                object["metadata"]["name"].as_str().unwrap_or_default()
            ),
        };
        self.kubectl.ok_with(&["replace", "--raw", &path, "-f", "-"], &made.to_string());
    }

    /// Exit code and findings.
    fn doctor(&self, words: &[&str]) -> (Option<i32>, Vec<Value>) {
        let kubeconfig = format!("--kubeconfig={}", self.server.kubeconfig().display());
        let output = run(&[&["doctor", "--output=json", &kubeconfig], words].concat());
        let findings = serde_json::from_slice(&output.stdout);
        (output.status.code(), findings.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr))))
    }

    /// Exit code, and for each family its name and where it ends.
    fn trace(&self, words: &[&str]) -> (Option<i32>, Vec<(String, String)>) {
        let kubeconfig = format!("--kubeconfig={}", self.server.kubeconfig().display());
        let output = run(&[&["trace", "--output=json", &kubeconfig], words].concat());
        let traces: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or("arrives").to_owned();
        (output.status.code(), traces.iter().map(|trace| (text(&trace["family"]), text(&trace["ends"]))).collect())
    }

    /// Types what it says.
    fn mend(&self, finding: &Value) {
        let kubeconfig = self.server.kubeconfig();
        let line = finding["mend"].as_str().expect("a command").replacen(
            "kubectl",
            &self.kubectl.program().display().to_string(),
            1,
        );
        let done = Command::new("sh").args(["-c", &line]).env("KUBECONFIG", kubeconfig).output().expect("a shell");
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

fn service(name: &str, policy: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}], "ipFamilyPolicy": policy}})
}

#[test]
fn what_it_says_to_type_mends_it() {
    for ranges in ["10.96.0.0/16,fd00:96::/108", "fd00:96::/108,10.96.0.0/16"] {
        let Some(cluster) = Cluster::start(&format!("--service-cluster-ip-range={ranges}")) else { return };
        assert_eq!(cluster.doctor(&[]), (Some(0), vec![]), "{ranges}");
        cluster.make(&service("web", "SingleStack"));
        // As it was asked for: nobody is disturbed, but who asks is told.
        assert_eq!(cluster.doctor(&[]), (Some(0), vec![]), "{ranges}");
        let kubeconfig = format!("--kubeconfig={}", cluster.server.kubeconfig().display());
        let other = run(&["doctor", "service/other", &kubeconfig]);
        let message = String::from_utf8_lossy(&other.stderr).into_owned();
        assert!(!other.status.success() && message.contains("there is no service other"), "{ranges}: {message}");
        let (code, found) = cluster.doctor(&["svc/web", "--namespace=shop"]);
        let first = if ranges.starts_with("fd") { "IPv6" } else { "IPv4" };
        assert_eq!(
            (code, found.len(), found[0]["problem"].as_str()),
            (Some(0), 1, Some(&*format!("has {first} only")))
        );
        cluster.mend(&found[0]);
        assert_eq!(cluster.doctor(&["svc/web"]), (Some(0), vec![]), "{ranges}");
        let both = cluster.kubectl.ok(&["get", "service", "web", "-n", "shop", "-o", "jsonpath={.spec.clusterIPs}"]);
        assert_eq!(both.matches('"').count(), 4, "{both}");
    }
}

#[test]
fn a_family_that_leads_nowhere_is_an_error() {
    for (ranges, lacks, address) in
        [("10.96.0.0/16,fd00:96::/108", "IPv6", "10.244.0.2"), ("fd00:96::/108,10.96.0.0/16", "IPv4", "fd00:244::2")]
    {
        let Some(cluster) = Cluster::start(&format!("--service-cluster-ip-range={ranges}")) else { return };
        let has = if lacks == "IPv6" { "IPv4" } else { "IPv6" };
        cluster.make(&service("web", "RequireDualStack"));
        cluster.make(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
            "spec": {"podCIDRs": ["10.244.0.0/24", "fd00:244::/64"], "podCIDR": "10.244.0.0/24"}, "status": {"addresses": [
                {"type": "InternalIP", "address": "192.0.2.1"}, {"type": "InternalIP", "address": "2001:db8::1"}]}}));
        cluster.make(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web"}},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "x"}]},
            "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}}));
        cluster.make(&json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": has,
            "metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}}], "ports": [{"port": 80}]}));
        let (code, found) = cluster.doctor(&["--namespace=shop"]);
        let reported: Vec<String> =
            found.iter().map(|one| format!("{} {}: {}", one["severity"], one["about"]["kind"], one["why"])).collect();
        assert_eq!(code, Some(1), "{reported:#?}");
        assert_eq!(found[0]["about"], json!({"kind": "service", "namespace": "shop", "name": "web"}), "{reported:#?}");
        assert_eq!(found[0]["why"], format!("pod web-1 has no {lacks} address"));
        assert!(
            reported.iter().any(|line| line.contains("\"pod\"") && line.contains("node n1 has a range")),
            "{reported:#?}"
        );
        cluster.mend(&found[0]);
        let (code, mut traces) = cluster.trace(&["service/web", "--namespace=shop"]);
        traces.sort_by_key(|trace| trace.0 == lacks);
        let expected =
            [(has.to_owned(), "arrives".to_owned()), (lacks.to_owned(), format!("no endpoint of {lacks} is ready"))];
        assert_eq!((code, traces), (Some(0), expected.to_vec()));
        // The same from what kubectl prints, without a cluster.
        let printed = cluster.kubectl.ok(&["get", "nodes,pods,services,endpointslices", "-A", "-o", "json"]);
        let file = cluster.server.folder().join("all.json");
        std::fs::write(&file, printed).expect("a file");
        let offline = run(&["doctor", "--output=json", "--filename", &file.display().to_string(), "--namespace=shop"]);
        let offline: Vec<Value> = serde_json::from_slice(&offline.stdout).expect("JSON");
        assert_eq!(offline.first(), found.first());
    }
}

#[test]
fn what_may_not_be_read_is_told_and_a_wrong_word_is_refused() {
    let Some(cluster) = Cluster::start("--service-cluster-ip-range=10.96.0.0/16,fd00:96::/108") else { return };
    let kubeconfig = e2e::account::acting_as("jane", "jane", &cluster.server.kubeconfig());
    let output = run(&["doctor", "--kubeconfig", &kubeconfig.display().to_string()]);
    let message = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        message.contains("not seen nodes is forbidden: User \"jane\""),
        "{message}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for (words, problem) in [
        (["doctor", "web"].as_slice(), "has no kind; accepted: KIND/NAME"),
        (&["doctor", "secret/web"], "is of a kind that is not looked at"),
        (&["doctor", "--kubeconfig=/nowhere"], "--kubeconfig /nowhere"),
        (&["doctor", "--filename=/nowhere"], "--filename"),
        (&["trace", "pod/web"], "is nothing that requests go to"),
        (&["trace", "service/web", "--filename=/dev/null"], "--filename: there is no object in it"),
    ] {
        let output = run(words);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && message.contains(problem), "{words:?}: {message}");
    }
}

/// On the API server that `KUBE_APISERVER` names.
#[test]
fn a_real_api_server_is_looked_at_as_well() {
    if KubeApiserver::program().is_none() {
        return;
    }
    let ranges = "--service-cluster-ip-range=10.96.0.0/16,fd00:96::/108";
    // Only for its keys, and for a folder.
    let (server, Some(etcd)) = (Server::start(&[ranges]), Etcd::start()) else { return };
    let Some(peer) = KubeApiserver::start(&server, &etcd, "127.0.0.1", ranges) else { return };
    peer.kubectl.ok(&["create", "namespace", "shop"]);
    peer.kubectl.ok_with(&["create", "-f", "-"], &service("web", "SingleStack").to_string());
    let kubeconfig = format!("--kubeconfig={}", peer.kubeconfig.display());
    let output = run(&["doctor", "--hints", &kubeconfig]);
    let message = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{message}{}", String::from_utf8_lossy(&output.stderr));
    assert!(message.contains("service/web in shop has IPv4 only") && !message.contains("not seen"), "{message}");
    let output = run(&["trace", "service/web", "--namespace=shop", &kubeconfig]);
    let message = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(message.contains("ends here: the Service has IPv4 only (ipFamilyPolicy SingleStack)"), "{message}");
}
