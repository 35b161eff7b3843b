//! The network of a kubeadm cluster: ranges, how Pods' ranges are cut for nodes, the cluster's domain.

use super::arguments::last;
use crate::{cluster::Arg, names, notes::Notes, ranges};
use api::path::Path as Field;
use net::{Cidr, DualStack, Family, HasFamily, MaskError, NodeBlocks, NodeMaskFlags, ServiceRange, node_blocks};
use std::{collections::BTreeMap, net::IpAddr};

/// The fewest addresses for Pods, and the most host bits for Services, that kubeadm takes.
const SMALLEST_PODS: u128 = 14;
const MOST_SERVICE_BITS: u8 = 20;
/// The most bits between a range for Pods and a node's part of it.
const MOST_NODE_BITS: u8 = 16;

/// The section as it was given.
#[derive(Default)]
pub(super) struct Given {
    pub(super) path: Field,
    pub(super) services: Option<String>,
    pub(super) pods: Option<String>,
    pub(super) dns_domain: Option<String>,
}

/// The section, checked.
pub(super) struct Networking {
    pub(super) dns_domain: String,
    pub(super) services: DualStack<ServiceRange>,
    pub(super) pods: Option<DualStack<Cidr>>,
    pub(super) blocks: Option<DualStack<NodeBlocks>>,
    pub(super) given_masks: Vec<Family>,
}

pub(super) fn read(given: Given, args: &BTreeMap<&'static str, Vec<Arg>>, notes: &mut Notes) -> Option<Networking> {
    let dns_domain = given.dns_domain.unwrap_or_else(|| "cluster.local".to_owned());
    if !names::is_domain(&dns_domain) {
        notes.wrong(&given.path.child("dnsDomain"), &dns_domain, "is no DNS name in lower case");
    }
    let field = given.path.child("serviceSubnet");
    let list = given.services.unwrap_or_else(|| "10.96.0.0/12".to_owned());
    let services = ranges::one_or_pair::<ServiceRange>(&field, &list, notes);
    for range in services.iter().flat_map(DualStack::iter) {
        service_size(&field, range, notes);
    }
    let pods_field = given.path.child("podSubnet");
    let pods = given.pods.map(|list| ranges::one_or_pair::<Cidr>(&pods_field, &list, notes));
    let masks = masks(args, notes);
    let allocates = last(args, "controller-manager", "allocate-node-cidrs") != Some("false");
    let given_masks = Family::BOTH.into_iter().filter(|family| masks.is_some_and(|masks| of(masks, *family))).collect();
    let pods = match pods {
        None => None,
        Some(pods) => Some(pods?),
    };
    let blocks = pods.filter(|_| allocates).and_then(|pods| blocks(&pods_field, pods, masks?, notes));
    for range in pods.iter().flat_map(DualStack::iter).filter(|range| range.size() < SMALLEST_PODS) {
        let size = range.size();
        notes.wrong(
            &pods_field,
            range.to_string(),
            format!("is too small: {size} of at least {SMALLEST_PODS} addresses"),
        );
    }
    let services = services?;
    if let Some(pods) = &pods {
        ranges::compare(&pods_field, &services, pods, notes);
        let services = services.iter().map(|range| (&field, "Services", range.cidr()));
        let all: Vec<_> = services.chain(pods.iter().map(|range| (&pods_field, "Pods", *range))).collect();
        ranges::overlaps(&all, notes);
    }
    Some(Networking { dns_domain, services, pods, blocks, given_masks })
}

fn of(masks: NodeMaskFlags, family: Family) -> bool {
    match family {
        Family::V4 => masks.ipv4.is_some(),
        Family::V6 => masks.ipv6.is_some(),
    }
}

/// The address of the API server, and that no range contains it.
pub(super) fn advertise(
    field: &Field,
    list: &str,
    network: &Networking,
    notes: &mut Notes,
) -> Option<DualStack<IpAddr>> {
    let addresses = ranges::advertise(field, list, network.services.primary().family(), notes)?;
    for address in addresses.iter() {
        let taken = network.services.iter().map(ServiceRange::cidr).find(|range| range.contains(*address));
        let taken = taken.or_else(|| network.pods?.into_iter().find(|range| range.contains(*address)));
        if let Some(range) = taken {
            notes.wrong(field, address.to_string(), format!("lies in {range}, which is for the cluster inside"));
        }
    }
    Some(addresses)
}

fn service_size(field: &Field, range: &ServiceRange, notes: &mut Notes) {
    let cidr = range.cidr();
    let bits = cidr.family().bits();
    if range.dns().is_none() {
        notes.wrong(field, cidr.to_string(), "is too small: cluster DNS has the tenth address");
    }
    if bits - cidr.prefix() > MOST_SERVICE_BITS {
        let shortest = bits - MOST_SERVICE_BITS;
        notes.wrong(field, cidr.to_string(), format!("is too big; use a prefix of /{shortest} or longer"));
    }
}

/// The three mask sizes among the controller manager's arguments. None when one of them is no number.
fn masks(args: &BTreeMap<&'static str, Vec<Arg>>, notes: &mut Notes) -> Option<NodeMaskFlags> {
    let mut broken = false;
    let mut one = |name: &str| {
        let text = last(args, "controller-manager", name)?;
        let number = text.parse::<u8>().ok();
        if number.is_none() {
            broken = true;
            notes.wrong(
                &extra_args().key(name),
                text,
                "is no mask size; accepted: a number up to 32 for IPv4, 128 for IPv6",
            );
        }
        number
    };
    let masks = NodeMaskFlags {
        plain: one("node-cidr-mask-size"),
        ipv4: one("node-cidr-mask-size-ipv4"),
        ipv6: one("node-cidr-mask-size-ipv6"),
    };
    (!broken).then_some(masks)
}

fn extra_args() -> Field {
    Field::new("ClusterConfiguration").child("controllerManager").child("extraArgs")
}

fn blocks(
    field: &Field,
    pods: DualStack<Cidr>,
    masks: NodeMaskFlags,
    notes: &mut Notes,
) -> Option<DualStack<NodeBlocks>> {
    let blocks = match node_blocks(&pods, masks) {
        Ok(blocks) => blocks,
        Err(mistakes) => {
            for mistake in mistakes {
                match &mistake {
                    MaskError::ClusterTooSmall { cluster, .. }
                    | MaskError::TooMany { cluster, .. }
                    | MaskError::Mapped { cluster } => notes.wrong(field, cluster.to_string(), mistake.to_string()),
                    MaskError::PlainWithDual { .. }
                    | MaskError::PlainWithFamily { .. }
                    | MaskError::FamilyAbsent { .. }
                    | MaskError::TooLong { .. } => notes.refused(&extra_args(), mistake.to_string()),
                }
            }
            return None;
        }
    };
    for block in blocks.iter() {
        let bits = block.mask() - block.cluster().prefix();
        if bits > MOST_NODE_BITS {
            let problem = format!("is cut into 2^{bits} parts of /{}, more than 2^{MOST_NODE_BITS}", block.mask());
            notes.wrong(field, block.cluster().to_string(), problem);
        }
    }
    Some(blocks)
}
