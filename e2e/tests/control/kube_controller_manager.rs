//! A real kube-controller-manager on Twinstack's API server: client-go's informers and writers. Runs when `KUBE_CONTROLLER_MANAGER` names one; a
//! comparison, not a test that CI needs.

use e2e::{Process, Server, wait_for};
use std::time::Duration;

const RANGES: [&str; 2] = [
    "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112",
    "--service-cluster-ip-range=fd00:10:96::/112,10.96.0.0/16",
];
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn deployments_become_pods_and_pods_endpoints_of_both_families() {
    let Some(program) = std::env::var_os("KUBE_CONTROLLER_MANAGER") else { return };
    for ranges in RANGES {
        let server = Server::start(&[ranges]);
        let Some(kubectl) = server.kubectls().pop() else { return };
        let words = [
            format!("--kubeconfig={}", server.kubeconfig().display()),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            format!("--service-account-private-key-file={}", server.folder().join("data/pki/sa.key").display()),
        ];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let manager = Process::start(&program, &words, &server.folder().join("kcm.log"));
        let until = |what: &str, ask: &dyn Fn() -> bool| {
            let found = wait_for(PATIENCE, || ask().then_some(()));
            let tail: Vec<String> = manager.output().lines().rev().take(20).map(str::to_owned).collect();
            assert!(found.is_some(), "{what}: not within {PATIENCE:?}\n{}", tail.join("\n"));
        };
        kubectl.ok(&["config", "set-context", "--current", "--namespace=default"]);
        kubectl.ok(&["create", "deployment", "web", "--image=localhost/web", "--replicas=2"]);
        kubectl.ok_with(&["create", "-f", "-"], "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n");
        let service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n\
                       spec: {ipFamilyPolicy: RequireDualStack, selector: {app: web}, ports: [{port: 80}]}\n";
        kubectl.ok_with(&["create", "-f", "-"], service);
        let names = || kubectl.ok(&["get", "pods", "-o", "jsonpath={.items[*].metadata.name}"]);
        until("two pods", &|| names().split_whitespace().count() == 2);
        for (number, name) in (1..).zip(names().split_whitespace()) {
            let path = format!("/api/v1/namespaces/default/pods/{name}/binding");
            let binding = format!(
                r#"{{"apiVersion": "v1", "kind": "Binding", "metadata": {{"name": "{name}"}},
                    "target": {{"apiVersion": "v1", "kind": "Node", "name": "n1"}}}}"#
            );
            kubectl.ok_with(&["create", "--raw", &path, "-f", "-"], &binding);
            let status = format!(
                r#"{{"status": {{"phase": "Running", "podIP": "10.244.0.{number}",
                    "podIPs": [{{"ip": "10.244.0.{number}"}}, {{"ip": "fd00:10:244::{number}"}}],
                    "conditions": [{{"type": "Ready", "status": "True"}}]}}}}"#
            );
            kubectl.patch_status("/api/v1", "pods", name, &status);
        }
        for (family, first) in [("IPv4", "10.244.0.1"), ("IPv6", "fd00:10:244::1")] {
            let path = format!("jsonpath={{.items[?(@.addressType=='{family}')].endpoints[*].addresses[0]}}");
            until("endpoints of each family", &|| {
                let found = kubectl.ok(&["get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", &path]);
                found.split_whitespace().count() == 2 && found.contains(first)
            });
        }
        kubectl.ok(&["scale", "deployment", "web", "--replicas=1"]);
        let gone = "jsonpath={.items[?(@.metadata.deletionTimestamp)].metadata.name}";
        until("one pod is told to go, or is gone", &|| {
            let (all, going) = (names(), kubectl.ok(&["get", "pods", "-o", gone]));
            all.split_whitespace().count() - going.split_whitespace().count() == 1
        });
    }
}
