//! The AWS of the tests refuses what AWS refuses and answers what AWS answers, where moto alone does not.

use e2e::aws_strict::{Api, AwsFailure, Element, Example, Fault, Strict, Through};

const V2: Api = Api::Elbv2;

fn pairs(text: &str) -> Vec<(&str, &str)> {
    text.split('&').filter_map(|pair| pair.split_once('=')).collect()
}

fn strict(aws: &Strict, api: Api, action: &str, params: &str) -> Result<Element, AwsFailure> {
    aws.ask(Through::Strict, api, action, &pairs(params))
}

fn ok(aws: &Strict, api: Api, action: &str, params: &str) -> Element {
    strict(aws, api, action, params).unwrap_or_else(|failure| panic!("{action} {params}: {}", failure.body))
}

/// Strict refuses with this code, and moto alone does not mind.
fn refused(aws: &Strict, api: Api, action: &str, params: &str, code: &str) {
    let failure = strict(aws, api, action, params).expect_err(&format!("{action} {params} is refused"));
    assert_eq!(failure.code, code, "{action} {params}: {}", failure.body);
    let params = params.replace("loadbalancer/net/", "loadbalancer/app/").replace("listener/net/", "listener/app/");
    let moto = aws.ask(Through::Moto, api, action, &pairs(&params));
    assert!(moto.is_ok(), "moto alone accepts {action} {params}: {moto:?}");
}

/// Strict refuses with this code; moto alone has its own way of refusing.
fn refused_by_both(aws: &Strict, api: Api, action: &str, params: &str, code: &str) {
    let failure = strict(aws, api, action, params).expect_err(&format!("{action} {params} is refused"));
    assert_eq!(failure.code, code, "{action} {params}: {}", failure.body);
}

fn network(name: &str, rest: &str) -> String {
    format!("Name={name}&Type=network&{rest}")
}

/// The ARN of a new load balancer.
fn balancer(aws: &Strict, name: &str, rest: &str) -> String {
    let made = ok(aws, V2, "CreateLoadBalancer", &network(name, rest));
    made.text("CreateLoadBalancerResult/LoadBalancers/member/LoadBalancerArn").to_owned()
}

/// The ARN of a new target group.
fn target_group(aws: &Strict, vpc: &str, name: &str, protocol: &str, family: &str) -> String {
    let made = ok(aws, V2, "CreateTargetGroup", &group_of(vpc, name, protocol, family));
    made.text("CreateTargetGroupResult/TargetGroups/member/TargetGroupArn").to_owned()
}

fn group_of(vpc: &str, name: &str, protocol: &str, family: &str) -> String {
    format!(
        "Name={name}&Protocol={protocol}&Port=30080&VpcId={vpc}&TargetType=instance&IpAddressType={family}\
         &HealthCheckProtocol=TCP&HealthCheckPort=traffic-port&HealthCheckIntervalSeconds=10"
    )
}

fn listener(balancer: &str, port: u16, protocol: &str, target: &str) -> String {
    format!(
        "LoadBalancerArn={balancer}&Port={port}&Protocol={protocol}\
         &DefaultActions.member.1.Type=forward&DefaultActions.member.1.TargetGroupArn={target}"
    )
}

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

fn permission(group: &str, rest: &str) -> String {
    format!("GroupId={group}&IpPermissions.1.{}", rest.replace('&', "&IpPermissions.1."))
}

