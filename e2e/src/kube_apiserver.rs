//! A real kube-apiserver, for tests that also run on one where `KUBE_APISERVER` names it.

use crate::{Etcd, Kubectl, Process, Server, free_port, wait_for};
use std::{
    ffi::OsString,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

/// One that runs. It ends with the handle.
pub struct KubeApiserver {
    /// For the administrator.
    pub kubectl: Kubectl,
    /// How the administrator reaches it.
    pub kubeconfig: PathBuf,
    _process: Process,
}

impl KubeApiserver {
    /// The one that is named.
    pub fn program() -> Option<OsString> {
        std::env::var_os("KUBE_APISERVER")
    }

    /// Starts it on this address with a free port; `None` when none is named. A server of ours has made the keys that it needs.
    pub fn start(keys: &Server, etcd: &Etcd, host: &str, ranges: &str) -> Option<Self> {
        Self::start_with(keys, etcd, host, ranges, &[])
    }

    /// The same with further flags.
    pub fn start_with(keys: &Server, etcd: &Etcd, host: &str, ranges: &str, more: &[&str]) -> Option<Self> {
        let program = Self::program()?;
        let folder = keys.folder().join("peer");
        let at = SocketAddr::new(host.parse().expect("an address"), free_port());
        let words = words(&folder, &keys.folder().join("data/pki"), at, etcd.url(), ranges);
        let words: Vec<&str> = words.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let process = Process::start(program, &words, &keys.folder().join("peer.log"));
        let kubeconfig = folder.join("kubeconfig");
        let kubectl = Kubectl::all(&kubeconfig, &folder).pop()?;
        let ready =
            wait_for(Duration::from_secs(120), || kubectl.run(&["get", "--raw", "/readyz"]).success.then_some(()));
        assert!(ready.is_some(), "{}", process.output());
        Some(Self { kubectl, kubeconfig, _process: process })
    }
}

/// Its flags. Makes the folder, with a `kubeconfig` for the administrator in it.
pub fn words(folder: &Path, pki: &Path, at: SocketAddr, etcd: &str, ranges: &str) -> Vec<String> {
    std::fs::create_dir(folder).expect("a folder can be made");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("a file can be written");
    write("tokens.csv", "secret,admin,1,system:masters\n");
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
         clusters: [{{name: x, cluster: {{server: 'https://{at}', insecure-skip-tls-verify: true}}}}]\n\
         users: [{{name: x, user: {{token: secret}}}}]\n\
         contexts: [{{name: x, context: {{cluster: x, user: x}}}}]\n"
    );
    write("kubeconfig", &kubeconfig);
    vec![
        format!("--etcd-servers={etcd}"),
        ranges.to_owned(),
        format!("--cert-dir={}", folder.display()),
        format!("--bind-address={}", at.ip()),
        format!("--secure-port={}", at.port()),
        "--authorization-mode=RBAC".to_owned(),
        format!("--token-auth-file={}", folder.join("tokens.csv").display()),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        format!("--service-account-key-file={}", pki.join("sa.pub").display()),
        format!("--service-account-signing-key-file={}", pki.join("sa.key").display()),
    ]
}
