//! The AWS of the tests refuses what AWS refuses and answers what AWS answers, where moto alone does not.

mod load_balancers;
mod records;

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
