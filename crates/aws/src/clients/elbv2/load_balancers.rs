//! Load balancers themselves: what is sent and told of them.

use crate::{
    account::{
        IpAddressType, LoadBalancer, LoadBalancerState, LoadBalancerType, NewLoadBalancer, Scheme, SubnetMapping,
    },
    clients::{query::Form, xml::Element},
};

pub(super) fn new_form(new: &NewLoadBalancer) -> Form {
    let NewLoadBalancer { name, scheme, ip_address_type, subnets: mappings, security_groups, ipv6_source_nat, tags } =
        new;
    let mut form = Form::default();
    form.set("Name", name);
    form.set("Type", "network");
    form.set(
        "Scheme",
        match scheme {
            Scheme::InternetFacing => "internet-facing",
            Scheme::Internal => "internal",
        },
    );
    form.set("IpAddressType", address_type(*ip_address_type));
    subnets(&mut form, mappings, *ipv6_source_nat);
    // Without one, and not with an empty list of them: AWS takes that for a mistake.
    form.list("SecurityGroups.member", security_groups);
    form.tags("Tags.member", tags);
    form
}

pub(super) fn address_type(kind: IpAddressType) -> &'static str {
    match kind {
        IpAddressType::Ipv4 => "ipv4",
        IpAddressType::Dualstack => "dualstack",
    }
}

pub(super) fn subnets(form: &mut Form, mappings: &[SubnetMapping], ipv6_source_nat: bool) {
    for (number, mapping) in (1..).zip(mappings) {
        let key = |name: &str| format!("SubnetMappings.member.{number}.{name}");
        form.set(key("SubnetId"), &mapping.subnet);
        form.some(&key("AllocationId"), mapping.allocation.as_ref());
        form.some(&key("PrivateIPv4Address"), mapping.private_ipv4.as_ref());
    }
    if ipv6_source_nat {
        form.set("EnablePrefixForIpv6SourceNat", "on");
    }
}

pub(super) fn read(from: &Element) -> LoadBalancer {
    let text = |name: &str| from.text(&[name]).to_owned();
    LoadBalancer {
        kind: match from.text(&["Type"]) {
            "network" => LoadBalancerType::Network,
            _ => LoadBalancerType::Other,
        },
        scheme: match from.text(&["Scheme"]) {
            "internal" => Scheme::Internal,
            _ => Scheme::InternetFacing,
        },
        ip_address_type: match from.text(&["IpAddressType"]) {
            "" | "ipv4" => IpAddressType::Ipv4,
            _ => IpAddressType::Dualstack,
        },
        state: match from.text(&["State", "Code"]) {
            "active" => LoadBalancerState::Active,
            "active_impaired" => LoadBalancerState::ActiveImpaired,
            "failed" => LoadBalancerState::Failed,
            _ => LoadBalancerState::Provisioning,
        },
        arn: text("LoadBalancerArn"),
        name: text("LoadBalancerName"),
        dns_name: text("DNSName"),
        hosted_zone: text("CanonicalHostedZoneId"),
        vpc: text("VpcId"),
        subnets: from.items("AvailabilityZones").filter_map(|zone| zone.some("SubnetId")).collect(),
        security_groups: from.texts("SecurityGroups"),
        ipv6_source_nat: from.some("EnablePrefixForIpv6SourceNat").map(|value| value == "on"),
    }
}
