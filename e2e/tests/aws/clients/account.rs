//! Every call of an account.

use super::*;

#[tokio::test]
async fn every_call_of_an_account_works() {
    let Some(world) = World::start() else { return };
    let account = world.session().await.account();
    let group = security_groups(&world, &account).await;
    networks_and_nodes(&world, &account).await;
    routes(&world, &account).await;
    for family in [Family::V4, Family::V6] {
        network_load_balancer(&world, &account, &group, family).await;
    }
    classic_load_balancer(&world, &account, &group).await;
    account.ec2.delete_security_group(&group).await.expect("the group goes");
    let error = account.ec2.delete_security_group(&group).await.expect_err("it is gone");
    assert!(matches!(error, AwsError::NotFound { kind: Kind::SecurityGroup, .. }), "{error:?}");
    every_action_was_seen(&world.metrics);
}

/// So that a call that is added later is tested here too.
fn every_action_was_seen(metrics: &Metrics) {
    let text = metrics.render(TextFormat::Classic).body;
    for action in actions::ALL {
        let elsewhere = matches!(action.service, actions::Service::Route53 | actions::Service::Sts);
        // Asked only when a policy of the name is there already, which moto does not mind.
        if elsewhere || action.name == "DescribeLoadBalancerPolicies" {
            continue;
        }
        let (service, name) = (action.service.prefix(), action.name);
        let label = format!("twinstack_aws_calls_total{{service=\"{service}\",action=\"{name}\",outcome=\"ok\"}}");
        assert!(text.contains(&label), "{name} was never made:\n{text}");
    }
}

async fn security_groups(world: &World, account: &Account) -> String {
    let new = NewSecurityGroup {
        name: "k8s-default-web-0123456789".to_owned(),
        description: "[k8s] Managed SecurityGroup for LoadBalancer".to_owned(),
        vpc: world.vpc.clone(),
        tags: tags(&[("kubernetes.io/cluster/blue", "owned")]),
    };
    let id = account.ec2.create_security_group(&new).await.expect("a group");
    let twice = account.ec2.create_security_group(&new).await.expect_err("there is one");
    assert!(twice.is_duplicate(), "{twice:?}");
    let rule = |protocol, peer| Rule { protocol, peer, description: "for web".to_owned() };
    let rules = BTreeSet::from([
        rule(Protocol::Tcp { from: 80, to: 80 }, Peer::Cidr(cidr("10.0.0.0/8"))),
        rule(Protocol::Tcp { from: 80, to: 80 }, Peer::Cidr(cidr("2001:db8::/32"))),
        rule(Protocol::Udp { from: 53, to: 54 }, Peer::Group(id.clone())),
        rule(Protocol::Icmp { kind: 3, code: 4 }, Peer::Cidr(cidr("0.0.0.0/0"))),
        rule(Protocol::Icmpv6 { kind: 2, code: 0 }, Peer::Cidr(cidr("::/0"))),
    ]);
    account.ec2.authorize(&id, Direction::Ingress, &rules).await.expect("rules");
    let again = account.ec2.authorize(&id, Direction::Ingress, &rules).await.expect_err("they are there");
    assert!(again.is_duplicate(), "{again:?}");
    let extra = BTreeSet::from([
        rule(Protocol::Tcp { from: 8080, to: 8090 }, Peer::Cidr(cidr("10.0.0.0/16"))),
        rule(Protocol::Tcp { from: 8080, to: 8090 }, Peer::Cidr(cidr("2001:db8:1::/48"))),
    ]);
    account.ec2.authorize(&id, Direction::Egress, &extra).await.expect("rules");
    let filters = [
        GroupFilter { ids: set(&[&id]), ..GroupFilter::default() },
        GroupFilter { ids: set(&[&id]), vpc: Some(world.vpc.clone()), ..GroupFilter::default() },
    ];
    for filter in &filters {
        let found = account.ec2.describe_security_groups(filter).await.expect("groups");
        assert_eq!(found.len(), 1, "{filter:?}");
        assert_eq!((found[0].id.as_str(), found[0].vpc.as_str()), (id.as_str(), world.vpc.as_str()), "{filter:?}");
        assert_eq!(found[0].ingress, rules, "{filter:?}");
        assert!(found[0].ingress.iter().all(|rule| rule.description == "for web"), "{:?}", found[0].ingress);
        assert!(found[0].egress.is_superset(&extra), "{:?}", found[0].egress);
    }
    let none = GroupFilter { ids: set(&["sg-0123456789abcdef0"]), ..GroupFilter::default() };
    assert_eq!(account.ec2.describe_security_groups(&none).await, Ok(Vec::new()));
    account.ec2.revoke(&id, Direction::Egress, &extra).await.expect("revoked");
    account.ec2.revoke(&id, Direction::Ingress, &rules).await.expect("revoked");
    let gone = account.ec2.revoke(&id, Direction::Ingress, &rules).await.expect_err("they are gone");
    assert!(matches!(gone, AwsError::NotFound { kind: Kind::Rule, .. }), "{gone:?}");
    let ids = [id.clone()];
    account.ec2.create_tags(&ids, &tags(&[("a", "1"), ("b", "")])).await.expect("tags");
    let found = account.ec2.describe_security_groups(&filters[0]).await.expect("groups").remove(0);
    assert_eq!(found.tags, tags(&[("kubernetes.io/cluster/blue", "owned"), ("a", "1"), ("b", "")]));
    assert!(found.ingress.is_empty(), "{:?}", found.ingress);
    id
}

