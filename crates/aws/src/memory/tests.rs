//! The account refuses what AWS refuses.

use super::{Example, Fault, Memory};
use crate::account::{
    AwsError, Direction, Ec2, GroupFilter, HealthCheck, IpAddressType, ListenerSettings, NetworkLoadBalancers,
    NewListener, NewLoadBalancer, NewSecurityGroup, NewTargetGroup, Peer, Protocol, Rule, Scheme, SubnetMapping, Tags,
    Target,
};
use net::Family;
use std::collections::BTreeSet;

fn memory() -> Memory {
    Memory::new(Example { nodes: 2 }.state())
}

fn balancer(kind: IpAddressType, groups: &[&str]) -> NewLoadBalancer {
    NewLoadBalancer {
        name: "one".into(),
        scheme: Scheme::InternetFacing,
        ip_address_type: kind,
        subnets: vec![SubnetMapping { subnet: "subnet-public-a".into(), ..SubnetMapping::default() }],
        security_groups: groups.iter().map(|id| (*id).to_owned()).collect(),
        ipv6_source_nat: false,
        tags: Tags::new(),
    }
}

fn target_group(family: Family, protocol: &str) -> NewTargetGroup {
    NewTargetGroup {
        name: format!("t{}{family}", protocol.replace('_', "-")),
        protocol: protocol.into(),
        port: 30080,
        vpc: Example::VPC.into(),
        family,
        health_check: HealthCheck {
            protocol: "TCP".into(),
            port: "traffic-port".into(),
            path: None,
            interval: 30,
            timeout: None,
            healthy: 3,
            unhealthy: 3,
        },
        tags: Tags::new(),
    }
}

fn rule(protocol: Protocol, cidr: &str) -> BTreeSet<Rule> {
    [Rule { protocol, peer: Peer::Cidr(cidr.parse().unwrap()), description: String::new() }].into()
}

#[tokio::test]
async fn load_balancers() {
    let memory = memory();
    let made = memory.create_load_balancer(&balancer(IpAddressType::Ipv4, &[])).await.unwrap();
    assert_eq!(memory.create_load_balancer(&balancer(IpAddressType::Ipv4, &[])).await.unwrap().arn, made.arn);
    let other = memory.create_load_balancer(&balancer(IpAddressType::Dualstack, &[])).await.unwrap_err();
    assert!(other.is_duplicate());
    let group = [Example::BROUGHT_GROUP.to_owned()].into();
    let refused = memory.set_security_groups(&made.arn, &group).await.unwrap_err();
    assert!(matches!(refused, AwsError::Invalid { .. }), "made without a group: {refused}");
    for name in ["", "x".repeat(33).as_str(), "internal-x", "a_b"] {
        let new = NewLoadBalancer { name: name.to_owned(), ..balancer(IpAddressType::Ipv4, &[]) };
        assert!(memory.create_load_balancer(&new).await.is_err(), "{name}");
    }
    memory.change(|state| state.subnets.iter_mut().for_each(|subnet| subnet.ipv6.clear()));
    let refused = memory.set_ip_address_type(&made.arn, IpAddressType::Dualstack).await.unwrap_err();
    assert!(refused.to_string().contains("associated IPv6 CIDR block"));
}

