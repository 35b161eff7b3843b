//! The AWS clients against moto: every call of `Account` and every form of a DNS zone, in both families where there are two.

use aws::{
    account::{
        Account, Attributes, AwsError, ClassicAttributes, ClassicHealthCheck, ClassicListener, ClassicPolicy,
        Direction, GroupFilter, HealthCheck, InstanceFilter, IpAddressType, Kind, ListenerSettings, LoadBalancer,
        LoadBalancerType, NewClassicLoadBalancer, NewListener, NewLoadBalancer, NewSecurityGroup, NewTargetGroup, Peer,
        Protocol, RouteTarget, Rule, Scheme, SubnetFilter, SubnetMapping, Tags, Target, TargetGroupFilter,
    },
    clients::{Keys, Session, actions},
    cloud_config::CloudConfig,
    route53::Route53,
};
use e2e::{Process, Server, free_port, twinstack, wait_for};
use net::{Cidr, Family};
use runtime::{
    cloud::{DnsEntry, DnsProvider, DnsZone},
    metrics::{Metrics, TextFormat},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::Command,
    time::Duration,
};
use tempfile::TempDir;

/// A moto of its own, with a VPC that has two zones.
struct World {
    _moto: Process,
    _folder: TempDir,
    url: String,
    metrics: Metrics,
    vpc: String,
    subnets: Vec<String>,
    instance: String,
}

