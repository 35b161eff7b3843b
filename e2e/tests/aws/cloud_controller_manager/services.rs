//! Services of each family, network and classic load balancers.

use super::{
    cloud::{Cloud, RANGES, families, service},
    groups::rules,
};
use e2e::aws_strict::Api;
use serde_json::json;

#[test]
fn services_of_each_family_come_change_and_go() {
    for (ranges, first) in RANGES.into_iter().zip(["IPv4", "IPv6"]) {
        let Some(mut cloud) = Cloud::start(ranges, 3) else { return };
        let second = if first == "IPv4" { "IPv6" } else { "IPv4" };
        cloud.create(&service("dual", &[], families("RequireDualStack", &[first, second])));
        cloud.create(&service("v4", &[], families("SingleStack", &["IPv4"])));
        cloud.create(&service("v6", &[], families("SingleStack", &["IPv6"])));

        let dual = cloud.balancer(&cloud.host("dual"));
        assert_eq!(
            (dual.text("Type"), dual.text("IpAddressType"), dual.text("Scheme")),
            ("network", "dualstack", "internet-facing")
        );
        let managed = cloud.managed(&dual);
        assert_eq!(rules(&managed), ["icmp 3-4 0.0.0.0/0", "icmpv6 2-0 ::/0", "tcp 80-80 0.0.0.0/0", "tcp 80-80 ::/0"]);
        let groups = cloud.target_groups(&dual);
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].text("IpAddressType"), first.to_lowercase(), "targets are of the first family");
        assert_eq!(cloud.targets(&groups[0]).len(), 3);
        for server in cloud.aws.dns() {
            let ask = |kind: &str| cloud.aws.resolve(server, dual.text("DNSName"), kind).unwrap().len();
            assert_eq!((ask("A"), ask("AAAA")), (3, 3));
        }

        let v4 = cloud.balancer(&cloud.host("v4"));
        assert_eq!(v4.text("IpAddressType"), "ipv4");
        let single = cloud.managed(&v4);
        assert_eq!(rules(&single), ["icmp 3-4 0.0.0.0/0", "tcp 80-80 0.0.0.0/0"]);
        assert_eq!(cloud.aws.resolve(cloud.aws.dns()[0], v4.text("DNSName"), "AAAA"), Ok(vec![]));

        let why = cloud.until("v6 alone is refused", || {
            Some(cloud.events("v6")).filter(|events| events.contains("SyncLoadBalancerFailed"))
        });
        assert!(why.contains("IPv6"), "{why}");
        assert!(cloud.service("v6")["status"]["loadBalancer"]["ingress"].is_null());

        // A second port, ranges of both families, and the process killed in between.
        let ports = json!([{"name": "http", "port": 80}, {"name": "https", "port": 443}]);
        let mut spec = families("RequireDualStack", &[first, second]);
        spec["ports"] = ports;
        spec["loadBalancerSourceRanges"] = json!(["192.0.2.0/24", "2001:db8:1::/48"]);
        cloud.apply(&service("dual", &[], spec));
        cloud.restart();
        cloud.until("the second port is there", || {
            let managed = cloud.group(managed.text("groupId"))?;
            let wanted = [
                "icmp 3-4 192.0.2.0/24",
                "icmpv6 2-0 2001:db8:1::/48",
                "tcp 443-443 192.0.2.0/24",
                "tcp 443-443 2001:db8:1::/48",
                "tcp 80-80 192.0.2.0/24",
                "tcp 80-80 2001:db8:1::/48",
            ];
            (rules(&managed) == wanted && cloud.target_groups(&dual).len() == 2).then_some(())
        });
        for name in ["dual", "v4", "v6"] {
            cloud.delete(name);
        }
        cloud.is_empty();
    }
}

#[test]
fn a_live_load_balancer_gets_the_second_family_and_loses_it() {
    let Some(cloud) = Cloud::start(RANGES[0], 2) else { return };
    cloud.create(&service("web", &[], families("SingleStack", &["IPv4"])));
    let host = cloud.host("web");
    let kind = || cloud.balancer(&host).text("IpAddressType").to_owned();
    assert_eq!(kind(), "ipv4");
    let group = cloud.managed(&cloud.balancer(&host)).text("groupId").to_owned();
    let single = rules(&cloud.group(&group).unwrap());
    cloud.apply(&service("web", &[], families("RequireDualStack", &["IPv4", "IPv6"])));
    cloud
        .until("it is dual-stack", || (kind() == "dualstack" && rules(&cloud.group(&group)?).len() == 4).then_some(()));
    assert_eq!(cloud.aws.resolve(cloud.aws.dns()[1], &host, "AAAA").unwrap().len(), 3);
    cloud.apply(&service("web", &[], families("SingleStack", &["IPv4"])));
    cloud.until("it is single-stack", || (kind() == "ipv4" && rules(&cloud.group(&group)?) == single).then_some(()));
    assert_eq!(cloud.host("web"), host, "the same load balancer all the time");
    cloud.delete("web");
    cloud.is_empty();
}

#[test]
fn a_classic_load_balancer_comes_and_goes() {
    let Some(cloud) = Cloud::start(RANGES[0], 2) else { return };
    let words = [("type", "classic"), ("proxy-protocol", "*"), ("connection-idle-timeout", "120")];
    cloud.create(&service("web", &words, families("SingleStack", &["IPv4"])));
    cloud.create(&service("six", &[("type", "classic")], families("SingleStack", &["IPv6"])));
    let host = cloud.host("web");
    let classic = || {
        let found = cloud.aws.look(Api::Elb, "DescribeLoadBalancers", &[]).unwrap();
        let all = found.all("DescribeLoadBalancersResult/LoadBalancerDescriptions/member");
        all.into_iter().find(|one| one.text("DNSName") == host).unwrap().clone()
    };
    assert_eq!(classic().texts("Instances/member/InstanceId").len(), 2);
    assert!(!classic().texts("BackendServerDescriptions/member/PolicyNames/member").is_empty(), "{:?}", classic());
    let why = cloud.until("IPv6 is refused", || {
        Some(cloud.events("six")).filter(|events| events.contains("SyncLoadBalancerFailed"))
    });
    assert!(why.contains("IPv6"), "{why}");
    cloud.kubectl.ok(&["delete", "node", "node-1"]);
    cloud.until("one instance", || (classic().texts("Instances/member/InstanceId").len() == 1).then_some(()));
    cloud.delete("web");
    cloud.delete("six");
    cloud.is_empty();
}
