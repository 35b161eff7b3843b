//! Security groups and their rules.

use super::{Api, Call, Outcome, World, check_tags, set};
use crate::aws_strict::{
    call::Params,
    moto::understood,
    refusal::{Answer, refused},
    xml::Element,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{Ipv4Addr, Ipv6Addr},
};

/// Rules of one direction that count for one family.
const LIMIT: usize = 60;

/// One rule: protocol, first and last port (or ICMP type and code), one peer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rule {
    protocol: String,
    ports: Option<(i64, i64)>,
    peer: Peer,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Peer {
    V4(String),
    V6(String),
    Group(String),
    List(String),
}

fn protocol(text: &str) -> Option<String> {
    Some(match text {
        "tcp" | "6" => "tcp".to_owned(),
        "udp" | "17" => "udp".to_owned(),
        "icmp" | "1" => "icmp".to_owned(),
        "icmpv6" | "58" => "icmpv6".to_owned(),
        "-1" => "-1".to_owned(),
        number => number.parse::<u8>().ok()?.to_string(),
    })
}

/// What AWS keeps of a block: without the bits of the host.
fn network(text: &str) -> Option<String> {
    let (address, length) = text.split_once('/')?;
    let length: u32 = length.parse().ok()?;
    if let Ok(v4) = address.parse::<Ipv4Addr>() {
        let mask = u32::MAX.checked_shl(32_u32.checked_sub(length)?).unwrap_or(0);
        return Some(format!("{}/{length}", Ipv4Addr::from_bits(v4.to_bits() & mask)));
    }
    let v6 = address.parse::<Ipv6Addr>().ok()?;
    let mask = u128::MAX.checked_shl(128_u32.checked_sub(length)?).unwrap_or(0);
    Some(format!("{}/{length}", Ipv6Addr::from_bits(v6.to_bits() & mask)))
}

fn wrong<T>(message: impl Into<String>) -> Outcome<T> {
    Err(refused("InvalidParameterValue", message))
}

/// The rules that a call names, each one alone.
fn asked(params: &Params) -> Outcome<Vec<Rule>> {
    let mut rules = Vec::new();
    for permission in params.items("IpPermissions") {
        let text = permission.get("IpProtocol").to_lowercase();
        let Some(protocol) = protocol(&text) else { return wrong(format!("Invalid value '{text}' for IP protocol")) };
        let number = |key: &str| permission.get(key).parse::<i64>().ok();
        let ports = number("FromPort").zip(number("ToPort"));
        let ranges = ["tcp", "udp"].contains(&protocol.as_str());
        let ports = match (ports, ranges, protocol.as_str()) {
            (Some((from, to)), true, _) if !(0..=65535).contains(&from) || !(from..=65535).contains(&to) => {
                return wrong(format!(
                    "Invalid value for portRange. Must specify from <= to in 0..65535, not {from}-{to}"
                ));
            }
            (None, true, _) => return Err(refused("InvalidParameterValue", "Invalid value for portRange: none")),
            (ports, true, _) => ports,
            (ports, false, "icmp" | "icmpv6") => Some(ports.unwrap_or((-1, -1))),
            (_, false, _) => None,
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || " ._-:/()#,@[]+=&;{}!$*".contains(c);
        let mut add = |item: &Params, peer: Peer| {
            let description = item.get("Description");
            if description.len() > 255 || !description.chars().all(allowed) {
                return wrong(format!("Invalid rule description '{description}'"));
            }
            rules.push(Rule { protocol: protocol.clone(), ports, peer });
            Ok(())
        };
        for item in permission.items("IpRanges") {
            let text = item.get("CidrIp");
            let cidr = network(text).filter(|cidr| !cidr.contains(':'));
            let Some(cidr) = cidr else { return wrong(format!("CIDR block {text} is malformed")) };
            if protocol == "icmpv6" {
                return wrong(format!("icmpv6 does not go with {text}"));
            }
            add(&item, Peer::V4(cidr))?;
        }
        for item in permission.items("Ipv6Ranges") {
            let text = item.get("CidrIpv6");
            let cidr = network(text).filter(|cidr| cidr.contains(':'));
            let Some(cidr) = cidr else { return wrong(format!("CIDR block {text} is malformed")) };
            if protocol == "icmp" {
                return wrong(format!("icmp does not go with {text}"));
            }
            add(&item, Peer::V6(cidr))?;
        }
        for prefix in ["Groups", "UserIdGroupPairs"] {
            for item in permission.items(prefix) {
                add(&item, Peer::Group(item.get("GroupId").to_owned()))?;
            }
        }
        for item in permission.items("PrefixListIds") {
            add(&item, Peer::List(item.get("PrefixListId").to_owned()))?;
        }
    }
    if rules.is_empty() {
        return Err(refused("MissingParameter", "The request must contain the parameter ipPermissions"));
    }
    Ok(rules)
}

/// The rules that a group has.
fn held(group: &Element, direction: &str) -> BTreeSet<Rule> {
    let mut rules = BTreeSet::new();
    for one in group.all(&format!("{direction}/item")) {
        let number = |key: &str| one.text(key).parse::<i64>().ok();
        let protocol = protocol(one.text("ipProtocol")).unwrap_or_default();
        let ports = number("fromPort").zip(number("toPort")).filter(|_| protocol != "-1");
        let peers = one
            .texts("ipRanges/item/cidrIp")
            .into_iter()
            .map(Peer::V4)
            .chain(one.texts("ipv6Ranges/item/cidrIpv6").into_iter().map(Peer::V6))
            .chain(one.texts("groups/item/groupId").into_iter().map(Peer::Group))
            .chain(one.texts("prefixListIds/item/prefixListId").into_iter().map(Peer::List));
        rules.extend(peers.map(|peer| Rule { protocol: protocol.clone(), ports, peer }));
    }
    rules
}

fn direction(call: &Call) -> &'static str {
    if call.action.ends_with("Egress") { "ipPermissionsEgress" } else { "ipPermissions" }
}

