//! An API server on the node's loopback, spoken to through `kubectl proxy`: one connection per call instead of one kubectl.

use super::{PATIENCE, start};
use crate::{Process, kube_apiserver, twinstack, wait_for};
use kernel::netns::Namespace;
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    time::Duration,
};

const RANGES: &str = "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112";
/// Where the API is spoken to on the node without TLS.
pub const PLAIN_API: &str = "127.0.0.1:8001";

/// The server and the way to it.
pub(super) struct Api {
    kubeconfig: PathBuf,
    _processes: Vec<Process>,
}

impl Api {
    pub(super) fn start(node: &Namespace, folder: &Path, kubectl: &Path) -> Self {
        let data = folder.join("data");
        let flags =
            ["--bind-address=127.0.0.1,::1", "--secure-port=6443", RANGES, &format!("--data-dir={}", data.display())];
        let program = twinstack().display().to_string();
        let ours = start(node, &[&program, "apiserver"], &flags, &folder.join("apiserver.log"));
        let ready = wait_for(PATIENCE, || ours.output().contains("API server is ready").then_some(()));
        assert!(ready.is_some(), "{}", ours.output());
        let mut api = Self { kubeconfig: data.join("admin.kubeconfig"), _processes: vec![ours] };
        if let Some(program) = std::env::var_os("KUBE_APISERVER") {
            api.real(node, folder, &program.to_string_lossy());
        }
        let config = format!("--kubeconfig={}", api.kubeconfig.display());
        let kubectl = kubectl.display().to_string();
        let plain = start(node, &[&kubectl, &config, "proxy", "--port=8001"], &[], &folder.join("kubectl.log"));
        let ready =
            wait_for(Duration::from_secs(90), || (api.call(node, "GET", "/readyz", "", "").0 == 200).then_some(()));
        assert!(ready.is_some(), "{}", plain.output());
        api._processes.push(plain);
        api
    }

    /// A kube-apiserver on an etcd; Twinstack's server has made the keys it needs.
    fn real(&mut self, node: &Namespace, folder: &Path, program: &str) {
        let peer = folder.join("peer");
        let at = SocketAddr::from(([127, 0, 0, 1], 6444));
        let mut words = kube_apiserver::words(&peer, &folder.join("data/pki"), at, "http://127.0.0.1:2379", RANGES);
        words.extend(["--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"].map(str::to_owned));
        let etcd =
            start(node, &["etcd"], &["--data-dir", &peer.join("etcd").display().to_string()], &peer.join("etcd.log"));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let server = start(node, &[program], &words, &peer.join("apiserver.log"));
        self.kubeconfig = peer.join("kubeconfig");
        self._processes.extend([etcd, server]);
    }

    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    #[track_caller]
    pub(super) fn apply(&self, node: &Namespace, object: &Value) {
        let path = format!("{}?fieldManager=lab&force=true", path_of(object));
        self.good(node, "PATCH", &path, "application/apply-patch+yaml", object);
    }

    #[track_caller]
    pub(super) fn set_status(&self, node: &Namespace, path: &str, status: &Value) {
        let patch = json!({"status": status});
        self.good(node, "PATCH", &format!("{path}/status"), "application/merge-patch+json", &patch);
    }

    #[track_caller]
    pub(super) fn get(&self, node: &Namespace, path: &str) -> Value {
        let (status, answer) = self.call(node, "GET", path, "application/json", "");
        assert_eq!(status, 200, "GET {path}: {answer}");
        serde_json::from_str(&answer).expect("JSON")
    }

    #[track_caller]
    pub(super) fn delete(&self, node: &Namespace, path: &str) {
        self.good(node, "DELETE", path, "application/json", &json!({}));
    }

    #[track_caller]
    fn good(&self, node: &Namespace, method: &str, path: &str, kind: &str, body: &Value) {
        let (status, answer) = self.call(node, method, path, kind, &body.to_string());
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}\n{body}");
    }

    /// Status and body; 0 when there was no answer.
    fn call(&self, node: &Namespace, method: &str, path: &str, kind: &str, body: &str) -> (u16, String) {
        // HTTP/1.0, so that the answer ends with the connection.
        let head = format!(
            "{method} {path} HTTP/1.0\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let asked = node.within(|| {
            let mut stream = TcpStream::connect(PLAIN_API)?;
            stream.write_all(head.as_bytes())?;
            stream.write_all(body.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok::<_, std::io::Error>(answer)
        });
        let answer = asked.expect("entered").unwrap_or_default();
        let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
        (status, body)
    }
}

fn path_of(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = text(&object["metadata"]["name"]);
    match object["kind"].as_str() {
        Some("Node") => format!("/api/v1/nodes/{name}"),
        Some("Service") => format!("/api/v1/namespaces/default/services/{name}"),
        Some("EndpointSlice") => format!("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/{name}"),
        other => panic!("no path is known for {other:?}"),
    }
}
