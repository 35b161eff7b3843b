//! `ClusterConfiguration`, but for its network, which `networking` checks.

use super::{Version, arguments, networking::Given};
use crate::{
    Etcd,
    cluster::Arg,
    fields::{Fields, Unknown},
    names::{self, host_and_port},
    notes::Notes,
    plan::default_image,
};
use api::path::Path as Field;
use serde_json::Value;
use std::{collections::BTreeMap, net::IpAddr};

/// What it says.
#[derive(Default)]
pub(super) struct ClusterConfiguration {
    pub(super) name: Option<String>,
    pub(super) networking: Given,
    pub(super) endpoint: Option<(String, u16)>,
    pub(super) certificate_names: Vec<String>,
    pub(super) certificate_addresses: Vec<IpAddr>,
    pub(super) certificates_dir: Option<String>,
    pub(super) image_repository: Option<String>,
    pub(super) etcd: Option<Etcd>,
    pub(super) extra_args: BTreeMap<&'static str, Vec<Arg>>,
}

pub(super) fn read(document: Option<(Version, &Value)>, notes: &mut Notes) -> ClusterConfiguration {
    let mut read = ClusterConfiguration::default();
    let (version, value) = document.map_or((Version::V1Beta4, None), |(version, value)| (version, Some(value)));
    let mut fields = Fields::new(Field::new("ClusterConfiguration"), value, Unknown::Mistake, notes);
    fields.pass_over(&["apiVersion", "kind"]);

    read.name = fields.text("clusterName", notes);
    if let Some(name) = read.name.as_deref().filter(|name| !api::kinds::names::is_dns_label(name)) {
        notes.wrong(
            &fields.child("clusterName"),
            name,
            "is no name; accepted: lower case letters, digits and inner hyphens",
        );
    }
    networking(&mut fields, &mut read.networking, notes);
    read.endpoint = endpoint(&mut fields, notes);
    read.certificates_dir = absolute(&mut fields, "certificatesDir", notes);
    read.image_repository = fields.text("imageRepository", notes);
    if let Some(repository) = &read.image_repository {
        let image = default_image(Some(repository));
        notes.warn(&fields.child("imageRepository"), format!("the manifests name {image}; it must be put there"));
    }
    read.etcd = etcd(&mut fields, version, notes);

    let mut server = fields.section("apiServer", notes);
    component(&mut server, "apiserver", version, &mut read, notes);
    for (path, text) in server.texts("certSANs", notes) {
        match net::parse_ip(&text) {
            Ok(address) => read.certificate_addresses.push(address),
            Err(_) if names::is_domain(text.strip_prefix("*.").unwrap_or(&text)) => read.certificate_names.push(text),
            Err(_) => notes.wrong(&path, text, "is neither an IP address nor a DNS name in lower case"),
        }
    }
    if version == Version::V1Beta3 {
        server.unused(&["timeoutForControlPlane"], "is for kubeadm's own waiting", notes);
    }
    server.end(notes);
    let mut manager = fields.section("controllerManager", notes);
    component(&mut manager, "controller-manager", version, &mut read, notes);
    manager.end(notes);
    fields.unused(&["scheduler"], "scheduling is part of the controller manager; its arguments are left out", notes);

    kubernetes_version(&mut fields, notes);
    fields.unused(&["featureGates"], "these gates are kubeadm's own and have no effect here", notes);
    fields.unused(&["dns"], "cluster DNS is part of Twinstack", notes);
    if version > Version::V1Beta3 {
        fields.unused(&["proxy"], "the proxy's file is always written; do not start it to go without", notes);
        fields.unused(&["encryptionAlgorithm"], "keys are ECDSA P-256", notes);
        let why = "certificates are valid for a year, their authority for ten";
        fields.unused(&["certificateValidityPeriod", "caCertificateValidityPeriod"], why, notes);
    }
    fields.end(notes);
    read
}