#[test]
fn security_groups() {
    let Some(aws) = Strict::start() else { return };
    let example = Example::build(&aws, 1);
    let (mine, nodes) = (&example.brought_group, &example.node_group);
    let ingress = "AuthorizeSecurityGroupIngress";
    let tcp = "IpProtocol=tcp&FromPort=80&ToPort=80";
    for (rest, code) in [
        ("IpProtocol=tls&FromPort=80&ToPort=80&IpRanges.1.CidrIp=192.0.2.0/24", "InvalidParameterValue"),
        ("IpProtocol=tcp&FromPort=90&ToPort=80&IpRanges.1.CidrIp=192.0.2.0/24", "InvalidParameterValue"),
        ("IpProtocol=tcp&FromPort=80&ToPort=70000&IpRanges.1.CidrIp=192.0.2.0/24", "InvalidParameterValue"),
        ("IpProtocol=icmp&FromPort=3&ToPort=4&Ipv6Ranges.1.CidrIpv6=2001:db8::/32", "InvalidParameterValue"),
    ] {
        refused(&aws, Api::Ec2, ingress, &permission(mine, rest), code);
    }
    refused_by_both(&aws, Api::Ec2, ingress, &permission(mine, tcp), "MissingParameter");
    let fresh = format!("GroupName=fresh&GroupDescription=d&VpcId={}", example.vpc);
    let fresh = ok(&aws, Api::Ec2, "CreateSecurityGroup", &fresh).text("groupId").to_owned();
    ok(&aws, Api::Ec2, ingress, &permission(&fresh, &format!("{tcp}&IpRanges.1.CidrIp=10.0.0.5/8")));
    let found = ok(&aws, Api::Ec2, "DescribeSecurityGroups", &format!("GroupId.1={fresh}"));
    assert_eq!(found.texts("securityGroupInfo/item/ipPermissions/item/ipRanges/item/cidrIp"), ["10.0.0.0/8"]);
    let twice = permission(&fresh, &format!("{tcp}&IpRanges.1.CidrIp=10.1.0.0/16&IpRanges.2.CidrIp=10.0.0.0/8"));
    refused_by_both(&aws, Api::Ec2, ingress, &twice, "InvalidPermission.Duplicate");
    let missing = permission(&fresh, &format!("{tcp}&IpRanges.1.CidrIp=10.0.0.0/8&IpRanges.2.CidrIp=10.7.0.0/16"));
    refused_by_both(&aws, Api::Ec2, "RevokeSecurityGroupIngress", &missing, "InvalidPermission.NotFound");
    let found = ok(&aws, Api::Ec2, "DescribeSecurityGroups", &format!("GroupId.1={fresh}"));
    let left = found.texts("securityGroupInfo/item/ipPermissions/item/ipRanges/item/cidrIp");
    assert_eq!(left, ["10.0.0.0/8"], "all or nothing");

    for (family, other) in [("4", "6"), ("6", "4")] {
        let many = |family: &str, count: usize| -> String {
            let key = if family == "4" { "IpRanges" } else { "Ipv6Ranges" };
            let range = |number: usize| match family {
                "4" => format!("{key}.{number}.CidrIp=10.{number}.0.0/16"),
                _ => format!("{key}.{number}.CidrIpv6=2001:db8:{number:x}::/48"),
            };
            (1..=count).map(range).collect::<Vec<_>>().join("&")
        };
        let name = format!("GroupName=full{family}&GroupDescription=d&VpcId={}", example.vpc);
        let full = ok(&aws, Api::Ec2, "CreateSecurityGroup", &name).text("groupId").to_owned();
        let udp = "IpProtocol=udp&FromPort=53&ToPort=53";
        let over = permission(&full, &format!("{udp}&{}", many(family, 61)));
        refused_by_both(&aws, Api::Ec2, ingress, &over, "RulesPerSecurityGroupLimitExceeded");
        ok(&aws, Api::Ec2, ingress, &permission(&full, &format!("{udp}&{}", many(family, 60))));
        ok(&aws, Api::Ec2, ingress, &permission(&full, &format!("{udp}&{}", many(other, 60))));
    }

    let vpc = "GroupName=x&GroupDescription=d&VpcId=vpc-0123456789abcdef0";
    refused(&aws, Api::Ec2, "CreateSecurityGroup", vpc, "InvalidVpcID.NotFound");
    let named = format!("GroupName=sg-x&GroupDescription=d&VpcId={}", example.vpc);
    refused(&aws, Api::Ec2, "CreateSecurityGroup", &named, "InvalidParameterValue");

    // What is used stays: by a rule, by an instance, by a load balancer, and by one that is gone for a while.
    let refers = permission(nodes, &format!("{tcp}&Groups.1.GroupId={fresh}"));
    ok(&aws, Api::Ec2, ingress, &format!("{refers}&IpPermissions.1.Groups.1.Description=why"));
    refused_by_both(&aws, Api::Ec2, "DeleteSecurityGroup", &format!("GroupId={fresh}"), "DependencyViolation");
    ok(&aws, Api::Ec2, "RevokeSecurityGroupIngress", &refers);
    let lb = format!("Subnets.member.1={}&SecurityGroups.member.1={fresh}", example.subnets["public-a"]);
    let arn = balancer(&aws, "holds", &lb);
    refused_by_both(&aws, Api::Ec2, "DeleteSecurityGroup", &format!("GroupId={fresh}"), "DependencyViolation");
    aws.linger(2);
    ok(&aws, V2, "DeleteLoadBalancer", &format!("LoadBalancerArn={arn}"));
    for _ in 0..2 {
        refused_by_both(&aws, Api::Ec2, "DeleteSecurityGroup", &format!("GroupId={fresh}"), "DependencyViolation");
    }
    ok(&aws, Api::Ec2, "DeleteSecurityGroup", &format!("GroupId={fresh}"));
    refused(&aws, Api::Ec2, "DeleteSecurityGroup", &format!("GroupId={nodes}"), "DependencyViolation");

    let subnets = ok(&aws, Api::Ec2, "DescribeSubnets", &format!("SubnetId.1={}", example.subnets["public-a"]));
    let state = "subnetSet/item/ipv6CidrBlockAssociationSet/item/ipv6CidrBlockState/state";
    assert_eq!(subnets.texts(state), ["associated"]);
    let id = &example.instances[0].0;
    let instances = ok(&aws, Api::Ec2, "DescribeInstances", &format!("InstanceId.1={id}"));
    let primary = "reservationSet/item/instancesSet/item/networkInterfaceSet/item/ipv6AddressesSet/item/isPrimaryIpv6";
    assert_eq!(instances.texts(primary), ["true"]);
}

