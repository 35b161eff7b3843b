//! Classic load balancers.

use super::{Api, Call, Outcome, World, check_name, check_tags, set};
use crate::aws_strict::{
    moto::understood,
    refusal::{Answer, refused},
    xml::Element,
};
use std::collections::BTreeSet;

const LIST: &str = "DescribeLoadBalancersResult/LoadBalancerDescriptions/member";
/// Hosted zone of classic load balancers in us-east-1, as AWS publishes it.
pub(super) const ZONE: &str = "Z35SXDOTRQ7X7K";

/// The DNS name of a load balancer; AWS puts a number in it.
pub(super) fn dns_name(name: &str, region: &str) -> String {
    let number = name.bytes().fold(5381_u32, |hash, byte| hash.wrapping_mul(33) ^ u32::from(byte));
    format!("{name}-{number:010}.{region}.elb.amazonaws.com")
}

impl World {
    pub(super) async fn classics(&self) -> Outcome<Vec<Element>> {
        let found = self.ask(Api::Elb, "DescribeLoadBalancers", &[]).await?;
        Ok(found.all(LIST).into_iter().cloned().collect())
    }

    async fn classic_named(&self, name: &str) -> Outcome<Element> {
        let found = self.ask(Api::Elb, "DescribeLoadBalancers", &[("LoadBalancerNames.member.1", name)]).await?;
        let found = found.one(LIST).cloned();
        found.ok_or_else(|| refused("LoadBalancerNotFound", format!("There is no load balancer {name}")))
    }

    pub(super) async fn classic(&mut self, call: &Call) -> Outcome {
        let name = call.params.get("LoadBalancerName");
        let region = self.region.clone();
        match call.action.as_str() {
            "DescribeLoadBalancers" => {
                self.mended(call, |element| element.change(LIST, &mut |one| mend(one, &region))).await
            }
            "CreateLoadBalancer" => self.create_classic(call).await,
            "DescribeLoadBalancerAttributes" => self.mended(call, mend_attributes).await,
            "DeleteLoadBalancer" => {
                let groups = match self.classic_named(name).await {
                    Ok(one) => one.texts("SecurityGroups/member"),
                    Err(refusal) if refusal.is_not_found() => Vec::new(),
                    Err(refusal) => return Err(refusal),
                };
                let answer = self.forward(call).await;
                self.kept.linger(groups);
                Ok(answer)
            }
            "ApplySecurityGroupsToLoadBalancer" => {
                let one = self.classic_named(name).await?;
                let wanted = set(call.params.list("SecurityGroups.member"));
                if wanted.is_empty() {
                    return Err(refused("InvalidConfigurationRequest", "At least one security group is needed"));
                }
                self.check_attached_groups(&wanted, one.text("VPCId")).await?;
                let answer = Answer::xml(200, understood(self.forward(call).await)?.write());
                let has = set(one.texts("SecurityGroups/member"));
                self.kept.linger(has.difference(&wanted).cloned());
                Ok(answer)
            }
            "CreateLoadBalancerListeners" => {
                check_listeners(call)?;
                Ok(self.forward(call).await)
            }
            "SetLoadBalancerPoliciesForBackendServer" | "SetLoadBalancerPoliciesOfListener" => {
                let found = self.ask(Api::Elb, "DescribeLoadBalancerPolicies", &[("LoadBalancerName", name)]).await?;
                let known = set(found.texts("DescribeLoadBalancerPoliciesResult/PolicyDescriptions/member/PolicyName"));
                if let Some(policy) =
                    call.params.list("PolicyNames.member").iter().find(|policy| !known.contains(*policy))
                {
                    return Err(refused(
                        "PolicyNotFound",
                        format!("There is no policy with name {policy} for load balancer {name}"),
                    ));
                }
                Ok(self.forward(call).await)
            }
            "CreateLoadBalancerPolicy" => {
                let found = self.ask(Api::Elb, "DescribeLoadBalancerPolicies", &[("LoadBalancerName", name)]).await?;
                let known = found.texts("DescribeLoadBalancerPoliciesResult/PolicyDescriptions/member/PolicyName");
                let policy = call.params.get("PolicyName");
                if known.iter().any(|name| name == policy) {
                    let why = format!("Policy with name {policy} already exists for load balancer {name}");
                    return Err(refused("DuplicatePolicyName", why));
                }
                Ok(self.forward(call).await)
            }
            "RegisterInstancesWithLoadBalancer" => {
                let known: BTreeSet<String> =
                    self.instances().await?.iter().map(|one| one.text("instanceId").to_owned()).collect();
                let wanted = call.params.items("Instances.member");
                if let Some(one) = wanted.iter().find(|one| !known.contains(one.get("InstanceId"))) {
                    return Err(refused(
                        "InvalidInstance",
                        format!("Could not find EC2 instance {}", one.get("InstanceId")),
                    ));
                }
                Ok(self.forward(call).await)
            }
            "ModifyLoadBalancerAttributes" => {
                let value = |key: &str| call.params.get(&format!("LoadBalancerAttributes.{key}"));
                if value("AccessLog.Enabled") == "true" && value("AccessLog.S3BucketName").is_empty() {
                    return Err(refused("InvalidConfigurationRequest", "Access logs need a bucket"));
                }
                let idle = value("ConnectionSettings.IdleTimeout");
                if !idle.is_empty() && !idle.parse::<u32>().is_ok_and(|seconds| (1..=4000).contains(&seconds)) {
                    return Err(refused("ValidationError", format!("Idle timeout {idle} is not in 1..4000")));
                }
                Ok(self.forward(call).await)
            }
            _ => Ok(self.forward(call).await),
        }
    }

