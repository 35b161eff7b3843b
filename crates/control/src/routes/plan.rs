//! Which routes the cloud should have, one for every pod CIDR of every node.
//!
//! Called by the controller in `mod.rs`. Mirrors the route controller of cloud-provider.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use net::{
    Cidr, Family, HasFamily,
    legacy::{parse_stored_cidr, parse_stored_ip},
};
use runtime::cloud::Route;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

/// What has to change. Deletes come first: a route may have to make room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Routes of nodes that are gone, or that lead elsewhere.
    pub delete: Vec<Route>,
    /// Routes that are missing.
    pub create: Vec<Route>,
}

/// Where a route leads: the node, and the pods behind it.
type Target = (String, Cidr);

fn target(route: &Route) -> Target {
    (route.node.clone(), route.pods)
}

/// Plans the routes. Only those inside the cluster CIDRs are anybody's business here.
#[must_use]
pub fn plan(nodes: &[Arc<Node>], routes: &[Route], clusters: &[Cidr]) -> Plan {
    let ours = |cidr: &Cidr| clusters.iter().any(|cluster| cluster.contains_cidr(cidr));
    let wanted: BTreeSet<Route> =
        nodes.iter().flat_map(|node| of_node(node)).filter(|route| ours(&route.pods)).collect();
    let by_target = |all: &mut dyn Iterator<Item = &'_ Route>| -> BTreeMap<Target, Vec<Option<IpAddr>>> {
        let mut table: BTreeMap<Target, Vec<Option<IpAddr>>> = BTreeMap::new();
        all.for_each(|route| table.entry(target(route)).or_default().push(route.via));
        table
    };
    let (there, asked) = (by_target(&mut routes.iter()), by_target(&mut wanted.iter()));
    let stale = routes.iter().filter(|route| {
        let asked = asked.get(&target(route)).is_some_and(|vias| route.via.is_none() || vias.contains(&route.via));
        ours(&route.pods) && !asked
    });
    let missing = wanted
        .iter()
        .filter(|one| !there.get(&target(one)).is_some_and(|vias| vias.contains(&None) || vias.contains(&one.via)));
    Plan { delete: stale.cloned().collect(), create: missing.cloned().collect() }
}

/// The routes of a node: each pod CIDR by way of the node's address of the same family.
#[must_use]
pub fn of_node(node: &Node) -> Vec<Route> {
    let cidrs = node.spec.iter().flat_map(|spec| spec.pod_cidrs.iter().flatten());
    let parsed = cidrs.enumerate().filter_map(|(index, text)| Some((index, parse_stored_cidr(text).ok()?)));
    let route = |(index, pods): (usize, Cidr)| Route {
        name: format!("{}-{index}", node.uid().unwrap_or_default()),
        node: node.name_any(),
        via: internal(node, pods.family()),
        pods,
    };
    parsed.map(route).collect()
}

fn internal(node: &Node, family: Family) -> Option<IpAddr> {
    let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let internal = addresses.filter(|address| address.type_ == "InternalIP");
    internal.filter_map(|address| parse_stored_ip(&address.address).ok()).find(|ip| ip.family() == family)
}