async fn networks_and_nodes(world: &World, account: &Account) {
    let filter = SubnetFilter { vpc: Some(world.vpc.clone()), ids: BTreeSet::new() };
    let subnets = account.ec2.describe_subnets(&filter).await.expect("subnets");
    assert_eq!(subnets.len(), 2);
    assert!(subnets.iter().all(|subnet| subnet.ipv4.is_some() && subnet.zone.starts_with("us-east-1")), "{subnets:?}");
    let filter = SubnetFilter { vpc: None, ids: set(&[&world.subnets[1], "subnet-0123456789abcdef0"]) };
    let subnets = account.ec2.describe_subnets(&filter).await.expect("subnets");
    assert_eq!(subnets.iter().map(|subnet| &subnet.id).collect::<Vec<_>>(), [&world.subnets[1]]);
    let zones = account.ec2.describe_availability_zones().await.expect("zones");
    assert!(zones.iter().any(|zone| zone.name == "us-east-1a" && zone.kind == "availability-zone"), "{zones:?}");
    let all = InstanceFilter::default();
    let found = account.ec2.describe_instances(&all).await.expect("instances");
    let dns = found[0].private_dns.clone();
    let filters = [
        InstanceFilter { ids: set(&[&world.instance]), ..all.clone() },
        InstanceFilter { vpc: Some(world.vpc.clone()), ..all.clone() },
        InstanceFilter { tag_key: Some("kubernetes.io/cluster/blue".to_owned()), ..all.clone() },
        InstanceFilter { private_dns: set(&[&dns]), ..all.clone() },
    ];
    for filter in &filters {
        let instances = account.ec2.describe_instances(filter).await.expect("instances");
        assert_eq!(instances.len(), 1, "{filter:?}");
        let instance = &instances[0];
        assert_eq!((&instance.id, &instance.vpc), (&world.instance, &world.vpc));
        assert_eq!((instance.state.as_str(), instance.subnet.as_str()), ("running", world.subnets[0].as_str()));
        let interface = &instance.interfaces[0];
        assert_eq!((interface.ipv4.len(), interface.ipv6.len()), (1, 1), "{interface:?}");
    }
    let none = InstanceFilter { ids: set(&["i-0123456789abcdef0"]), ..all };
    assert_eq!(account.ec2.describe_instances(&none).await, Ok(Vec::new()));
    account.ec2.set_source_dest_check(&world.instance, false).await.expect("the check is off");
}

async fn routes(world: &World, account: &Account) {
    let tables = account.ec2.describe_route_tables(&world.vpc).await.expect("tables");
    let table = tables.iter().find(|table| table.main).expect("the main one").id.clone();
    let via = RouteTarget::Instance(world.instance.clone());
    for to in [cidr("10.128.0.0/24"), cidr("fd00:10::/64")] {
        account.ec2.create_route(&table, to, &via).await.expect("a route");
        let tables = account.ec2.describe_route_tables(&world.vpc).await.expect("tables");
        let main = tables.iter().find(|one| one.id == table).expect("the main one");
        let route = main.routes.iter().find(|route| route.to == Some(to)).expect("the route");
        assert_eq!(route.via, via);
        account.ec2.delete_route(&table, to).await.expect("no route");
        let gone = account.ec2.delete_route(&table, to).await.expect_err("it is gone");
        assert!(matches!(gone, AwsError::NotFound { kind: Kind::Route, .. }), "{gone:?}");
    }
}

