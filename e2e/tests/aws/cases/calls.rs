//! The documented policies list exactly the calls that are made: stories in which every one of them is, and nothing else.
//!
//! A call that the document does not list fails any story of this program, for the proxy refuses it; here one that is listed and never made fails.

use super::{
    emulated::Emulated,
    policy::{routes_come_and_go, with_routes},
    world::{Step, World, classic, families, gone, merged, ports, ranges},
};
use aws::{
    clients::{Keys, Session},
    cloud_config::CloudConfig,
    memory::{
        Example,
        testing::{annotated, service, settings},
    },
    route53::Route53,
};
use e2e::aws_strict::{DocumentedPolicy, Fault, Made, Strict, Through, documented_actions};
use runtime::{
    cloud::{DnsEntry, DnsProvider, DnsZone},
    metrics::Metrics,
};
use serde_json::Value;
use std::collections::BTreeSet;

/// The actions of what was called.
fn called(cloud: &Emulated) -> BTreeSet<String> {
    cloud.strict().take_calls().iter().map(Made::iam).collect()
}

fn same(called: &BTreeSet<String>, documented: &BTreeSet<String>) {
    let never: Vec<&String> = documented.difference(called).collect();
    let beyond: Vec<&String> = called.difference(documented).collect();
    assert!(
        never.is_empty() && beyond.is_empty(),
        "documented and never called: {never:?}; called and not documented: {beyond:?}"
    );
}

fn stage(name: &str, nodes: u8, changes: &[Value]) -> Step {
    Step { name: name.to_owned(), service: Some(service("web", &merged(changes))), nodes }
}

/// A network load balancer whose everything is changed once.
async fn a_network_load_balancer() -> BTreeSet<String> {
    let mut world = World::new(&settings());
    let tls = |certificates: &[&str]| annotated(&[("ssl-cert", &certificates.join(",")), ("ssl-ports", "443")]);
    let (one, two) = (Example::CERTIFICATE, Example::OTHER_CERTIFICATE);
    let both = ports(&[(80, 30080, "TCP"), (443, 30443, "TCP")]);
    let dual = families("RequireDualStack", &["IPv4", "IPv6"]);
    let settled = annotated(&[
        ("subnets", "subnet-public-a,subnet-public-b"),
        ("cross-zone-load-balancing-enabled", "true"),
        ("target-group-attributes", "preserve_client_ip.enabled=false"),
        ("healthcheck-interval", "15"),
        ("additional-resource-tags", "team=blue"),
    ]);
    for step in [
        stage("made", 3, &[annotated(&[("subnets", "subnet-public-a")]), both.clone(), tls(&[one])]),
        stage("dual-stack, two certificates", 3, &[settled.clone(), dual.clone(), both.clone(), tls(&[one, two])]),
        stage("one of them goes", 3, &[settled.clone(), dual.clone(), both.clone(), tls(&[one])]),
        stage("another certificate", 2, &[settled.clone(), dual.clone(), both, tls(&[two])]),
        stage("one port, fewer clients", 2, &[settled.clone(), dual.clone(), ranges(&["192.0.2.0/24"])]),
        stage("a group is brought", 2, &[settled, dual, annotated(&[("security-groups", Example::BROUGHT_GROUP)])]),
        gone(),
    ] {
        world.through(&step).await;
    }
    called(&world.cloud)
}

/// A classic load balancer whose everything is changed once.
async fn a_classic_load_balancer() -> BTreeSet<String> {
    let mut world = World::new(&settings());
    let tls = |policy: &str| {
        annotated(&[
            ("ssl-cert", Example::CERTIFICATE),
            ("ssl-ports", "443"),
            ("ssl-negotiation-policy", policy),
            ("proxy-protocol", "*"),
        ])
    };
    let (old, new) = ("ELBSecurityPolicy-2016-08", "ELBSecurityPolicy-TLS-1-2-2017-01");
    let both = ports(&[(80, 30080, "TCP"), (443, 30443, "TCP")]);
    let settled = annotated(&[
        ("subnets", "subnet-public-b"),
        ("connection-idle-timeout", "120"),
        ("healthcheck-interval", "15"),
        ("additional-resource-tags", "team=blue"),
    ]);
    // The answer is lost: the policy is there when it is to be made again, and is looked at.
    world.cloud.strict().inject(Some("CreateLoadBalancerPolicy"), 0, 1, Fault::Lose);
    for step in [
        stage("made", 3, &[classic(), annotated(&[("subnets", "subnet-public-a")]), both.clone(), tls(old)]),
        stage("another TLS policy", 2, &[classic(), settled.clone(), both, tls(new)]),
        stage("one port", 2, &[classic(), settled.clone()]),
        stage(
            "a group is brought",
            2,
            &[classic(), settled, annotated(&[("security-groups", Example::BROUGHT_GROUP)])],
        ),
        gone(),
    ] {
        world.through(&step).await;
    }
    called(&world.cloud)
}

#[tokio::test]
async fn the_policy_of_the_cloud_controller_manager_is_what_is_called() {
    let mut all = a_network_load_balancer().await;
    all.extend(a_classic_load_balancer().await);
    let (cloud, aws) = with_routes();
    routes_come_and_go(&aws).await;
    all.extend(called(&cloud));
    let mut documented = documented_actions(DocumentedPolicy::CloudControllerManager);
    // AWS itself makes this one in the caller's name, for the first load balancer of an account.
    assert!(documented.remove("iam:CreateServiceLinkedRole"));
    same(&all, &documented);
}

/// A hosted zone with the tag `Name=blue`.
fn tagged_zone(strict: &Strict) {
    let zone = "<CreateHostedZoneRequest><Name>example.com</Name><CallerReference>1</CallerReference></CreateHostedZoneRequest>";
    let made = strict.route53(Through::Moto, "/2013-04-01/hostedzone", zone).unwrap();
    let id = made.text("HostedZone/Id").trim_start_matches("/hostedzone/").to_owned();
    let tag = "<ChangeTagsForResourceRequest><AddTags><Tag><Key>Name</Key><Value>blue</Value></Tag></AddTags></ChangeTagsForResourceRequest>";
    strict.route53(Through::Moto, &format!("/2013-04-01/tags/hostedzone/{id}"), tag).unwrap();
}

#[tokio::test]
async fn the_policy_of_dns_is_what_is_called() {
    let world = World::new(&settings());
    let host = world.attempt(&service("web", &families("RequireDualStack", &["IPv6", "IPv4"])), 3).await.unwrap();
    tagged_zone(world.cloud.strict());
    let (config, _) =
        CloudConfig::parse(&format!("[Global]\nRegion = us-east-1\n{}", world.cloud.strict().overrides())).unwrap();
    let keys = Keys { id: "test".to_owned(), secret: "test".to_owned() };
    let session = Session::with_keys(&config, keys, &Metrics::new()).await.unwrap();
    let route53 = Route53::new(&session);
    let zone = DnsZone { tags: [("Name".to_owned(), "blue".to_owned())].into(), ..DnsZone::default() };
    let name = "*.apps.example.com.".to_owned();
    let entry = DnsEntry { name, targets: vec![host], ttl: 30, dual_stack: true, target_zone: None };
    // This role is another one.
    world.cloud.strict().forget_policy();
    world.cloud.take_calls();
    route53.ensure(&zone, &entry).await.unwrap();
    route53.delete(&zone, &entry).await.unwrap();
    same(&called(&world.cloud), &documented_actions(DocumentedPolicy::IngressOperator));
}
