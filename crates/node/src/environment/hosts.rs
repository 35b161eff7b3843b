//! The file /etc/hosts of a Pod, with every address that it has, and the name that it bears.

use k8s_openapi::api::core::v1::{HostAlias, Pod};
use std::net::IpAddr;

/// The kernel takes 64 bytes with the zero at the end.
const LONGEST: usize = 63;

const OWN: &str = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n\
                   fe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n";
const OF_HOST: &str = "# Kubernetes-managed hosts file (host network).\n";

/// The name of a Pod and the domain that it stands in; the domain is empty without a subdomain.
#[must_use]
pub fn hostname(pod: &Pod, cluster_domain: &str) -> (String, String) {
    let spec = pod.spec.as_ref();
    let given = |text: Option<&String>| text.filter(|text| !text.is_empty()).cloned();
    if let Some(name) = given(spec.and_then(|spec| spec.hostname_override.as_ref())) {
        return (shortened(name), String::new());
    }
    let name = given(spec.and_then(|spec| spec.hostname.as_ref()));
    let name = shortened(name.or_else(|| pod.metadata.name.clone()).unwrap_or_default());
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let domain = given(spec.and_then(|spec| spec.subdomain.as_ref()))
        .map(|subdomain| format!("{subdomain}.{namespace}.svc.{cluster_domain}"));
    (name, domain.unwrap_or_default())
}

fn shortened(mut name: String) -> String {
    if name.len() > LONGEST {
        // Names are ASCII: the API has seen to it.
        name.truncate(LONGEST);
        name.truncate(name.trim_end_matches(['-', '.']).len());
    }
    name
}

/// What the file holds. A Pod on the host's network has the host's own (`host_file`), and its aliases below.
#[must_use]
pub fn hosts(pod: &Pod, pod_ips: &[IpAddr], cluster_domain: &str, host_file: &str) -> String {
    let spec = pod.spec.as_ref();
    let aliases = spec.and_then(|spec| spec.host_aliases.as_deref()).unwrap_or_default();
    if spec.and_then(|spec| spec.host_network) == Some(true) {
        return format!("{OF_HOST}{host_file}{}", below(aliases));
    }
    let (name, domain) = hostname(pod, cluster_domain);
    let names = if domain.is_empty() { name } else { format!("{name}.{domain}\t{name}") };
    let own: String = pod_ips.iter().map(|address| format!("{address}\t{names}\n")).collect();
    format!("{OWN}{own}{}", below(aliases))
}

fn below(aliases: &[HostAlias]) -> String {
    if aliases.is_empty() {
        return String::new();
    }
    let line =
        |alias: &HostAlias| format!("{}\t{}\n", alias.ip, alias.hostnames.as_deref().unwrap_or_default().join("\t"));
    let lines: String = aliases.iter().map(line).collect();
    format!("\n# Entries added by HostAliases.\n{lines}")
}
