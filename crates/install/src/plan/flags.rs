//! The flags of every component. What a file adds is merged as kubeadm does it.

use super::{DATA_DIR, ROOT};
use crate::{
    Cluster, Platform,
    cluster::{Arg, Merge},
};
use net::{DualStack, Family};
use std::fmt::Display;

type Flags = Vec<(String, String)>;

/// A component that is started with flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Component {
    ApiServer,
    ControllerManager,
    CloudControllerManager,
    Kubelet,
    Proxy,
}

impl Component {
    /// Those that this cluster has.
    pub(super) fn of(cluster: &Cluster) -> Vec<Self> {
        let mut all = vec![Self::ApiServer, Self::ControllerManager, Self::Kubelet, Self::Proxy];
        if matches!(cluster.platform, Platform::Aws(_)) {
            all.push(Self::CloudControllerManager);
        }
        all
    }

    /// The command of the binary.
    pub(super) fn command(self) -> &'static str {
        match self {
            Self::ApiServer => "apiserver",
            Self::ControllerManager => "controller-manager",
            Self::CloudControllerManager => "cloud-controller-manager",
            Self::Kubelet => "kubelet",
            Self::Proxy => "proxy",
        }
    }

    /// Its flags, those of the file included.
    pub(super) fn flags(self, cluster: &Cluster) -> Flags {
        let own = match self {
            Self::ApiServer => api_server(cluster),
            Self::ControllerManager => controller_manager(cluster),
            Self::CloudControllerManager => cloud_controller_manager(cluster),
            Self::Kubelet => kubelet(cluster),
            Self::Proxy => proxy(cluster),
        };
        let extra = cluster.extra_args.get(self.command()).map_or(&[][..], Vec::as_slice);
        merge(own, extra)
    }
}

