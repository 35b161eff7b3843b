//! What is asked for and what AWS has then, as tables: families, subnets, health checks, attributes.

use super::world::{World, balancer, families, merged, shapes, unmanaged, web};
use aws::{
    account::IpAddressType::{self, Dualstack, Ipv4},
    cloud_config::SharedProbe,
    memory::{
        State,
        testing::{annotated, settings},
    },
    model::Settings,
};
use net::Family::{self, V4, V6};
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[tokio::test]
async fn families_of_the_load_balancer_and_of_its_targets() {
    type Row = (Option<&'static str>, &'static [&'static str], Result<(IpAddressType, Family), &'static str>);
    let table: &[Row] = &[
        (None, &[], Ok((Ipv4, V4))),
        (None, &["IPv4"], Ok((Ipv4, V4))),
        (None, &["IPv6"], Err("single stack IPv6 is not supported")),
        (Some("SingleStack"), &["IPv4"], Ok((Ipv4, V4))),
        (Some("SingleStack"), &["IPv6"], Err("single stack IPv6 is not supported")),
        (Some("PreferDualStack"), &[], Ok((Ipv4, V4))),
        (Some("PreferDualStack"), &["IPv4"], Ok((Ipv4, V4))),
        (Some("PreferDualStack"), &["IPv6"], Ok((Dualstack, V6))),
        (Some("PreferDualStack"), &["IPv4", "IPv6"], Ok((Dualstack, V4))),
        (Some("PreferDualStack"), &["IPv6", "IPv4"], Ok((Dualstack, V6))),
        (Some("RequireDualStack"), &[], Err("requires 2 entries")),
        (Some("RequireDualStack"), &["IPv4"], Err("requires 2 entries")),
        (Some("RequireDualStack"), &["IPv6"], Err("requires 2 entries")),
        (Some("RequireDualStack"), &["IPv4", "IPv6"], Ok((Dualstack, V4))),
        (Some("RequireDualStack"), &["IPv6", "IPv4"], Ok((Dualstack, V6))),
    ];
    for (policy, list, expected) in table {
        let change = json!({"spec": {"ipFamilyPolicy": policy, "ipFamilies": list}});
        let service = web(std::slice::from_ref(&change));
        let world = World::new(&settings());
        match expected {
            Ok((kind, family)) => {
                world.attempt(&service, 3).await.unwrap();
                let state = world.cloud.state();
                let targets = state.target_groups.values().next().unwrap();
                let has = (balancer(&state).load_balancer.ip_address_type, targets.group.family, targets.targets.len());
                assert_eq!(has, (*kind, *family, 3), "{change}");
            }
            Err(message) => {
                let why = world.refused(&service).await;
                assert!(why.contains(message), "{change}: {why}");
                assert!(world.cloud.state().load_balancers.is_empty(), "{change}");
            }
        }
    }
}

fn tag(state: &mut State, subnet: &str, key: &str, value: &str) {
    let subnet = state.subnets.iter_mut().find(|one| one.id == format!("subnet-{subnet}")).unwrap();
    subnet.tags.insert(key.to_owned(), value.to_owned());
}

fn untag(state: &mut State, subnet: &str) {
    state.subnets.iter_mut().find(|one| one.id == format!("subnet-{subnet}")).unwrap().tags.clear();
}

/// Another one in zone a, public too.
fn twin(state: &mut State) {
    let mut twin = state.subnets.iter().find(|one| one.id == "subnet-public-a").unwrap().clone();
    twin.id = "subnet-a-first".into();
    twin.ipv4 = Some("10.0.50.0/24".parse().unwrap());
    twin.ipv6 = vec!["2001:db8:0:32::/64".parse().unwrap()];
    state.subnets.push(twin);
    let table = state.route_tables.iter_mut().find(|table| !table.main).unwrap();
    table.subnets.insert("subnet-a-first".into());
}

const PUBLIC: &[&str] = &["public-a", "public-b", "public-c"];

#[tokio::test]
async fn one_subnet_of_each_zone_the_best_one() {
    type Row = (&'static str, bool, fn(&mut State), Result<&'static [&'static str], &'static str>);
    let other = |state: &mut State| {
        untag(state, "public-a");
        tag(state, "public-a", "kubernetes.io/cluster/other", "owned");
    };
    let table: &[Row] = &[
        ("tagged ones", false, |_| {}, Ok(PUBLIC)),
        ("internal: the smaller id", true, |_| {}, Ok(&["private-a", "private-b", "private-c"])),
        (
            "internal: the role",
            true,
            |state| tag(state, "public-b", "kubernetes.io/role/internal-elb", "1"),
            Ok(&["private-a", "public-b", "private-c"]),
        ),
        (
            "the cluster's before nobody's",
            true,
            |state| untag(state, "private-a"),
            Ok(&["public-a", "private-b", "private-c"]),
        ),
        ("nobody's will do", false, |state| PUBLIC.iter().for_each(|one| untag(state, one)), Ok(PUBLIC)),
        ("another cluster's will not", false, other, Ok(&["public-b", "public-c"])),
        ("the smaller id", false, twin, Ok(&["a-first", "public-b", "public-c"])),
        (
            "the role before the smaller id, whatever its value",
            false,
            |state| {
                twin(state);
                tag(state, "public-a", "kubernetes.io/role/elb", "");
            },
            Ok(PUBLIC),
        ),
        (
            "none is left",
            false,
            |state| {
                for one in PUBLIC {
                    untag(state, one);
                    tag(state, one, "kubernetes.io/cluster/other", "shared");
                }
            },
            Err("could not find any suitable subnets"),
        ),
    ];
    for shape in shapes() {
        for (what, internal, change, expected) in table {
            let world = World::new(&unmanaged());
            world.cloud.change(change);
            let internal = annotated(&[("internal", if *internal { "true" } else { "false" })]);
            let service = web(&[shape.clone(), internal]);
            match expected {
                Ok(list) => {
                    world.attempt(&service, 3).await.unwrap();
                    let state = world.cloud.state();
                    let expected: BTreeSet<String> = list.iter().map(|one| format!("subnet-{one}")).collect();
                    assert_eq!(balancer(&state).load_balancer.subnets, expected, "{what}");
                }
                Err(message) => {
                    let why = world.refused(&service).await;
                    assert!(why.contains(message), "{what}: {why}");
                }
            }
        }
    }
}

#[tokio::test]
async fn subnets_are_named_by_id_or_name() {
    for shape in shapes() {
        let world = World::new(&settings());
        world.cloud.change(|state| tag(state, "public-b", "Name", "second"));
        let with = |list: &str| web(&[shape.clone(), annotated(&[("subnets", list)])]);
        for (list, message) in [
            ("nobody", "expected to find 1 subnets, but found 0: nobody is not in the VPC"),
            ("subnet-public-a, subnet-private-a", "both in zone us-east-1a"),
            ("second, subnet-none", "subnet-none is not in the VPC"),
        ] {
            let why = world.refused(&with(list)).await;
            assert!(why.contains(message), "{why}");
        }
        world.attempt(&with("second, subnet-public-a"), 3).await.unwrap();
        let expected = ["subnet-public-a", "subnet-public-b"].map(str::to_owned).into();
        assert_eq!(balancer(&world.cloud.state()).load_balancer.subnets, expected);
    }
}

#[tokio::test]
async fn targets_are_checked_as_asked() {
    let shared = |port: u16, path: &str| Some(SharedProbe { port, path: path.to_owned() });
    let usual = || shared(10256, "/healthz");
    let local = json!({"spec": {"externalTrafficPolicy": "Local", "healthCheckNodePort": 32000}});
    let all = annotated(&[
        ("healthcheck-interval", "23"),
        ("healthcheck-healthy-threshold", "7"),
        ("healthcheck-unhealthy-threshold", "5"),
        ("healthcheck-port", "8080"),
    ]);
    let tcp = annotated(&[("healthcheck-protocol", "TCP"), ("healthcheck-port", "traffic-port")]);
    let table: &[(Option<SharedProbe>, Value, &str)] = &[
        (None, json!({}), "TCP traffic-port 30s 3/3"),
        (usual(), json!({}), "HTTP 10256/healthz 30s 3/3"),
        (shared(9999, "/alive"), json!({}), "HTTP 9999/alive 30s 3/3"),
        (usual(), local.clone(), "HTTP 32000/healthz 10s 2/2"),
        (None, merged(&[local.clone(), tcp.clone()]), "TCP traffic-port 10s 2/2"),
        (usual(), tcp, "TCP traffic-port 30s 3/3"),
        (None, annotated(&[("healthcheck-protocol", "Http")]), "HTTP traffic-port/ 30s 3/3"),
        (
            None,
            annotated(&[("healthcheck-path", "/ready"), ("healthcheck-protocol", "https")]),
            "HTTPS traffic-port/ready 30s 3/3",
        ),
        (usual(), all, "HTTP 8080/healthz 23s 7/5"),
    ];
    for shape in shapes() {
        for (probe, change, expected) in table {
            let world = World::new(&Settings { shared_probe: probe.clone(), ..settings() });
            world.attempt(&web(&[shape.clone(), change.clone()]), 3).await.unwrap();
            let state = world.cloud.state();
            let check = &state.target_groups.values().next().unwrap().group.health_check;
            let path = check.path.clone().unwrap_or_default();
            let (port, interval) = (&check.port, check.interval);
            let has = format!("{} {port}{path} {interval}s {}/{}", check.protocol, check.healthy, check.unhealthy);
            assert_eq!(has, *expected, "{change}");
        }
        let world = World::new(&settings());
        let why = world.refused(&web(&[shape, annotated(&[("healthcheck-timeout", "soon")])])).await;
        assert!(why.contains("healthcheck-timeout"), "{why}");
    }
}

#[tokio::test]
async fn attributes_of_target_groups_and_load_balancers() {
    let dual = families("RequireDualStack", &["IPv6", "IPv4"]);
    for shape in [json!({}), dual] {
        let world = World::new(&settings());
        let target = |text: &str| annotated(&[("target-group-attributes", text)]);
        for (set, key, value) in [
            ("preserve_client_ip.enabled=false", "preserve_client_ip.enabled", "false"),
            ("proxy_protocol_v2.enabled=true", "proxy_protocol_v2.enabled", "true"),
            // What is not asked for any more goes back to what AWS has.
            ("preserve_client_ip.enabled=true", "proxy_protocol_v2.enabled", "false"),
        ] {
            world.attempt(&web(&[shape.clone(), target(set)]), 3).await.unwrap();
            let state = world.cloud.state();
            let attributes = &state.target_groups.values().next().unwrap().attributes;
            assert_eq!(attributes.get(key).map(String::as_str), Some(value), "{set}");
        }
        for (pairs, key, value) in [
            (&[("cross-zone-load-balancing-enabled", "true")][..], "load_balancing.cross_zone.enabled", "true"),
            (&[("cross-zone-load-balancing-enabled", "false")], "load_balancing.cross_zone.enabled", "false"),
            (
                &[
                    ("access-log-enabled", "true"),
                    ("access-log-s3-bucket-name", "logs"),
                    ("access-log-s3-bucket-prefix", "web"),
                ],
                "access_logs.s3.bucket",
                "logs",
            ),
            // A prefix that is not asked for any more goes.
            (&[("access-log-enabled", "true"), ("access-log-s3-bucket-name", "logs")], "access_logs.s3.prefix", ""),
        ] {
            world.attempt(&web(&[shape.clone(), annotated(pairs)]), 3).await.unwrap();
            let state = world.cloud.state();
            let attributes = &balancer(&state).attributes;
            assert_eq!(attributes.get(key).map(String::as_str), Some(value), "{pairs:?}");
        }
        for set in ["foo=bar", "preserve_client_ip.enabled=perhaps", "stickiness.enabled"] {
            let why = world.refused(&web(&[shape.clone(), target(set)])).await;
            assert!(why.contains("target-group-attributes") || why.contains("attribute"), "{why}");
        }
    }
}
