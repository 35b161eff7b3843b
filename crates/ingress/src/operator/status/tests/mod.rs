//! The tables of conditions: the routers, the load balancer, the record, and what they fold into.

mod sources_and_placement;

use super::{Observed, balancer, dns, fold, merge, operand, operand::Operand, status};
use crate::operator::{objects::DnsRecord, plan, testing::Case};
use api::config::OperatorCondition;
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use serde_json::{Value, json};

pub(super) const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

fn at(seconds_ago: i64) -> String {
    merge::time(NOW - jiff::SignedDuration::from_secs(seconds_ago))
}

fn condition(kind: &str, status: &str, seconds_ago: i64) -> OperatorCondition {
    OperatorCondition { last_transition_time: at(seconds_ago), ..super::condition(kind, status, "Reason", "message") }
}

fn find<'a>(all: &'a [OperatorCondition], kind: &str) -> Option<&'a OperatorCondition> {
    all.iter().find(|condition| condition.kind == kind)
}

fn shown(all: &[OperatorCondition], kind: &str) -> String {
    find(all, kind).map_or_else(|| "absent".to_owned(), |one| format!("{} {}", one.status, one.reason))
}

fn deployment(status: Value, generation: i64) -> Operand {
    let object: Deployment = serde_json::from_value(json!({
        "metadata": {"generation": generation},
        "spec": {"replicas": 2, "selector": {}, "template": {}, "strategy": {"rollingUpdate": {"maxUnavailable": "50%", "maxSurge": "25%"}}},
        "status": status,
    }))
    .unwrap();
    Operand::of(&object)
}

#[test]
fn routers() {
    let up = json!([{"type": "Available", "status": "True"}]);
    let all = json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2, "conditions": up});
    let with = |changes: Value| {
        let mut status = all.clone();
        status.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        status
    };
    for (what, operand, expected) in [
        (
            "all",
            deployment(all.clone(), 1),
            [
                "True DeploymentAvailable",
                "True DeploymentMinimumReplicasMet",
                "True DeploymentReplicasAvailable",
                "False DeploymentNotRollingOut",
            ],
        ),
        (
            "not observed",
            deployment(all.clone(), 2),
            [
                "True DeploymentAvailable",
                "True DeploymentMinimumReplicasMet",
                "True DeploymentReplicasAvailable",
                "True DeploymentRollingOut",
            ],
        ),
        (
            "one old",
            deployment(with(json!({"replicas": 3})), 1),
            [
                "True DeploymentAvailable",
                "True DeploymentMinimumReplicasMet",
                "True DeploymentReplicasAvailable",
                "True DeploymentRollingOut",
            ],
        ),
        (
            "half",
            deployment(with(json!({"availableReplicas": 1, "readyReplicas": 1})), 1),
            [
                "True DeploymentAvailable",
                "True DeploymentMinimumReplicasMet",
                "False DeploymentReplicasNotAvailable",
                "True PodsStarting",
            ],
        ),
        (
            "settling",
            deployment(with(json!({"availableReplicas": 1})), 1),
            [
                "True DeploymentAvailable",
                "True DeploymentMinimumReplicasMet",
                "False DeploymentReplicasNotAvailable",
                "True ReplicasStabilizing",
            ],
        ),
        (
            "none",
            deployment(
                json!({"observedGeneration": 1, "conditions": [{"type": "Available", "status": "False", "message": "why"}]}),
                1,
            ),
            [
                "False DeploymentUnavailable",
                "False DeploymentMinimumReplicasNotMet",
                "False DeploymentReplicasNotAvailable",
                "True DeploymentRollingOut",
            ],
        ),
        (
            "unknown",
            Operand::nothing(2),
            [
                "Unknown DeploymentAvailabilityUnknown",
                "False DeploymentMinimumReplicasNotMet",
                "False DeploymentReplicasNotAvailable",
                "True DeploymentRollingOut",
            ],
        ),
    ] {
        let conditions = operand::conditions(&operand);
        let kinds = [
            "DeploymentAvailable",
            "DeploymentReplicasMinAvailable",
            "DeploymentReplicasAllAvailable",
            "DeploymentRollingOut",
        ];
        assert_eq!(kinds.map(|kind| shown(&conditions, kind)), expected, "{what}");
    }
    let odd = Operand { may_miss: Err("maxSurge \"x\"".to_owned()), ..deployment(all, 1) };
    assert_eq!(shown(&operand::conditions(&odd), "DeploymentReplicasMinAvailable"), "Unknown InvalidMaxSurgeValue");
}