impl World {
    fn start() -> Option<Self> {
        let tools = std::env::var_os("TWINSTACK_TOOLS").map(PathBuf::from);
        let program = tools.map(|tools| tools.join("moto/bin/moto_server")).filter(|program| program.exists());
        let Some(program) = program else {
            e2e::skip("the AWS clients against moto", "scripts/need test");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
        let words = ["-H", "127.0.0.1", "-p", &port.to_string()];
        let moto = Process::start(program, &words, &folder.path().join("moto.log"));
        let ready = wait_for(Duration::from_secs(120), || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        assert!(ready.is_some(), "moto does not start:\n{}", moto.output());
        let mut world = Self {
            _moto: moto,
            _folder: folder,
            url: format!("http://127.0.0.1:{port}"),
            metrics: Metrics::new(),
            vpc: String::new(),
            subnets: Vec::new(),
            instance: String::new(),
        };
        world.furnish();
        Some(world)
    }

    /// Makes what a cluster finds in an account.
    fn furnish(&mut self) {
        let vpc = self.ec2("CreateVpc", &[("CidrBlock", "10.0.0.0/16"), ("AmazonProvidedIpv6CidrBlock", "true")]);
        self.vpc = between(&vpc, "vpcId").to_owned();
        let block = between(&vpc, "ipv6CidrBlock").replace("00::/56", "");
        for (number, zone) in ["us-east-1a", "us-east-1b"].into_iter().enumerate() {
            let (ipv4, ipv6) = (format!("10.0.{number}.0/24"), format!("{block}{number:02x}::/64"));
            let words = [
                ("VpcId", self.vpc.as_str()),
                ("CidrBlock", &ipv4),
                ("Ipv6CidrBlock", &ipv6),
                ("AvailabilityZone", zone),
            ];
            let subnet = self.ec2("CreateSubnet", &words);
            self.subnets.push(between(&subnet, "subnetId").to_owned());
        }
        let words = [
            ("ImageId", "ami-12c6146b"),
            ("MinCount", "1"),
            ("MaxCount", "1"),
            ("SubnetId", self.subnets[0].as_str()),
            ("Ipv6AddressCount", "1"),
            ("TagSpecification.1.ResourceType", "instance"),
            ("TagSpecification.1.Tag.1.Key", "kubernetes.io/cluster/blue"),
            ("TagSpecification.1.Tag.1.Value", "owned"),
        ];
        let instances = self.ec2("RunInstances", &words);
        self.instance = between(&instances, "instanceId").to_owned();
    }

    /// Asks moto directly for what the clients have no call for.
    fn ec2(&self, action: &str, words: &[(&str, &str)]) -> String {
        let mut all = vec![("Action", action), ("Version", "2016-11-15")];
        all.extend(words);
        let mut command = self.curl("ec2");
        for (name, value) in all {
            command.args(["--data-urlencode", &format!("{name}={value}")]);
        }
        answer(command.arg(&self.url))
    }

    fn curl(&self, service: &str) -> Command {
        let scope = format!("Credential=id/20260101/us-east-1/{service}/aws4_request, SignedHeaders=host, Signature=0");
        let mut command = Command::new("curl");
        command.args(["-s", "-f", "-H", &format!("Authorization: AWS4-HMAC-SHA256 {scope}")]);
        command
    }

    /// Asks Route53's API with XML, or without for a read.
    fn route53(&self, path: &str, body: Option<&str>) -> String {
        let mut command = self.curl("route53");
        if let Some(body) = body {
            command.args(["-H", "Content-Type: text/xml", "-d", body]);
        }
        answer(command.arg(format!("{}/2013-04-01/{path}", self.url)))
    }

    /// A certificate of ACM.
    fn certificate(&self, name: &str) -> String {
        let mut command = self.curl("acm");
        command.args(["-H", "X-Amz-Target: CertificateManager.RequestCertificate"]);
        command.args(["-H", "Content-Type: application/x-amz-json-1.1", "-d"]);
        let reported = answer(command.arg(format!(r#"{{"DomainName":"{name}"}}"#)).arg(&self.url));
        let reported: serde_json::Value = serde_json::from_str(&reported).expect("JSON");
        reported["CertificateArn"].as_str().expect("an ARN").to_owned()
    }

    /// Keys of a user who may do this and nothing else, from now on.
    fn restrict(&self, allowed: &[&str]) -> Keys {
        let iam = |words: &[(&str, &str)]| {
            let mut command = self.curl("iam");
            for (name, value) in words.iter().chain(&[("UserName", "ccm"), ("Version", "2010-05-08")]) {
                command.args(["--data-urlencode", &format!("{name}={value}")]);
            }
            answer(command.arg(&self.url))
        };
        iam(&[("Action", "CreateUser")]);
        let statement = serde_json::json!({"Effect": "Allow", "Action": allowed, "Resource": "*"});
        let policy = serde_json::json!({"Version": "2012-10-17", "Statement": [statement]}).to_string();
        iam(&[("Action", "PutUserPolicy"), ("PolicyName", "some"), ("PolicyDocument", &policy)]);
        let key = iam(&[("Action", "CreateAccessKey")]);
        let keys =
            Keys { id: between(&key, "AccessKeyId").to_owned(), secret: between(&key, "SecretAccessKey").to_owned() };
        let plain = ["-s", "-f", "-H", "Content-Type: text/plain", "-d", "0"];
        answer(Command::new("curl").args(plain).arg(format!("{}/moto-api/reset-auth", self.url)));
        keys
    }

    fn config(&self) -> CloudConfig {
        let mut text = "[Global]\nRegion = us-east-1\n".to_owned();
        for service in ["EC2", "Elastic Load Balancing", "Elastic Load Balancing v2", "Route 53"] {
            let section = format!("[ServiceOverride \"{service}\"]\nService = {service}\nRegion = us-east-1\n");
            text += &format!("{section}URL = {}\nSigningRegion = us-east-1\n", self.url);
        }
        let (config, warnings) = CloudConfig::parse(&text).expect("a cloud-config");
        assert!(warnings.is_empty(), "{warnings:?}");
        config
    }

    async fn session(&self) -> Session {
        self.session_of(Keys { id: "id".to_owned(), secret: "secret".to_owned() }).await
    }

    async fn session_of(&self, keys: Keys) -> Session {
        Session::with_keys(&self.config(), keys, &self.metrics).await.expect("a session")
    }
}

fn answer(command: &mut Command) -> String {
    let output = command.output().expect("curl runs");
    assert!(output.status.success(), "moto refuses {command:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).expect("text")
}

/// The text of the first element of this name.
fn between<'a>(text: &'a str, name: &str) -> &'a str {
    let after = text.split(&format!("<{name}>")).nth(1).unwrap_or_else(|| panic!("no {name} in {text}"));
    after.split('<').next().unwrap_or_default()
}

fn tags(pairs: &[(&str, &str)]) -> Tags {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn cidr(text: &str) -> Cidr {
    text.parse().expect("a block")
}

fn check(protocol: &str) -> HealthCheck {
    HealthCheck {
        protocol: protocol.to_owned(),
        port: "traffic-port".to_owned(),
        path: (protocol == "HTTP").then(|| "/healthz".to_owned()),
        interval: 10,
        timeout: Some(5),
        healthy: 2,
        unhealthy: 3,
    }
}

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
        GroupFilter { ids: set(&[&id]), vpc: Some(world.vpc.clone()) },
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

/// Records of a zone as `TYPE NAME TARGET`, without those that every zone has.
fn records(world: &World, zone: &str) -> Vec<String> {
    let text = world.route53(&format!("hostedzone/{zone}/rrset"), None);
    let mut records = Vec::new();
    for set in text.split("<ResourceRecordSet>").skip(1) {
        let (kind, name) = (between(set, "Type"), between(set, "Name"));
        let target = if set.contains("<DNSName>") { between(set, "DNSName") } else { between(set, "Value") };
        if !["NS", "SOA"].contains(&kind) {
            records.push(format!("{kind} {} {}", name.replace("\\052", "*"), target.trim_end_matches('.')));
        }
    }
    records.sort();
    records
}

#[tokio::test]
async fn records_of_each_form_of_zone_come_and_go() {
    let Some(world) = World::start() else { return };
    let session = world.session().await;
    let account = session.account();
    let host = balancer(&world, &account, "nlb").await;
    let other = balancer(&world, &account, "other").await;
    let zone = |name: &str, reference: &str| {
        let body = format!(
            "<CreateHostedZoneRequest><Name>{name}</Name><CallerReference>{reference}</CallerReference></CreateHostedZoneRequest>"
        );
        let made = world.route53("hostedzone", Some(&body));
        between(&made, "Id").trim_start_matches("/hostedzone/").to_owned()
    };
    let (by_id, by_tags, decoy) = (zone("example.com", "1"), zone("example.com", "2"), zone("other.org", "3"));
    for (id, name) in [(&by_tags, "blue-int"), (&decoy, "blue-int")] {
        let body = format!(
            "<ChangeTagsForResourceRequest><AddTags><Tag><Key>Name</Key><Value>{name}</Value></Tag></AddTags></ChangeTagsForResourceRequest>"
        );
        world.route53(&format!("tags/hostedzone/{id}"), Some(&body));
    }
    let foreign = "<ChangeResourceRecordSetsRequest><ChangeBatch><Changes><Change><Action>CREATE</Action><ResourceRecordSet>\
                   <Name>*.apps.example.com</Name><Type>TXT</Type><TTL>60</TTL><ResourceRecords><ResourceRecord><Value>\"mine\"</Value></ResourceRecord>\
                   </ResourceRecords></ResourceRecordSet></Change><Change><Action>CREATE</Action><ResourceRecordSet><Name>a.apps.example.com</Name>\
                   <Type>AAAA</Type><TTL>60</TTL><ResourceRecords><ResourceRecord><Value>2001:db8::1</Value></ResourceRecord></ResourceRecords>\
                   </ResourceRecordSet></Change></Changes></ChangeBatch></ChangeResourceRecordSetsRequest>";
    let theirs =
        || vec!["AAAA a.apps.example.com. 2001:db8::1".to_owned(), "TXT *.apps.example.com. \"mine\"".to_owned()];
    let route53 = Route53::new(&session);
    let forms = [
        (by_id.clone(), DnsZone { id: Some(by_id.clone()), ..DnsZone::default() }),
        (by_tags.clone(), DnsZone { tags: tags(&[("Name", "blue-int")]), ..DnsZone::default() }),
    ];
    for (id, zone) in forms {
        world.route53(&format!("hostedzone/{id}/rrset"), Some(foreign));
        let entry = |dual_stack: bool, target: &String| DnsEntry {
            name: "*.apps.example.com.".to_owned(),
            targets: vec![target.clone()],
            ttl: 30,
            dual_stack,
            target_zone: None,
        };
        let expect = |kinds: &[&str], target: &String| {
            let mut all = theirs();
            all.extend(kinds.iter().map(|kind| format!("{kind} *.apps.example.com. {target}")));
            all.sort();
            assert_eq!(records(&world, &id), all, "{kinds:?} in {zone:?}");
        };
        let ensure = async |dual_stack: bool, target: &String| {
            for _ in 0..2 {
                let found = route53.ensure(&zone, &entry(dual_stack, target)).await.expect("a record");
                assert!(found.is_some_and(|found| found.starts_with('Z')));
            }
        };
        ensure(false, &host).await;
        expect(&["A"], &host);
        ensure(true, &host).await;
        expect(&["A", "AAAA"], &host);
        ensure(true, &other).await;
        expect(&["A", "AAAA"], &other);
        ensure(false, &host).await;
        expect(&["A"], &host);
        // Not what leads elsewhere, and what leads there whichever families are asked for.
        route53.delete(&zone, &entry(true, &other)).await.expect("nothing of it is there");
        expect(&["A"], &host);
        ensure(true, &host).await;
        for _ in 0..2 {
            route53.delete(&zone, &entry(false, &host)).await.expect("it goes, and is gone");
            expect(&[], &host);
        }
    }
    let unknown = DnsZone { id: Some("Z0000000000000".to_owned()), ..DnsZone::default() };
    let entry = DnsEntry {
        name: "x.example.com.".to_owned(),
        targets: vec![host],
        ttl: 30,
        dual_stack: true,
        target_zone: None,
    };
    let error = route53.ensure(&unknown, &entry).await.expect_err("no such zone");
    assert!(error.to_string().contains("NoSuchHostedZone"), "{error}");
    route53.delete(&unknown, &entry).await.expect("without a zone there is no record");
}

async fn balancer(world: &World, account: &Account, name: &str) -> String {
    let mapping = |id: &String| SubnetMapping { subnet: id.clone(), ..SubnetMapping::default() };
    let new = NewLoadBalancer {
        name: name.to_owned(),
        scheme: Scheme::InternetFacing,
        ip_address_type: IpAddressType::Dualstack,
        subnets: world.subnets.iter().map(mapping).collect(),
        security_groups: BTreeSet::new(),
        ipv6_source_nat: false,
        tags: Tags::new(),
    };
    account.network.create_load_balancer(&new).await.expect("a load balancer").dns_name
}

#[tokio::test]
async fn a_permission_that_is_missing_is_named() {
    let Some(world) = World::start() else { return };
    let zone = "<CreateHostedZoneRequest><Name>example.com</Name><CallerReference>1</CallerReference></CreateHostedZoneRequest>";
    world.route53("hostedzone", Some(zone));
    let keys = world.restrict(&["ec2:DescribeSubnets", "elasticloadbalancing:DescribeLoadBalancers"]);
    let account = world.session_of(keys).await.account();
    // moto checks the signatures now: this is allowed, and signed well by either client.
    let here = SubnetFilter { vpc: Some(world.vpc.clone()), ids: BTreeSet::new() };
    assert_eq!(account.ec2.describe_subnets(&here).await.expect("subnets").len(), 2);
    assert_eq!(account.network.describe_load_balancers(None).await, Ok(Vec::new()));
    let named = |error: AwsError| match error {
        AwsError::Unauthorized { action, .. } => action,
        other => panic!("{other:?}"),
    };
    let new = NewSecurityGroup {
        name: "k8s-a/b".to_owned(),
        description: "[k8s] with spaces + signs".to_owned(),
        vpc: world.vpc.clone(),
        tags: Tags::new(),
    };
    let error = account.ec2.create_security_group(&new).await.expect_err("not permitted");
    assert_eq!(named(error), "ec2:CreateSecurityGroup");
    let error = account.network.delete_target_group("arn:aws:x").await.expect_err("not permitted");
    assert_eq!(named(error), "elasticloadbalancing:DeleteTargetGroup");
    let error = account.classic.delete_classic("a").await.expect_err("not permitted");
    assert_eq!(named(error), "elasticloadbalancing:DeleteLoadBalancer");
}

#[tokio::test]
async fn a_service_is_told_which_permission_is_missing() {
    let Some(world) = World::start() else { return };
    let server = Server::start(&["--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112"]);
    let Some(kubectl) = server.kubectls().pop() else { return };
    let Keys { id, secret } = world.restrict(&["ec2:Describe*", "elasticloadbalancing:Describe*"]);
    let config = server.folder().join("cloud.conf");
    let text = format!("[Global]\nVPC = {}\nKubernetesClusterID = blue\nNLBSecurityGroupMode = Managed\n", world.vpc);
    std::fs::write(&config, text).expect("a file");
    let words = [
        "AWS_REGION=us-east-1".to_owned(),
        format!("AWS_ENDPOINT_URL={}", world.url),
        format!("AWS_ACCESS_KEY_ID={id}"),
        format!("AWS_SECRET_ACCESS_KEY={secret}"),
        twinstack().display().to_string(),
        "cloud-controller-manager".to_owned(),
        format!("--kubeconfig={}", server.kubeconfig().display()),
        format!("--cloud-config={}", config.display()),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--log-level=debug".to_owned(),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let manager = Process::start("env", &words, &server.folder().join("ccm.log"));
    let service = serde_json::json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "default", "annotations": {
            "service.beta.kubernetes.io/aws-load-balancer-type": "nlb",
            "service.beta.kubernetes.io/aws-load-balancer-internal": "true",
        }},
        "spec": {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    let made = kubectl.run_with(&["apply", "-f", "-"], &service.to_string());
    assert!(made.success, "{}", made.stderr);
    let reported = wait_for(Duration::from_secs(120), || {
        let events = kubectl.run(&["get", "events", "-o", "jsonpath={.items[*].message}"]).stdout;
        events.contains("the controller's role needs ec2:CreateSecurityGroup").then_some(())
    });
    let log = manager.output();
    assert!(reported.is_some(), "no event names the permission:\n{log}");
    assert!(!log.contains(&secret), "the log has the secret");
    assert!(log.contains("ec2:CreateSecurityGroup") && log.contains("request_id"), "calls are not in the log:\n{log}");
}
