//! Keys, certificates and kubeconfigs: the files that `plan` cannot know. Written straight into a directory.

use crate::Cluster;
use net::{Family, HasFamily, ServiceRange};
use runtime::{
    atomic_file::{self, PRIVATE, PUBLIC},
    kubeconfig::{Credential, Kubeconfig, Url},
    pki::{Authority, Identity, PkiError, Purpose, TokenKey},
};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::Path,
    time::SystemTime,
};

/// Administrators, by a binding that can be taken back; kubeadm's name for them.
pub(crate) const CLUSTER_ADMINS: &str = "kubeadm:cluster-admins";
/// What the API server is to kubelets.
pub(crate) const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// A kubeconfig: file, user, groups.
type Client = (&'static str, String, Vec<String>);

/// Why keys or certificates were not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretsError {
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Files of people, who come from outside.
const ADMINISTRATORS: [&str; 2] = ["admin.conf", "super-admin.conf"];

/// Who gets a kubeconfig in this cluster.
fn clients(cluster: &Cluster) -> Vec<Client> {
    let mut clients: Vec<Client> = vec![
        ("admin.conf", "kubernetes-admin".to_owned(), vec![CLUSTER_ADMINS.to_owned()]),
        // Nothing that is stored can take these rights away: to be locked up, and used when the others' bindings are gone or not there yet.
        ("super-admin.conf", "kubernetes-super-admin".to_owned(), vec!["system:masters".to_owned()]),
        ("controller-manager.conf", "system:kube-controller-manager".to_owned(), Vec::new()),
        ("proxy.conf", "system:kube-proxy".to_owned(), Vec::new()),
    ];
    if matches!(cluster.platform, crate::Platform::Aws(_)) {
        clients.push(("cloud-controller-manager.conf", "system:cloud-controller-manager".to_owned(), Vec::new()));
    }
    if let Some(name) = &cluster.node.name {
        clients.push(("kubelet.conf", format!("system:node:{name}"), vec!["system:nodes".to_owned()]));
    }
    clients
}

/// The paths of all files with keys, certificates and kubeconfigs, which `plan` does not show.
pub fn paths(cluster: &Cluster) -> Vec<String> {
    let certificates = ["ca.crt", "ca.key", "sa.key", "apiserver.crt", "apiserver.key"];
    let kubelet = ["apiserver-kubelet-client.crt", "apiserver-kubelet-client.key"];
    let mut paths: Vec<String> = certificates.iter().chain(&kubelet).map(|name| format!("pki/{name}")).collect();
    paths.extend(clients(cluster).into_iter().map(|(file, ..)| file.to_owned()));
    paths.sort();
    paths
}

/// Writes them below `directory`. An authority and a signing key that are there already are kept: what they signed
/// before stays believed.
pub(crate) fn write(cluster: &Cluster, directory: &Path, now: SystemTime) -> Result<(), SecretsError> {
    let pki = directory.join("pki");
    let authority = Authority::load_or_create(&pki, "kubernetes", now)?;
    TokenKey::load_or_create(&pki.join("sa.key"))?;
    pair(&pki, "apiserver", &authority.issue(&serving(cluster), now)?)?;
    let purpose = |user: &str, groups: &[String]| Purpose::Client { user: user.to_owned(), groups: groups.to_vec() };
    // In no group: it may do with kubelets what its binding says (`objects/`), and nothing else.
    pair(&pki, "apiserver-kubelet-client", &authority.issue(&purpose(KUBELET_CLIENT, &[]), now)?)?;
    for (file, user, groups) in clients(cluster) {
        let credential = Credential::Certificate(authority.issue(&purpose(&user, &groups), now)?);
        let servers = servers(cluster, file);
        let authority_pem = authority.certificate_pem().to_owned();
        Kubeconfig { user, servers, authority_pem, credential }.write(&directory.join(file))?;
    }
    Ok(())
}

fn pair(folder: &Path, name: &str, identity: &Identity) -> io::Result<()> {
    atomic_file::write(&folder.join(format!("{name}.crt")), identity.chain_pem().as_bytes(), PUBLIC)?;
    atomic_file::write(&folder.join(format!("{name}.key")), identity.key_pem().expose().as_bytes(), PRIVATE)
}

/// Every name and address by which the API server is reached, in both families.
fn serving(cluster: &Cluster) -> Purpose {
    let mut names: Vec<String> =
        ["kubernetes", "kubernetes.default", "kubernetes.default.svc"].map(str::to_owned).into();
    names.push(format!("kubernetes.default.svc.{}", cluster.dns_domain));
    names.push("localhost".to_owned());
    let mut addresses: Vec<IpAddr> = Family::BOTH.map(Family::loopback).into();
    addresses.extend(cluster.services.iter().map(ServiceRange::first));
    addresses.extend(cluster.advertise.iter().flat_map(|pair| pair.iter().copied()));
    addresses.extend(&cluster.certificate_addresses);
    for (host, _) in cluster.endpoint.iter().chain(&cluster.internal_endpoint) {
        match net::parse_ip(host) {
            Ok(address) => addresses.push(address),
            Err(_) => names.push(host.clone()),
        }
    }
    names.extend(cluster.certificate_names.iter().chain(&cluster.node.name).cloned());
    addresses.sort_by_key(|address| (address.family(), *address));
    addresses.dedup();
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    Purpose::Serving { names, addresses }
}

/// Components beside the API server ask it directly; everybody else goes where all servers are. Without such an endpoint
/// the administrator has a context for each family.
fn servers(cluster: &Cluster, file: &str) -> Vec<(String, Url)> {
    let beside = ["controller-manager.conf", "cloud-controller-manager.conf"].contains(&file);
    let endpoint =
        cluster.internal_endpoint.as_ref().filter(|_| !ADMINISTRATORS.contains(&file)).or(cluster.endpoint.as_ref());
    if let Some((host, port)) = endpoint.filter(|_| !beside) {
        let url = match net::parse_ip(host) {
            Ok(address) => Url::from(SocketAddr::new(address, *port)),
            Err(_) => Url::named(host, *port),
        };
        return vec![(cluster.name.clone(), url)];
    }
    let url = |address: IpAddr| Url::from(SocketAddr::new(address, cluster.port));
    let mut servers = vec![(cluster.name.clone(), url(cluster.local()))];
    if let Some(second) = cluster.advertise.and_then(|pair| pair.secondary().copied()).filter(|_| !beside) {
        servers.push((format!("{}-{}", cluster.name, second.family().to_string().to_lowercase()), url(second)));
    }
    servers
}
