//! Network load balancers.

use super::{Api, Call, Outcome, World, check_name, check_tags, done, set};
use crate::aws_strict::{
    moto::understood,
    refusal::{Answer, refused},
    xml::Element,
};
use std::collections::{BTreeMap, BTreeSet};

const LIST: &str = "DescribeLoadBalancersResult/LoadBalancers/member";
/// Hosted zone of network load balancers in us-east-1, as AWS publishes it.
const ZONE: &str = "Z26RNL4JYFTOTI";

/// A subnet with the addresses asked for in it.
struct Mapping {
    subnet: String,
    allocation: String,
    private: String,
}

fn mappings(call: &Call) -> Vec<Mapping> {
    let plain = call.params.list("Subnets.member").into_iter();
    let plain = plain.map(|subnet| Mapping { subnet, allocation: String::new(), private: String::new() });
    let given = call.params.items("SubnetMappings.member").into_iter().map(|item| Mapping {
        subnet: item.get("SubnetId").to_owned(),
        allocation: item.get("AllocationId").to_owned(),
        private: item.get("PrivateIPv4Address").to_owned(),
    });
    plain.chain(given).collect()
}

/// The DNS name of one of moto's load balancers as AWS would have made it.
fn dns_name(one: &Element, region: &str) -> String {
    let id = one.text("LoadBalancerArn").rsplit('/').next().unwrap_or_default();
    format!("{}-{id}.elb.{region}.amazonaws.com", one.text("LoadBalancerName"))
}

/// A load balancer that has a name in DNS.
pub(in crate::aws_strict) struct Hosted {
    pub(in crate::aws_strict) dns_name: String,
    pub(in crate::aws_strict) zone: String,
    pub(in crate::aws_strict) dual_stack: bool,
    pub(in crate::aws_strict) subnets: Vec<String>,
}

/// All load balancers of the region, of both kinds.
pub(in crate::aws_strict) async fn hosted(world: &World) -> Outcome<Vec<Hosted>> {
    let network = world.balancers(&[]).await?;
    let network = network.iter().map(|one| Hosted {
        dns_name: dns_name(one, &world.region),
        zone: ZONE.to_owned(),
        dual_stack: one.text("IpAddressType") == "dualstack",
        subnets: one.texts("AvailabilityZones/member/SubnetId"),
    });
    let classic = world.classics().await?;
    let classic = classic.iter().map(|one| Hosted {
        dns_name: super::classic::dns_name(one.text("LoadBalancerName"), &world.region),
        zone: super::classic::ZONE.to_owned(),
        dual_stack: false,
        subnets: one.texts("Subnets/member"),
    });
    Ok(network.chain(classic).collect())
}

impl World {
    /// moto's load balancers, through all pages.
    pub(super) async fn balancers(&self, filter: &[(&str, &str)]) -> Outcome<Vec<Element>> {
        let mut found = Vec::new();
        let mut marker = String::new();
        loop {
            let mut params = filter.to_vec();
            if !marker.is_empty() {
                params.push(("Marker", &marker));
            }
            let page = self.ask(Api::Elbv2, "DescribeLoadBalancers", &params).await?;
            found.extend(page.all(LIST).into_iter().cloned());
            let next = page.text("DescribeLoadBalancersResult/NextMarker").to_owned();
            if next.is_empty() || next == marker {
                return Ok(found);
            }
            marker = next;
        }
    }

    pub(super) async fn balancer(&self, arn: &str) -> Outcome<Element> {
        let found = self.balancers(&[("LoadBalancerArns.member.1", arn)]).await?;
        found.into_iter().next().ok_or_else(|| refused("LoadBalancerNotFound", format!("{arn} not found")))
    }

    fn mend_balancer(&self, one: &mut Element) {
        let (name, arn) = (dns_name(one, &self.region), one.text("LoadBalancerArn").to_owned());
        one.change("DNSName", &mut |element| element.text.clone_from(&name));
        one.change("CanonicalHostedZoneId", &mut |element| ZONE.clone_into(&mut element.text));
        let nat = if self.kept.source_nat.contains(&arn) { "on" } else { "off" };
        one.set("EnablePrefixForIpv6SourceNat", nat);
        one.change("AvailabilityZones/member", &mut |zone| {
            let key = (arn.clone(), zone.text("SubnetId").to_owned());
            if let Some((allocation, private)) = self.kept.addresses.get(&key) {
                let mut address = Element::branch("member", Vec::new());
                for (name, value) in [("AllocationId", allocation), ("PrivateIPv4Address", private)] {
                    if !value.is_empty() {
                        address.set(name, value);
                    }
                }
                zone.remove("LoadBalancerAddresses");
                zone.children.push(Element::branch("LoadBalancerAddresses", vec![address]));
            }
        });
    }