/// The call with blocks as AWS keeps them.
fn normalised(call: &Call) -> Call {
    let mut call = call.clone();
    for (key, value) in &mut call.params.0 {
        if key.ends_with(".CidrIp") || key.ends_with(".CidrIpv6") {
            *value = network(value).unwrap_or_else(|| value.clone());
        }
    }
    call
}

fn group(groups: &[Element], id: &str) -> Outcome<Element> {
    let group = groups.iter().find(|group| group.text("groupId") == id).cloned();
    group.ok_or_else(|| refused("InvalidGroup.NotFound", format!("The security group '{id}' does not exist")))
}

impl World {
    pub(super) async fn groups(&self) -> Outcome<Vec<Element>> {
        let found = self.ask(Api::Ec2, "DescribeSecurityGroups", &[]).await?;
        Ok(found.all("securityGroupInfo/item").into_iter().cloned().collect())
    }

    /// Those of these ids that are there.
    pub(super) async fn groups_of(&self, ids: &BTreeSet<&str>) -> Outcome<Vec<Element>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<String> = (1..=ids.len()).map(|number| format!("Filter.1.Value.{number}")).collect();
        let values = keys.iter().map(String::as_str).zip(ids.iter().copied());
        let filter: Vec<(&str, &str)> = [("Filter.1.Name", "group-id")].into_iter().chain(values).collect();
        let found = self.ask(Api::Ec2, "DescribeSecurityGroups", &filter).await?;
        Ok(found.all("securityGroupInfo/item").into_iter().cloned().collect())
    }

    pub(super) async fn create_group(&mut self, call: &Call) -> Outcome {
        let (name, description) = (call.params.get("GroupName"), call.params.get("GroupDescription"));
        for specification in call.params.items("TagSpecification") {
            check_tags(&specification.tags("Tag"))?;
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || " ._-:/()#,@[]+=&;{}!$*".contains(c);
        let fits = |text: &str| !text.is_empty() && text.len() <= 255 && text.chars().all(allowed);
        if !fits(name) || !fits(description) || name.starts_with("sg-") {
            return wrong(format!("Invalid security group name or description: '{name}', '{description}'"));
        }
        let vpc = call.params.get("VpcId");
        let vpcs = self.ask(Api::Ec2, "DescribeVpcs", &[]).await?;
        if !vpcs.texts("vpcSet/item/vpcId").iter().any(|id| id == vpc) {
            return Err(refused("InvalidVpcID.NotFound", format!("The vpc ID '{vpc}' does not exist")));
        }
        Ok(self.forward(call).await)
    }

    /// A group that something uses stays.
    pub(super) async fn delete_group(&mut self, call: &Call) -> Outcome {
        let id = call.params.get("GroupId");
        let groups = self.groups().await?;
        if !groups.iter().any(|group| group.text("groupId") == id) {
            return Err(refused("InvalidGroup.NotFound", format!("The security group '{id}' does not exist")));
        }
        let refers = |group: &Element| {
            let rules = held(group, "ipPermissions").into_iter().chain(held(group, "ipPermissionsEgress"));
            rules.into_iter().any(|rule| rule.peer == Peer::Group(id.to_owned()))
        };
        let referred = groups.iter().filter(|group| group.text("groupId") != id).any(refers);
        let network = self.balancers(&[]).await?;
        let classic = self.classics().await?;
        let attached = network.iter().chain(&classic).any(|one| set(one.texts("SecurityGroups/member")).contains(id));
        let path = "networkInterfaceSet/item/groupSet/item/groupId";
        let running = self.instances().await?.iter().any(|one| set(one.texts(path)).contains(id));
        if referred || attached || running || self.kept.is_busy(id) {
            return Err(refused("DependencyViolation", format!("resource {id} has a dependent object")));
        }
        Ok(self.forward(call).await)
    }

    /// All of the rules or none.
    pub(super) async fn authorize(&mut self, call: &Call) -> Outcome {
        let call = normalised(call);
        let asked = asked(&call.params)?;
        let peers =
            asked.iter().filter_map(|rule| if let Peer::Group(id) = &rule.peer { Some(id.as_str()) } else { None });
        let groups = self.groups_of(&peers.chain([call.params.get("GroupId")]).collect()).await?;
        let mut all = held(&group(&groups, call.params.get("GroupId"))?, direction(&call));
        for rule in asked {
            if let Peer::Group(id) = &rule.peer {
                group(&groups, id)?;
            }
            if !all.insert(rule.clone()) {
                let message = format!("the specified rule \"{rule:?}\" already exists");
                return Err(refused("InvalidPermission.Duplicate", message));
            }
        }
        let of = |other: fn(&Peer) -> bool| all.iter().filter(|rule| !other(&rule.peer)).count();
        if of(|peer| matches!(peer, Peer::V6(_))) > LIMIT || of(|peer| matches!(peer, Peer::V4(_))) > LIMIT {
            let message = "The maximum number of rules per security group has been reached.";
            return Err(refused("RulesPerSecurityGroupLimitExceeded", message));
        }
        Ok(Answer::xml(200, understood(self.forward(&call).await)?.write()))
    }

    /// The rules of a group with moto's ids of them.
    async fn numbered(&self, group: &str, egress: bool) -> Outcome<BTreeMap<Rule, String>> {
        let filter = [("Filter.1.Name", "group-id"), ("Filter.1.Value.1", group)];
        let found = self.ask(Api::Ec2, "DescribeSecurityGroupRules", &filter).await?;
        let mut rules = BTreeMap::new();
        for one in
            found.all("securityGroupRuleSet/item").into_iter().filter(|one| (one.text("isEgress") == "true") == egress)
        {
            let number = |key: &str| one.text(key).parse::<i64>().ok();
            let protocol = protocol(one.text("ipProtocol")).unwrap_or_default();
            let ports = number("fromPort").zip(number("toPort")).filter(|_| protocol != "-1");
            let peer = [
                ("cidrIpv4", Peer::V4 as fn(String) -> Peer),
                ("cidrIpv6", Peer::V6),
                ("referencedGroupInfo/groupId", Peer::Group),
                ("prefixListId", Peer::List),
            ];
            let peer = peer.iter().find_map(|(path, peer)| Some(peer(one.one(path)?.text.trim().to_owned())));
            rules.extend(peer.map(|peer| (Rule { protocol, ports, peer }, one.text("securityGroupRuleId").to_owned())));
        }
        Ok(rules)
    }

    /// All of the rules or none. By their ids: moto takes a rule with a description for another one than without.
    pub(super) async fn revoke(&mut self, call: &Call) -> Outcome {
        let mut call = normalised(call);
        let asked = asked(&call.params)?;
        let id = call.params.get("GroupId").to_owned();
        group(&self.groups_of(&[id.as_str()].into()).await?, &id)?;
        let has = self.numbered(&id, call.action.ends_with("Egress")).await?;
        call.params.0.retain(|(key, _)| !key.starts_with("IpPermissions."));
        for (index, rule) in asked.iter().enumerate() {
            let Some(id) = has.get(rule) else {
                let message = format!("The specified rule does not exist in this security group: {rule:?}");
                return Err(refused("InvalidPermission.NotFound", message));
            };
            call.params.set(&format!("SecurityGroupRuleId.{}", index + 1), id);
        }
        Ok(self.forward(&call).await)
    }
}

#[cfg(test)]
mod tests {
    use super::network;

    #[test]
    fn blocks_lose_the_bits_of_the_host() {
        for (given, kept) in [
            ("10.0.0.5/8", Some("10.0.0.0/8")),
            ("192.0.2.1/32", Some("192.0.2.1/32")),
            ("0.0.0.0/0", Some("0.0.0.0/0")),
            ("2001:db8::5/32", Some("2001:db8::/32")),
            ("::/0", Some("::/0")),
            ("10.0.0.0/33", None),
            ("10.0.0.0", None),
        ] {
            assert_eq!(network(given).as_deref(), kept, "{given}");
        }
    }
}
