//! What the API tells of classic load balancers, in our words.

use crate::account::{ClassicHealthCheck, ClassicListener, ClassicLoadBalancer, Scheme, Tags};
use aws_sdk_elasticloadbalancing::{operation::describe_tags::DescribeTagsOutput, types as sdk};
use std::collections::{BTreeMap, BTreeSet};

fn port(number: i32) -> u16 {
    u16::try_from(number).unwrap_or(0)
}

pub(super) fn load_balancer(from: sdk::LoadBalancerDescription) -> ClassicLoadBalancer {
    let mut listeners = BTreeMap::new();
    let mut listener_policies = BTreeMap::new();
    for one in from.listener_descriptions.into_iter().flatten() {
        let Some(listener) = one.listener.map(listener) else { continue };
        let policies: Vec<String> = one.policy_names.into_iter().flatten().collect();
        if !policies.is_empty() {
            listener_policies.insert(listener.load_balancer_port, policies);
        }
        listeners.insert(listener.load_balancer_port, listener);
    }
    let backends = from.backend_server_descriptions.into_iter().flatten();
    let backends = backends.filter_map(|one| Some((port(one.instance_port?), one.policy_names.unwrap_or_default())));
    ClassicLoadBalancer {
        name: from.load_balancer_name.unwrap_or_default(),
        dns_name: from.dns_name.unwrap_or_default(),
        hosted_zone: from.canonical_hosted_zone_name_id.unwrap_or_default(),
        vpc: from.vpc_id.unwrap_or_default(),
        scheme: match from.scheme.as_deref() {
            Some("internal") => Scheme::Internal,
            _ => Scheme::InternetFacing,
        },
        listeners,
        listener_policies,
        backend_policies: backends.filter(|(_, policies)| !policies.is_empty()).collect(),
        policies: from.policies.map(policies).unwrap_or_default(),
        subnets: from.subnets.into_iter().flatten().collect(),
        security_groups: from.security_groups.into_iter().flatten().collect(),
        instances: from.instances.into_iter().flatten().filter_map(|one| one.instance_id).collect(),
        health_check: from.health_check.map(|check| ClassicHealthCheck {
            target: check.target,
            interval: check.interval,
            timeout: check.timeout,
            healthy: check.healthy_threshold,
            unhealthy: check.unhealthy_threshold,
        }),
    }
}

fn policies(from: sdk::Policies) -> BTreeSet<String> {
    let application = from.app_cookie_stickiness_policies.into_iter().flatten().filter_map(|one| one.policy_name);
    let own = from.lb_cookie_stickiness_policies.into_iter().flatten().filter_map(|one| one.policy_name);
    application.chain(own).chain(from.other_policies.into_iter().flatten()).collect()
}

fn listener(from: sdk::Listener) -> ClassicListener {
    ClassicListener {
        load_balancer_port: port(from.load_balancer_port),
        instance_protocol: from.instance_protocol.unwrap_or_else(|| from.protocol.clone()),
        protocol: from.protocol,
        instance_port: port(from.instance_port),
        certificate: from.ssl_certificate_id.filter(|arn| !arn.is_empty() && arn != "None"),
    }
}

pub(super) fn tags(answer: DescribeTagsOutput) -> impl Iterator<Item = (String, Tags)> {
    answer.tag_descriptions.into_iter().flatten().filter_map(|one| {
        let tags = one.tags.into_iter().flatten().map(|tag| (tag.key, tag.value.unwrap_or_default()));
        Some((one.load_balancer_name?, tags.collect()))
    })
}