#[tokio::test]
async fn listeners_and_targets() {
    let memory = memory();
    let arn = memory.create_load_balancer(&balancer(IpAddressType::Ipv4, &[])).await.unwrap().arn;
    let four = memory.create_target_group(&target_group(Family::V4, "TCP")).await.unwrap().arn;
    let six = memory.create_target_group(&target_group(Family::V6, "TCP")).await.unwrap().arn;
    let listener = |port, protocol: &str, group: &str| NewListener {
        load_balancer: arn.clone(),
        settings: ListenerSettings {
            port,
            protocol: protocol.into(),
            target_group: group.into(),
            certificate: None,
            ssl_policy: None,
        },
        tags: Tags::new(),
    };
    memory.create_listener(&listener(80, "TCP", &four)).await.unwrap();
    assert!(memory.create_listener(&listener(80, "TCP", &four)).await.unwrap_err().is_duplicate());
    for (protocol, group) in [("TCP", &six), ("UDP", &four), ("TLS", &four)] {
        assert!(memory.create_listener(&listener(81, protocol, group)).await.is_err(), "{protocol}");
    }
    assert!(memory.delete_target_group(&four).await.unwrap_err().is_in_use());
    memory.change(|state| state.instances.get_mut("i-0001").unwrap().interfaces[0].primary_ipv6 = false);
    let target = |id: &str| BTreeSet::from([Target { instance: id.into(), port: 30080 }]);
    memory.register_targets(&six, &target("i-0000")).await.unwrap();
    memory.register_targets(&four, &target("i-0001")).await.unwrap();
    assert!(memory.register_targets(&six, &target("i-0001")).await.is_err());
    assert!(memory.register_targets(&four, &target("i-none")).await.is_err());
    memory.deregister_targets(&four, &target("i-none")).await.unwrap();
    let health = async |memory: &Memory| {
        let health = memory.describe_target_health(&four).await.unwrap();
        health.into_iter().map(|one| (one.target.instance, one.draining)).collect::<Vec<_>>()
    };
    memory.deregister_targets(&four, &target("i-0001")).await.unwrap();
    assert_eq!(health(&memory).await, [("i-0001".to_owned(), true)], "on its way out, and still shown");
    memory.register_targets(&four, &target("i-0001")).await.unwrap();
    assert_eq!(health(&memory).await, [("i-0001".to_owned(), false)]);
}

#[tokio::test]
async fn listeners_have_certificates_where_they_speak_tls() {
    let memory = memory();
    let arn = memory.create_load_balancer(&balancer(IpAddressType::Dualstack, &[])).await.unwrap().arn;
    for family in Family::BOTH {
        let tcp = memory.create_target_group(&target_group(family, "TCP")).await.unwrap().arn;
        let both = memory.create_target_group(&target_group(family, "TCP_UDP")).await.unwrap().arn;
        let new = |port, protocol: &str, group: &str, certificate: Option<&str>| NewListener {
            load_balancer: arn.clone(),
            settings: ListenerSettings {
                port,
                protocol: protocol.into(),
                target_group: group.into(),
                certificate: certificate.map(str::to_owned),
                ssl_policy: None,
            },
            tags: Tags::new(),
        };
        let offset = if family == Family::V4 { 0 } else { 1000 };
        let plain = memory.create_listener(&new(80 + offset, "TCP", &tcp, None)).await.unwrap().arn;
        let tls = new(443 + offset, "TLS", &tcp, Some(Example::CERTIFICATE));
        let tls = memory.create_listener(&tls).await.unwrap().arn;
        let other: BTreeSet<String> = [Example::OTHER_CERTIFICATE.to_owned()].into();
        assert!(memory.add_listener_certificates(&plain, &other).await.is_err());
        for _ in 0..2 {
            memory.add_listener_certificates(&tls, &other).await.unwrap();
        }
        assert_eq!(memory.describe_listener_certificates(&tls).await.unwrap(), other);
        let unknown = ["arn:none".to_owned()].into();
        assert!(memory.add_listener_certificates(&tls, &unknown).await.unwrap_err().is_not_found());
        let own = [Example::CERTIFICATE.to_owned()].into();
        assert!(memory.remove_listener_certificates(&tls, &own).await.is_err(), "the listener's own");
        for _ in 0..2 {
            memory.remove_listener_certificates(&tls, &other).await.unwrap();
        }
        assert!(memory.describe_listener_certificates(&tls).await.unwrap().is_empty());
        let udp = new(53 + offset, "TCP_UDP", &both, None);
        let refused = memory.create_listener(&udp).await.unwrap_err();
        assert!(refused.to_string().contains("EnablePrefixForIpv6SourceNat"), "{refused}");
    }
}

