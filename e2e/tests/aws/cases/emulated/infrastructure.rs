//! VPCs, subnets, route tables, instances, addresses and certificates, and groups that somebody else made: under the names that a state gives
//! them.

use aws::{
    account::{Instance, SecurityGroup, Subnet, Tags},
    memory::State,
};
use e2e::aws_strict::{Api, Element, Strict};
use net::Cidr;
use std::net::Ipv6Addr;

/// Asks EC2 as somebody who is no part of what is tried, by the names of the state.
fn ec2(strict: &Strict, action: &str, params: &[(&str, &str)]) -> Element {
    strict.look(Api::Ec2, action, params).unwrap_or_else(|failure| panic!("{action}: {}", failure.body))
}

/// Elastic addresses, and what has them.
pub(super) fn read_addresses(strict: &Strict, state: &mut State) {
    let addresses = ec2(strict, "DescribeAddresses", &[]);
    for item in addresses.all("addressesSet/item") {
        if let Some(address) = state.addresses.get_mut(item.text("allocationId")) {
            let association = item.text("associationId");
            address.association = (!association.is_empty()).then(|| association.to_owned());
        }
    }
}

/// What nobody but a case changes.
pub(super) fn alone(state: &State) -> State {
    let mut around = state.clone();
    around.load_balancers.clear();
    around.listeners.clear();
    around.target_groups.clear();
    around.classic.clear();
    around.groups.clear();
    around
}

/// Makes all that there is around, and its groups.
pub(super) fn build(strict: &Strict, state: &State) {
    for vpc in state.vpcs.keys() {
        new_vpc(strict, vpc);
        for subnet in state.subnets.iter().filter(|subnet| subnet.vpc == *vpc) {
            new_subnet(strict, subnet);
        }
        for table in state.route_tables.iter().filter(|table| !table.main) {
            let own = ec2(strict, "CreateRouteTable", &[("VpcId", vpc)]).text("routeTable/routeTableId").to_owned();
            strict.nickname(&table.id, &own);
            for subnet in &table.subnets {
                ec2(strict, "AssociateRouteTable", &[("RouteTableId", &table.id), ("SubnetId", subnet)]);
            }
            let gateway = ec2(strict, "CreateInternetGateway", &[]);
            let gateway = gateway.text("internetGateway/internetGatewayId");
            ec2(strict, "AttachInternetGateway", &[("InternetGatewayId", gateway), ("VpcId", vpc)]);
            for (key, to) in [("DestinationCidrBlock", "0.0.0.0/0"), ("DestinationIpv6CidrBlock", "::/0")] {
                ec2(strict, "CreateRoute", &[("RouteTableId", &table.id), (key, to), ("GatewayId", gateway)]);
            }
        }
    }
    state.groups.values().for_each(|group| new_group(strict, group));
    state.instances.values().for_each(|instance| new_instance(strict, instance));
    for allocation in state.addresses.keys() {
        strict.nickname(allocation, ec2(strict, "AllocateAddress", &[("Domain", "vpc")]).text("allocationId"));
    }
    state.certificates.iter().for_each(|arn| new_certificate(strict, arn));
}

/// Makes the differences between two states.
pub(super) fn follow(strict: &Strict, before: &State, after: &State) {
    for arn in after.certificates.difference(&before.certificates) {
        new_certificate(strict, arn);
    }
    for new in &after.subnets {
        let Some(old) = before.subnets.iter().find(|old| old.id == new.id) else {
            new_subnet(strict, new);
            continue;
        };
        if old.ipv6 != new.ipv6 {
            without_ipv6(strict, &new.id);
        }
        for key in old.tags.keys().filter(|key| !new.tags.contains_key(*key)) {
            ec2(strict, "DeleteTags", &[("ResourceId.1", &new.id), ("Tag.1.Key", key)]);
        }
        for (key, value) in new.tags.iter().filter(|(key, _)| !old.tags.contains_key(*key)) {
            ec2(strict, "CreateTags", &[("ResourceId.1", &new.id), ("Tag.1.Key", key), ("Tag.1.Value", value)]);
        }
    }
    for old in &before.route_tables {
        let Some(new) = after.route_tables.iter().find(|new| new.id == old.id) else {
            let found = ec2(strict, "DescribeRouteTables", &[("RouteTableId.1", &old.id)]);
            for association in found.texts("routeTableSet/item/associationSet/item/routeTableAssociationId") {
                ec2(strict, "DisassociateRouteTable", &[("AssociationId", &association)]);
            }
            ec2(strict, "DeleteRouteTable", &[("RouteTableId", &old.id)]);
            continue;
        };
        for subnet in new.subnets.difference(&old.subnets) {
            ec2(strict, "AssociateRouteTable", &[("RouteTableId", &old.id), ("SubnetId", subnet)]);
        }
    }
    for new in after.groups.values() {
        match before.groups.get(&new.id) {
            None => new_group(strict, new),
            Some(old) if old.vpc != new.vpc => {
                ec2(strict, "DeleteSecurityGroup", &[("GroupId", &new.id)]);
                new_vpc(strict, &new.vpc);
                new_group(strict, new);
            }
            Some(_) => {}
        }
    }
    for new in after.instances.values().filter(|new| before.instances.get(&new.id) != Some(new)) {
        ec2(strict, "TerminateInstances", &[("InstanceId.1", &new.id)]);
        for id in new.interfaces[0].security_groups.iter().filter(|id| !after.groups.contains_key(*id)) {
            let name = id.trim_start_matches("sg-");
            let (tags, vpc) = (Tags::new(), new.vpc.clone());
            let (ingress, egress) = Default::default();
            new_group(strict, &SecurityGroup { id: id.clone(), name: name.to_owned(), vpc, tags, ingress, egress });
        }
        new_instance(strict, new);
    }
}

