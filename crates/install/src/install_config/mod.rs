//! An OpenShift-style `install-config.yaml`: one document with platform, network, domain and feature set.
//!
//! Keys that nobody knows are warned about, not refused: such files carry much that is for others.

mod aws;
mod features;
mod networking;

use crate::{
    Cluster, Platform,
    cluster::Node,
    fields::{Fields, Unknown},
    names,
    notes::Notes,
    plan::default_image,
};
use api::{
    config::{Scope, Topology},
    path::Path as Field,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Port of the API.
const PORT: u16 = 6443;

pub(crate) fn read(documents: &[Value], notes: &mut Notes) -> Option<Cluster> {
    let mut fields = Fields::new(Field::root(), documents.first(), Unknown::Warning, notes);
    version(&mut fields, notes);
    let name = name(&mut fields, notes);
    let base_domain = base_domain(&mut fields, notes);
    let (feature_set, gates) = features::read(&mut fields, notes);
    let scope = aws::scope(&mut fields, notes);
    let platform = platform(&mut fields, scope, notes);
    if let Platform::Aws(aws) = &platform {
        aws::check(aws, &crate::gates::resolve(feature_set, &gates), notes);
        if aws.scope == Scope::External {
            let advice = "its public zone is not looked up; to publish records there, put the zone's id into spec.publicZone of the DNS object";
            notes.warn(&fields.child("baseDomain"), advice);
        }
    }
    let families = match &platform {
        Platform::Aws(aws) => Some(aws.ip_family),
        Platform::None => None,
    };
    let network = networking::read(&mut fields, families, notes);
    let control_plane = control_plane(&mut fields, notes);
    let infrastructure = compute(&mut fields, control_plane, notes);
    fields.pass_over(&[
        "pullSecret",
        "sshKey",
        "additionalTrustBundle",
        "additionalTrustBundlePolicy",
        "credentialsMode",
    ]);
    fields.pass_over(&["capabilities", "imageDigestSources", "imageContentSources", "cpuPartitioningMode"]);
    fields.unused(&["proxy", "fips", "bootstrapInPlace"], "has no effect here", notes);
    fields.end(notes);

    let (name, network) = (name?, network?);
    let base_domain = format!("{name}.{}", base_domain?);
    let endpoint = (format!("api.{base_domain}"), PORT);
    let internal = (format!("api-int.{base_domain}"), PORT);
    Some(Cluster {
        infrastructure_name: names::infrastructure_name(&name, &base_domain),
        name,
        dns_domain: "cluster.local".to_owned(),
        services: network.services,
        pods: Some(network.pods),
        given_masks: network.pods.families().iter().collect(),
        blocks: Some(network.blocks),
        network_type: network.network_type,
        advertise: None,
        port: PORT,
        certificate_names: vec![internal.0.clone()],
        certificate_addresses: Vec::new(),
        endpoint: Some(endpoint),
        internal_endpoint: Some(internal),
        base_domain,
        certificates_dir: "/etc/kubernetes/pki".to_owned(),
        image: default_image(None),
        etcd: None,
        extra_args: BTreeMap::new(),
        node: Node::default(),
        proxy_mode: None,
        platform,
        control_plane,
        infrastructure,
        feature_set,
        gates,
    })
}

fn version(fields: &mut Fields<'_>, notes: &mut Notes) {
    match fields.text("apiVersion", notes).as_deref() {
        Some("v1") => {}
        Some(other) => {
            notes.wrong(&fields.child("apiVersion"), other, "is no version of an install-config; accepted: v1")
        }
        None => notes.refused(&fields.child("apiVersion"), "must be given; accepted: v1"),
    }
}

fn name(fields: &mut Fields<'_>, notes: &mut Notes) -> Option<String> {
    let mut metadata = fields.section("metadata", notes);
    let (field, name) = (metadata.child("name"), metadata.text("name", notes));
    metadata.pass_over(&["creationTimestamp"]);
    metadata.end(notes);
    match &name {
        None => notes.refused(&field, "must be given; it is the first label of the cluster's domain"),
        Some(name) if !api::kinds::names::is_dns_label(name) => {
            notes.wrong(&field, name, "is no name; accepted: lower case letters, digits and inner hyphens");
        }
        Some(_) => {}
    }
    name
}

fn base_domain(fields: &mut Fields<'_>, notes: &mut Notes) -> Option<String> {
    let (field, domain) = (fields.child("baseDomain"), fields.text("baseDomain", notes));
    let domain = domain.map(|domain| domain.trim_end_matches('.').to_owned());
    match &domain {
        None => notes.refused(&field, "must be given; the cluster's own domain is below it"),
        Some(domain) if !names::is_domain(domain) => notes.wrong(&field, domain, "is no DNS name in lower case"),
        Some(_) => {}
    }
    domain
}

fn platform(fields: &mut Fields<'_>, scope: Scope, notes: &mut Notes) -> Platform {
    let mut section = fields.section("platform", notes);
    let aws = section.value("aws").is_some().then(|| aws::read(&mut section, scope, notes));
    let none = section.value("none").is_some();
    const OTHERS: [&str; 9] =
        ["azure", "baremetal", "external", "gcp", "ibmcloud", "nutanix", "openstack", "powervs", "vsphere"];
    for other in OTHERS {
        if section.value(other).is_some() {
            notes.refused(&section.child(other), "is a platform that is not supported; accepted: aws, none");
        }
    }
    match (&aws, none) {
        (Some(_), true) => notes.refused(&section.path, "names two platforms; give one of aws, none"),
        (None, false) if !OTHERS.iter().any(|other| section.value(other).is_some()) => {
            notes.refused(&section.path, "must be given; accepted: aws, none");
        }
        _ => {}
    }
    section.end(notes);
    aws.map_or(Platform::None, Platform::Aws)
}

/// One control plane node can do nothing else if it fails.
fn control_plane(fields: &mut Fields<'_>, notes: &mut Notes) -> Topology {
    let mut section = fields.section("controlPlane", notes);
    let replicas = replicas(&mut section, notes).unwrap_or(3);
    machine_pool(section, notes);
    if replicas < 2 { Topology::SingleReplica } else { Topology::HighlyAvailable }
}

fn compute(fields: &mut Fields<'_>, control_plane: Topology, notes: &mut Notes) -> Topology {
    let pools = fields.list("compute", notes);
    if pools.is_empty() {
        return Topology::HighlyAvailable;
    }
    let mut workers = 0_u64;
    for (path, pool) in pools {
        let mut section = Fields::new(path, Some(pool), Unknown::Warning, notes);
        workers += u64::from(replicas(&mut section, notes).unwrap_or(3));
        machine_pool(section, notes);
    }
    match workers {
        0 => control_plane,
        1 => Topology::SingleReplica,
        _ => Topology::HighlyAvailable,
    }
}

fn replicas(section: &mut Fields<'_>, notes: &mut Notes) -> Option<u32> {
    section.number("replicas", "a number of machines, 0 or more", notes)
}

fn machine_pool(mut section: Fields<'_>, notes: &mut Notes) {
    section.pass_over(&["name", "platform", "hyperthreading", "architecture", "fencing", "diskSetup", "management"]);
    section.end(notes);
}