    pub(super) async fn describe_balancers(&mut self, call: &Call) -> Outcome {
        let mut element = understood(self.forward(call).await)?;
        element.change(LIST, &mut |one| self.mend_balancer(one));
        Ok(Answer::xml(200, element.write()))
    }

    /// Subnets exist, one for a zone, of one VPC, with IPv6 when it is needed. The answer is the VPC.
    async fn check_subnets(&self, ids: &[&str], dual_stack: bool) -> Outcome<String> {
        let subnets = self.ask(Api::Ec2, "DescribeSubnets", &[]).await?;
        let subnets = subnets.all("subnetSet/item");
        let mut zones = BTreeSet::new();
        let mut vpcs = BTreeSet::new();
        for id in ids {
            let subnet = subnets.iter().find(|subnet| subnet.text("subnetId") == *id);
            let subnet =
                subnet.ok_or_else(|| refused("SubnetNotFound", format!("The subnet ID '{id}' is not valid")))?;
            if !zones.insert(subnet.text("availabilityZone")) {
                let message = "A load balancer cannot be attached to multiple subnets in the same Availability Zone";
                return Err(refused("InvalidConfigurationRequest", message));
            }
            let states = subnet.texts("ipv6CidrBlockAssociationSet/item/ipv6CidrBlockState/state");
            if dual_stack && !states.iter().any(|state| state.contains("'associated'") || state == "associated") {
                return Err(refused("ValidationError", "You must specify subnets with an associated IPv6 CIDR block."));
            }
            vpcs.insert(subnet.text("vpcId").to_owned());
        }
        match (vpcs.pop_first(), vpcs.is_empty()) {
            (None, _) => Err(refused("ValidationError", "At least one subnet must be specified")),
            (Some(vpc), true) => Ok(vpc),
            (Some(_), false) => Err(refused("InvalidConfigurationRequest", "The subnets belong to several VPCs")),
        }
    }

    async fn check_addresses(&self, mappings: &[Mapping], internal: bool) -> Outcome<()> {
        let wanted: Vec<&str> =
            mappings.iter().map(|one| one.allocation.as_str()).filter(|id| !id.is_empty()).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        if internal {
            return Err(refused("ValidationError", "Elastic IPs are not supported for internal load balancers"));
        }
        let known = self.ask(Api::Ec2, "DescribeAddresses", &[]).await?;
        let known = known.texts("addressesSet/item/allocationId");
        for id in wanted {
            if !known.iter().any(|known| known == id) {
                return Err(refused("AllocationIdNotFound", format!("The allocation ID '{id}' does not exist")));
            }
            if self.kept.addresses.values().any(|(used, _)| used == id) {
                return Err(refused("ResourceInUse", format!("The allocation ID '{id}' is in use")));
            }
        }
        Ok(())
    }

    pub(super) async fn check_attached_groups(&self, ids: &BTreeSet<String>, vpc: &str) -> Outcome<()> {
        if ids.len() > 5 {
            return Err(refused("InvalidSecurityGroup", "at most 5 security groups"));
        }
        let groups = self.groups_of(&ids.iter().map(String::as_str).collect()).await?;
        for id in ids {
            let Some(group) = groups.iter().find(|group| group.text("groupId") == id) else {
                return Err(refused("InvalidSecurityGroup", format!("The security group '{id}' does not exist")));
            };
            if group.text("vpcId") != vpc {
                let message = format!("The security group '{id}' does not belong to VPC '{vpc}'");
                return Err(refused("InvalidSecurityGroup", message));
            }
        }
        Ok(())
    }