#[tokio::test]
async fn security_groups() {
    let memory = memory();
    let new =
        NewSecurityGroup { name: "mine".into(), description: "d".into(), vpc: Example::VPC.into(), tags: Tags::new() };
    let id = memory.create_security_group(&new).await.unwrap();
    assert!(memory.create_security_group(&new).await.unwrap_err().is_duplicate());
    let filter = GroupFilter { ids: [id.clone()].into(), ..GroupFilter::default() };
    assert_eq!(memory.describe_security_groups(&filter).await.unwrap()[0].egress.len(), 2, "both families");
    let (tcp, ingress) = (Protocol::Tcp { from: 80, to: 80 }, Direction::Ingress);
    for cidr in ["192.0.2.0/24", "2001:db8::/32"] {
        memory.authorize(&id, ingress, &rule(tcp, cidr)).await.unwrap();
        assert!(memory.authorize(&id, ingress, &rule(tcp, cidr)).await.unwrap_err().is_duplicate());
        memory.revoke(&id, ingress, &rule(tcp, cidr)).await.unwrap();
        assert!(memory.revoke(&id, ingress, &rule(tcp, cidr)).await.unwrap_err().is_not_found());
    }
    let icmp = (Protocol::Icmp { kind: 3, code: 4 }, Protocol::Icmpv6 { kind: 2, code: 0 });
    assert!(memory.authorize(&id, ingress, &rule(icmp.0, "2001:db8::/32")).await.is_err());
    assert!(memory.authorize(&id, ingress, &rule(icmp.1, "192.0.2.0/24")).await.is_err());
    let refers = [Rule { protocol: tcp, peer: Peer::Group(id.clone()), description: String::new() }].into();
    memory.authorize(Example::NODE_GROUP, ingress, &refers).await.unwrap();
    assert!(memory.delete_security_group(&id).await.unwrap_err().is_in_use());
    memory.revoke(Example::NODE_GROUP, ingress, &refers).await.unwrap();
    memory.delete_security_group(&id).await.unwrap();
    assert!(memory.delete_security_group(Example::NODE_GROUP).await.unwrap_err().is_in_use(), "instances have it");
    let many = |from: u8, count: u8, family: &str| -> BTreeSet<Rule> {
        (from..from + count)
            .map(|number| {
                let cidr =
                    if family == "4" { format!("10.{number}.0.0/16") } else { format!("2001:db8:{number:x}::/48") };
                rule(tcp, &cidr).pop_first().unwrap()
            })
            .collect()
    };
    let group = Example::BROUGHT_GROUP;
    memory.authorize(group, ingress, &many(0, 60, "4")).await.unwrap();
    memory.authorize(group, ingress, &many(1, 60, "6")).await.unwrap();
    for family in ["4", "6"] {
        let full = memory.authorize(group, ingress, &many(100, 1, family)).await.unwrap_err();
        assert!(matches!(full, AwsError::LimitExceeded { .. }), "{full}");
    }
}

#[tokio::test]
async fn faults_hit_the_call_they_are_meant_for() {
    let new = balancer(IpAddressType::Ipv4, &[]);
    let faults = Fault::ALL.into_iter().zip([0, 1, 0, 1, 1, 0]);
    for (fault, made) in faults {
        let memory = memory();
        memory.inject(1, fault);
        assert!(memory.describe_load_balancers(None).await.unwrap().is_empty());
        let outcome = memory.create_load_balancer(&new).await;
        assert_eq!(outcome.is_ok(), fault == Fault::Stale, "{fault:?}");
        assert_eq!(memory.state().load_balancers.len(), made, "{fault:?}");
        assert_eq!(memory.describe_load_balancers(None).await.is_err(), fault == Fault::Kill, "{fault:?}");
        assert!(memory.mend());
        assert_eq!(memory.describe_load_balancers(None).await.unwrap().len(), made);
    }
    let memory = memory();
    memory.create_load_balancer(&new).await.unwrap();
    memory.inject(0, Fault::Stale);
    assert!(memory.describe_load_balancers(None).await.unwrap().is_empty(), "what was true before");
    assert_eq!(memory.describe_load_balancers(None).await.unwrap().len(), 1);
}