pub(super) fn balanced(kind: &str, family: &str) -> Case {
    Case::strategy(json!({"type": "LoadBalancerService", "loadBalancer": {
        "scope": "External", "providerParameters": {"type": "AWS", "aws": {"type": kind}},
    }}))
    .on("AWS")
    .family(family)
}

pub(super) fn live(kind: &str, family: &str) -> Service {
    let mut service = plan::balancer::wanted(balanced(kind, family).input(), None).unwrap();
    service.status = serde_json::from_value(json!({"loadBalancer": {"ingress": [{"hostname": "a.test"}]}})).unwrap();
    service
}

pub(super) fn observed<'a>(
    operand: &'a Operand,
    balancer: Option<&'a Service>,
    complaint: Option<&'a str>,
) -> Observed<'a> {
    Observed { operand, balancer, complaint, record: None, certificate: None, failures: &[] }
}

#[test]
fn the_load_balancer() {
    let operand = Operand::nothing(2);
    let (nlb, classic) = (live("NLB", "IPv4"), live("Classic", "IPv4"));
    let pending = Service { status: None, ..nlb.clone() };
    let private = Case::strategy(json!({"type": "Private"})).on("AWS");
    for (what, case, service, complaint, expected) in [
        (
            "private",
            private,
            None,
            None,
            [
                "False EndpointPublishingStrategyExcludesManagedLoadBalancer",
                "absent",
                "False LoadBalancerNotProgressing",
            ],
        ),
        (
            "no Service",
            balanced("NLB", "IPv4"),
            None,
            None,
            ["True WantedByEndpointPublishingStrategy", "False ServiceNotFound", "True NoService"],
        ),
        (
            "pending",
            balanced("NLB", "IPv4"),
            Some(&pending),
            None,
            [
                "True WantedByEndpointPublishingStrategy",
                "False LoadBalancerPending",
                "False LoadBalancerNotProgressing",
            ],
        ),
        (
            "failing",
            balanced("NLB", "IPv4"),
            Some(&pending),
            Some("quota"),
            [
                "True WantedByEndpointPublishingStrategy",
                "False SyncLoadBalancerFailed",
                "False LoadBalancerNotProgressing",
            ],
        ),
        (
            "there",
            balanced("NLB", "IPv4"),
            Some(&nlb),
            None,
            [
                "True WantedByEndpointPublishingStrategy",
                "True LoadBalancerProvisioned",
                "False LoadBalancerNotProgressing",
            ],
        ),
        (
            "to Classic",
            balanced("Classic", "IPv4"),
            Some(&nlb),
            None,
            ["True WantedByEndpointPublishingStrategy", "True LoadBalancerProvisioned", "True OperandsProgressing"],
        ),
        (
            "to NLB",
            balanced("NLB", "IPv4"),
            Some(&classic),
            None,
            ["True WantedByEndpointPublishingStrategy", "True LoadBalancerProvisioned", "True OperandsProgressing"],
        ),
    ] {
        let conditions = balancer::conditions(case.input(), observed(&operand, service, complaint));
        let kinds = ["LoadBalancerManaged", "LoadBalancerReady", "LoadBalancerProgressing"];
        assert_eq!(kinds.map(|kind| shown(&conditions, kind)), expected, "{what}");
        assert_eq!(shown(&conditions, "LoadBalancerDualStack"), "absent", "{what}: the cluster has one family");
    }
    let mut ranged = nlb;
    ranged.spec.as_mut().unwrap().load_balancer_source_ranges = Some(vec!["2001:db8::/32".to_owned()]);
    let conditions = balancer::conditions(balanced("NLB", "IPv4").input(), observed(&operand, Some(&ranged), None));
    let progressing = find(&conditions, "LoadBalancerProgressing").unwrap();
    assert!(progressing.message.contains("2001:db8::/32"), "{}", progressing.message);
}

