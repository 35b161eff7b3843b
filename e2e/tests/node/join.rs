//! A node that nobody knows joins by a token and by requests for certificates, whatever is killed meanwhile, and replaces them in time.

use super::interop::peer;
use e2e::{
    node_lab::{Lab, PATIENCE, Parts, Shape, items, missing, server_pod},
    wait_for,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const TOKEN: &str = "abcdef.0123456789abcdef";
const GROUP: &str = "system:bootstrappers:kubeadm:default-node-token";

fn bound(name: &str, role: &str, group: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}]})
}

/// What an administrator prepares: a token, and what those who bear it may do.
fn invite(lab: &Lab) {
    let (id, secret) = TOKEN.split_once('.').expect("two parts");
    let approval = "system:certificates.k8s.io:certificatesigningrequests";
    lab.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
         "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"},
         "stringData": {"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true", "auth-extra-groups": GROUP}},
        bound("bootstrap", "system:node-bootstrapper", GROUP),
        bound("approve", &format!("{approval}:nodeclient"), GROUP),
        bound("renew", &format!("{approval}:selfnodeclient"), "system:nodes"),
    ]}));
}

/// Certificates live for so long that they are replaced after twelve seconds: four fifths of it, and five minutes that they begin early.
const SHORT: &str = "--cluster-signing-duration=90s";

/// Requests for a certificate of this signer that somebody asked for.
fn requests(lab: &Lab, signer: &str, who: &str) -> Vec<Value> {
    let all = lab.get(&["get", "certificatesigningrequests"]).unwrap_or_default();
    let by = |one: &&Value| one["spec"]["signerName"] == signer && one["spec"]["username"].as_str() == Some(who);
    items(&all["items"]).iter().filter(by).cloned().collect()
}

#[track_caller]
fn until<T>(lab: &Lab, what: &str, ask: impl FnMut() -> Option<T>) -> T {
    wait_for(PATIENCE, ask).unwrap_or_else(|| panic!("{what}\n{}", lab.logs()))
}

const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVING: &str = "kubernetes.io/kubelet-serving";

fn current(folder: &Path) -> Option<PathBuf> {
    std::fs::read_link(folder.join("n0/kubelet/pki/kubelet-client-current.pem")).ok()
}

/// Joins, killed at every step, and goes on through a change of certificates.
fn a_node_joins(shape: Shape, kube_apiserver: Option<PathBuf>) {
    // Flags of kube-apiserver have it always.
    let server_flags: &[&str] = if kube_apiserver.is_some() { &[] } else { &["--enable-bootstrap-token-auth"] };
    let parts =
        Parts { server_flags, kube_apiserver, known: false, controller_flags: &[SHORT], ..Parts::new(shape, 1, &[]) };
    let mut lab = Lab::without_nodes(&parts);
    invite(&lab);
    let own = lab.folder().join("own.kubeconfig");
    let bootstrap = lab.credentials().bearer("bootstrap", TOKEN);
    let flags = [
        format!("--bootstrap-kubeconfig={}", bootstrap.display()),
        format!("--kubeconfig={}", own.display()),
        "--rotate-certificates".to_owned(),
        "--rotate-server-certificates".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();

    // Killed while nobody answers: the same is asked for again.
    lab.kill_controllers();
    lab.start_node(0, &Parts { flags: &flags, ..parts.clone() });
    let by_token = "system:bootstrap:abcdef";
    let asked = || requests(&lab, CLIENT, by_token);
    until(&lab, "nothing is asked for", || (asked().len() == 1).then_some(()));
    lab.restart_kubelet(0);
    assert!(!own.exists());
    lab.start_controllers(&[SHORT]);
    lab.node_ready("n0");
    assert_eq!(requests(&lab, CLIENT, by_token).len(), 1, "it is asked once");
    assert!(!std::fs::read_to_string(&own).expect("it works").contains(TOKEN));

    // Its server has nothing to show until a person says yes; killed meanwhile.
    let waits = || requests(&lab, SERVING, "system:node:n0");
    until(&lab, "no serving certificate is asked for", || (waits().len() == 1).then_some(()));
    lab.apply(&server_pod("web"));
    lab.ready("web");
    assert!(lab.kubectl(&["exec", "web", "--", "true"], "").is_err());
    lab.restart_kubelet(0);
    let name = requests(&lab, SERVING, "system:node:n0")[0]["metadata"]["name"].as_str().expect("it works").to_owned();
    lab.kubectl(&["certificate", "approve", &name], "").expect("it works");
    until(&lab, "exec does not work", || lab.kubectl(&["exec", "web", "--", "true"], "").ok());
    let authority = lab.folder().join("data/pki/ca.crt").display().to_string();
    for address in &lab.nodes[0].addresses {
        let host = if address.contains(':') { format!("[{address}]") } else { address.clone() };
        let url = format!("https://{host}:10250/pods");
        let words = ["-sS", "--cacert", &authority, "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20", &url];
        let answer =
            lab.network.hub().run("curl", &words, "").unwrap_or_else(|error| panic!("{error}\n{}", lab.logs()));
        assert_eq!(answer.stdout, "401", "the certificate is the cluster's, and names its addresses");
    }

    // Certificates change while everything goes on; the file is lost, the certificate is not.
    let before = current(lab.folder());
    until(&lab, "the certificate is not replaced", || current(lab.folder()).filter(|now| Some(now) != before.as_ref()));
    lab.kubectl(&["annotate", "pod", "web", "seen=1"], "").expect("it works");
    lab.nodes[0].kill_kubelet();
    std::fs::remove_file(&own).expect("it works");
    lab.restart_kubelet(0);
    until(&lab, "there is no kubeconfig", || own.exists().then_some(()));
    assert_eq!(requests(&lab, CLIENT, by_token).len(), 1, "it is asked once");
    let before = current(lab.folder());
    until(&lab, "the certificate is not replaced again", || {
        current(lab.folder()).filter(|now| Some(now) != before.as_ref())
    });
    lab.apply(&server_pod("later"));
    lab.ready("later");
}

#[test]
fn a_node_joins_by_a_token_and_replaces_its_certificates() {
    if let Some(enable) = missing() {
        return e2e::skip("a node that joins by a token", enable);
    }
    a_node_joins(Shape::V6V4, None);
}

#[test]
fn a_node_joins_a_cluster_of_kube_apiserver_by_a_token() {
    let Some(program) = peer("KUBE_APISERVER") else { return };
    a_node_joins(Shape::V4V6, Some(program));
}

#[test]
fn upstreams_kubelet_joins_a_cluster_of_ours_by_a_token() {
    let Some(program) = peer("KUBELET") else { return };
    let server_flags = &["--enable-bootstrap-token-auth"];
    let parts = Parts { server_flags, kubelet: Some(program), known: false, ..Parts::new(Shape::V4V6, 1, &[]) };
    let mut lab = Lab::without_nodes(&parts);
    invite(&lab);
    let bootstrap = format!("--bootstrap-kubeconfig={}", lab.credentials().bearer("bootstrap", TOKEN).display());
    let own = format!("--kubeconfig={}", lab.folder().join("own.kubeconfig").display());
    lab.start_node(0, &Parts { flags: &[&bootstrap, &own, "--rotate-certificates"], ..parts.clone() });
    lab.connect();
    lab.node_ready("n0");
    lab.apply(&server_pod("web"));
    lab.ready("web");
}