fn new_vpc(strict: &Strict, name: &str) {
    let made = ec2(strict, "CreateVpc", &[("CidrBlock", "10.0.0.0/16"), ("AmazonProvidedIpv6CidrBlock", "true")]);
    strict.nickname(name, made.text("vpc/vpcId"));
}

fn tagged<'a>(params: &mut Vec<(String, &'a str)>, kind: &'a str, tags: &'a Tags) {
    if !tags.is_empty() {
        params.push(("TagSpecification.1.ResourceType".to_owned(), kind));
    }
    for (number, (key, value)) in (1..).zip(tags) {
        params.push((format!("TagSpecification.1.Tag.{number}.Key"), key));
        params.push((format!("TagSpecification.1.Tag.{number}.Value"), value));
    }
}

fn made(strict: &Strict, action: &str, params: &[(String, &str)]) -> Element {
    let params: Vec<(&str, &str)> = params.iter().map(|(key, value)| (key.as_str(), *value)).collect();
    ec2(strict, action, &params)
}

/// AWS chooses the block of a VPC, so that those of subnets get other names too.
fn new_subnet(strict: &Strict, subnet: &Subnet) {
    let ipv4 = subnet.ipv4.map(|cidr| cidr.to_string()).unwrap_or_default();
    let mut params = vec![
        ("VpcId".to_owned(), subnet.vpc.as_str()),
        ("CidrBlock".to_owned(), &ipv4),
        ("AvailabilityZone".to_owned(), &subnet.zone),
    ];
    let own;
    if let Some(name) = subnet.ipv6.first() {
        let found = ec2(strict, "DescribeVpcs", &[("VpcId.1", &subnet.vpc)]);
        let block = found.text("vpcSet/item/ipv6CidrBlockAssociationSet/item/ipv6CidrBlock").to_owned();
        own = inside(&block, *name);
        strict.nickname(&name.to_string(), &own);
        params.push(("Ipv6CidrBlock".to_owned(), &own));
    }
    tagged(&mut params, "subnet", &subnet.tags);
    strict.nickname(&subnet.id, made(strict, "CreateSubnet", &params).text("subnet/subnetId"));
}

/// The block of 64 bits in one of 56 that has the same last byte as another one.
fn inside(block: &str, name: Cidr) -> String {
    let parse = |text: &str| text.split('/').next().unwrap().parse::<Ipv6Addr>().unwrap().segments();
    let (mut own, name) = (parse(block), parse(&name.to_string()));
    own[3] = (own[3] & 0xff00) | (name[3] & 0xff);
    format!("{}/64", Ipv6Addr::from(own))
}

fn without_ipv6(strict: &Strict, subnet: &str) {
    let found = ec2(strict, "DescribeSubnets", &[("SubnetId.1", subnet)]);
    for id in found.texts("subnetSet/item/ipv6CidrBlockAssociationSet/item/associationId") {
        ec2(strict, "DisassociateSubnetCidrBlock", &[("AssociationId", &id)]);
    }
}

fn new_group(strict: &Strict, group: &SecurityGroup) {
    let mut params = vec![
        ("GroupName".to_owned(), group.name.as_str()),
        ("GroupDescription".to_owned(), &group.name),
        ("VpcId".to_owned(), &group.vpc),
    ];
    tagged(&mut params, "security-group", &group.tags);
    strict.nickname(&group.id, made(strict, "CreateSecurityGroup", &params).text("groupId"));
}

fn new_instance(strict: &Strict, instance: &Instance) {
    let interface = &instance.interfaces[0];
    let mut params = vec![
        ("ImageId".to_owned(), "ami-12c6146b"),
        ("MinCount".to_owned(), "1"),
        ("MaxCount".to_owned(), "1"),
        ("InstanceType".to_owned(), &instance.instance_type),
        ("SubnetId".to_owned(), &instance.subnet),
        ("Ipv6AddressCount".to_owned(), "1"),
        ("EnablePrimaryIpv6".to_owned(), if interface.primary_ipv6 { "true" } else { "false" }),
    ];
    let groups = (1..).zip(&interface.security_groups);
    params.extend(groups.map(|(number, id)| (format!("SecurityGroupId.{number}"), id.as_str())));
    tagged(&mut params, "instance", &instance.tags);
    strict.nickname(&instance.id, made(strict, "RunInstances", &params).text("instancesSet/item/instanceId"));
}

fn new_certificate(strict: &Strict, name: &str) {
    let answer = strict.json("CertificateManager.RequestCertificate", r#"{"DomainName": "example.test"}"#);
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    strict.nickname(name, answer["CertificateArn"].as_str().unwrap());
}