/// The seed's variation: Progressing with the message, and back to False with the new Service; that it is IPv4 only stays said.
#[test]
fn a_classic_load_balancer_on_a_dual_stack_cluster() {
    let operand = Operand::nothing(2);
    for family in ["DualStackIPv4Primary", "DualStackIPv6Primary"] {
        let wanted = balanced("Classic", family);
        let (nlb, classic) = (live("NLB", family), live("Classic", family));
        // No zone is named, so that the records are somebody else's.
        let before = balancer::conditions(balanced("NLB", family).input(), observed(&operand, Some(&nlb), None));
        assert_eq!(shown(&before, "LoadBalancerDualStack"), "True NetworkLoadBalancer");
        let pending = balancer::conditions(wanted.input(), observed(&operand, Some(&nlb), None));
        let progressing = find(&pending, "LoadBalancerProgressing").unwrap();
        assert_eq!(progressing.status, "True");
        assert!(progressing.message.contains("does not support dual-stack"), "{}", progressing.message);
        assert!(progressing.message.contains(family), "{}", progressing.message);
        assert_eq!(shown(&pending, "LoadBalancerDualStack"), "True NetworkLoadBalancer", "the live one still has both");
        let after = balancer::conditions(wanted.input(), observed(&operand, Some(&classic), None));
        assert_eq!(shown(&after, "LoadBalancerProgressing"), "False LoadBalancerNotProgressing");
        assert_eq!(shown(&after, "LoadBalancerDualStack"), "False ClassicLoadBalancerIsIPv4Only");
    }
}

/// Both families are said to be served when that was seen, and otherwise what is missing.
#[test]
fn both_families_are_told_by_what_was_seen() {
    let operand = Operand::nothing(2);
    let zone = |status: &str| json!([{"dnsZone": {"id": "a"}, "conditions": [{"type": "Published", "status": status, "reason": "r", "message": "throttled", "lastTransitionTime": ""}]}]);
    for family in ["DualStackIPv4Primary", "DualStackIPv6Primary"] {
        let whole = live("NLB", family);
        let pending = Service { status: None, ..whole.clone() };
        let mut one_family = whole.clone();
        one_family.spec.as_mut().unwrap().ip_families.as_mut().unwrap().retain(|name| name == "IPv4");
        for (what, service, zones, record, expected, words) in [
            ("no Service", None, &["a"][..], None, "Unknown ServiceNotFound", "not there"),
            ("no load balancer", Some(pending), &["a"], None, "Unknown LoadBalancerPending", "not there yet"),
            ("one family", Some(one_family), &["a"], None, "False ServiceLacksFamily", "no IPv6"),
            (
                "no record",
                Some(whole.clone()),
                &["a"],
                None,
                "False RecordsNotPublished",
                "The wildcard record is not there",
            ),
            (
                "failed",
                Some(whole.clone()),
                &["a"],
                Some(record("Managed", zone("False"))),
                "False RecordsNotPublished",
                "throttled",
            ),
            (
                "all",
                Some(whole.clone()),
                &["a"],
                Some(record("Managed", zone("True"))),
                "True NetworkLoadBalancer",
                "all zones have A and AAAA",
            ),
            (
                "unmanaged",
                Some(whole.clone()),
                &["a"],
                Some(record("Unmanaged", zone("Unknown"))),
                "True NetworkLoadBalancer",
                "somebody else's",
            ),
            ("no zones", Some(whole.clone()), &[], None, "True NetworkLoadBalancer", "somebody else's"),
        ] {
            let case = balanced("NLB", family).zones(zones);
            let seen = Observed { record: record.as_ref(), ..observed(&operand, service.as_ref(), None) };
            let all = balancer::conditions(case.input(), seen);
            assert_eq!(shown(&all, "LoadBalancerDualStack"), expected, "{what} on {family}");
            let message = &find(&all, "LoadBalancerDualStack").unwrap().message;
            assert!(message.contains(words), "{what} on {family}: {message}");
        }
    }
}

fn record(policy: &str, zones: Value) -> DnsRecord {
    serde_json::from_value(json!({
        "metadata": {}, "spec": {"dnsName": "a.", "targets": [], "recordType": "CNAME", "recordTTL": 30, "dnsManagementPolicy": policy},
        "status": {"zones": zones},
    }))
    .unwrap()
}

