//! Target groups and their targets.

use super::{Api, Call, Outcome, World, check_name, check_tags, done};
use crate::aws_strict::{
    call::Params,
    moto::understood,
    refusal::{Answer, refused},
    xml::Element,
};
use std::collections::{BTreeMap, BTreeSet};

const LIST: &str = "DescribeTargetGroupsResult/TargetGroups/member";

/// What a target group of a network load balancer has, with what AWS gives it.
const ATTRIBUTES: &[(&str, &str)] = &[
    ("deregistration_delay.connection_termination.enabled", "false"),
    ("deregistration_delay.timeout_seconds", "300"),
    ("load_balancing.cross_zone.enabled", "use_load_balancer_configuration"),
    ("preserve_client_ip.enabled", "true"),
    ("proxy_protocol_v2.enabled", "false"),
    ("stickiness.enabled", "false"),
    ("stickiness.type", "source_ip"),
];

fn check_health(params: &Params) -> Outcome<()> {
    let wrong = |message: &str| Err(refused("ValidationError", message));
    let protocol = params.get("HealthCheckProtocol");
    if !["", "TCP", "HTTP", "HTTPS"].contains(&protocol) {
        return wrong("Health check protocol must be TCP, HTTP or HTTPS");
    }
    if protocol == "TCP" && params.has("HealthCheckPath") {
        return wrong("Health check path is not supported for TCP");
    }
    let port = params.get("HealthCheckPort");
    if !["", "traffic-port"].contains(&port) && port.parse::<u16>().is_err() {
        return wrong("Health check port must be a number or 'traffic-port'");
    }
    for (key, range) in [
        ("HealthCheckIntervalSeconds", 5..=300),
        ("HealthCheckTimeoutSeconds", 2..=120),
        ("HealthyThresholdCount", 2..=10),
        ("UnhealthyThresholdCount", 2..=10),
    ] {
        let text = params.get(key);
        if !text.is_empty() && !text.parse::<u32>().is_ok_and(|number| range.contains(&number)) {
            return wrong(&format!("{key} {text} is not in {}..{}", range.start(), range.end()));
        }
    }
    let number = |key: &str| params.get(key).parse::<u32>().ok();
    let (timeout, interval) = (number("HealthCheckTimeoutSeconds"), number("HealthCheckIntervalSeconds"));
    if interval.is_some_and(|interval| timeout > Some(interval)) {
        return wrong("Health check interval must be greater than the timeout.");
    }
    Ok(())
}

impl World {
    pub(super) async fn target_group(&self, arn: &str) -> Outcome<Element> {
        let found = self.ask(Api::Elbv2, "DescribeTargetGroups", &[("TargetGroupArns.member.1", arn)]).await?;
        let found = found.one(LIST).cloned();
        found.ok_or_else(|| refused("TargetGroupNotFound", format!("Target group '{arn}' not found")))
    }

    /// Those of a load balancer are the ones that its listeners lead to; moto remembers others.
    pub(super) async fn describe_target_groups(&mut self, call: &Call) -> Outcome {
        let arn = call.params.get("LoadBalancerArn");
        let once = |one: &mut Element| {
            one.change("LoadBalancerArns", &mut |list| {
                let mut seen = BTreeSet::new();
                list.children.retain(|arn| seen.insert(arn.text.clone()));
            });
        };
        if arn.is_empty() {
            return self.mended(call, |element| element.change(LIST, &mut { once })).await;
        }
        let listeners = self.listeners(arn).await?;
        let wanted: BTreeSet<&str> =
            listeners.iter().map(|one| one.text("DefaultActions/member/TargetGroupArn")).collect();
        if wanted.is_empty() {
            return Ok(done("DescribeTargetGroups"));
        }
        let mut call = call.clone();
        call.params.0.retain(|(key, _)| key != "LoadBalancerArn");
        for (number, arn) in (1..).zip(&wanted) {
            call.params.set(&format!("TargetGroupArns.member.{number}"), arn);
        }
        self.mended(&call, |element| element.change(LIST, &mut { once })).await
    }

    pub(super) async fn create_target_group(&mut self, call: &Call) -> Outcome {
        let params = &call.params;
        let name = params.get("Name");
        check_name(name)?;
        check_tags(&params.tags("Tags.member"))?;
        check_health(params)?;
        let protocol = params.get("Protocol");
        if !["TCP", "UDP", "TLS", "TCP_UDP"].contains(&protocol) {
            return Err(refused("ValidationError", format!("Protocol '{protocol}' is not supported")));
        }
        let existing = match self.ask(Api::Elbv2, "DescribeTargetGroups", &[("Names.member.1", name)]).await {
            Ok(found) => found.one(LIST).cloned(),
            Err(refusal) if refusal.is_not_found() => None,
            Err(refusal) => return Err(refusal),
        };
        let Some(one) = existing else { return Ok(self.forward(call).await) };
        let compared = [
            "Protocol",
            "Port",
            "VpcId",
            "IpAddressType",
            "HealthCheckProtocol",
            "HealthCheckPort",
            "HealthCheckPath",
            "HealthCheckIntervalSeconds",
            "HealthCheckTimeoutSeconds",
            "HealthyThresholdCount",
            "UnhealthyThresholdCount",
        ];
        if let Some(key) = compared.iter().find(|key| params.has(key) && params.get(key) != one.text(key)) {
            let message =
                format!("A target group with the same name '{name}' exists, but with different settings: {key}");
            return Err(refused("DuplicateTargetGroupName", message));
        }
        let result = Element::branch("CreateTargetGroupResult", vec![Element::branch("TargetGroups", vec![one])]);
        Ok(Answer::xml(200, Element::branch("CreateTargetGroupResponse", vec![result]).write()))
    }

