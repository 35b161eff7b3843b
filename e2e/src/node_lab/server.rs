//! The API server of a lab: ours, or kube-apiserver with an etcd.

use super::{Credentials, PATIENCE, Parts, SERVICES, network, network::Network, tool};
use crate::{Process, twinstack, wait_for};
use runtime::pki::{Purpose, TokenKey};
use std::{path::Path, time::Duration};

pub(super) struct ApiServer {
    process: Process,
    _etcd: Option<Process>,
}

impl ApiServer {
    /// Starts one in the hub and waits until it serves. Its keys are in `data/pki`, the administrator's file is `data/admin.kubeconfig`.
    pub(super) fn start(parts: &Parts<'_>, network: &Network, folder: &Path) -> Self {
        match &parts.kube_apiserver {
            Some(program) => upstream(parts, network, folder, program),
            None => own(parts, network, folder),
        }
    }

    pub(super) fn log(&self) -> String {
        self.process.output()
    }
}

fn services(parts: &Parts<'_>) -> String {
    format!("--service-cluster-ip-range={}", parts.shape.list(SERVICES))
}

fn own(parts: &Parts<'_>, network: &Network, folder: &Path) -> ApiServer {
    let program = twinstack().display().to_string();
    let listen = format!("--bind-address={}", parts.shape.list(network::HUB));
    let data = format!("--data-dir={}", folder.join("data").display());
    let services = services(parts);
    let mut words = vec![program.as_str(), "apiserver", "--secure-port=6443", &listen, &services, &data];
    words.extend(parts.server_flags);
    let process = network.hub_process(&words, &folder.join("apiserver.log"));
    let ready = wait_for(PATIENCE, || process.output().contains("API server is ready").then_some(()));
    assert!(ready.is_some(), "{}", process.output());
    ApiServer { process, _etcd: None }
}

fn upstream(parts: &Parts<'_>, network: &Network, folder: &Path, program: &Path) -> ApiServer {
    let data = folder.join("data");
    let pki = data.join("pki");
    std::fs::create_dir_all(&data).expect("a folder");
    let credentials = Credentials::new(folder, parts.shape);
    let hub: Vec<_> = parts.shape.of(&network::HUB).iter().map(|ip| ip.parse().expect("an address")).collect();
    let serving = Purpose::Serving { names: vec!["kubernetes".to_owned()], addresses: hub.clone() };
    credentials.issue(&serving).save(&pki.join("server.pem")).expect("a file");
    let kubelets = Purpose::Client { user: "kubelets".to_owned(), groups: vec!["system:masters".to_owned()] };
    credentials.issue(&kubelets).save(&pki.join("kubelet-client.pem")).expect("a file");
    let key = TokenKey::load_or_create(&pki.join("sa.key")).expect("a key");
    std::fs::write(pki.join("sa.pub"), key.public_pem()).expect("a file");
    let admin = credentials.client("data/admin", "admin", &["system:masters"]);
    let store = folder.join("etcd").display().to_string();
    let etcd = tool("etcd").expect("etcd beside the other tools").display().to_string();
    let etcd = network.hub_process(&[&etcd, "--data-dir", &store], &folder.join("etcd.log"));
    let at = |flag: &str, name: &str| format!("--{flag}={}", pki.join(name).display());
    let mut words = vec![
        program.display().to_string(),
        "--etcd-servers=http://127.0.0.1:2379".to_owned(),
        services(parts),
        format!("--bind-address={}", if hub[0].is_ipv6() { "::" } else { "0.0.0.0" }),
        format!("--advertise-address={}", hub[0]),
        "--secure-port=6443".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--enable-bootstrap-token-auth".to_owned(),
        "--allow-privileged".to_owned(),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        at("client-ca-file", "ca.crt"),
        at("tls-cert-file", "server.pem"),
        at("tls-private-key-file", "server.pem"),
        at("kubelet-client-certificate", "kubelet-client.pem"),
        at("kubelet-client-key", "kubelet-client.pem"),
        at("service-account-key-file", "sa.pub"),
        at("service-account-signing-key-file", "sa.key"),
    ];
    words.extend(parts.server_flags.iter().map(|flag| (*flag).to_owned()));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut process = network.hub_process(&words, &folder.join("apiserver.log"));
    let kubectl = tool("kubectl").expect("checked by `missing`").display().to_string();
    let ask = ["--kubeconfig", &admin.display().to_string(), "get", "--raw", "/readyz"];
    let ready = wait_for(PATIENCE, || {
        let ended = process.ended(Duration::ZERO);
        assert!(ended.is_none(), "{}", process.output());
        network.hub().run(&kubectl, &ask, "").ok()
    });
    assert!(ready.is_some(), "{}", process.output());
    ApiServer { process, _etcd: Some(etcd) }
}