    pub(super) async fn create_balancer(&mut self, call: &Call) -> Outcome {
        let name = call.params.get("Name");
        check_name(name)?;
        let tags = call.params.tags("Tags.member");
        check_tags(&tags)?;
        let mut call = call.clone();
        if !call.params.has("Scheme") {
            call.params.set("Scheme", "internet-facing");
        }
        let (scheme, kind) = (call.params.get("Scheme"), call.params.get("IpAddressType"));
        let mappings = mappings(&call);
        let ids: Vec<&str> = mappings.iter().map(|mapping| mapping.subnet.as_str()).collect();
        let vpc = self.check_subnets(&ids, kind == "dualstack").await?;
        let groups = set(call.params.list("SecurityGroups.member"));
        self.check_attached_groups(&groups, &vpc).await?;
        let existing = match self.balancers(&[("Names.member.1", name)]).await {
            Ok(found) => found.into_iter().next(),
            Err(refusal) if refusal.is_not_found() => None,
            Err(refusal) => return Err(refusal),
        };
        if let Some(mut one) = existing {
            let has = self.tags_of(one.text("LoadBalancerArn")).await?;
            let same = one.text("Scheme") == scheme
                && one.text("IpAddressType") == if kind.is_empty() { "ipv4" } else { kind }
                && set(one.texts("AvailabilityZones/member/SubnetId")) == set(ids.iter().map(|id| (*id).to_owned()))
                && set(one.texts("SecurityGroups/member")) == groups
                && has == tags;
            if !same {
                let message =
                    format!("A load balancer with the same name '{name}' exists, but with different settings");
                return Err(refused("DuplicateLoadBalancerName", message));
            }
            self.mend_balancer(&mut one);
            let list = Element::branch("LoadBalancers", vec![one]);
            let result = Element::branch("CreateLoadBalancerResult", vec![list]);
            return Ok(Answer::xml(200, Element::branch("CreateLoadBalancerResponse", vec![result]).write()));
        }
        self.check_addresses(&mappings, scheme == "internal").await?;
        let mut element = understood(self.forward(&call).await)?;
        let arn = element.text("CreateLoadBalancerResult/LoadBalancers/member/LoadBalancerArn").to_owned();
        if call.params.get("EnablePrefixForIpv6SourceNat") == "on" {
            self.kept.source_nat.insert(arn.clone());
        }
        self.keep_addresses(&arn, mappings);
        element.change("CreateLoadBalancerResult/LoadBalancers/member", &mut |one| self.mend_balancer(one));
        Ok(Answer::xml(200, element.write()))
    }

    fn keep_addresses(&mut self, arn: &str, mappings: Vec<Mapping>) {
        let given = mappings.into_iter().filter(|one| !one.allocation.is_empty() || !one.private.is_empty());
        let given = given.map(|one| ((arn.to_owned(), one.subnet), (one.allocation, one.private)));
        self.kept.addresses.extend(given.collect::<Vec<_>>());
    }

    pub(super) async fn tags_of(&self, arn: &str) -> Outcome<BTreeMap<String, String>> {
        let tags = self.ask(Api::Elbv2, "DescribeTags", &[("ResourceArns.member.1", arn)]).await?;
        let tags = tags.all("DescribeTagsResult/TagDescriptions/member/Tags/member");
        Ok(tags.iter().map(|tag| (tag.text("Key").to_owned(), tag.text("Value").to_owned())).collect())
    }

    async fn attributes_of(&self, arn: &str) -> Outcome<BTreeMap<String, String>> {
        let found = self.ask(Api::Elbv2, "DescribeLoadBalancerAttributes", &[("LoadBalancerArn", arn)]).await?;
        let found = found.all("DescribeLoadBalancerAttributesResult/Attributes/member");
        Ok(found.iter().map(|one| (one.text("Key").to_owned(), one.text("Value").to_owned())).collect())
    }

    pub(super) async fn delete_balancer(&mut self, call: &Call) -> Outcome {
        let arn = call.params.get("LoadBalancerArn");
        let one = match self.balancer(arn).await {
            Err(refusal) if refusal.is_not_found() => return Ok(done("DeleteLoadBalancer")),
            one => one?,
        };
        if self.attributes_of(arn).await?.get("deletion_protection.enabled").is_some_and(|value| value == "true") {
            let message = format!("Load balancer '{arn}' cannot be deleted because deletion protection is enabled");
            return Err(refused("OperationNotPermitted", message));
        }
        let mut held = one.texts("SecurityGroups/member");
        if self.kept.lingers > 0 {
            held.extend(
                self.listeners(arn)
                    .await?
                    .iter()
                    .map(|one| one.text("DefaultActions/member/TargetGroupArn").to_owned()),
            );
        }
        let answer = Answer::xml(200, understood(self.forward(call).await)?.write());
        self.kept.linger(held);
        self.kept.addresses.retain(|(of, _), _| of != arn);
        self.kept.source_nat.remove(arn);
        Ok(answer)
    }

