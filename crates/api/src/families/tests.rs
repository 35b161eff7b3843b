//! Tables of the rules, for every shape of cluster. What a server with pools answers is tested where the pools are.

use super::*;
use crate::{
    kinds::{service::Service, service_validate},
    object::Fields,
    resource::Rules,
};
use net::Family;
use serde_json::json;
use std::{collections::BTreeSet, io::Read};

fn cluster(families: &str, rules: RuleSet) -> Cluster {
    Cluster { families: families.parse().unwrap(), rules }
}

fn service(spec: Value) -> Value {
    let mut service = json!({"metadata": {"name": "s", "namespace": "default"}, "spec": spec});
    Service.default(&mut service);
    service
}

/// Puts something where the pools would.
fn fill(service: &mut Value, claims: &Claims) {
    for claim in claims.addresses.iter().filter(|claim| claim.wish == Wish::Any) {
        let ip = match claim.family {
            Family::V4 => "10.96.1.1",
            Family::V6 => "fd00:96::1:1",
        };
        let mut list = service.list_at("spec.clusterIPs").to_vec();
        list.push(ip.into());
        service.set("spec.clusterIP", list[0].clone());
        service.set("spec.clusterIPs", list);
    }
    if claims.ports.iter().any(|claim| claim.field == PortField::HealthCheck) {
        service.set("spec.healthCheckNodePort", 30000);
    }
}

/// Whether the pools of the recorded servers could give it.
fn in_range(claim: &AddressClaim) -> bool {
    let ranges: [net::Cidr; 2] = ["10.96.0.0/16".parse().unwrap(), "fd00:96::/108".parse().unwrap()];
    match claim.wish {
        Wish::Any => true,
        Wish::This(ip) => ranges.iter().any(|range| range.contains(ip)),
    }
}

fn causes(errors: &[FieldError]) -> BTreeSet<(String, String)> {
    errors.iter().map(|error| (error.field.clone(), error.reason.cause().to_owned())).collect()
}

#[test]
fn every_recorded_create_is_resolved_as_recorded() {
    for (shape, families) in [("v4", "IPv4"), ("v6", "IPv6"), ("v4v6", "IPv4,IPv6"), ("v6v4", "IPv6,IPv4")] {
        let path = format!("{}/../../testdata/service-rules/create-{shape}.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
        let mut text = String::new();
        flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
        let cluster = cluster(families, RuleSet::Upstream);
        let mut compared = 0;
        for line in text.lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            let mut object = service(row["create"].clone());
            let errors = match resolve(&cluster, &mut object, None) {
                Err(errors) => errors,
                Ok(resolved) if resolved.claims.addresses.iter().any(|claim| !in_range(claim)) => {
                    let path = crate::path::Path::new("spec").child("clusterIPs");
                    vec![FieldError::invalid(&path, object.at("spec.clusterIPs").clone(), "no pool has it")]
                }
                Ok(resolved) => {
                    fill(&mut object, &resolved.claims);
                    service_validate::validate(&object, None)
                }
            };
            let want = row.at("got.create");
            let wanted: BTreeSet<_> = want
                .list_at("causes")
                .iter()
                .map(|cause| (cause[0].as_str().unwrap().to_owned(), cause[1].as_str().unwrap().to_owned()))
                .collect();
            assert_eq!(causes(&errors), wanted, "{line}");
            if want["status"] == 201 {
                for field in ["ipFamilyPolicy", "ipFamilies"] {
                    assert_eq!(object.at("spec").at(field), want.at("spec").at(field), "{line}");
                }
            }
            compared += 1;
        }
        assert_eq!(compared, 1328);
    }
}

/// A stored Service of these families, of type NodePort.
fn stored(policy: &str, families: &[Family]) -> Value {
    let ip = |family: &Family| match family {
        Family::V4 => "10.96.0.9",
        Family::V6 => "fd00:96::9",
    };
    let ips: Vec<&str> = families.iter().map(ip).collect();
    service(json!({
        "type": "NodePort", "clusterIP": ips[0], "clusterIPs": ips, "ipFamilyPolicy": policy,
        "ipFamilies": families.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "ports": [{"name": "a", "port": 80, "nodePort": 30001}, {"name": "b", "port": 81, "nodePort": 30002}],
    }))
}

#[test]
fn an_update_claims_what_is_new_and_releases_what_is_gone() {
    for [first, second] in [[Family::V4, Family::V6], [Family::V6, Family::V4]] {
        let cluster = Cluster { families: Families::both(first), rules: RuleSet::Upstream };
        let single = || stored("SingleStack", &[first]);
        let dual = || stored("RequireDualStack", &[first, second]);
        let ip = |service: &Value, i: usize| service.list_at("spec.clusterIPs")[i].as_str().unwrap().parse().unwrap();
        let any = AddressClaim { index: 1, family: second, wish: Wish::Any };
        for (what, old, change, want) in [
            ("nothing", single(), json!({}), Claims::default()),
            (
                "up",
                single(),
                json!({"ipFamilyPolicy": "PreferDualStack"}),
                Claims { addresses: vec![any], ..Claims::default() },
            ),
            (
                "down",
                dual(),
                json!({"ipFamilyPolicy": "SingleStack"}),
                Claims { released_addresses: vec![ip(&dual(), 1)], ..Claims::default() },
            ),
            (
                "no ports",
                single(),
                json!({"type": "ClusterIP"}),
                Claims { released_ports: vec![30001, 30002], ..Claims::default() },
            ),
            (
                "a name elsewhere",
                dual(),
                json!({"type": "ExternalName", "externalName": "example.com"}),
                Claims {
                    released_addresses: vec![ip(&dual(), 0), ip(&dual(), 1)],
                    released_ports: vec![30001, 30002],
                    ..Claims::default()
                },
            ),
            (
                "another port",
                single(),
                json!({"ports": [{"name": "a", "port": 80}, {"name": "c", "port": 82, "nodePort": 30005}, {"name": "d", "port": 83}]}),
                Claims {
                    ports: vec![
                        PortClaim { field: PortField::Ports(vec![1]), wish: Wish::This(30005) },
                        PortClaim { field: PortField::Ports(vec![2]), wish: Wish::Any },
                    ],
                    released_ports: vec![30002],
                    ..Claims::default()
                },
            ),
            (
                "a health check",
                single(),
                json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}),
                Claims {
                    ports: vec![PortClaim { field: PortField::HealthCheck, wish: Wish::Any }],
                    ..Claims::default()
                },
            ),
        ] {
            let mut new = old.clone();
            for (field, value) in change.as_object().unwrap() {
                new.set(&format!("spec.{field}"), value.clone());
            }
            Service.default(&mut new);
            let resolved = resolve(&cluster, &mut new, Some(&old)).unwrap();
            assert_eq!(resolved.claims, want, "{what}");
        }
    }
}

