//! Rules of network load balancers, listeners and targets.

use super::*;

#[test]
fn load_balancers() {
    let Some(aws) = Strict::start() else { return };
    let example = Example::build(&aws, 0);
    let (a, b) = (&example.subnets["public-a"], &example.subnets["public-b"]);
    let (also_a, group) = (&example.subnets["private-a"], &example.brought_group);
    let (one, groups) = (format!("Subnets.member.1={a}"), format!("SecurityGroups.member.1={group}"));
    let bare = ok(&aws, Api::Ec2, "CreateSubnet", &format!("VpcId={}&CidrBlock=10.0.50.0/24", example.vpc));
    let bare = bare.text("subnet/subnetId");
    let other = ok(&aws, Api::Ec2, "CreateVpc", "CidrBlock=10.9.0.0/16").text("vpc/vpcId").to_owned();
    let foreign = format!("GroupName=foreign&GroupDescription=d&VpcId={other}");
    let foreign = ok(&aws, Api::Ec2, "CreateSecurityGroup", &foreign).text("groupId").to_owned();
    let long = "x".repeat(33);
    for (name, rest, code) in [
        (long.as_str(), one.clone(), "ValidationError"),
        ("internal-x", one.clone(), "ValidationError"),
        ("under_score", one.clone(), "ValidationError"),
        ("zones", format!("{one}&Subnets.member.2={also_a}"), "InvalidConfigurationRequest"),
        ("no-v6", format!("Subnets.member.1={bare}&IpAddressType=dualstack"), "ValidationError"),
        ("group", format!("{one}&SecurityGroups.member.1=sg-0123456789abcdef0"), "InvalidSecurityGroup"),
        ("vpc", format!("{one}&SecurityGroups.member.1={foreign}"), "InvalidSecurityGroup"),
        (
            "eip",
            format!("SubnetMappings.member.1.SubnetId={a}&SubnetMappings.member.1.AllocationId=eipalloc-0"),
            "AllocationIdNotFound",
        ),
        ("tag", format!("{one}&Tags.member.1.Key=aws:x&Tags.member.1.Value=1"), "ValidationError"),
    ] {
        refused(&aws, V2, "CreateLoadBalancer", &network(name, &rest), code);
    }
    let eip = |name: &str, scheme: &str| {
        let mapping = format!(
            "SubnetMappings.member.1.SubnetId={b}&SubnetMappings.member.1.AllocationId={}",
            example.allocations[0]
        );
        network(name, &format!("Scheme={scheme}&{mapping}"))
    };
    refused(&aws, V2, "CreateLoadBalancer", &eip("internal", "internal"), "ValidationError");

    let made = ok(&aws, V2, "CreateLoadBalancer", &network("one", &one));
    let made = made.one("CreateLoadBalancerResult/LoadBalancers/member").unwrap().clone();
    let arn = made.text("LoadBalancerArn");
    let id = arn.rsplit('/').next().unwrap();
    assert!(arn.contains(":loadbalancer/net/one/"), "{arn}");
    assert_eq!(made.text("DNSName"), format!("one-{id}.elb.us-east-1.amazonaws.com"));
    assert_eq!((made.text("Scheme"), made.text("CanonicalHostedZoneId")), ("internet-facing", "Z26RNL4JYFTOTI"));
    let again = ok(&aws, V2, "CreateLoadBalancer", &network("one", &one));
    assert_eq!(again.text("CreateLoadBalancerResult/LoadBalancers/member/LoadBalancerArn"), arn, "the same once more");
    let otherwise = network("one", &format!("Subnets.member.1={b}"));
    refused_by_both(&aws, V2, "CreateLoadBalancer", &otherwise, "DuplicateLoadBalancerName");

    ok(&aws, V2, "CreateLoadBalancer", &eip("with-eip", "internet-facing"));
    refused_by_both(&aws, V2, "CreateLoadBalancer", &eip("same-eip", "internet-facing"), "ResourceInUse");
    let found = ok(&aws, V2, "DescribeLoadBalancers", "Names.member.1=with-eip");
    let address = "DescribeLoadBalancersResult/LoadBalancers/member/AvailabilityZones/member/LoadBalancerAddresses/member/AllocationId";
    assert_eq!(found.text(address), example.allocations[0]);

    refused(&aws, V2, "SetSecurityGroups", &format!("LoadBalancerArn={arn}&{groups}"), "InvalidConfigurationRequest");
    let grouped = balancer(&aws, "grouped", &format!("{one}&{groups}"));
    refused(&aws, V2, "SetSecurityGroups", &format!("LoadBalancerArn={grouped}"), "ValidationError");
    let grouped = balancer(&aws, "grouped2", &format!("{one}&{groups}"));
    let narrow = balancer(&aws, "narrow", &format!("Subnets.member.1={bare}"));
    refused(
        &aws,
        V2,
        "SetIpAddressType",
        &format!("LoadBalancerArn={narrow}&IpAddressType=dualstack"),
        "ValidationError",
    );
    ok(&aws, V2, "SetIpAddressType", &format!("LoadBalancerArn={grouped}&IpAddressType=dualstack"));
    ok(&aws, V2, "SetSubnets", &format!("LoadBalancerArn={grouped}&Subnets.member.1={a}&Subnets.member.2={b}"));
    ok(&aws, V2, "SetSubnets", &format!("LoadBalancerArn={grouped}&Subnets.member.1={b}"));

    let attributes = ok(&aws, V2, "DescribeLoadBalancerAttributes", &format!("LoadBalancerArn={grouped}"));
    let keys = attributes.texts("DescribeLoadBalancerAttributesResult/Attributes/member/Key");
    assert!(keys.contains(&"access_logs.s3.enabled".to_owned()), "{keys:?}");
    let attribute = |arn: &str, key: &str, value: &str| {
        format!("LoadBalancerArn={arn}&Attributes.member.1.Key={key}&Attributes.member.1.Value={value}")
    };
    let logs = attribute(arn, "access_logs.s3.enabled", "true");
    refused(&aws, V2, "ModifyLoadBalancerAttributes", &logs, "InvalidConfigurationRequest");
    ok(&aws, V2, "ModifyLoadBalancerAttributes", &attribute(&grouped, "deletion_protection.enabled", "true"));
    refused(&aws, V2, "DeleteLoadBalancer", &format!("LoadBalancerArn={grouped}"), "OperationNotPermitted");
    ok(&aws, V2, "DeleteLoadBalancer", &format!("LoadBalancerArn={grouped}"));

    let gone = arn.replace("/one/", "/two/");
    refused(
        &aws,
        V2,
        "DescribeTags",
        &format!("ResourceArns.member.1={arn}&ResourceArns.member.2={gone}"),
        "LoadBalancerNotFound",
    );
    let many: Vec<String> = (1..=21).map(|number| format!("ResourceArns.member.{number}={arn}")).collect();
    refused(&aws, V2, "DescribeTags", &many.join("&"), "ValidationError");
}