#[test]
fn the_record() {
    let zone = |id: &str, status: &str| json!({"dnsZone": {"id": id}, "conditions": [{"type": "Published", "status": status, "reason": "r", "message": "m", "lastTransitionTime": ""}]});
    let managed = |zones: Value| Some(record("Managed", zones));
    let case = || balanced("NLB", "IPv4").zones(&["private", "public"]);
    for (what, case, record, expected) in [
        ("no zones", balanced("NLB", "IPv4"), None, ["False NoDNSZones", "absent"]),
        (
            "private",
            Case::strategy(json!({"type": "Private"})).on("AWS").zones(&["a"]),
            None,
            ["False UnsupportedEndpointPublishingStrategy", "absent"],
        ),
        ("not there", case(), None, ["True Normal", "False RecordNotFound"]),
        ("no zone yet", case(), managed(json!([])), ["True Normal", "False NoZones"]),
        ("only a zone of old", case(), managed(json!([zone("old", "True")])), ["True Normal", "False NoZones"]),
        (
            "one failed",
            case(),
            managed(json!([zone("private", "True"), zone("public", "False")])),
            ["True Normal", "False FailedZones"],
        ),
        ("one silent", case(), managed(json!([zone("private", "True")])), ["True Normal", "False UnknownZones"]),
        (
            "one unknown",
            case(),
            managed(json!([zone("private", "True"), zone("public", "Unknown")])),
            ["True Normal", "False UnknownZones"],
        ),
        (
            "both",
            case(),
            managed(json!([zone("private", "True"), zone("public", "True"), zone("old", "False")])),
            ["True Normal", "True NoFailedZones"],
        ),
        ("unmanaged", case(), Some(record("Unmanaged", json!([]))), ["True Normal", "Unknown UnmanagedDNS"]),
    ] {
        let conditions = dns::conditions(case.input(), record.as_ref());
        assert_eq!(["DNSManaged", "DNSReady"].map(|kind| shown(&conditions, kind)), expected, "{what}");
    }
}

#[test]
fn degraded_after_the_grace_period_and_not_before() {
    let given = |more: Vec<OperatorCondition>| {
        let managed = ["LoadBalancerManaged", "DNSManaged"].map(|kind| condition(kind, "True", 9000));
        managed.into_iter().chain(more).collect::<Vec<_>>()
    };
    for (kind, grace) in [
        ("Admitted", 0),
        ("DeploymentAvailable", 30),
        ("DeploymentReplicasMinAvailable", 60),
        ("DeploymentReplicasAllAvailable", 3600),
        ("LoadBalancerReady", 90),
        ("CanaryChecksSucceeding", 60),
        ("Reconciled", 30),
    ] {
        for (ago, degraded) in
            [(grace - 1, false), (grace, true), (grace + 1, true)].into_iter().filter(|(ago, _)| *ago >= 0)
        {
            let folded = fold::fold(&given(vec![condition(kind, "False", ago)]), true, NOW);
            assert_eq!(shown(&folded.conditions, "Degraded").starts_with("True"), degraded, "{kind} for {ago} s");
            let again = if degraded { 60 } else { u64::try_from(grace - ago).unwrap() };
            assert_eq!(folded.look_again.map(|after| after.as_secs()), Some(again), "{kind} for {ago} s");
        }
    }
    let canary = given(vec![condition("CanaryChecksSucceeding", "False", 900)]);
    assert_eq!(shown(&fold::fold(&canary, false, NOW).conditions, "Degraded"), "False IngressControllerNotDegraded");
    let ready = || condition("LoadBalancerReady", "True", 900);
    let dns = |ago| condition("DNSReady", "False", ago);
    assert!(shown(&fold::fold(&given(vec![ready(), dns(31)]), true, NOW).conditions, "Degraded").starts_with("True"));
    let waiting = given(vec![condition("LoadBalancerReady", "False", 5), dns(900)]);
    assert!(
        shown(&fold::fold(&waiting, true, NOW).conditions, "Degraded").starts_with("False"),
        "DNS waits for the load balancer"
    );
}