#[test]
fn classic_load_balancers() {
    let Some(aws) = Strict::start() else { return };
    let example = Example::build(&aws, 1);
    let common = format!(
        "Subnets.member.1={}&SecurityGroups.member.1={}&Listeners.member.1.LoadBalancerPort=80&Listeners.member.1.InstancePort=30080",
        example.subnets["public-a"], example.brought_group
    );
    let new =
        |name: &str, protocol: &str| format!("LoadBalancerName={name}&{common}&Listeners.member.1.Protocol={protocol}");
    refused(&aws, Api::Elb, "CreateLoadBalancer", &new(&"x".repeat(33), "TCP"), "ValidationError");
    refused(&aws, Api::Elb, "CreateLoadBalancer", &new("tls", "SSL"), "InvalidConfigurationRequest");
    let made = ok(&aws, Api::Elb, "CreateLoadBalancer", &new("web", "TCP"));
    let host = made.text("CreateLoadBalancerResult/DNSName").to_owned();
    assert!(host.starts_with("web-") && host.ends_with(".us-east-1.elb.amazonaws.com"), "{host}");
    let found = ok(&aws, Api::Elb, "DescribeLoadBalancers", "LoadBalancerNames.member.1=web");
    let found = found.one("DescribeLoadBalancersResult/LoadBalancerDescriptions/member").unwrap();
    assert_eq!((found.text("DNSName"), found.text("CanonicalHostedZoneNameID")), (host.as_str(), "Z35SXDOTRQ7X7K"));
    let policy = "LoadBalancerName=web&InstancePort=30080&PolicyNames.member.1=none";
    refused(&aws, Api::Elb, "SetLoadBalancerPoliciesForBackendServer", policy, "PolicyNotFound");
    let instance = "LoadBalancerName=web&Instances.member.1.InstanceId=i-0123456789abcdef0";
    refused_by_both(&aws, Api::Elb, "RegisterInstancesWithLoadBalancer", instance, "InvalidInstance");
    let again = format!("LoadBalancerName=web&Instances.member.1.InstanceId={}", example.instances[0].0);
    for _ in 0..2 {
        ok(&aws, Api::Elb, "RegisterInstancesWithLoadBalancer", &again);
    }
    let found = ok(&aws, Api::Elb, "DescribeLoadBalancers", "LoadBalancerNames.member.1=web");
    let path = "DescribeLoadBalancersResult/LoadBalancerDescriptions/member/Instances/member/InstanceId";
    assert_eq!(found.texts(path), [example.instances[0].0.as_str()], "once is enough");
    let idle = "LoadBalancerName=web&LoadBalancerAttributes.ConnectionSettings.IdleTimeout=5000";
    refused(&aws, Api::Elb, "ModifyLoadBalancerAttributes", idle, "ValidationError");
    let held = format!("GroupId={}", example.brought_group);
    refused_by_both(&aws, Api::Ec2, "DeleteSecurityGroup", &held, "DependencyViolation");
    for server in aws.dns() {
        assert_eq!(aws.resolve(server, &host, "A").unwrap().len(), 1);
        assert_eq!(aws.resolve(server, &host, "AAAA"), Ok(vec![]), "a classic one has no IPv6");
    }
}

