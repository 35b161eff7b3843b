//! A small VPC with nodes, for tests and for trying things out.

use super::State;
use crate::account::{
    Address, AvailabilityZone, Instance, Interface, RouteEntry, RouteTable, RouteTarget, SecurityGroup, Subnet, Tags,
    Vpc,
};
use k8s_openapi::api::core::v1::Node;
use net::Cidr;
use serde_json::json;
use std::{
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

/// Three zones with a public and a private subnet each, dual-stack, and as many nodes as asked for.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// How many nodes there are.
    pub nodes: u8,
}

fn tags(pairs: &[(&str, &str)]) -> Tags {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

impl Example {
    /// Id of the cluster.
    pub const CLUSTER: &'static str = "example";
    /// Id of the VPC.
    pub const VPC: &'static str = "vpc-1";
    /// The nodes' security group.
    pub const NODE_GROUP: &'static str = "sg-nodes";
    /// A group that somebody else made.
    pub const BROUGHT_GROUP: &'static str = "sg-brought";
    /// Another one.
    pub const OTHER_GROUP: &'static str = "sg-other";
    pub const CERTIFICATE: &'static str = "arn:aws:acm:us-east-1:1:certificate/1";
    /// Another one.
    pub const OTHER_CERTIFICATE: &'static str = "arn:aws:acm:us-east-1:1:certificate/2";

    /// The account.
    pub fn state(self) -> State {
        let mut state = State::default();
        let cidr = |text: &str| text.parse::<Cidr>().ok();
        let cidrs = ["10.0.0.0/16", "2001:db8::/56"].into_iter().filter_map(cidr).collect();
        state.vpcs.insert(Self::VPC.to_owned(), Vpc { id: Self::VPC.to_owned(), cidrs });
        for (index, letter) in ["a", "b", "c"].into_iter().enumerate() {
            let zone = format!("us-east-1{letter}");
            state.zones.push(AvailabilityZone {
                name: zone.clone(),
                id: format!("use1-az{}", index + 1),
                kind: "availability-zone".to_owned(),
            });
            for (kind, offset) in [("public", 0), ("private", 100)] {
                let number = index + offset;
                state.subnets.push(Subnet {
                    id: format!("subnet-{kind}-{letter}"),
                    vpc: Self::VPC.to_owned(),
                    zone: zone.clone(),
                    ipv4: cidr(&format!("10.0.{number}.0/24")),
                    ipv6: cidr(&format!("2001:db8:0:{number:x}::/64")).into_iter().collect(),
                    free_ipv4: 250,
                    tags: tags(&[("kubernetes.io/cluster/example", "owned")]),
                });
            }
        }
        let gateway = RouteTarget::Gateway("igw-1".to_owned());
        let out = |text: &str| RouteEntry { to: cidr(text), via: gateway.clone(), blackhole: false };
        state.route_tables = vec![
            RouteTable {
                id: "rtb-public".to_owned(),
                vpc: Self::VPC.to_owned(),
                main: false,
                subnets: ["a", "b", "c"].map(|letter| format!("subnet-public-{letter}")).into(),
                routes: vec![out("0.0.0.0/0"), out("::/0")],
                tags: Tags::new(),
            },
            RouteTable {
                id: "rtb-main".to_owned(),
                vpc: Self::VPC.to_owned(),
                main: true,
                subnets: std::collections::BTreeSet::new(),
                routes: Vec::new(),
                tags: Tags::new(),
            },
        ];
        let group = |id: &str, name: &str, more: &[(&str, &str)]| SecurityGroup {
            id: id.to_owned(),
            name: name.to_owned(),
            vpc: Self::VPC.to_owned(),
            tags: tags(more),
            ingress: std::collections::BTreeSet::new(),
            egress: std::collections::BTreeSet::new(),
        };
        let nodes = group(Self::NODE_GROUP, "nodes", &[("kubernetes.io/cluster/example", "owned")]);
        state.groups.insert(Self::NODE_GROUP.to_owned(), nodes);
        state.groups.insert(Self::BROUGHT_GROUP.to_owned(), group(Self::BROUGHT_GROUP, "brought", &[]));
        state.groups.insert(Self::OTHER_GROUP.to_owned(), group(Self::OTHER_GROUP, "other", &[]));
        for number in 0..self.nodes {
            let letter = ["a", "b", "c"][usize::from(number % 3)];
            let id = format!("i-{number:04x}");
            state.instances.insert(id.clone(), instance(number, &id, letter));
        }
        for number in 1..=3_u8 {
            let allocation = format!("eipalloc-{number}");
            let public_ipv4 = Ipv4Addr::new(192, 0, 2, number);
            state.addresses.insert(allocation.clone(), Address { allocation, public_ipv4, association: None });
        }
        state.certificates = [Self::CERTIFICATE.to_owned(), Self::OTHER_CERTIFICATE.to_owned()].into();
        state
    }

    /// The nodes that the instances are.
    pub fn nodes(self) -> Vec<Arc<Node>> {
        let node = |number: u8| {
            let letter = ["a", "b", "c"][usize::from(number % 3)];
            let name = format!("node-{number}");
            serde_json::from_value(json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "spec": {"providerID": format!("aws:///us-east-1{letter}/i-{number:04x}")},
            }))
            .ok()
            .map(Arc::new)
        };
        (0..self.nodes).filter_map(node).collect()
    }
}

fn instance(number: u8, id: &str, letter: &str) -> Instance {
    Instance {
        id: id.to_owned(),
        instance_type: "m6i.large".to_owned(),
        zone: format!("us-east-1{letter}"),
        vpc: Example::VPC.to_owned(),
        subnet: format!("subnet-private-{letter}"),
        state: "running".to_owned(),
        private_dns: format!("node-{number}"),
        public_dns: String::new(),
        public_ipv4: None,
        interfaces: vec![Interface {
            id: format!("eni-{number}"),
            device_index: 0,
            ipv4: vec![Ipv4Addr::new(10, 0, 100 + number % 3, 10 + number)],
            ipv6: vec![Ipv6Addr::new(0x2001, 0xdb8, 0, 100 + u16::from(number % 3), 0, 0, 0, 10 + u16::from(number))],
            primary_ipv6: true,
            security_groups: [Example::NODE_GROUP.to_owned()].into(),
        }],
        tags: tags(&[("kubernetes.io/cluster/example", "owned")]),
    }
}