fn networking(fields: &mut Fields<'_>, given: &mut Given, notes: &mut Notes) {
    let mut section = fields.section("networking", notes);
    given.path = section.path.clone();
    given.services = section.comma_list("serviceSubnet", notes);
    given.pods = section.comma_list("podSubnet", notes);
    given.dns_domain = section.text("dnsDomain", notes);
    section.end(notes);
}

fn endpoint(fields: &mut Fields<'_>, notes: &mut Notes) -> Option<(String, u16)> {
    let text = fields.text("controlPlaneEndpoint", notes)?;
    let read = host_and_port(&text, 6443);
    read.map_err(|problem| notes.wrong(&fields.child("controlPlaneEndpoint"), text, problem)).ok()
}

/// A folder on the control plane's machine.
fn absolute(fields: &mut Fields<'_>, name: &'static str, notes: &mut Notes) -> Option<String> {
    let text = fields.text(name, notes)?;
    if !text.starts_with('/') {
        notes.wrong(&fields.child(name), &text, "is not an absolute path");
    }
    Some(text.trim_end_matches('/').to_owned())
}

fn component(
    fields: &mut Fields<'_>,
    component: &'static str,
    version: Version,
    read: &mut ClusterConfiguration,
    notes: &mut Notes,
) {
    read.extra_args.insert(component, arguments::read(fields, "extraArgs", version, notes));
    fields.unused(&["extraVolumes"], "mount further folders by editing the manifest", notes);
    if version > Version::V1Beta3 {
        fields.unused(&["extraEnvs"], "set variables by editing the manifest", notes);
    }
}

fn etcd(fields: &mut Fields<'_>, version: Version, notes: &mut Notes) -> Option<Etcd> {
    let mut section = fields.section("etcd", notes);
    section.unused(&["local"], "state is kept by the API server itself; name an etcd of yours under external", notes);
    let mut external = section.section("external", notes);
    let given = external.given();
    let servers: Vec<String> = external.texts("endpoints", notes).into_iter().map(|(_, url)| url).collect();
    let ca_file = external.text("caFile", notes);
    let certificate = external.text("certFile", notes);
    let key = external.text("keyFile", notes);
    if version > Version::V1Beta3 {
        external.unused(&["httpEndpoints"], "health is asked over the endpoints themselves", notes);
    }
    if given && servers.is_empty() {
        notes.refused(&external.child("endpoints"), "must be given; accepted: URLs such as https://[fd00::1]:2379");
    }
    for (at, url) in servers.iter().enumerate() {
        if !["https://", "http://"].iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme)) {
            notes.wrong(
                &external.child("endpoints").index(at),
                url,
                "is no URL; accepted: https://HOST:PORT, http://HOST:PORT",
            );
        }
    }
    if certificate.is_some() != key.is_some() {
        let missing = if key.is_none() { "keyFile" } else { "certFile" };
        notes.refused(&external.child(missing), "must be given: certFile and keyFile go together");
    }
    external.end(notes);
    section.end(notes);
    given.then(|| Etcd { servers, ca_file, identity: certificate.zip(key) })
}

/// Any version is served as 1.37; a file for another one may expect other things.
fn kubernetes_version(fields: &mut Fields<'_>, notes: &mut Notes) {
    let Some(text) = fields.text("kubernetesVersion", notes) else { return };
    let label = ["stable", "latest", "ci/"].iter().any(|label| text.starts_with(label));
    let numbers: Vec<&str> = text.trim_start_matches('v').split('.').collect();
    let is_number = |text: &&&str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    let numbered = numbers.len() >= 2 && numbers.iter().take(2).filter(is_number).count() == 2;
    let field = fields.child("kubernetesVersion");
    match (label, numbered) {
        (false, false) => notes.wrong(&field, text, "is no version; accepted: v1.37.0 and the like"),
        (false, true) if numbers[..2] != ["1", "37"] => {
            notes.warn(&field, format!("the API served is that of 1.37, not of {text}"));
        }
        _ => {}
    }
}