fn batch(changes: &[(&str, &str, &str, &str)]) -> String {
    let change = |(action, name, kind, target): &(&str, &str, &str, &str)| {
        let data = match target.split_once(' ') {
            Some((zone, name)) => format!(
                "<AliasTarget><HostedZoneId>{zone}</HostedZoneId><DNSName>{name}</DNSName>\
                 <EvaluateTargetHealth>false</EvaluateTargetHealth></AliasTarget>"
            ),
            None => format!(
                "<TTL>30</TTL><ResourceRecords><ResourceRecord><Value>{target}</Value></ResourceRecord></ResourceRecords>"
            ),
        };
        format!(
            "<Change><Action>{action}</Action><ResourceRecordSet><Name>{name}</Name><Type>{kind}</Type>{data}</ResourceRecordSet></Change>"
        )
    };
    let changes: String = changes.iter().map(change).collect();
    format!(
        "<ChangeResourceRecordSetsRequest xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\"><ChangeBatch><Changes>{changes}</Changes></ChangeBatch></ChangeResourceRecordSetsRequest>"
    )
}

#[test]
fn records_and_dns() {
    let Some(aws) = Strict::start() else { return };
    let example = Example::build(&aws, 0);
    let subnets =
        format!("Subnets.member.1={}&Subnets.member.2={}", example.subnets["public-a"], example.subnets["public-b"]);
    ok(&aws, V2, "CreateLoadBalancer", &network("dual", &format!("{subnets}&IpAddressType=dualstack")));
    ok(&aws, V2, "CreateLoadBalancer", &network("single", &subnets));
    let host = |name: &str| {
        let found = ok(&aws, V2, "DescribeLoadBalancers", &format!("Names.member.1={name}"));
        found.text("DescribeLoadBalancersResult/LoadBalancers/member/DNSName").to_owned()
    };
    let (dual, single) = (host("dual"), host("single"));
    let zone = "<CreateHostedZoneRequest xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\"><Name>example.test</Name><CallerReference>1</CallerReference></CreateHostedZoneRequest>";
    let made = aws.route53(Through::Strict, "/2013-04-01/hostedzone", zone).unwrap();
    let path = format!("/2013-04-01{}/rrset/", made.text("HostedZone/Id"));
    let change = |changes: &[(&str, &str, &str, &str)]| aws.route53(Through::Strict, &path, &batch(changes));
    let alias = |host: &str| format!("Z26RNL4JYFTOTI {host}.");
    let (to_dual, to_single) = (alias(&dual), alias(&single));

    let name = "*.apps.example.test.";
    for (changes, word) in [
        (vec![("DELETE", name, "A", to_dual.as_str())], "but it was not found"),
        (
            vec![("UPSERT", name, "A", "ZWRONG dual-1.elb.us-east-1.amazonaws.com.")],
            "does not lie within the target zone",
        ),
        (vec![("UPSERT", "www.elsewhere.test.", "A", "192.0.2.1")], "is not permitted in zone"),
    ] {
        let failure = change(&changes).expect_err(word);
        assert!(failure.code == "InvalidChangeBatch" && failure.body.contains(word), "{}", failure.body);
    }
    change(&[("UPSERT", name, "A", &to_dual), ("UPSERT", name, "AAAA", &to_dual)]).unwrap();
    for (changes, word) in [
        (vec![("CREATE", name, "A", to_dual.as_str())], "already exists"),
        (vec![("DELETE", name, "A", to_single.as_str())], "do not match the current values"),
        (vec![("UPSERT", name, "CNAME", "example.test.")], "conflicts with other records"),
        (
            vec![("DELETE", name, "A", to_dual.as_str()), ("DELETE", "x.example.test.", "A", "192.0.2.1")],
            "was not found",
        ),
    ] {
        let failure = change(&changes).expect_err(word);
        assert!(failure.code == "InvalidChangeBatch" && failure.body.contains(word), "{}", failure.body);
        let moto = aws.route53(Through::Moto, &path, &batch(&changes));
        assert!(moto.is_ok() || word == "was not found", "moto alone accepts {changes:?}: {moto:?}");
        if moto.is_ok() {
            // As it was, for the next one.
            let _ = change(&[("DELETE", name, "CNAME", "example.test.")]);
            change(&[("UPSERT", name, "A", &to_dual), ("UPSERT", name, "AAAA", &to_dual)]).unwrap();
        }
    }
    let listed = aws.route53(Through::Strict, path.trim_end_matches('/'), "").unwrap();
    let sets = listed.all("ResourceRecordSets/ResourceRecordSet");
    let ours: Vec<_> = sets.iter().filter(|set| set.one("AliasTarget").is_some()).collect();
    assert_eq!(ours.len(), 2, "a refused batch has no effect: {listed:?}");
    assert!(
        ours.iter().all(|set| set.text("Name") == "\\052.apps.example.test." && set.one("TTL").is_none()),
        "{listed:?}"
    );

    change(&[("UPSERT", "www.example.test.", "CNAME", "a.apps.example.test")]).unwrap();
    change(&[("UPSERT", "old.example.test.", "A", &to_single), ("UPSERT", "old.example.test.", "AAAA", &to_single)])
        .unwrap();
    for server in aws.dns() {
        let ask = |name: &str, kind: &str| aws.resolve(server, name, kind);
        let (a, aaaa) = (ask(&dual, "A").unwrap(), ask(&dual, "AAAA").unwrap());
        assert_eq!((a.len(), aaaa.len()), (2, 2), "one for each zone");
        assert!(
            a.iter().all(|text| text.starts_with("198.1")) && aaaa.iter().all(|text| text.starts_with("2001:db8:"))
        );
        assert_eq!(ask("any.thing.apps.example.test", "A").unwrap(), a);
        assert_eq!(ask("Any.apps.example.test", "AAAA").unwrap(), aaaa);
        assert_eq!(ask("www.example.test", "AAAA").unwrap()[1..], aaaa);
        assert_eq!(ask(&single, "AAAA"), Ok(vec![]), "no IPv6 there");
        assert_eq!(ask("old.example.test", "AAAA"), Ok(vec![]));
        assert_eq!(ask("old.example.test", "A").unwrap().len(), 2);
        assert_eq!(ask("none.example.test", "A"), Err("NXDOMAIN".to_owned()));
        assert_eq!(ask("elsewhere.test", "A"), Err("REFUSED".to_owned()));
    }
}

