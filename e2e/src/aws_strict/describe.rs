//! What an account holds, as text, by names instead of ids: two histories that end alike read alike.

use super::{Api, Element, Strict};
use std::{collections::BTreeMap, fmt::Write};

fn look(strict: &Strict, api: Api, action: &str, params: &[(&str, &str)]) -> Element {
    strict.look(api, action, params).unwrap_or_else(|failure| panic!("{action}: {}", failure.body))
}

fn pairs(elements: &[&Element]) -> BTreeMap<String, String> {
    elements.iter().map(|one| (one.text("Key").to_owned(), one.text("Value").to_owned())).collect()
}

fn sorted(mut list: Vec<String>) -> Vec<String> {
    list.sort();
    list
}

/// Names by ids and ARNs.
type Names = BTreeMap<String, String>;

fn named(names: &Names, id: &str) -> String {
    names.get(id).cloned().unwrap_or_else(|| id.to_owned())
}

fn tags(strict: &Strict, arn: &str) -> BTreeMap<String, String> {
    let found = look(strict, Api::Elbv2, "DescribeTags", &[("ResourceArns.member.1", arn)]);
    pairs(&found.all("DescribeTagsResult/TagDescriptions/member/Tags/member"))
}

fn groups(strict: &Strict, out: &mut String, names: &mut Names) {
    let found = look(strict, Api::Ec2, "DescribeSecurityGroups", &[]);
    let mut groups = found.all("securityGroupInfo/item");
    groups.sort_by_key(|group| (group.text("groupName").to_owned(), group.text("vpcId").to_owned()));
    names.extend(groups.iter().map(|group| (group.text("groupId").to_owned(), group.text("groupName").to_owned())));
    for group in groups {
        let tags: Vec<String> =
            group.all("tagSet/item").iter().map(|tag| format!("{}={}", tag.text("key"), tag.text("value"))).collect();
        let _ = writeln!(out, "group {} {:?}", group.text("groupName"), sorted(tags));
        for direction in ["ipPermissions", "ipPermissionsEgress"] {
            let mut rules = Vec::new();
            for one in group.all(&format!("{direction}/item")) {
                let what = format!("{} {}-{}", one.text("ipProtocol"), one.text("fromPort"), one.text("toPort"));
                let peers = ["ipRanges/item/cidrIp", "ipv6Ranges/item/cidrIpv6", "groups/item/groupId"];
                let peers = peers.into_iter().flat_map(|path| one.texts(path));
                rules.extend(peers.map(|peer| format!("{what} {}", named(names, &peer))));
            }
            let _ = writeln!(out, "  {direction} {:#?}", sorted(rules));
        }
    }
}

fn target_groups(strict: &Strict, out: &mut String, names: &mut Names) {
    let found = look(strict, Api::Elbv2, "DescribeTargetGroups", &[]);
    let mut all = found.all("DescribeTargetGroupsResult/TargetGroups/member");
    all.sort_by_key(|one| one.text("TargetGroupName").to_owned());
    for one in all {
        let (arn, name) = (one.text("TargetGroupArn"), one.text("TargetGroupName"));
        names.insert(arn.to_owned(), name.to_owned());
        let kept = |child: &&Element| !["TargetGroupArn", "LoadBalancerArns", "Matcher"].contains(&child.name.as_str());
        let settings: Vec<String> =
            one.children.iter().filter(kept).map(|child| format!("{}={}", child.name, child.text)).collect();
        let attributes = look(strict, Api::Elbv2, "DescribeTargetGroupAttributes", &[("TargetGroupArn", arn)]);
        let attributes = pairs(&attributes.all("DescribeTargetGroupAttributesResult/Attributes/member"));
        let health = look(strict, Api::Elbv2, "DescribeTargetHealth", &[("TargetGroupArn", arn)]);
        let health = health.all("DescribeTargetHealthResult/TargetHealthDescriptions/member/Target");
        let targets = sorted(health.iter().map(|one| format!("{}:{}", one.text("Id"), one.text("Port"))).collect());
        let _ = writeln!(
            out,
            "targets {name} {:?}\n  {attributes:?} {:?}\n  {targets:?}",
            sorted(settings),
            tags(strict, arn)
        );
    }
}

