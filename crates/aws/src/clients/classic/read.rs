//! What the API tells of classic load balancers, in our words.

use crate::{
    account::{ClassicHealthCheck, ClassicListener, ClassicLoadBalancer, Scheme},
    clients::xml::Element,
};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn load_balancer(from: &Element) -> ClassicLoadBalancer {
    let text = |name: &str| from.text(&[name]).to_owned();
    let mut listeners = BTreeMap::new();
    let mut listener_policies = BTreeMap::new();
    for one in from.items("ListenerDescriptions") {
        let Some(listener) = one.child("Listener").map(listener) else { continue };
        let policies: Vec<String> = one.texts("PolicyNames");
        if !policies.is_empty() {
            listener_policies.insert(listener.load_balancer_port, policies);
        }
        listeners.insert(listener.load_balancer_port, listener);
    }
    let backends = from.items("BackendServerDescriptions");
    let backends =
        backends.filter_map(|one| Some((one.parsed::<u16>("InstancePort")?, one.texts::<Vec<String>>("PolicyNames"))));
    ClassicLoadBalancer {
        name: text("LoadBalancerName"),
        dns_name: text("DNSName"),
        hosted_zone: text("CanonicalHostedZoneNameID"),
        vpc: text("VPCId"),
        scheme: match from.text(&["Scheme"]) {
            "internal" => Scheme::Internal,
            _ => Scheme::InternetFacing,
        },
        listeners,
        listener_policies,
        backend_policies: backends.filter(|(_, policies)| !policies.is_empty()).collect(),
        policies: from.child("Policies").map(policies).unwrap_or_default(),
        subnets: from.texts("Subnets"),
        security_groups: from.texts("SecurityGroups"),
        instances: from.items("Instances").filter_map(|one| one.some("InstanceId")).collect(),
        health_check: from.child("HealthCheck").map(|check| ClassicHealthCheck {
            target: check.text(&["Target"]).to_owned(),
            interval: check.parsed("Interval").unwrap_or(0),
            timeout: check.parsed("Timeout").unwrap_or(0),
            healthy: check.parsed("HealthyThreshold").unwrap_or(0),
            unhealthy: check.parsed("UnhealthyThreshold").unwrap_or(0),
        }),
    }
}

fn policies(from: &Element) -> BTreeSet<String> {
    let of_cookies = ["AppCookieStickinessPolicies", "LBCookieStickinessPolicies"].into_iter();
    let mut all: BTreeSet<String> = from.texts("OtherPolicies");
    all.extend(of_cookies.flat_map(|list| from.items(list)).filter_map(|one| one.some("PolicyName")));
    all
}

fn listener(from: &Element) -> ClassicListener {
    let protocol = from.text(&["Protocol"]).to_owned();
    ClassicListener {
        load_balancer_port: from.parsed("LoadBalancerPort").unwrap_or(0),
        instance_protocol: from.some("InstanceProtocol").unwrap_or_else(|| protocol.clone()),
        protocol,
        instance_port: from.parsed("InstancePort").unwrap_or(0),
        certificate: from.some("SSLCertificateId").filter(|arn| arn != "None"),
    }
}
