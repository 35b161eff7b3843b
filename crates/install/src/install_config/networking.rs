//! `networking`: ranges for Pods, Services and machines, with defaults for the families that the platform has.

use crate::{
    fields::{Fields, Unknown, scalar, shown},
    notes::Notes,
    ranges,
};
use api::{config::AwsIpFamily, path::Path as Field};
use net::{Cidr, DualStack, Families, Family, NodeBlocks, ServiceRange};

/// The section, checked.
pub(super) struct Networking {
    pub(super) services: DualStack<ServiceRange>,
    pub(super) pods: DualStack<Cidr>,
    pub(super) blocks: DualStack<NodeBlocks>,
    pub(super) network_type: String,
}

/// What a family has when the file does not say: range for Pods, prefix of each node's part, range for Services.
fn defaults(family: Family) -> (&'static str, u8, &'static str) {
    match family {
        Family::V4 => ("10.128.0.0/14", 23, "172.30.0.0/16"),
        Family::V6 => ("fd01::/48", 64, "fd02::/112"),
    }
}

/// `platform` is what an AWS cluster was asked to be; other platforms follow the ranges.
pub(super) fn read(fields: &mut Fields<'_>, platform: Option<AwsIpFamily>, notes: &mut Notes) -> Option<Networking> {
    let mut section = fields.section("networking", notes);
    let wanted = platform.map_or(Families::one(Family::V4), AwsIpFamily::families);
    let network_type = section.text("networkType", notes).unwrap_or_else(|| "OVNKubernetes".to_owned());
    let pods = pods(&mut section, wanted, notes);
    let services = services(&mut section, wanted, notes);
    let machines = machines(&mut section, notes);
    section.unused(&["clusterNetworkMTU", "ovnKubernetesConfig"], "is for the network plugin", notes);
    let (service_field, pod_field) = (section.child("serviceNetwork"), section.child("clusterNetwork"));
    let machine_field = section.child("machineNetwork");
    section.end(notes);

    if let Some(platform) = platform {
        let given = [
            (&pod_field, pods.as_ref().map(|(pods, _)| pods.families())),
            (&service_field, services.map(|s| s.families())),
        ];
        for (field, families) in given.into_iter().filter_map(|(field, families)| Some((field, families?))) {
            if families != wanted {
                let problem =
                    format!("is not what platform.aws.ipFamily {} asks for: {wanted}, in this order", platform.name());
                notes.wrong(field, families.to_string(), problem);
            }
        }
    }
    let (services, (pods, blocks)) = (services?, pods?);
    if platform.is_none() {
        ranges::compare(&pod_field, &services, &pods, notes);
    }
    let mut all: Vec<_> = machines.into_iter().map(|range| (&machine_field, "machines", range)).collect();
    all.extend(services.iter().map(|range| (&service_field, "Services", range.cidr())));
    all.extend(pods.iter().map(|range| (&pod_field, "Pods", *range)));
    ranges::overlaps(&all, notes);
    Some(Networking { services, pods, blocks: blocks?, network_type })
}

type Pods = (DualStack<Cidr>, Option<DualStack<NodeBlocks>>);

/// Ranges for Pods and how they are cut; the cut is missing when a prefix cannot be used.
fn pods(section: &mut Fields<'_>, wanted: Families, notes: &mut Notes) -> Option<Pods> {
    let path = section.child("clusterNetwork");
    let entries = section.list("clusterNetwork", notes);
    let mut texts = Vec::new();
    let mut prefixes = Vec::new();
    for (path, item) in &entries {
        let mut fields = Fields::new(path.clone(), Some(item), Unknown::Warning, notes);
        match fields.text("cidr", notes) {
            Some(cidr) => texts.push(cidr),
            None => notes.refused(&fields.child("cidr"), "must be given"),
        }
        prefixes.push(fields.number::<u8>("hostPrefix", "a prefix length", notes));
        fields.end(notes);
    }
    if texts.len() < entries.len() {
        return None;
    }
    if entries.is_empty() {
        texts = wanted.iter().map(|family| defaults(family).0.to_owned()).collect();
    }
    let ranges = ranges::one_or_pair::<Cidr>(&path, &texts.join(","), notes)?;
    let mut given = prefixes.into_iter();
    let mut whole = true;
    let blocks = ranges.map(|family, range| {
        let prefix = given.next().flatten().unwrap_or_else(|| defaults(family).1);
        let block = NodeBlocks::new(range, prefix);
        if let Err(error) = &block {
            whole = false;
            notes.wrong(&path, range.to_string(), error.to_string().replace("mask size", "hostPrefix"));
        }
        block.ok()
    });
    Some((ranges, whole.then(|| blocks.try_map(|_, block| block.ok_or(())).ok()).flatten()))
}

fn services(section: &mut Fields<'_>, wanted: Families, notes: &mut Notes) -> Option<DualStack<ServiceRange>> {
    let path = section.child("serviceNetwork");
    let texts: Vec<String> = section.texts("serviceNetwork", notes).into_iter().map(|(_, text)| text).collect();
    let list = match texts.is_empty() {
        true => wanted.iter().map(|family| defaults(family).2).collect::<Vec<_>>().join(","),
        false => texts.join(","),
    };
    let ranges = ranges::one_or_pair::<ServiceRange>(&path, &list, notes)?;
    for range in ranges.iter().filter(|range| range.dns().is_none()) {
        notes.wrong(&path, range.to_string(), "is too small: cluster DNS has the tenth address");
    }
    Some(ranges)
}

/// Ranges of the machines, as many as there are; on AWS the IPv6 one is often the account's and not known yet.
fn machines(section: &mut Fields<'_>, notes: &mut Notes) -> Vec<Cidr> {
    let entries = section.list("machineNetwork", notes);
    if entries.is_empty() {
        return "10.0.0.0/16".parse().into_iter().collect();
    }
    let mut ranges = Vec::new();
    for (path, item) in entries {
        let mut fields = Fields::new(path, Some(item), Unknown::Warning, notes);
        let text = fields.value("cidr").and_then(scalar);
        let field: Field = fields.child("cidr");
        match text.as_deref().map(str::parse::<Cidr>) {
            Some(Ok(range)) => ranges.push(range),
            Some(Err(error)) => notes.wrong(&field, text.unwrap_or_default(), error.to_string()),
            None => notes.wrong(&field, shown(item), "must be given"),
        }
        fields.end(notes);
    }
    ranges
}
