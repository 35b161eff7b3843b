//! When a ServiceCIDR may go, in both families.

use super::plan::{Decision, FINALIZER, decide};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use serde_json::json;

fn cidr(name: &str, ranges: &[&str], going: bool) -> ServiceCIDR {
    let deleted = going.then_some("2026-01-01T00:00:00Z");
    serde_json::from_value(json!({
        "metadata": {"name": name, "finalizers": [FINALIZER], "deletionTimestamp": deleted},
        "spec": {"cidrs": ranges},
    }))
    .unwrap()
}

fn decided(one: &ServiceCIDR, others: &[ServiceCIDR], addresses: &[&str]) -> Decision {
    decide(one, others.iter(), addresses.iter().map(|ip| ip.parse().unwrap()))
}

#[test]
fn a_new_one_is_protected_then_ready() {
    let mut new = cidr("a", &["10.0.0.0/24", "fd00::/112"], false);
    assert_eq!(decided(&new, &[], &[]), Decision::Ready);
    new.status = serde_json::from_value(json!({"conditions": [{
        "type": "Ready", "status": "False", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}))
    .unwrap();
    assert_eq!(decided(&new, &[], &[]), Decision::Keep, "somebody else's word stands");
    new.metadata.finalizers = None;
    assert_eq!(decided(&new, &[], &[]), Decision::Protect);
}

#[test]
fn one_that_goes_waits_for_addresses_that_would_be_lost() {
    for (range, parent, inside, outside) in
        [("10.0.1.0/24", "10.0.0.0/16", "10.0.1.5", "10.0.2.5"), ("fd00::/112", "fd00::/108", "fd00::5", "fd00:1::5")]
    {
        let going = cidr("a", &[range], true);
        assert_eq!(decided(&going, &[], &[outside]), Decision::Release);
        assert_eq!(decided(&going, &[], &[inside, outside]), Decision::Waiting(1));
        assert_eq!(decided(&going, &[cidr("b", &[parent], false)], &[inside]), Decision::Release);
        assert_eq!(decided(&going, &[cidr("b", &[parent], true)], &[inside]), Decision::Waiting(1), "it goes too");
        assert_eq!(decided(&going, &[cidr("a", &[parent], false)], &[inside]), Decision::Waiting(1), "itself");
    }
    // Dual-stack: each family must be covered.
    let going = cidr("a", &["10.0.1.0/24", "fd00::/112"], true);
    let other = [cidr("b", &["10.0.0.0/16"], false)];
    assert_eq!(decided(&going, &other, &["10.0.1.5"]), Decision::Release);
    assert_eq!(decided(&going, &other, &["10.0.1.5", "fd00::5"]), Decision::Waiting(1));
}
