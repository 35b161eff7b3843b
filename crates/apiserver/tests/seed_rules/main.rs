//! The numbered rules of the dual-stack proposal, each a test named after it, on every shape of cluster that it speaks of.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod service_cidrs;
#[path = "../support/mod.rs"]
mod support;

use apiserver::{
    ApiServer,
    services::{Services, Settings, StartError},
    testing::Lab,
    warm,
};
use net::{Families, Family, flags::service_ranges};
use serde_json::{Value, json};
use std::sync::Arc;
use store::{Retention, Store};
use support::{Reply, ask};

const COLLECTION: &str = "/api/v1/namespaces/default/services";
const ONE: &str = "/api/v1/namespaces/default/services/s";
const DUAL: [Families; 2] = [Families::both(Family::V4), Families::both(Family::V6)];
const SINGLE: [Families; 2] = [Families::one(Family::V4), Families::one(Family::V6)];

fn range(family: Family) -> &'static str {
    match family {
        Family::V4 => "10.96.0.0/16",
        Family::V6 => "fd00:96::/108",
    }
}

/// An address of the static band of the family's range.
fn address(family: Family) -> &'static str {
    match family {
        Family::V4 => "10.96.0.7",
        Family::V6 => "fd00:96::7",
    }
}

fn ranges(families: Families) -> String {
    families.iter().map(range).collect::<Vec<_>>().join(",")
}

fn lab(store: Store, ranges: &str) -> Lab {
    let mut lab = Lab::on(store);
    lab.server.services = Services::new(Settings { ranges: service_ranges(ranges).unwrap(), ..Settings::default() });
    lab
}

async fn cluster(families: Families) -> Arc<ApiServer> {
    lab(Store::memory(Retention::default()), &ranges(families)).start().await
}

async fn create(server: &Arc<ApiServer>, spec: Value) -> Reply {
    let mut spec = spec;
    if spec["ports"].is_null() {
        spec["ports"] = json!([{"port": 80}]);
    }
    ask(server, "POST", COLLECTION, &[], json!({"metadata": {"name": "s"}, "spec": spec}).to_string()).await
}

async fn patch(server: &Arc<ApiServer>, spec: Value) -> Reply {
    let merge = [("content-type", "application/merge-patch+json")];
    ask(server, "PATCH", ONE, &merge, json!({"spec": spec}).to_string()).await
}