#[test]
fn prefer_dual_stack_is_read_as_a_policy() {
    let two = json!(["IPv4", "IPv6"]);
    for (prefers, policy, families, want) in [
        (json!(true), json!(null), json!(null), Ok("PreferDualStack")),
        (json!(true), json!(null), json!(["IPv6"]), Ok("PreferDualStack")),
        (json!(true), json!(null), two.clone(), Ok("RequireDualStack")),
        (json!(true), json!("RequireDualStack"), json!(null), Ok("RequireDualStack")),
        (json!(true), json!("PreferDualStack"), two.clone(), Ok("PreferDualStack")),
        (json!(false), json!(null), json!(null), Ok("SingleStack")),
        (json!(false), json!("SingleStack"), json!(["IPv6"]), Ok("SingleStack")),
        (
            json!(true),
            json!("SingleStack"),
            json!(null),
            Err("contradicts spec.ipFamilyPolicy: SingleStack; give one of them"),
        ),
        (
            json!(false),
            json!("PreferDualStack"),
            json!(null),
            Err("contradicts spec.ipFamilyPolicy: PreferDualStack; give one of them"),
        ),
        (json!(false), json!(null), two, Err("must be true, or absent, where two families or two addresses are given")),
        (json!("yes"), json!(null), json!(null), Err("must be true or false")),
    ] {
        let mut object = service(json!({"preferDualStack": prefers, "ipFamilyPolicy": policy, "ipFamilies": families}));
        match (resolve(&cluster("IPv4,IPv6", RuleSet::Seed), &mut object, None), want) {
            (Ok(resolved), Ok(want)) => {
                assert_eq!(object.str_at("spec.ipFamilyPolicy"), want);
                assert!(object.at("spec.preferDualStack").is_null());
                assert_eq!(resolved.warnings.len(), 1);
            }
            (Err(errors), Err(want)) => {
                assert_eq!((errors[0].field.as_str(), errors[0].detail.as_str()), ("spec.preferDualStack", want));
            }
            (got, want) => panic!("{prefers} {policy} {families}: {got:?}, not {want:?}"),
        }
    }
}

#[test]
fn prefer_dual_stack_that_says_what_is_stored_changes_nothing() {
    let dual = stored("RequireDualStack", &[Family::V4, Family::V6]);
    let mut new = dual.clone();
    new.set("spec.preferDualStack", true);
    let resolved = resolve(&cluster("IPv4,IPv6", RuleSet::Seed), &mut new, Some(&dual)).unwrap();
    assert_eq!((&new, resolved.claims), (&dual, Claims::default()));
    // A client that takes the field back to false wants one family.
    new.set("spec.preferDualStack", false);
    let resolved = resolve(&cluster("IPv4,IPv6", RuleSet::Seed), &mut new, Some(&dual)).unwrap();
    assert_eq!(new.str_at("spec.ipFamilyPolicy"), "SingleStack");
    assert_eq!(resolved.claims.released_addresses.len(), 1);
}

#[test]
fn services_stored_without_families_are_read_with_them() {
    let cluster = cluster("IPv6,IPv4", RuleSet::Upstream);
    for (spec, policy, families) in [
        (json!({"clusterIP": "10.0.0.1"}), "SingleStack", json!(["IPv4"])),
        (json!({"clusterIP": "fd00::1"}), "SingleStack", json!(["IPv6"])),
        (json!({"clusterIP": "None", "selector": {"a": "b"}}), "SingleStack", json!(["IPv6"])),
        (json!({"clusterIP": "None"}), "RequireDualStack", json!(["IPv6", "IPv4"])),
    ] {
        let object = service(spec);
        let read = default_on_read(&cluster, &object);
        assert_eq!(read.str_at("spec.ipFamilyPolicy"), policy, "{read}");
        assert_eq!(read.at("spec.ipFamilies"), &families);
        assert_eq!(read.list_at("spec.clusterIPs"), [read.at("spec.clusterIP").clone()]);
    }
    let name = service(json!({"type": "ExternalName", "internalTrafficPolicy": "Cluster"}));
    assert!(default_on_read(&cluster, &name).at("spec.internalTrafficPolicy").is_null());
}

#[test]
fn rule_sets_have_names() {
    for rules in [RuleSet::Seed, RuleSet::Upstream] {
        assert_eq!(rules.to_string().parse(), Ok(rules));
    }
    assert_eq!(
        "kep".parse::<RuleSet>().unwrap_err().to_string(),
        r#""kep" is not a set of rules; accepted are seed and upstream"#
    );
}