#[test]
fn listeners_and_targets() {
    let Some(aws) = Strict::start() else { return };
    let example = Example::build(&aws, 2);
    let one = format!("Subnets.member.1={}", example.subnets["public-a"]);
    let (v4, dual) = (balancer(&aws, "v4", &one), balancer(&aws, "dual", &format!("{one}&IpAddressType=dualstack")));
    let group = |name: &str, protocol: &str, family: &str| target_group(&aws, &example.vpc, name, protocol, family);
    let (tcp, other, udp) = (group("tcp", "TCP", "ipv4"), group("other", "TCP", "ipv4"), group("udp", "UDP", "ipv4"));
    let tcp6 = group("tcp6", "TCP", "ipv6");
    for (name, change, code) in [
        ("bad-port", "&HealthCheckPort=abc", "ValidationError"),
        ("bad-path", "&HealthCheckPath=/x", "ValidationError"),
        ("bad-protocol", "&HealthCheckProtocol=UDP", "ValidationError"),
    ] {
        let (key, value) = change[1..].split_once('=').unwrap();
        let mut all: Vec<(String, String)> = pairs(&group_of(&example.vpc, name, "TCP", "ipv4"))
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .filter(|(name, _)| name != key)
            .collect();
        all.push((key.to_owned(), value.to_owned()));
        let text: Vec<String> = all.iter().map(|(key, value)| format!("{key}={value}")).collect();
        refused_by_both(&aws, V2, "CreateTargetGroup", &text.join("&"), code);
    }
    assert_eq!(group("tcp", "TCP", "ipv4"), tcp, "the same once more");
    refused_by_both(
        &aws,
        V2,
        "CreateTargetGroup",
        &group_of(&example.vpc, "tcp", "TLS", "ipv4"),
        "DuplicateTargetGroupName",
    );

    let none = ok(&aws, V2, "DescribeTargetGroups", &format!("LoadBalancerArn={v4}"));
    assert!(none.all("DescribeTargetGroupsResult/TargetGroups/member").is_empty());
    let made = ok(&aws, V2, "CreateListener", &listener(&v4, 80, "TCP", &tcp));
    let made = made.one("CreateListenerResult/Listeners/member").unwrap().clone();
    let arn = made.text("ListenerArn");
    assert!(arn.contains(":listener/net/v4/") && made.one("SslPolicy").is_none(), "{made:?}");
    refused_by_both(&aws, V2, "CreateListener", &listener(&v4, 80, "TCP", &other), "DuplicateListener");
    refused(&aws, V2, "CreateListener", &listener(&v4, 81, "TCP", &tcp6), "InvalidConfigurationRequest");
    refused(&aws, V2, "CreateListener", &listener(&v4, 82, "UDP", &other), "InvalidConfigurationRequest");
    refused(&aws, V2, "CreateListener", &listener(&v4, 83, "TLS", &other), "ValidationError");
    refused(&aws, V2, "CreateListener", &listener(&dual, 84, "UDP", &udp), "InvalidConfigurationRequest");
    refused(&aws, V2, "CreateListener", &listener(&dual, 85, "TCP", &tcp), "TargetGroupAssociationLimit");
    ok(&aws, V2, "CreateListener", &listener(&dual, 80, "TCP", &group("six", "TCP", "ipv6")));
    refused(
        &aws,
        V2,
        "SetIpAddressType",
        &format!("LoadBalancerArn={dual}&IpAddressType=ipv4"),
        "InvalidConfigurationRequest",
    );

    // A listener becomes TLS and leads elsewhere, and stays the same listener.
    let (certificate, fresh) = (&example.certificate, group("fresh", "TCP", "ipv4"));
    let target = format!("DefaultActions.member.1.Type=forward&DefaultActions.member.1.TargetGroupArn={fresh}");
    let tls =
        format!("ListenerArn={arn}&Protocol=TLS&Port=80&Certificates.member.1.CertificateArn={certificate}&{target}");
    let bad = tls.replace(certificate.as_str(), "arn:aws:acm:us-east-1:123456789012:certificate/none");
    assert!(strict(&aws, V2, "ModifyListener", &bad).is_err(), "there is no such certificate");
    ok(&aws, V2, "ModifyListener", &tls);
    ok(&aws, V2, "ModifyListener", &tls);
    let found = ok(&aws, V2, "DescribeListeners", &format!("ListenerArns.member.1={arn}"));
    let found = found.one("DescribeListenersResult/Listeners/member").unwrap();
    assert_eq!((found.text("ListenerArn"), found.text("Protocol")), (arn, "TLS"));
    assert_eq!(found.text("Certificates/member/CertificateArn"), certificate);
    let groups = ok(&aws, V2, "DescribeTargetGroups", &format!("LoadBalancerArn={v4}"));
    assert!(groups.texts("DescribeTargetGroupsResult/TargetGroups/member/TargetGroupArn").contains(&fresh));
    ok(&aws, V2, "DeleteListener", &format!("ListenerArn={arn}"));
    refused_by_both(&aws, V2, "DeleteListener", &format!("ListenerArn={arn}"), "ListenerNotFound");

    let attributes = ok(&aws, V2, "DescribeTargetGroupAttributes", &format!("TargetGroupArn={tcp}"));
    let keys = attributes.texts("DescribeTargetGroupAttributesResult/Attributes/member/Key");
    assert!(keys.contains(&"proxy_protocol_v2.enabled".to_owned()), "{keys:?}");
    assert!(!keys.contains(&"slow_start.duration_seconds".to_owned()), "{keys:?}");
    let attribute = |arn: &str, key: &str, value: &str| {
        format!("TargetGroupArn={arn}&Attributes.member.1.Key={key}&Attributes.member.1.Value={value}")
    };
    let bogus = attribute(&tcp, "bogus", "1");
    refused(&aws, V2, "ModifyTargetGroupAttributes", &bogus, "InvalidConfigurationRequest");
    let hidden = attribute(&udp, "preserve_client_ip.enabled", "false");
    refused(&aws, V2, "ModifyTargetGroupAttributes", &hidden, "InvalidConfigurationRequest");

    let target =
        |arn: &str, id: &str| format!("TargetGroupArn={arn}&Targets.member.1.Id={id}&Targets.member.1.Port=30080");
    let (first, second) = (&example.instances[0].0, &example.instances[1].0);
    refused(&aws, V2, "RegisterTargets", &target(&other, "i-0123456789abcdef0"), "InvalidTarget");
    let image = format!(
        "ImageId=ami-12c6146b&MinCount=1&MaxCount=1&SubnetId={}&Ipv6AddressCount=1",
        example.subnets["private-a"]
    );
    let plain = ok(&aws, Api::Ec2, "RunInstances", &image).text("instancesSet/item/instanceId").to_owned();
    refused(&aws, V2, "RegisterTargets", &target(&tcp6, &plain), "InvalidTarget");
    ok(&aws, V2, "RegisterTargets", &target(&tcp6, first));
    ok(&aws, V2, "RegisterTargets", &target(&other, &plain));
    ok(&aws, V2, "DeregisterTargets", &target(&other, second));
    let health = ok(&aws, V2, "DescribeTargetHealth", &format!("TargetGroupArn={tcp6}"));
    let registered = health.texts("DescribeTargetHealthResult/TargetHealthDescriptions/member/Target/Id");
    assert!(registered.contains(first), "{registered:?}");
    let unused = group("unused", "UDP", "ipv6");
    for _ in 0..2 {
        ok(&aws, V2, "DeleteTargetGroup", &format!("TargetGroupArn={unused}"));
    }
}
