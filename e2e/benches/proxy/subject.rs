//! A program under measurement.

use e2e::{Process, proxy_lab::Lab};
use std::path::PathBuf;

#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Twinstack,
    KubeProxy(PathBuf),
}

impl Subject {
    /// Ours, and the peer if it is named.
    pub(crate) fn all() -> Vec<Self> {
        let peer =
            std::env::var_os("KUBE_PROXY").filter(|path| !path.is_empty()).map(|path| Self::KubeProxy(path.into()));
        [Self::Twinstack].into_iter().chain(peer).collect()
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Twinstack => "twinstack",
            Self::KubeProxy(_) => "kube-proxy",
        }
    }

    /// Starts it on the lab's node. Neither waits between two changes: what is measured is work, not pauses.
    pub(crate) fn start(&self, lab: &Lab) -> Process {
        match self {
            Self::Twinstack => lab.proxy_with("twinstack.log", &["--log-level=info", "--iptables-sync-period=30s"]),
            Self::KubeProxy(program) => {
                let file = lab.folder().join("kube-proxy.yaml");
                let kubeconfig = lab.kubeconfig();
                let kubeconfig = kubeconfig.trim_start_matches("--kubeconfig=");
                let text = format!(
                    "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: nftables\n\
                     clientConnection: {{kubeconfig: {kubeconfig}}}\nhostnameOverride: n1\n\
                     clusterCIDR: 10.244.0.0/16,fd44::/16\nnftables: {{minSyncPeriod: 1ms}}\n\
                     conntrack: {{maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}}\n"
                );
                std::fs::write(&file, text).expect("a file can be written");
                let config = format!("--config={}", file.display());
                let program = program.display().to_string();
                lab.start(&[&program, &config], "kube-proxy.log")
            }
        }
    }

    /// Removes what it left in the kernel.
    pub(crate) fn clean_up(&self, lab: &Lab) {
        // Only the lab's own namespace.
        lab.node.run("nft", &["flush", "ruleset"], "").expect("nft empties the namespace");
    }
}