async fn delete(server: &Arc<ApiServer>) {
    assert_eq!(ask(server, "DELETE", ONE, &[], "").await.status, 200);
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The Service is of this policy and these families, and has an address of each, the first also as `clusterIP`.
fn assert_is(reply: &Reply, policy: &str, families: &[Family]) {
    let object = reply.json();
    assert!(reply.status < 300, "{object}");
    let spec = &object["spec"];
    assert_eq!(spec["ipFamilyPolicy"], policy, "{spec}");
    assert_eq!(texts(&spec["ipFamilies"]), families.iter().map(ToString::to_string).collect::<Vec<_>>(), "{spec}");
    let ips = texts(&spec["clusterIPs"]);
    assert_eq!(spec["clusterIP"], ips[0], "{spec}");
    assert_eq!(ips.len(), families.len());
    for (ip, family) in ips.iter().zip(families) {
        assert_eq!(ip.contains(':'), *family == Family::V6, "{spec}");
    }
    assert!(spec.get("preferDualStack").is_none(), "it is never shown");
}

fn assert_refused(reply: &Reply, field: &str) {
    let object = reply.json();
    assert_eq!((reply.status, &object["reason"]), (422, &json!("Invalid")), "{object}");
    let fields: Vec<_> =
        object["details"]["causes"].as_array().unwrap().iter().map(|cause| cause["field"].clone()).collect();
    assert!(fields.contains(&json!(field)), "{fields:?}");
}

/// Both orders of two families.
fn orders() -> [[Family; 2]; 2] {
    [[Family::V4, Family::V6], [Family::V6, Family::V4]]
}

fn names(families: &[Family]) -> Vec<String> {
    families.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn single_stack_1_nothing_said_is_the_default_family() {
    for families in Families::ALL {
        let server = cluster(families).await;
        assert_is(&create(&server, json!({})).await, "SingleStack", &[families.primary()]);
    }
}

#[tokio::test]
async fn single_stack_2_prefer_false_is_the_default_family() {
    for families in Families::ALL {
        let server = cluster(families).await;
        let reply = create(&server, json!({"preferDualStack": false})).await;
        assert_is(&reply, "SingleStack", &[families.primary()]);
        let warning = reply.headers.get("warning").unwrap().to_str().unwrap();
        assert_eq!(
            warning,
            "299 - \"spec.preferDualStack: false was read as spec.ipFamilyPolicy: SingleStack; use spec.ipFamilyPolicy\""
        );
    }
}

#[tokio::test]
async fn single_stack_3_one_family_is_that_family_or_an_error() {
    one_family(|family| json!({"ipFamilies": [family.to_string()]})).await;
}

#[tokio::test]
async fn single_stack_4_prefer_false_and_one_family_is_that_family_or_an_error() {
    one_family(|family| json!({"preferDualStack": false, "ipFamilies": [family.to_string()]})).await;
}

async fn one_family(spec: impl Fn(Family) -> Value) {
    for families in Families::ALL {
        let server = cluster(families).await;
        for family in Family::BOTH {
            let reply = create(&server, spec(family)).await;
            if families.contains(family) {
                assert_is(&reply, "SingleStack", &[family]);
                delete(&server).await;
            } else {
                assert_refused(&reply, "spec.ipFamilies[0]");
            }
        }
    }
}

#[tokio::test]
async fn single_stack_5_one_address_is_its_family_or_an_error() {
    for families in Families::ALL {
        let server = cluster(families).await;
        for family in Family::BOTH {
            let reply = create(&server, json!({"clusterIPs": [address(family)]})).await;
            if !families.contains(family) {
                assert_refused(&reply, "spec.clusterIPs[0]");
                continue;
            }
            assert_is(&reply, "SingleStack", &[family]);
            assert_eq!(texts(&reply.json()["spec"]["clusterIPs"]), [address(family)]);
            // Taken by a different service.
            let body =
                json!({"metadata": {"name": "t"}, "spec": {"ports": [{"port": 80}], "clusterIPs": [address(family)]}});
            assert_refused(&ask(&server, "POST", COLLECTION, &[], body.to_string()).await, "spec.clusterIPs");
            delete(&server).await;
            // Out of the range.
            let outside = match family {
                Family::V4 => "10.97.0.1",
                Family::V6 => "fd00:97::1",
            };
            assert_refused(&create(&server, json!({"clusterIPs": [outside]})).await, "spec.clusterIPs");
        }
    }
}

/// The four ways to require both families: refused unless the cluster has both, in any order.
async fn required(spec: impl Fn(&[Family]) -> Value, field: &str) {
    for families in SINGLE {
        let server = cluster(families).await;
        for order in orders() {
            assert_refused(&create(&server, spec(&order)).await, field);
        }
        assert_eq!(ask(&server, "GET", ONE, &[], "").await.status, 404);
    }
    for families in DUAL {
        let server = cluster(families).await;
        for order in orders() {
            assert_is(&create(&server, spec(&order)).await, "RequireDualStack", &order);
            delete(&server).await;
        }
    }
}

fn both_addresses(order: &[Family]) -> Vec<&'static str> {
    order.iter().copied().map(address).collect()
}

#[tokio::test]
async fn dual_stack_required_1_prefer_true_and_two_families() {
    required(|order| json!({"preferDualStack": true, "ipFamilies": names(order)}), "spec.ipFamilyPolicy").await;
}

#[tokio::test]
async fn dual_stack_required_2_prefer_true_and_two_addresses() {
    for families in SINGLE {
        let server = cluster(families).await;
        let reply = create(&server, json!({"preferDualStack": true, "clusterIPs": both_addresses(&orders()[0])})).await;
        let missing = if families.contains(Family::V4) { "spec.clusterIPs[1]" } else { "spec.clusterIPs[0]" };
        assert_refused(&reply, missing);
    }
    for families in DUAL {
        let server = cluster(families).await;
        for order in orders() {
            let reply = create(&server, json!({"preferDualStack": true, "clusterIPs": both_addresses(&order)})).await;
            assert_is(&reply, "RequireDualStack", &order);
            assert_eq!(texts(&reply.json()["spec"]["clusterIPs"]), both_addresses(&order));
            delete(&server).await;
        }
    }
}

#[tokio::test]
async fn dual_stack_required_3_two_families() {
    required(|order| json!({"ipFamilies": names(order)}), "spec.ipFamilyPolicy").await;
}

#[tokio::test]
async fn dual_stack_required_4_two_addresses() {
    for families in DUAL {
        let server = cluster(families).await;
        for order in orders() {
            let reply = create(&server, json!({"clusterIPs": both_addresses(&order)})).await;
            assert_is(&reply, "RequireDualStack", &order);
            assert_eq!(texts(&reply.json()["spec"]["clusterIPs"]), both_addresses(&order));
            delete(&server).await;
        }
    }
    for families in SINGLE {
        let server = cluster(families).await;
        for order in orders() {
            let reply = create(&server, json!({"clusterIPs": both_addresses(&order)})).await;
            let missing = usize::from(order[0] == families.primary());
            assert_refused(&reply, &format!("spec.clusterIPs[{missing}]"));
        }
    }
}

#[tokio::test]
async fn dual_stack_optional_1_prefer_true_takes_what_the_cluster_has() {
    for families in Families::ALL {
        let server = cluster(families).await;
        let expected: Vec<Family> = families.iter().collect();
        assert_is(&create(&server, json!({"preferDualStack": true})).await, "PreferDualStack", &expected);
    }
}

#[tokio::test]
async fn dual_stack_optional_2_prefer_true_and_one_family_puts_it_first() {
    for families in Families::ALL {
        let server = cluster(families).await;
        for family in Family::BOTH.into_iter().filter(|family| families.contains(*family)) {
            let reply = create(&server, json!({"preferDualStack": true, "ipFamilies": [family.to_string()]})).await;
            let expected = if families.is_dual() { vec![family, family.other()] } else { vec![family] };
            assert_is(&reply, "PreferDualStack", &expected);
            delete(&server).await;
        }
    }
}

#[tokio::test]
async fn dual_stack_optional_3_prefer_true_and_one_address_puts_it_first() {
    for families in Families::ALL {
        let server = cluster(families).await;
        for family in Family::BOTH.into_iter().filter(|family| families.contains(*family)) {
            let reply = create(&server, json!({"preferDualStack": true, "clusterIPs": [address(family)]})).await;
            let expected = if families.is_dual() { vec![family, family.other()] } else { vec![family] };
            assert_is(&reply, "PreferDualStack", &expected);
            assert_eq!(reply.json()["spec"]["clusterIP"], address(family));
            delete(&server).await;
        }
    }
}

#[tokio::test]
async fn mutability_1_single_stack_becomes_dual_stack() {
    for families in DUAL {
        let both: Vec<Family> = families.iter().collect();
        for (change, policy) in [
            (json!({"preferDualStack": true}), "PreferDualStack"),
            (json!({"ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack"),
            (json!({"ipFamilyPolicy": "RequireDualStack"}), "RequireDualStack"),
            (json!({"preferDualStack": true, "ipFamilies": names(&both)}), "RequireDualStack"),
        ] {
            let server = cluster(families).await;
            let before = create(&server, json!({})).await.json();
            let reply = patch(&server, change).await;
            assert_is(&reply, policy, &both);
            assert_eq!(reply.json()["spec"]["clusterIP"], before["spec"]["clusterIP"]);
        }
    }
}

#[tokio::test]
async fn mutability_2_dual_stack_becomes_single_stack() {
    for families in DUAL {
        for change in [json!({"preferDualStack": false}), json!({"ipFamilyPolicy": "SingleStack"})] {
            let server = cluster(families).await;
            let before = create(&server, json!({"preferDualStack": true})).await.json();
            let reply = patch(&server, change).await;
            assert_is(&reply, "SingleStack", &[families.primary()]);
            assert_eq!(reply.json()["spec"]["clusterIP"], before["spec"]["clusterIP"]);
            let second = before["spec"]["clusterIPs"][1].as_str().unwrap().to_owned();
            let address = format!("/apis/networking.k8s.io/v1/ipaddresses/{second}");
            assert_eq!(ask(&server, "GET", &address, &[], "").await.status, 404, "the second address is free again");
        }
    }
}

#[tokio::test]
async fn mutability_3_the_primary_address_stays() {
    for families in DUAL {
        let server = cluster(families).await;
        create(&server, json!({"preferDualStack": true})).await;
        let [primary, secondary] = [families.primary(), families.primary().other()];
        for change in [
            json!({"clusterIP": address(primary)}),
            json!({"clusterIP": address(primary), "clusterIPs": [address(primary), address(secondary)]}),
            json!({"clusterIP": address(primary), "clusterIPs": [address(primary)], "ipFamilyPolicy": "SingleStack"}),
            json!({"ipFamilies": names(&[secondary]), "ipFamilyPolicy": "SingleStack"}),
        ] {
            let reply = patch(&server, change.clone()).await;
            assert_eq!(reply.status, 422, "{change} {}", reply.json());
        }
    }
}

#[tokio::test]
async fn headless_1_with_selector_the_families_are_those_of_the_cluster() {
    for families in Families::ALL {
        let server = cluster(families).await;
        let expected: Vec<Family> = families.iter().collect();
        let spec = json!({"clusterIP": "None", "selector": {"a": "b"}, "preferDualStack": true});
        let object = create(&server, spec).await.json();
        assert_eq!(texts(&object["spec"]["ipFamilies"]), names(&expected), "{object}");
        assert_eq!(texts(&object["spec"]["clusterIPs"]), ["None"]);
        delete(&server).await;
        if !families.is_dual() {
            let other = families.primary().other().to_string();
            let reply =
                create(&server, json!({"clusterIP": "None", "selector": {"a": "b"}, "ipFamilies": [other]})).await;
            assert_refused(&reply, "spec.ipFamilies[0]");
        }
    }
}

#[tokio::test]
async fn headless_2_without_selector_what_was_given_stays() {
    for families in Families::ALL {
        let server = cluster(families).await;
        for given in [vec![Family::V4], vec![Family::V6], orders()[0].to_vec(), orders()[1].to_vec()] {
            for policy in ["PreferDualStack", "RequireDualStack"] {
                let spec = json!({"clusterIP": "None", "ipFamilies": names(&given), "ipFamilyPolicy": policy});
                let object = create(&server, spec).await.json();
                assert_eq!(texts(&object["spec"]["ipFamilies"]), names(&given), "{object}");
                assert_eq!(object["spec"]["ipFamilyPolicy"], policy);
                delete(&server).await;
            }
        }
        // What was not given is both families, as upstream has it.
        let object = create(&server, json!({"clusterIP": "None"})).await.json();
        let both = [families.primary(), families.primary().other()];
        assert_eq!(texts(&object["spec"]["ipFamilies"]), names(&both), "{object}");
        assert_eq!(object["spec"]["ipFamilyPolicy"], "RequireDualStack");
    }
}

#[tokio::test]
async fn external_name_has_no_families() {
    for families in Families::ALL {
        let server = cluster(families).await;
        let spec = json!({
            "type": "ExternalName", "externalName": "example.com", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        });
        let reply = create(&server, spec).await;
        let spec = &reply.json()["spec"];
        assert_eq!(reply.status, 201, "{spec}");
        for field in ["ipFamilies", "ipFamilyPolicy", "clusterIP", "clusterIPs"] {
            assert!(spec.get(field).is_none(), "{field}");
        }
        assert_eq!(reply.headers.get_all("warning").iter().count(), 2, "each cleared field is told");
    }
}

#[tokio::test]
async fn v1_to_core_conversion_keeps_pod_ip_and_pod_ips_in_step() {
    let server = cluster(Families::both(Family::V4)).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(ask(&server, "POST", "/api/v1/namespaces/default/pods", &[], pod.to_string()).await.status, 201);
    for (given, want) in [
        // Only podIP, only podIPs, both.
        (json!({"podIP": "10.0.0.1"}), json!(["10.0.0.1"])),
        (json!({"podIPs": [{"ip": "fd00::1"}, {"ip": "10.0.0.1"}]}), json!(["fd00::1", "10.0.0.1"])),
        (
            json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}),
            json!(["10.0.0.1", "fd00::1"]),
        ),
        // Both, and different: a client that knows only podIP has written.
        (json!({"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}), json!(["10.0.0.9"])),
        // Duplicates go.
        (
            json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}),
            json!(["10.0.0.1", "fd00::1"]),
        ),
    ] {
        let path = "/api/v1/namespaces/default/pods/p/status";
        let clear = json!([{"op": "add", "path": "/status", "value": {"phase": "Running", "qosClass": "BestEffort"}}]);
        let cleared =
            ask(&server, "PATCH", path, &[("content-type", "application/json-patch+json")], clear.to_string()).await;
        assert_eq!(cleared.status, 200, "{}", cleared.json());
        let merge = [("content-type", "application/merge-patch+json")];
        let reply = ask(&server, "PATCH", path, &merge, json!({"status": given}).to_string()).await;
        let object = reply.json();
        assert_eq!(reply.status, 200, "{object}");
        let ips: Vec<_> =
            object["status"]["podIPs"].as_array().unwrap().iter().map(|entry| entry["ip"].clone()).collect();
        assert_eq!(json!(ips), want, "{given}");
        assert_eq!(object["status"]["podIP"], want[0], "{given}");
    }
    let merge = [("content-type", "application/merge-patch+json")];
    let two = json!({"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}});
    let reply = ask(&server, "PATCH", "/api/v1/namespaces/default/pods/p/status", &merge, two.to_string()).await;
    assert_refused(&reply, "status.podIPs");
}
