//! Security groups and their rules. AWS groups rules by protocol and ports; here each stands alone.

use super::{cidr, tags};
use crate::{
    account::{Direction, NewSecurityGroup, Peer, Protocol, Rule, SecurityGroup},
    clients::{
        actions::{self, Action},
        query::Form,
        xml::Element,
    },
};
use net::{Family, HasFamily};
use std::collections::BTreeSet;

pub(super) fn authorize_action(direction: Direction) -> Action {
    match direction {
        Direction::Ingress => actions::AUTHORIZE_INGRESS,
        Direction::Egress => actions::AUTHORIZE_EGRESS,
    }
}

pub(super) fn revoke_action(direction: Direction) -> Action {
    match direction {
        Direction::Ingress => actions::REVOKE_INGRESS,
        Direction::Egress => actions::REVOKE_EGRESS,
    }
}

pub(super) fn new_form(new: &NewSecurityGroup) -> Form {
    let mut form = Form::default();
    form.set("GroupName", &new.name);
    form.set("GroupDescription", &new.description);
    form.set("VpcId", &new.vpc);
    if !new.tags.is_empty() {
        form.set("TagSpecification.1.ResourceType", "security-group");
        form.tags("TagSpecification.1.Tag", &new.tags);
    }
    form
}

pub(super) fn group(element: &Element) -> SecurityGroup {
    SecurityGroup {
        id: element.text(&["groupId"]).to_owned(),
        name: element.text(&["groupName"]).to_owned(),
        vpc: element.text(&["vpcId"]).to_owned(),
        tags: tags(element),
        ingress: rules_of(element, "ipPermissions"),
        egress: rules_of(element, "ipPermissionsEgress"),
    }
}

pub(super) fn rules_of(element: &Element, list: &str) -> BTreeSet<Rule> {
    element.items(list).flat_map(rules_in).collect()
}

fn rules_in(permission: &Element) -> Vec<Rule> {
    let Some(protocol) = protocol(permission) else { return Vec::new() };
    let rule = |peer: Option<Peer>, item: &Element| {
        let description = item.text(&["description"]).to_owned();
        peer.map(|peer| Rule { protocol, peer, description })
    };
    let block = |item: &Element, name: &str| cidr(item.text(&[name])).map(Peer::Cidr);
    let mut rules: Vec<Rule> = Vec::new();
    rules.extend(permission.items("ipRanges").filter_map(|item| rule(block(item, "cidrIp"), item)));
    rules.extend(permission.items("ipv6Ranges").filter_map(|item| rule(block(item, "cidrIpv6"), item)));
    rules.extend(permission.items("groups").filter_map(|item| rule(item.some("groupId").map(Peer::Group), item)));
    let lists = permission.items("prefixListIds");
    rules.extend(lists.filter_map(|item| rule(item.some("prefixListId").map(Peer::PrefixList), item)));
    rules
}

fn protocol(permission: &Element) -> Option<Protocol> {
    let number = |name: &str| permission.text(&[name]).parse::<i32>().ok();
    let (from, to) = (number("fromPort"), number("toPort"));
    // Without ports, or with -1, a rule is about all of them.
    let first = from.and_then(|port| u16::try_from(port).ok()).unwrap_or(0);
    let last = to.and_then(|port| u16::try_from(port).ok()).unwrap_or(u16::MAX);
    let (kind, code) = (from.unwrap_or(-1), to.unwrap_or(-1));
    Some(match permission.text(&["ipProtocol"]) {
        "tcp" | "6" => Protocol::Tcp { from: first, to: last },
        "udp" | "17" => Protocol::Udp { from: first, to: last },
        "icmp" | "1" => Protocol::Icmp { kind, code },
        "icmpv6" | "58" => Protocol::Icmpv6 { kind, code },
        "-1" => Protocol::All,
        other => Protocol::Number(other.parse().ok()?),
    })
}

pub(super) fn rules_form(group: &str, rules: &BTreeSet<Rule>) -> Form {
    let mut form = Form::default();
    form.set("GroupId", group);
    for (number, rule) in (1..).zip(rules) {
        let prefix = format!("IpPermissions.{number}");
        let (name, ports) = match rule.protocol {
            Protocol::Tcp { from, to } => ("tcp".to_owned(), Some((from.into(), to.into()))),
            Protocol::Udp { from, to } => ("udp".to_owned(), Some((from.into(), to.into()))),
            Protocol::Icmp { kind, code } => ("icmp".to_owned(), Some((kind, code))),
            Protocol::Icmpv6 { kind, code } => ("icmpv6".to_owned(), Some((kind, code))),
            Protocol::All => ("-1".to_owned(), None),
            Protocol::Number(number) => (number.to_string(), None),
        };
        form.set(format!("{prefix}.IpProtocol"), name);
        let ports: Option<(i32, i32)> = ports;
        if let Some((from, to)) = ports {
            form.set(format!("{prefix}.FromPort"), from.to_string());
            form.set(format!("{prefix}.ToPort"), to.to_string());
        }
        let (list, name, value) = match &rule.peer {
            Peer::Cidr(cidr) if cidr.family() == Family::V4 => ("IpRanges", "CidrIp", cidr.to_string()),
            Peer::Cidr(cidr) => ("Ipv6Ranges", "CidrIpv6", cidr.to_string()),
            Peer::Group(id) => ("Groups", "GroupId", id.clone()),
            Peer::PrefixList(id) => ("PrefixListIds", "PrefixListId", id.clone()),
        };
        form.set(format!("{prefix}.{list}.1.{name}"), value);
        if !rule.description.is_empty() {
            form.set(format!("{prefix}.{list}.1.Description"), &rule.description);
        }
    }
    form
}