fn network(strict: &Strict, out: &mut String, names: &Names) {
    let found = look(strict, Api::Elbv2, "DescribeLoadBalancers", &[]);
    let mut all = found.all("DescribeLoadBalancersResult/LoadBalancers/member");
    all.sort_by_key(|one| one.text("LoadBalancerName").to_owned());
    for one in all {
        let arn = one.text("LoadBalancerArn");
        let settings =
            ["LoadBalancerName", "Scheme", "IpAddressType", "EnablePrefixForIpv6SourceNat"].map(|key| one.text(key));
        let zones = one.all("AvailabilityZones/member");
        let zones = zones.iter().map(|zone| {
            format!("{} {}", zone.text("SubnetId"), zone.text("LoadBalancerAddresses/member/AllocationId"))
        });
        let held: Vec<String> = one.texts("SecurityGroups/member").iter().map(|id| named(names, id)).collect();
        let attributes = look(strict, Api::Elbv2, "DescribeLoadBalancerAttributes", &[("LoadBalancerArn", arn)]);
        let attributes = pairs(&attributes.all("DescribeLoadBalancerAttributesResult/Attributes/member"));
        let _ = writeln!(out, "network {settings:?} {:?} {:?}", sorted(zones.collect()), sorted(held));
        let _ = writeln!(out, "  {attributes:?} {:?}", tags(strict, arn));
        let listeners = look(strict, Api::Elbv2, "DescribeListeners", &[("LoadBalancerArn", arn)]);
        let mut listeners = listeners.all("DescribeListenersResult/Listeners/member");
        listeners.sort_by_key(|one| one.text("Port").to_owned());
        for one in listeners {
            let target = named(names, one.text("DefaultActions/member/TargetGroupArn"));
            let tls = (one.texts("Certificates/member/CertificateArn"), one.text("SslPolicy"));
            let tags = tags(strict, one.text("ListenerArn"));
            let _ = writeln!(out, "  listener {} {} {target} {tls:?} {tags:?}", one.text("Port"), one.text("Protocol"));
        }
    }
}

fn classic(strict: &Strict, out: &mut String, names: &Names) {
    let found = look(strict, Api::Elb, "DescribeLoadBalancers", &[]);
    for one in found.all("DescribeLoadBalancersResult/LoadBalancerDescriptions/member") {
        let name = one.text("LoadBalancerName");
        let mut text = one.clone();
        ["CreatedTime", "DNSName", "CanonicalHostedZoneName", "SourceSecurityGroup", "Policies"]
            .iter()
            .for_each(|key| text.remove(key));
        text.change("SecurityGroups/member", &mut |group| group.text = named(names, &group.text));
        for list in ["Instances", "Subnets", "ListenerDescriptions", "BackendServerDescriptions"] {
            text.change(list, &mut |list| list.children.sort_by_key(Element::write));
        }
        let attributes = look(strict, Api::Elb, "DescribeLoadBalancerAttributes", &[("LoadBalancerName", name)]);
        let attributes = attributes.one("DescribeLoadBalancerAttributesResult").map(Element::write);
        let tags = look(strict, Api::Elb, "DescribeTags", &[("LoadBalancerNames.member.1", name)]);
        let tags = pairs(&tags.all("DescribeTagsResult/TagDescriptions/member/Tags/member"));
        let _ = writeln!(out, "classic {}\n  {attributes:?} {tags:?}", text.write());
    }
}

/// Load balancers of both kinds, target groups and security groups.
pub(super) fn describe(strict: &Strict) -> String {
    let (mut out, mut names) = (String::new(), Names::new());
    groups(strict, &mut out, &mut names);
    target_groups(strict, &mut out, &mut names);
    network(strict, &mut out, &names);
    classic(strict, &mut out, &names);
    out
}