#[test]
fn faults_and_counts() {
    let Some(aws) = Strict::start() else { return };
    let example = Example::build(&aws, 0);
    let new = |name: &str| network(name, &format!("Subnets.member.1={}", example.subnets["public-a"]));
    let names = || {
        let found = aws.look(V2, "DescribeLoadBalancers", &[]).unwrap();
        found.texts("DescribeLoadBalancersResult/LoadBalancers/member/LoadBalancerName")
    };
    for (fault, status, code, made) in [
        (Fault::Fail, 500, "InternalFailure", false),
        (Fault::Deny, 403, "AccessDenied", false),
        (Fault::Throttle, 400, "Throttling", false),
        (Fault::NotXml, 502, "", false),
        (Fault::TimeOut, 502, "", false),
        (Fault::Lose, 502, "", true),
        (Fault::Kill, 502, "", true),
    ] {
        let name = format!("{fault:?}").to_lowercase();
        aws.inject(Some("CreateLoadBalancer"), 0, 1, fault);
        ok(&aws, V2, "DescribeLoadBalancers", "");
        let failure = strict(&aws, V2, "CreateLoadBalancer", &new(&name)).expect_err("a fault");
        assert_eq!((failure.status, failure.code.as_str()), (status, code), "{fault:?}: {}", failure.body);
        assert_eq!(names().contains(&name), made, "{fault:?}");
        assert_eq!(strict(&aws, V2, "DescribeLoadBalancers", "").is_err(), fault == Fault::Kill, "{fault:?}");
        assert_eq!(aws.mend(), 1);
        ok(&aws, V2, "DescribeLoadBalancers", "");
    }
    let limit = "GroupName=x&GroupDescription=d";
    aws.inject(None, 0, 1, Fault::Throttle);
    assert_eq!(strict(&aws, Api::Ec2, "CreateSecurityGroup", limit).unwrap_err().code, "RequestLimitExceeded");
    aws.mend();

    let listed = |answer: &Element| answer.all("DescribeLoadBalancersResult/LoadBalancers/member").len();
    let before = listed(&ok(&aws, V2, "DescribeLoadBalancers", ""));
    ok(&aws, V2, "CreateLoadBalancer", &new("late"));
    aws.inject(None, 0, 1, Fault::Stale);
    assert_eq!(listed(&ok(&aws, V2, "DescribeLoadBalancers", "")), before, "what was true before");
    assert_eq!(listed(&ok(&aws, V2, "DescribeLoadBalancers", "")), before + 1);
    assert_eq!(aws.mend(), 1);

    aws.take_calls();
    ok(&aws, V2, "DescribeLoadBalancers", "");
    ok(&aws, V2, "CreateLoadBalancer", &new("counted"));
    let calls: Vec<(String, bool)> = aws.take_calls().iter().map(|call| (call.name(), call.write)).collect();
    assert_eq!(
        calls,
        [("Elbv2 DescribeLoadBalancers".to_owned(), false), ("Elbv2 CreateLoadBalancer".to_owned(), true)]
    );
    aws.reset();
    assert!(names().is_empty());
}