    async fn create_classic(&mut self, call: &Call) -> Outcome {
        let name = call.params.get("LoadBalancerName");
        check_name(name)?;
        check_tags(&call.params.tags("Tags.member"))?;
        check_listeners(call)?;
        let subnets = self.ask(Api::Ec2, "DescribeSubnets", &[]).await?;
        let mut zones = BTreeSet::new();
        for id in call.params.list("Subnets.member") {
            let subnet = subnets.all("subnetSet/item").into_iter().find(|subnet| subnet.text("subnetId") == id);
            let subnet =
                subnet.ok_or_else(|| refused("SubnetNotFound", format!("The subnet ID '{id}' does not exist")))?;
            if !zones.insert(subnet.text("availabilityZone").to_owned()) {
                return Err(refused("InvalidConfigurationRequest", "Several subnets are in one Availability Zone"));
            }
        }
        let region = self.region.clone();
        self.mended(call, |element| {
            element.change("CreateLoadBalancerResult/DNSName", &mut |text| text.text = dns_name(name, &region));
        })
        .await
    }
}

fn check_listeners(call: &Call) -> Outcome<()> {
    for listener in call.params.items("Listeners.member") {
        let protocol = listener.get("Protocol").to_uppercase();
        if ["SSL", "HTTPS"].contains(&protocol.as_str()) && listener.get("SSLCertificateId").is_empty() {
            return Err(refused("InvalidConfigurationRequest", format!("A certificate is needed for {protocol}")));
        }
    }
    Ok(())
}

fn mend(one: &mut Element, region: &str) {
    let name = dns_name(one.text("LoadBalancerName"), region);
    one.change("DNSName", &mut |element| element.text.clone_from(&name));
    one.set("CanonicalHostedZoneName", &name);
    one.set("CanonicalHostedZoneNameID", ZONE);
    // Registering an instance again changes nothing.
    let mut seen = BTreeSet::new();
    one.change("Instances", &mut |list| list.children.retain(|one| seen.insert(one.text("InstanceId").to_owned())));
    if one.one("HealthCheck").is_none() {
        let default = [
            ("Target", "TCP:80"),
            ("Interval", "30"),
            ("Timeout", "5"),
            ("UnhealthyThreshold", "2"),
            ("HealthyThreshold", "10"),
        ];
        let default = default.map(|(key, value)| Element::leaf(key, value)).into();
        one.children.push(Element::branch("HealthCheck", default));
    }
}

/// moto adds to a list with each change, and shows less before the first one.
fn mend_attributes(element: &mut Element) {
    element.change("DescribeLoadBalancerAttributesResult/LoadBalancerAttributes", &mut |attributes| {
        attributes.remove("AdditionalAttributes");
        let mode = [("Key", "elb.http.desyncmitigationmode"), ("Value", "defensive")];
        let mode = Element::branch("member", mode.map(|(key, value)| Element::leaf(key, value)).into());
        attributes.children.push(Element::branch("AdditionalAttributes", vec![mode]));
        attributes.change("ConnectionDraining", &mut |draining| {
            if draining.text("Timeout").is_empty() {
                draining.set("Timeout", "300");
            }
        });
    });
}
