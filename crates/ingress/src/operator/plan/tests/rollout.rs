//! What only a new load balancer can bring, by platform; and the commands to go back, which must do what they say.

use super::super::{
    balancer::annotation,
    progress,
    tests::{CLASSIC, NLB, balanced, live, live_of},
};
use crate::operator::testing::Case;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use serde_json::{Value, json};

fn with(mut live: Service, pairs: &[(&str, &str)]) -> Service {
    for (key, value) in pairs {
        live.annotations_mut().insert((*key).to_owned(), (*value).to_owned());
    }
    live
}

fn scoped(platform: &str, scope: &str) -> Case {
    Case::strategy(json!({"type": "LoadBalancerService", "loadBalancer": {"scope": scope}})).on(platform)
}

fn openstack(address: &str) -> Case {
    let parameters = json!({"type": "OpenStack", "openstack": {"floatingIP": address}});
    Case::strategy(
        json!({"type": "LoadBalancerService", "loadBalancer": {"scope": "External", "providerParameters": parameters}}),
    )
    .on("OpenStack")
}

/// Differences by their names, and whether an administrator has to delete the Service for each.
fn found(case: &Case, live: &Service) -> Vec<(&'static str, bool)> {
    let name = |difference: &progress::Difference| match difference {
        progress::Difference::Kind(..) => "type",
        progress::Difference::Scope(..) => "scope",
        progress::Difference::Subnets(..) => "subnets",
        progress::Difference::Addresses(..) => "addresses",
        progress::Difference::Families(..) => "families",
        progress::Difference::FloatingIp(..) => "floating IP",
    };
    let all = progress::differences(case.input(), live);
    all.iter().map(|one| (name(one), !progress::changes_in_place(case.input(), one))).collect()
}

#[test]
fn scopes_by_platform() {
    for platform in ["AWS", "Azure", "GCP", "IBMCloud", "PowerVS", "OpenStack", "BareMetal"] {
        for (is, wanted) in
            [("External", "External"), ("Internal", "Internal"), ("External", "Internal"), ("Internal", "External")]
        {
            let live = live_of(&scoped(platform, is));
            let in_place = matches!(platform, "Azure" | "GCP");
            // Where no annotation tells, nothing is told.
            let expected = match is == wanted || platform == "BareMetal" {
                true => vec![],
                false => vec![("scope", !in_place)],
            };
            let case = scoped(platform, wanted);
            assert_eq!(found(&case, &live), expected, "{platform}: {is} to {wanted}");
            for difference in progress::differences(case.input(), &live) {
                let message = progress::message(case.input(), &difference);
                assert!(message.contains(&format!("scope is to change from {is} to {wanted}")), "{message}");
                let commands =
                    ["oc -n openshift-ingress delete svc/router-default", "oc -n openshift-ingress-operator patch"];
                assert!(commands.iter().all(|command| message.contains(command) != in_place), "{platform}: {message}");
            }
        }
    }
}

#[test]
fn subnets_addresses_and_types_on_aws() {
    let subnets = |ids: Value, names: Value| json!({"subnets": {"ids": ids, "names": names}});
    let addresses = |list: Value| json!({"eipAllocations": list});
    let (nets, eips) = (annotation::AWS_SUBNETS, annotation::AWS_EIP);
    for kind in [CLASSIC, NLB] {
        for (what, wanted, text, differs) in [
            ("none and none", json!({}), "", false),
            ("the same", subnets(json!(["subnet-1", "subnet-2"]), json!(["one"])), "subnet-1,subnet-2,one", false),
            (
                "another order",
                subnets(json!(["subnet-1", "subnet-2"]), json!(["one"])),
                "one, subnet-2 ,subnet-1",
                false,
            ),
            ("one more", subnets(json!(["subnet-1", "subnet-2"]), json!([])), "subnet-1", true),
            ("one less", subnets(json!(["subnet-1"]), json!([])), "subnet-1,subnet-2", true),
            ("another", subnets(json!(["subnet-1"]), json!([])), "subnet-2", true),
            ("given", subnets(json!(["subnet-1"]), json!([])), "", true),
            ("cleared", json!({}), "subnet-1", true),
            ("a name for an id", subnets(json!([]), json!(["one"])), "subnet-1", true),
        ] {
            let live = with(live(kind, "IPv4"), &[(nets, text)]);
            let expected = if differs { vec![("subnets", true)] } else { vec![] };
            assert_eq!(found(&balanced(kind, wanted), &live), expected, "{kind}: {what}");
        }
    }
    for (what, wanted, text, differs) in [
        ("the same", addresses(json!(["a", "b"])), "a,b", false),
        ("another order", addresses(json!(["a", "b"])), "b,a", false),
        ("one more", addresses(json!(["a", "b"])), "a", true),
        ("one less", addresses(json!(["a"])), "a,b", true),
        ("given", addresses(json!(["a"])), "", true),
        ("cleared", json!({}), "a", true),
    ] {
        let live = with(live(NLB, "IPv4"), &[(eips, text)]);
        let expected = if differs { vec![("addresses", true)] } else { vec![] };
        assert_eq!(found(&balanced(NLB, wanted), &live), expected, "addresses: {what}");
    }
    let several = with(live(NLB, "IPv4"), &[(nets, "subnet-1"), (eips, "a"), (annotation::AWS_INTERNAL, "true")]);
    assert_eq!(found(&balanced(NLB, json!({})), &several), [("scope", true), ("subnets", true), ("addresses", true)]);
    // While the type differs, what belongs to the other type is not compared; the scope is.
    assert_eq!(found(&balanced(CLASSIC, json!({})), &several), [("type", true), ("scope", true)]);
    // What the platform changes on a live load balancer is no reason to wait.
    for (kind, more) in [
        (NLB, json!({"protocol": "PROXY"})),
        (NLB, json!({"securityGroups": ["sg-1"]})),
        (CLASSIC, json!({"connectionIdleTimeout": "9s"})),
    ] {
        assert_eq!(found(&balanced(kind, more.clone()), &live(kind, "IPv4")), [], "{kind} {more}");
    }
}