async fn network_load_balancer(world: &World, account: &Account, group: &str, family: Family) {
    let mapping = |id: &String| SubnetMapping { subnet: id.clone(), ..SubnetMapping::default() };
    let mappings: Vec<SubnetMapping> = world.subnets.iter().map(mapping).collect();
    let name = format!("a{}", if family == Family::V4 { "4" } else { "6" });
    let new = NewLoadBalancer {
        name: name.clone(),
        scheme: Scheme::Internal,
        ip_address_type: IpAddressType::Ipv4,
        subnets: mappings.clone(),
        security_groups: set(&[group]),
        ipv6_source_nat: false,
        tags: tags(&[("kubernetes.io/service-name", "default/web")]),
    };
    let made = account.network.create_load_balancer(&new).await.expect("a load balancer");
    let arn = made.arn.clone();
    let seen = async || -> LoadBalancer {
        account.network.describe_load_balancers(Some(&name)).await.expect("load balancers").remove(0)
    };
    let there = seen().await;
    assert_eq!((there.kind, there.scheme), (LoadBalancerType::Network, Scheme::Internal));
    assert_eq!((there.ip_address_type, there.vpc.as_str()), (IpAddressType::Ipv4, world.vpc.as_str()));
    assert_eq!(there.subnets, world.subnets.iter().cloned().collect());
    assert_eq!(there.security_groups, set(&[group]));
    assert_eq!(account.network.describe_load_balancers(Some("nobody")).await, Ok(Vec::new()));
    assert!(account.network.describe_load_balancers(None).await.expect("all").iter().any(|one| one.arn == arn));
    account.network.set_ip_address_type(&arn, IpAddressType::Dualstack).await.expect("dual-stack");
    assert_eq!(seen().await.ip_address_type, IpAddressType::Dualstack);
    account.network.set_security_groups(&arn, &set(&[group])).await.expect("groups");
    account.network.set_subnets(&arn, &mappings, true).await.expect("subnets");
    let wanted: Attributes = tags(&[("load_balancing.cross_zone.enabled", "true")]);
    account.network.modify_load_balancer_attributes(&arn, &wanted).await.expect("attributes");
    let attributes = account.network.describe_load_balancer_attributes(&arn).await.expect("attributes");
    assert_eq!(attributes.get("load_balancing.cross_zone.enabled").map(String::as_str), Some("true"));
    let target_group = target_groups(world, account, family).await;
    listeners(account, &arn, &target_group).await;
    certificates(world, account, &arn, &target_group).await;
    let arns = [arn.clone(), target_group.clone()];
    account.network.add_tags(&arns, &tags(&[("x", "1"), ("y", "2")])).await.expect("tags");
    let reported = account.network.describe_tags(&arns).await.expect("tags");
    assert_eq!(reported[&arn], tags(&[("kubernetes.io/service-name", "default/web"), ("x", "1"), ("y", "2")]));
    assert_eq!(reported[&target_group].get("x").map(String::as_str), Some("1"));
    for _ in 0..2 {
        account.network.delete_load_balancer(&arn).await.expect("it goes, and is gone");
        account.network.delete_target_group(&target_group).await.expect("it goes, and is gone");
    }
    assert_eq!(account.network.describe_load_balancers(Some(&name)).await, Ok(Vec::new()));
}