/// Sorted flags of ours, less those that the file replaces, then those of the file in its order.
fn merge(mut own: Vec<(&'static str, String)>, extra: &[Arg]) -> Flags {
    own.sort_by_key(|(name, _)| *name);
    let mut merged = Flags::new();
    for (name, value) in own {
        match extra.iter().rev().find(|arg| arg.name == name) {
            None => merged.push((name.to_owned(), value)),
            Some(Arg { merge: Merge::Replace, .. }) => {}
            Some(Arg { merge: Merge::Append, value: more, .. }) => {
                merged.push((name.to_owned(), format!("{value},{more}")))
            }
            Some(Arg { merge: Merge::Prepend, value: more, .. }) => {
                merged.push((name.to_owned(), format!("{more},{value}")))
            }
        }
    }
    let is_merged = |arg: &Arg| arg.merge != Merge::Replace && merged.iter().any(|(name, _)| *name == arg.name);
    let tail: Flags =
        extra.iter().filter(|arg| !is_merged(arg)).map(|arg| (arg.name.clone(), arg.value.clone())).collect();
    merged.extend(tail);
    merged
}

fn list<T: Display>(values: &DualStack<T>) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

fn api_server(cluster: &Cluster) -> Vec<(&'static str, String)> {
    let pki = |name: &str| format!("{}/{name}", cluster.certificates_dir);
    let mut flags = vec![
        ("authorization-mode", "Node,RBAC".to_owned()),
        ("cert-dir", cluster.certificates_dir.clone()),
        ("data-dir", DATA_DIR.to_owned()),
        ("enable-admission-plugins", "NodeRestriction".to_owned()),
        ("enable-bootstrap-token-auth", "true".to_owned()),
        ("kubelet-certificate-authority", pki("ca.crt")),
        ("kubelet-client-certificate", pki("apiserver-kubelet-client.crt")),
        ("kubelet-client-key", pki("apiserver-kubelet-client.key")),
        ("kubelet-preferred-address-types", "InternalIP,ExternalIP,Hostname".to_owned()),
        ("secure-port", cluster.port.to_string()),
        ("service-account-issuer", format!("https://kubernetes.default.svc.{}", cluster.dns_domain)),
        ("service-account-signing-key-file", pki("sa.key")),
        ("service-cluster-ip-range", list(&cluster.services)),
        ("tls-cert-file", pki("apiserver.crt")),
        ("tls-private-key-file", pki("apiserver.key")),
    ];
    flags.extend(cluster.advertise.map(|addresses| ("advertise-address", list(&addresses))));
    if let Some(etcd) = &cluster.etcd {
        flags.push(("etcd-servers", etcd.servers.join(",")));
        flags.extend(etcd.ca_file.clone().map(|file| ("etcd-cafile", file)));
        if let Some((certificate, key)) = etcd.identity.clone() {
            flags.extend([("etcd-certfile", certificate), ("etcd-keyfile", key)]);
        }
    }
    flags
}

fn controller_manager(cluster: &Cluster) -> Vec<(&'static str, String)> {
    let mut flags = vec![
        ("cluster-name", cluster.name.clone()),
        ("kubeconfig", format!("{ROOT}/controller-manager.conf")),
        ("leader-elect", "true".to_owned()),
        ("cluster-signing-cert-file", format!("{}/ca.crt", cluster.certificates_dir)),
        ("cluster-signing-key-file", format!("{}/ca.key", cluster.certificates_dir)),
        ("root-ca-file", format!("{}/ca.crt", cluster.certificates_dir)),
        ("service-cluster-ip-range", list(&cluster.services)),
    ];
    if matches!(cluster.platform, Platform::Aws(_)) {
        flags.push(("cloud-provider", "external".to_owned()));
    }
    flags.extend(cluster.pods.map(|pods| ("cluster-cidr", list(&pods))));
    if let Some(blocks) = cluster.blocks {
        flags.push(("allocate-node-cidrs", "true".to_owned()));
        for (family, block) in blocks.entries().filter(|(family, _)| cluster.given_masks.contains(family)) {
            let name = match family {
                Family::V4 => "node-cidr-mask-size-ipv4",
                Family::V6 => "node-cidr-mask-size-ipv6",
            };
            flags.push((name, block.mask().to_string()));
        }
    }
    flags
}

fn cloud_controller_manager(cluster: &Cluster) -> Vec<(&'static str, String)> {
    let mut flags = vec![
        ("cloud-config", format!("{ROOT}/cloud-config")),
        ("cloud-provider", "aws".to_owned()),
        ("configure-cloud-routes", "false".to_owned()),
        ("kubeconfig", format!("{ROOT}/cloud-controller-manager.conf")),
        ("leader-elect", "true".to_owned()),
    ];
    flags.extend(cluster.pods.map(|pods| ("cluster-cidr", list(&pods))));
    flags
}

fn kubelet(cluster: &Cluster) -> Vec<(&'static str, String)> {
    let mut flags = vec![
        ("cluster-domain", cluster.dns_domain.clone()),
        ("kubeconfig", format!("{ROOT}/kubelet.conf")),
        ("pod-manifest-path", format!("{ROOT}/manifests")),
    ];
    // Cluster DNS has both families; its first address is the one that Pods are told.
    flags.extend(cluster.services.primary().dns().map(|address| ("cluster-dns", address.to_string())));
    flags.extend(cluster.advertise.map(|addresses| ("node-ip", list(&addresses))));
    flags.extend(cluster.node.name.clone().map(|name| ("hostname-override", name)));
    flags.extend(cluster.node.cri_socket.clone().map(|socket| ("container-runtime-endpoint", socket)));
    let control_plane = || vec!["node-role.kubernetes.io/control-plane=:NoSchedule".to_owned()];
    let taints = cluster.node.taints.clone().unwrap_or_else(control_plane);
    if !taints.is_empty() {
        flags.push(("register-with-taints", taints.join(",")));
    }
    flags
}

fn proxy(cluster: &Cluster) -> Vec<(&'static str, String)> {
    let mut flags = vec![("kubeconfig", format!("{ROOT}/proxy.conf"))];
    flags.extend(cluster.pods.map(|pods| ("cluster-cidr", list(&pods))));
    flags.extend(cluster.proxy_mode.clone().map(|mode| ("proxy-mode", mode)));
    flags.extend(cluster.node.name.clone().map(|name| ("hostname-override", name)));
    flags
}