#[test]
fn an_address_on_openstack() {
    for (is, wanted, differs) in
        [("", "", false), ("192.0.2.1", "192.0.2.1", false), ("", "192.0.2.1", true), ("192.0.2.1", "", true)]
    {
        let expected = if differs { vec![("floating IP", true)] } else { vec![] };
        assert_eq!(found(&openstack(wanted), &live_of(&openstack(is))), expected, "{is:?} to {wanted:?}");
    }
}

/// The patch of a message, as a shell would hand it to `oc`.
fn patch(message: &str) -> Value {
    let (_, rest) = message.split_once("--type=merge --patch='").unwrap_or_else(|| panic!("no command in {message}"));
    let (patch, after) = rest.split_once('\'').unwrap();
    assert!(after.starts_with('`'), "the quotes end with the command: {message}");
    serde_json::from_str(patch).unwrap_or_else(|error| panic!("{error}: {patch}"))
}

#[test]
fn going_back_leaves_nothing_to_change() {
    let subnets = |names: Value| json!({"subnets": {"names": names}});
    let (nets, eips) = (annotation::AWS_SUBNETS, annotation::AWS_EIP);
    let rich = || with(live(NLB, "IPv4"), &[(nets, "subnet-1,subnet-2"), (eips, "a,b")]);
    for (what, case, live) in [
        ("to Classic", balanced(CLASSIC, json!({})), live(NLB, "IPv4")),
        ("to NLB", balanced(NLB, json!({"protocol": "PROXY"})), live(CLASSIC, "IPv4")),
        ("to Classic from one with subnets and addresses", balanced(CLASSIC, json!({})), rich()),
        ("to Internal", balanced(NLB, json!({})).internal(), live(NLB, "IPv4")),
        ("to External", scoped("AWS", "External"), live_of(&scoped("AWS", "Internal"))),
        ("private of IBM", scoped("IBMCloud", "Internal"), live_of(&scoped("IBMCloud", "External"))),
        ("subnets given", balanced(NLB, subnets(json!(["one"]))), live(NLB, "IPv4")),
        ("subnets cleared", balanced(NLB, json!({})), with(live(NLB, "IPv4"), &[(nets, "subnet-1")])),
        (
            "subnets with names that a shell might misread",
            balanced(CLASSIC, json!({})),
            with(live(CLASSIC, "IPv4"), &[(nets, "it's $(one),\"two\";`three`")]),
        ),
        ("addresses given", balanced(NLB, json!({"eipAllocations": ["a"]})), live(NLB, "IPv4")),
        ("addresses changed", balanced(NLB, json!({"eipAllocations": ["c"]})), with(live(NLB, "IPv4"), &[(eips, "a")])),
        ("a floating IP", openstack("192.0.2.1"), live_of(&openstack("192.0.2.2"))),
        ("several at once", balanced(NLB, json!({})).internal(), rich()),
    ] {
        let all = progress::differences(case.input(), &live);
        assert!(!all.is_empty(), "{what}");
        let messages: Vec<String> = all.iter().map(|difference| progress::message(case.input(), difference)).collect();
        let back = messages.iter().fold(case, |case, message| case.patched(&patch(message)));
        assert_eq!(progress::differences(back.input(), &live), [], "{what}: {messages:?}");
    }
}

/// A cluster's families are not an IngressController's to take back.
#[test]
fn families_have_no_way_back() {
    let case = balanced(NLB, json!({})).family("DualStackIPv6Primary");
    let all = progress::differences(case.input(), &live(NLB, "DualStackIPv4Primary"));
    let message = progress::message(case.input(), &all[0]);
    assert!(message.contains("from IPv4, IPv6 to IPv6, IPv4") && !message.contains("patch"), "{message}");
    assert_eq!(found(&case, &live(NLB, "DualStackIPv6Primary")), []);
}