async fn target_groups(world: &World, account: &Account, family: Family) -> String {
    let new = NewTargetGroup {
        name: format!("k8s-default-web-{family:?}"),
        protocol: "TCP".to_owned(),
        port: 30080,
        vpc: world.vpc.clone(),
        family,
        health_check: check("HTTP"),
        tags: tags(&[("kubernetes.io/service-name", "default/web")]),
    };
    let made = account.network.create_target_group(&new).await.expect("a target group");
    assert_eq!((made.family, made.port, made.protocol.as_str()), (family, 30080, "TCP"));
    assert_eq!(made.health_check, new.health_check);
    account
        .network
        .modify_target_group(&made.arn, &HealthCheck { interval: 30, ..check("HTTP") })
        .await
        .expect("a check");
    let all = account.network.describe_target_groups(TargetGroupFilter::All).await.expect("target groups");
    let there = all.iter().find(|one| one.arn == made.arn).expect("the one that was made");
    assert_eq!((there.health_check.interval, there.health_check.path.as_deref()), (30, Some("/healthz")));
    let wanted: Attributes = tags(&[("proxy_protocol_v2.enabled", "true")]);
    account.network.modify_target_group_attributes(&made.arn, &wanted).await.expect("attributes");
    let attributes = account.network.describe_target_group_attributes(&made.arn).await.expect("attributes");
    assert_eq!(attributes.get("proxy_protocol_v2.enabled").map(String::as_str), Some("true"));
    let target = Target { instance: world.instance.clone(), port: 30080 };
    let targets = BTreeSet::from([target.clone()]);
    account.network.register_targets(&made.arn, &targets).await.expect("registered");
    let health = account.network.describe_target_health(&made.arn).await.expect("health");
    assert_eq!(health.iter().map(|one| (&one.target, one.draining)).collect::<Vec<_>>(), [(&target, false)]);
    let other = Target { instance: "i-0123456789abcdef0".to_owned(), port: 30080 };
    account.network.deregister_targets(&made.arn, &BTreeSet::from([target, other])).await.expect("deregistered");
    let health = account.network.describe_target_health(&made.arn).await.expect("health");
    assert!(health.iter().all(|one| one.draining), "{health:?}");
    made.arn
}

async fn listeners(account: &Account, load_balancer: &str, target_group: &str) {
    let settings = ListenerSettings {
        port: 80,
        protocol: "TCP".to_owned(),
        target_group: target_group.to_owned(),
        certificate: None,
        ssl_policy: None,
    };
    let new = NewListener {
        load_balancer: load_balancer.to_owned(),
        settings: settings.clone(),
        tags: tags(&[("kubernetes.io/service-name", "default/web")]),
    };
    let made = account.network.create_listener(&new).await.expect("a listener");
    assert_eq!(made.settings, settings);
    let moved = ListenerSettings { port: 81, ..settings };
    account.network.modify_listener(&made.arn, &moved).await.expect("another port");
    let there = account.network.describe_listeners(load_balancer).await.expect("listeners");
    assert_eq!(there.iter().map(|one| &one.settings).collect::<Vec<_>>(), [&moved]);
    let groups =
        account.network.describe_target_groups(TargetGroupFilter::Of(load_balancer)).await.expect("target groups");
    assert_eq!(groups.iter().map(|one| one.arn.as_str()).collect::<Vec<_>>(), [target_group]);
    let used = account.network.delete_target_group(target_group).await.expect_err("it is used");
    assert!(used.is_in_use(), "{used:?}");
    for _ in 0..2 {
        account.network.delete_listener(&made.arn).await.expect("it goes, and is gone");
    }
    assert_eq!(account.network.describe_listeners(load_balancer).await, Ok(Vec::new()));
}

async fn certificates(world: &World, account: &Account, load_balancer: &str, target_group: &str) {
    let (own, more) = (world.certificate("own.example.com"), world.certificate("more.example.com"));
    let settings = ListenerSettings {
        port: 443,
        protocol: "TLS".to_owned(),
        target_group: target_group.to_owned(),
        certificate: Some(own.clone()),
        ssl_policy: Some("ELBSecurityPolicy-TLS13-1-2-2021-06".to_owned()),
    };
    let new = NewListener { load_balancer: load_balancer.to_owned(), settings: settings.clone(), tags: Tags::new() };
    let made = account.network.create_listener(&new).await.expect("a listener");
    assert_eq!(made.settings, settings);
    let arns = set(&[&more]);
    for _ in 0..2 {
        account.network.add_listener_certificates(&made.arn, &arns).await.expect("it is there");
    }
    // moto does not say which one is the listener's own.
    let reported = account.network.describe_listener_certificates(&made.arn).await.expect("certificates");
    assert_eq!(reported.into_iter().filter(|arn| *arn != own).collect::<BTreeSet<_>>(), arns);
    for _ in 0..2 {
        account.network.remove_listener_certificates(&made.arn, &arns).await.expect("it is gone");
    }
    let reported = account.network.describe_listener_certificates(&made.arn).await.expect("certificates");
    assert!(!reported.contains(&more), "{reported:?}");
    account.network.delete_listener(&made.arn).await.expect("it goes");
}

