//! kubeadm's files: `ClusterConfiguration` and `InitConfiguration`, and what may stand beside them.
//!
//! kubeadm 1.37 serves `v1beta4` and, where it is allowed, `v1`; `v1beta3` of earlier releases is read as well. Rules are
//! kubeadm's; differs in one thing: `advertiseAddress` may name one address of each family.

mod arguments;
mod cluster_configuration;
mod init_configuration;
mod networking;

use crate::{
    Cluster, KnownFlags, Platform,
    fields::{Fields, Unknown},
    names,
    notes::Notes,
    plan::default_image,
};
use api::{
    config::{FeatureSet, Topology},
    path::Path as Field,
};
use runtime::suggest;
use serde_json::Value;
use std::collections::BTreeMap;

const GROUP: &str = "kubeadm.k8s.io/";

/// Versions of the format, as far as they differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Version {
    V1Beta3,
    V1Beta4,
    V1,
}

pub(crate) fn read(documents: &[Value], known: KnownFlags<'_>, notes: &mut Notes) -> Option<Cluster> {
    let mut found = Found::default();
    for document in documents {
        found.add(document, notes);
    }
    let cluster = cluster_configuration::read(found.cluster, notes);
    let init = init_configuration::read(found.init, notes);
    let proxy = found.proxy.map(|document| proxy_mode(document, notes));
    let mut extra_args = cluster.extra_args;
    extra_args.insert("kubelet", init.kubelet_args);
    arguments::check(&mut extra_args, known, notes);

    let network = networking::read(cluster.networking, &extra_args, notes)?;
    let advertise = init.advertise.and_then(|(field, list)| networking::advertise(&field, &list, &network, notes));
    let name = cluster.name.unwrap_or_else(|| "kubernetes".to_owned());
    let base_domain = base_domain(&name, cluster.endpoint.as_ref());
    let topology = if cluster.endpoint.is_some() { Topology::HighlyAvailable } else { Topology::SingleReplica };
    Some(Cluster {
        infrastructure_name: names::infrastructure_name(&name, &base_domain),
        name,
        dns_domain: network.dns_domain,
        base_domain,
        services: network.services,
        pods: network.pods,
        blocks: network.blocks,
        given_masks: network.given_masks,
        network_type: "Other".to_owned(),
        advertise,
        port: init.port,
        endpoint: cluster.endpoint,
        internal_endpoint: None,
        certificate_names: cluster.certificate_names,
        certificate_addresses: cluster.certificate_addresses,
        certificates_dir: cluster.certificates_dir.unwrap_or_else(|| "/etc/kubernetes/pki".to_owned()),
        image: default_image(cluster.image_repository.as_deref()),
        etcd: cluster.etcd,
        extra_args,
        node: init.node,
        proxy_mode: proxy.flatten(),
        platform: Platform::None,
        control_plane: topology,
        infrastructure: topology,
        feature_set: FeatureSet::Default,
        gates: BTreeMap::new(),
    })
}

/// `api.lab.example.test` stands for a cluster in `lab.example.test`; without such a name the cluster has one under
/// `internal`, which is nobody's.
fn base_domain(name: &str, endpoint: Option<&(String, u16)>) -> String {
    let host = endpoint.map(|(host, _)| host.as_str()).filter(|host| net::parse_ip(host).is_err());
    match host.and_then(|host| host.split_once('.')) {
        Some((_, domain)) => domain.to_owned(),
        None => format!("{name}.internal"),
    }
}

/// The documents by kind.
#[derive(Default)]
struct Found<'a> {
    cluster: Option<(Version, &'a Value)>,
    init: Option<(Version, &'a Value)>,
    proxy: Option<&'a Value>,
}

impl<'a> Found<'a> {
    fn add(&mut self, document: &'a Value, notes: &mut Notes) {
        let text = |field: &str| document[field].as_str().unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let field = Field::new(if kind.is_empty() { "kind" } else { kind });
        let Some(version) = api_version.strip_prefix(GROUP) else {
            return self.beside(document, api_version, kind, notes);
        };
        let version = match version {
            "v1beta4" => Version::V1Beta4,
            "v1" => Version::V1,
            "v1beta3" => {
                notes.warn(
                    &field,
                    "v1beta3 is read, but kubeadm 1.37 no longer does; `kubeadm config migrate` of 1.36 converts it",
                );
                Version::V1Beta3
            }
            _ => {
                let accepted = "accepted: kubeadm.k8s.io/v1beta4, kubeadm.k8s.io/v1, kubeadm.k8s.io/v1beta3";
                return notes.wrong(
                    &field.child("apiVersion"),
                    api_version,
                    format!("is no version that is read; {accepted}"),
                );
            }
        };
        let slot = match kind {
            "ClusterConfiguration" => &mut self.cluster,
            "InitConfiguration" => &mut self.init,
            "JoinConfiguration" | "ResetConfiguration" | "UpgradeConfiguration" => {
                return notes.warn(&field, "has no effect on init");
            }
            _ => {
                let near = suggest::nearest(kind, ["ClusterConfiguration", "InitConfiguration"]);
                let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                let problem = format!("unknown kind; accepted: ClusterConfiguration, InitConfiguration{near}");
                return notes.wrong(&Field::new("kind"), kind, problem);
            }
        };
        if slot.replace((version, document)).is_some() {
            notes.refused(&field, "stands twice in the file; give one");
        }
    }

    /// Documents of the components that kubeadm sets up.
    fn beside(&mut self, document: &'a Value, api_version: &str, kind: &str, notes: &mut Notes) {
        match (api_version.split('/').next().unwrap_or_default(), kind) {
            ("kubeproxy.config.k8s.io", "KubeProxyConfiguration") => {
                if self.proxy.replace(document).is_some() {
                    notes.refused(&Field::new(kind), "stands twice in the file; give one");
                }
            }
            ("kubelet.config.k8s.io", "KubeletConfiguration") => {
                notes.warn(&Field::new(kind), "is left to the kubelet; its flags follow from the other documents");
            }
            _ => notes.wrong(
                &Field::new("apiVersion"),
                api_version,
                format!(
                    "{} does not belong into a kubeadm file",
                    if kind.is_empty() { "such a document" } else { kind }
                ),
            ),
        }
    }
}

fn proxy_mode(document: &Value, notes: &mut Notes) -> Option<String> {
    let mut fields = Fields::new(Field::new("KubeProxyConfiguration"), Some(document), Unknown::Warning, notes);
    fields.pass_over(&["apiVersion", "kind"]);
    let mode = fields.text("mode", notes);
    let modes = ["nftables", "iptables", "ipvs"];
    if let Some(mode) = mode.as_deref().filter(|mode| !modes.contains(mode)) {
        notes.wrong(&fields.child("mode"), mode, format!("is no mode; accepted: {}", modes.join(", ")));
    }
    fields.unused(&["clusterCIDR"], "follows from networking.podSubnet", notes);
    fields.unused(&["bindAddress"], "the proxy takes its node's addresses", notes);
    fields.end(notes);
    mode
}