#[test]
fn available_and_progressing() {
    let with = |kind: &str, status: &str, reason: &str| OperatorCondition {
        reason: reason.to_owned(),
        ..condition(kind, status, 0)
    };
    let sound = [
        with("DeploymentAvailable", "True", "r"),
        with("LoadBalancerManaged", "True", "r"),
        with("LoadBalancerReady", "True", "r"),
        with("DNSManaged", "True", "r"),
        with("DNSReady", "True", "r"),
        with("LoadBalancerProgressing", "False", "r"),
        with("DeploymentRollingOut", "False", "r"),
    ];
    for (change, available, progressing) in [
        (None, true, false),
        (Some(with("DeploymentAvailable", "False", "r")), false, false),
        (Some(with("DeploymentAvailable", "Unknown", "r")), false, false),
        (Some(with("LoadBalancerReady", "False", "r")), false, false),
        (Some(with("LoadBalancerManaged", "False", "r")), true, false),
        (Some(with("DNSReady", "False", "r")), false, false),
        (Some(with("DNSManaged", "False", "r")), true, false),
        (Some(with("LoadBalancerProgressing", "True", "r")), true, true),
        (Some(with("LoadBalancerProgressing", "Unknown", "r")), true, true),
        (Some(with("DeploymentRollingOut", "True", "DeploymentRollingOut")), true, true),
        (Some(with("DeploymentRollingOut", "True", "PodsStarting")), true, false),
        (Some(with("DeploymentRollingOut", "True", "ReplicasStabilizing")), true, false),
    ] {
        let what = format!("{change:?}");
        let mut all = sound.to_vec();
        if let Some(change) = change {
            all.retain(|one| one.kind != change.kind);
            all.push(change);
        }
        let folded = fold::fold(&all, true, NOW).conditions;
        assert_eq!(shown(&folded, "Available").starts_with("True"), available, "{what}");
        assert_eq!(shown(&folded, "Progressing").starts_with("True"), progressing, "{what}");
    }
}

#[test]
fn times_change_with_the_status_alone() {
    let old = [condition("A", "True", 100), condition("B", "True", 100)];
    let new = vec![super::condition("A", "True", "other", "words"), super::condition("B", "False", "r", "m")];
    let merged = merge::merge(&old, new, NOW);
    assert_eq!(merged.iter().map(|one| one.last_transition_time.clone()).collect::<Vec<_>>(), [at(100), at(0)]);
    assert_eq!(merged[0].reason, "other");
}

#[test]
fn the_status_shows_what_is_wanted_and_what_the_live_service_has() {
    let operand = Operand::nothing(2);
    let mut service = live("NLB", "IPv4");
    let annotations = service.metadata.annotations.as_mut().unwrap();
    annotations.insert(plan::balancer::annotation::AWS_SUBNETS.to_owned(), "subnet-1,name".to_owned());
    service.spec.as_mut().unwrap().load_balancer_source_ranges = Some(vec!["192.0.2.0/24".to_owned()]);
    let wanted = balanced("Classic", "IPv4").admitted_as("NLB", json!({"protocol": "PROXY"}));
    let (shown, _) = status(wanted.input(), observed(&operand, Some(&service), None), NOW);
    let shown = serde_json::to_value(shown).unwrap();
    let balancer = &shown["endpointPublishingStrategy"]["loadBalancer"];
    let aws = &balancer["providerParameters"]["aws"];
    assert_eq!(aws["type"], "Classic", "wanted");
    assert_eq!(aws["networkLoadBalancer"]["protocol"], "PROXY", "kept while the change is pending");
    assert_eq!(aws["networkLoadBalancer"]["subnets"], json!({"ids": ["subnet-1"], "names": ["name"]}), "live");
    assert_eq!(balancer["allowedSourceRanges"], json!(["192.0.2.0/24"]), "live");
    let (after, _) = status(wanted.input(), observed(&operand, Some(&live("Classic", "IPv4")), None), NOW);
    let after = serde_json::to_value(after).unwrap();
    assert_eq!(
        after["endpointPublishingStrategy"]["loadBalancer"]["providerParameters"]["aws"]["networkLoadBalancer"],
        Value::Null
    );
    assert_eq!(after["selector"], "ingresscontroller.operator.openshift.io/deployment-ingresscontroller=default");
}