    pub(super) async fn change_target_group(&mut self, call: &Call) -> Outcome {
        check_health(&call.params)?;
        Ok(self.forward(call).await)
    }

    pub(super) async fn delete_target_group(&mut self, call: &Call) -> Outcome {
        let arn = call.params.get("TargetGroupArn");
        if self.kept.is_busy(arn) {
            let message = format!("Target group '{arn}' is currently in use by a listener or a rule");
            return Err(refused("ResourceInUse", message));
        }
        match understood(self.forward(call).await) {
            Err(refusal) if refusal.is_not_found() => Ok(done("DeleteTargetGroup")),
            outcome => Ok(Answer::xml(200, outcome?.write())),
        }
    }

    pub(super) async fn describe_target_attributes(&mut self, call: &Call) -> Outcome {
        self.mended(call, |element| {
            element.change("DescribeTargetGroupAttributesResult/Attributes", &mut |list| {
                let has: BTreeMap<String, String> = list
                    .all("member")
                    .iter()
                    .map(|one| (one.text("Key").to_owned(), one.text("Value").to_owned()))
                    .collect();
                let member = |(key, default): &(&str, &str)| {
                    let value = has.get(*key).map_or(*default, String::as_str);
                    Element::branch("member", vec![Element::leaf("Key", key), Element::leaf("Value", value)])
                };
                list.children = ATTRIBUTES.iter().map(member).collect();
            });
        })
        .await
    }

    pub(super) async fn set_target_attributes(&mut self, call: &Call) -> Outcome {
        let wanted = call.params.tags("Attributes.member");
        let known = |key: &&String| ATTRIBUTES.iter().any(|(name, _)| name == key);
        if let Some(key) = wanted.keys().find(|key| !known(key)) {
            let message = format!("Target group attribute key '{key}' is not recognized");
            return Err(refused("InvalidConfigurationRequest", message));
        }
        let group = self.target_group(call.params.get("TargetGroupArn")).await?;
        let exposes = wanted.get("preserve_client_ip.enabled").is_some_and(|value| value == "false");
        if exposes && group.text("Protocol").contains("UDP") {
            let message = "Client IP preservation cannot be disabled for UDP target groups";
            return Err(refused("InvalidConfigurationRequest", message));
        }
        Ok(self.forward(call).await)
    }

    async fn registered(&self, arn: &str) -> Outcome<BTreeSet<(String, String)>> {
        let health = self.ask(Api::Elbv2, "DescribeTargetHealth", &[("TargetGroupArn", arn)]).await?;
        let health = health.all("DescribeTargetHealthResult/TargetHealthDescriptions/member/Target");
        Ok(health.iter().map(|one| (one.text("Id").to_owned(), one.text("Port").to_owned())).collect())
    }

    pub(super) async fn register(&mut self, call: &Call) -> Outcome {
        let arn = call.params.get("TargetGroupArn");
        let group = self.target_group(arn).await?;
        let wanted = targets(call, group.text("Port"));
        let instances = self.instances().await?;
        for (id, _) in &wanted {
            let wrong = |message: String| Err(refused("InvalidTarget", message));
            let Some(instance) = instances.iter().find(|one| one.text("instanceId") == id) else {
                return wrong(format!("The following targets are not valid instances: '{id}'"));
            };
            if instance.text("instanceState/name") != "running" {
                return wrong(format!(
                    "The following targets are not in a running state and cannot be registered: '{id}'"
                ));
            }
            let vpc = group.text("VpcId");
            if instance.text("vpcId") != vpc {
                return wrong(format!("The following targets are not in the target group VPC '{vpc}': '{id}'"));
            }
            let first = instance.text("networkInterfaceSet/item/networkInterfaceId");
            if group.text("IpAddressType") == "ipv6" && !self.kept.primary_ipv6.contains(first) {
                return wrong(format!("The following targets are missing primary IPv6 addresses: '{id}'"));
            }
        }
        if self.registered(arn).await?.union(&wanted).count() > 500 {
            return Err(refused("TooManyTargets", "at most 500 targets"));
        }
        Ok(self.forward(call).await)
    }

    /// Those that are not registered are none of AWS's concern.
    pub(super) async fn deregister(&mut self, call: &Call) -> Outcome {
        let arn = call.params.get("TargetGroupArn");
        let group = self.target_group(arn).await?;
        let registered = self.registered(arn).await?;
        let leaving: Vec<(String, String)> =
            targets(call, group.text("Port")).into_iter().filter(|one| registered.contains(one)).collect();
        if leaving.is_empty() {
            return Ok(done("DeregisterTargets"));
        }
        let mut call = call.clone();
        call.params.0.retain(|(key, _)| !key.starts_with("Targets."));
        for (index, (id, port)) in leaving.iter().enumerate() {
            call.params.set(&format!("Targets.member.{}.Id", index + 1), id);
            call.params.set(&format!("Targets.member.{}.Port", index + 1), port);
        }
        Ok(self.forward(&call).await)
    }
}

fn targets(call: &Call, port: &str) -> BTreeSet<(String, String)> {
    let port_of = |item: &Params| if item.has("Port") { item.get("Port").to_owned() } else { port.to_owned() };
    call.params.items("Targets.member").iter().map(|item| (item.get("Id").to_owned(), port_of(item))).collect()
}