    pub(super) async fn set_groups(&mut self, call: &Call) -> Outcome {
        let one = self.balancer(call.params.get("LoadBalancerArn")).await?;
        let has = set(one.texts("SecurityGroups/member"));
        if has.is_empty() {
            let message = "You cannot set security groups on a Network Load Balancer that was created without any";
            return Err(refused("InvalidConfigurationRequest", message));
        }
        let wanted = set(call.params.list("SecurityGroups.member"));
        if wanted.is_empty() {
            return Err(refused("ValidationError", "At least one security group must be specified"));
        }
        self.check_attached_groups(&wanted, one.text("VpcId")).await?;
        let answer = Answer::xml(200, understood(self.forward(call).await)?.write());
        self.kept.linger(has.difference(&wanted).cloned());
        Ok(answer)
    }

    pub(super) async fn set_address_type(&mut self, call: &Call) -> Outcome {
        let arn = call.params.get("LoadBalancerArn");
        let one = self.balancer(arn).await?;
        let dual_stack = call.params.get("IpAddressType") == "dualstack";
        let subnets = one.texts("AvailabilityZones/member/SubnetId");
        self.check_subnets(&subnets.iter().map(String::as_str).collect::<Vec<_>>(), dual_stack).await?;
        if !dual_stack {
            for listener in self.listeners(arn).await? {
                let group = self.target_group(listener.text("DefaultActions/member/TargetGroupArn")).await?;
                if group.text("IpAddressType") == "ipv6" {
                    return Err(refused("InvalidConfigurationRequest", "A listener leads to an IPv6 target group"));
                }
            }
        }
        let answer = Answer::xml(200, understood(self.forward(call).await)?.write());
        if !dual_stack {
            self.kept.source_nat.remove(arn);
        }
        Ok(answer)
    }

    pub(super) async fn set_subnets(&mut self, call: &Call) -> Outcome {
        let arn = call.params.get("LoadBalancerArn");
        let one = self.balancer(arn).await?;
        let mut mappings = mappings(call);
        let dual_stack = one.text("IpAddressType") == "dualstack";
        let ids: Vec<&str> = mappings.iter().map(|mapping| mapping.subnet.as_str()).collect();
        if self.check_subnets(&ids, dual_stack).await? != one.text("VpcId") {
            return Err(refused("InvalidConfigurationRequest", "The subnets belong to another VPC"));
        }
        let nat = call.params.get("EnablePrefixForIpv6SourceNat") == "on";
        if nat && !dual_stack {
            return Err(refused("ValidationError", "Source NAT prefixes need a dualstack load balancer"));
        }
        let stay = set(ids.iter().map(|id| (*id).to_owned()));
        let has = one.texts("AvailabilityZones/member/SubnetId");
        mappings.retain(|mapping| !has.contains(&mapping.subnet));
        self.check_addresses(&mappings, one.text("Scheme") == "internal").await?;
        let answer = Answer::xml(200, understood(self.forward(call).await)?.write());
        self.kept.addresses.retain(|(of, subnet), _| of != arn || stay.contains(subnet));
        self.keep_addresses(arn, mappings);
        if nat {
            self.kept.source_nat.insert(arn.to_owned());
        }
        Ok(answer)
    }

    pub(super) async fn describe_balancer_attributes(&mut self, call: &Call) -> Outcome {
        self.mended(call, |element| {
            element.change("DescribeLoadBalancerAttributesResult/Attributes", &mut |list| {
                let key = "access_logs.s3.enabled";
                if !list.texts("member/Key").iter().any(|has| has == key) {
                    let pair = vec![Element::leaf("Key", key), Element::leaf("Value", "false")];
                    list.children.push(Element::branch("member", pair));
                }
            });
        })
        .await
    }

    pub(super) async fn set_balancer_attributes(&mut self, call: &Call) -> Outcome {
        let mut all = self.attributes_of(call.params.get("LoadBalancerArn")).await?;
        all.extend(call.params.tags("Attributes.member"));
        let value = |key: &str| all.get(key).map_or("", String::as_str);
        if value("access_logs.s3.enabled") == "true" && value("access_logs.s3.bucket").is_empty() {
            return Err(refused("InvalidConfigurationRequest", "Access logs need a bucket"));
        }
        Ok(self.forward(call).await)
    }
}