async fn classic_load_balancer(world: &World, account: &Account, group: &str) {
    let name = "aclassic";
    let listener = |port: u16| ClassicListener {
        load_balancer_port: port,
        protocol: "TCP".to_owned(),
        instance_port: 30000 + port,
        instance_protocol: "TCP".to_owned(),
        certificate: None,
    };
    let new = NewClassicLoadBalancer {
        name: name.to_owned(),
        scheme: Scheme::Internal,
        listeners: vec![listener(80)],
        subnets: set(&[&world.subnets[0]]),
        security_groups: set(&[group]),
        tags: tags(&[("kubernetes.io/service-name", "default/old")]),
    };
    let host = account.classic.create_classic(&new).await.expect("a load balancer");
    account.classic.attach_classic_subnets(name, &set(&[&world.subnets[1]])).await.expect("a subnet");
    account.classic.detach_classic_subnets(name, &set(&[&world.subnets[0]])).await.expect("no subnet");
    account.classic.apply_classic_groups(name, &set(&[group])).await.expect("groups");
    account.classic.create_classic_listeners(name, &[listener(81), listener(82)]).await.expect("listeners");
    account.classic.delete_classic_listeners(name, &BTreeSet::from([82])).await.expect("no listener");
    let check = ClassicHealthCheck {
        target: "HTTP:10256/healthz".to_owned(),
        interval: 10,
        timeout: 5,
        healthy: 2,
        unhealthy: 6,
    };
    account.classic.configure_classic_health_check(name, &check).await.expect("a check");
    account.classic.register_classic_instances(name, &set(&[&world.instance])).await.expect("registered");
    let policy = ClassicPolicy {
        name: "k8s-proxyprotocol-enabled".to_owned(),
        kind: "ProxyProtocolPolicyType".to_owned(),
        attributes: tags(&[("ProxyProtocol", "true")]),
    };
    for _ in 0..2 {
        account.classic.create_classic_policy(name, &policy).await.expect("a policy");
    }
    let policies = std::slice::from_ref(&policy.name);
    account.classic.set_classic_backend_policies(name, 30080, policies).await.expect("backend policies");
    account.classic.set_classic_listener_policies(name, 80, &[]).await.expect("listener policies");
    let wanted =
        ClassicAttributes { cross_zone: true, draining: Some(60), idle_timeout: 90, ..ClassicAttributes::default() };
    account.classic.modify_classic_attributes(name, &wanted).await.expect("attributes");
    assert_eq!(account.classic.describe_classic_attributes(name).await, Ok(wanted));
    account.classic.add_classic_tags(name, &tags(&[("x", "1"), ("y", "2")])).await.expect("tags");
    let names = [name.to_owned(), "nobody".to_owned()];
    let reported = account.classic.describe_classic_tags(&names).await.expect("tags");
    assert_eq!(reported[name], tags(&[("kubernetes.io/service-name", "default/old"), ("x", "1"), ("y", "2")]));
    let there = account.classic.describe_classic(Some(name)).await.expect("load balancers").remove(0);
    assert_eq!((there.dns_name.as_str(), there.scheme), (host.as_str(), Scheme::Internal));
    assert_eq!(there.listeners, BTreeMap::from([(80, listener(80)), (81, listener(81))]));
    assert_eq!(there.subnets, set(&[&world.subnets[1]]));
    assert_eq!(there.instances, set(&[&world.instance]));
    assert_eq!(there.health_check, Some(check));
    assert_eq!(there.backend_policies, BTreeMap::from([(30080, vec![policy.name.clone()])]));
    account.classic.set_classic_backend_policies(name, 30080, &[]).await.expect("no backend policies");
    account.classic.deregister_classic_instances(name, &set(&[&world.instance])).await.expect("deregistered");
    let there = account.classic.describe_classic(None).await.expect("load balancers").remove(0);
    assert!(there.backend_policies.is_empty() && there.instances.is_empty(), "{there:?}");
    for _ in 0..2 {
        account.classic.delete_classic(name).await.expect("it goes, and is gone");
    }
    assert_eq!(account.classic.describe_classic(Some(name)).await, Ok(Vec::new()));
}
