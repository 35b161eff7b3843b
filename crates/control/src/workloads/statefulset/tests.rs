//! What a StatefulSet does next, as tables.

use super::{
    claims::{self, Place},
    plan::{Plan, Revision, Source, View},
    pod,
};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::ResourceExt;
use serde_json::{Value, from_value, json};

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn set(replicas: i32, more: Value) -> StatefulSet {
    let mut spec = json!({"replicas": replicas, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    from_value(
        json!({"metadata": {"name": "web", "namespace": "default", "uid": "set", "generation": 4}, "spec": spec}),
    )
    .unwrap()
}

/// `0 ready old`: number, state (ready, young, starting, pending, ending, or a phase) and revision.
fn pods(text: &str) -> Vec<Pod> {
    let one = |words: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        let [number, state, revision] = words[..] else { panic!("{words:?}") };
        let phase = match state {
            "pending" => "Pending",
            "ready" | "young" | "starting" | "ending" => "Running",
            phase => phase,
        };
        let ready = if matches!(state, "ready" | "young" | "ending") { "True" } else { "False" };
        let since = if state == "young" { "2026-01-01T11:59:55Z" } else { "2026-01-01T00:00:00Z" };
        let deleted = if state == "ending" { json!("2026-01-01T11:00:00Z") } else { Value::Null };
        let name = format!("web-{number}");
        from_value(json!({
            "metadata": {"name": name, "uid": name, "deletionTimestamp": deleted,
                "labels": {"app": "web", "controller-revision-hash": revision, "statefulset.kubernetes.io/pod-name": name}},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}]},
        }))
        .unwrap()
    };
    text.split(',').map(str::trim).filter(|words| !words.is_empty()).map(one).collect()
}

fn revision(name: &str) -> Revision {
    Revision { name: name.to_owned(), template: from_value(json!({"spec": {"containers": []}})).unwrap() }
}

/// What is planned, as text: `+2` makes number 2, `+2old` from the current revision, `-2` takes it away.
fn planned(set: &StatefulSet, there: &str) -> String {
    let (pods, old, new) = (pods(there), revision("old"), revision("new"));
    let pods: Vec<&Pod> = pods.iter().collect();
    let Plan { create, delete, .. } = View { set, pods: &pods, current: &old, update: &new, now: now() }.plan();
    let made = create.iter().map(|(number, source)| match source {
        Source::Update => format!("+{number}"),
        Source::Current => format!("+{number}old"),
    });
    let gone = delete.iter().map(|pod| format!("-{}", pod.name_any().trim_start_matches("web-")));
    made.chain(gone).collect::<Vec<_>>().join(" ")
}

#[test]
fn pods_come_and_go_in_order() {
    for (size, there, expected) in [
        (3, "", "+0"),
        (3, "0 pending new", ""),
        (3, "0 starting new", ""),
        (3, "0 ready new", "+1"),
        (3, "0 ready new, 1 ready new", "+2"),
        (3, "0 ready new, 2 ready new", "+1"),
        (3, "0 ready new, 1 ready new, 2 ready new", ""),
        (3, "0 ready new, 1 ending new, 2 ready new", ""),
        (3, "0 ready new, 1 Failed new, 2 ready new", "-1"),
        (3, "0 ready new, 1 Succeeded new", "-1"),
        (1, "0 ready new, 1 ready new, 2 ready new", "-2"),
        (1, "0 ready new, 1 ready new, 2 ending new", ""),
        (1, "0 ready new, 1 starting new, 2 ready new", "-2"),
        (1, "0 ready new, 1 ready new, 2 starting new", "-2"),
        (1, "0 starting new, 1 ready new", ""),
        (0, "0 ready new", "-0"),
        (0, "0 starting new, 1 starting new", ""),
    ] {
        assert_eq!(planned(&set(size, json!({})), there), expected, "{size} of {there}");
    }
}

#[test]
fn in_parallel_nothing_waits() {
    let set = |size: i32| set(size, json!({"podManagementPolicy": "Parallel"}));
    for (size, there, expected) in [
        (3, "", "+0 +1 +2"),
        (3, "0 starting new", "+1 +2"),
        (3, "1 Failed new", "+0 +2 -1"),
        (1, "0 starting new, 1 ready new, 2 starting new", "-2 -1"),
        (3, "0 ready old, 1 ready old, 2 starting old", "-2"),
        (3, "0 ready old, 1 ready old, 2 ready old", "-2"),
    ] {
        assert_eq!(planned(&set(size), there), expected, "{size} of {there}");
    }
}

#[test]
fn updates_roll_from_the_last_to_the_first() {
    let rolling = |partition: i32, most: Value| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition, "maxUnavailable": most}}});
    for (more, there, expected) in [
        (rolling(0, json!(1)), "0 ready old, 1 ready old, 2 ready old", "-2"),
        (rolling(0, json!(1)), "0 ready old, 1 ready old, 2 starting new", ""),
        (rolling(0, json!(1)), "0 ready old, 1 ready old, 2 ready new", "-1"),
        (rolling(0, json!(1)), "0 ready old, 1 ready old", "+2"),
        (rolling(2, json!(1)), "0 ready old, 1 ready old, 2 ready old", "-2"),
        (rolling(2, json!(1)), "0 ready old, 1 ready old, 2 ready new", ""),
        (rolling(2, json!(1)), "1 ready old, 2 ready new", "+0old"),
        (rolling(3, json!(1)), "0 ready old, 1 ready old, 2 ready old", ""),
        (rolling(0, json!(2)), "0 ready old, 1 ready old, 2 ready old", "-2 -1"),
        (rolling(0, json!("70%")), "0 ready old, 1 ready old, 2 ready old", "-2 -1"),
        (rolling(0, json!("10%")), "0 ready old, 1 ready old, 2 ready old", "-2"),
        (json!({"updateStrategy": {"type": "OnDelete"}}), "0 ready old, 1 ready old, 2 ready old", ""),
        (json!({"updateStrategy": {"type": "OnDelete"}}), "0 ready old, 1 ready old", "+2"),
    ] {
        assert_eq!(planned(&set(3, more.clone()), there), expected, "{more} {there}");
    }
}

#[test]
fn numbers_may_start_elsewhere_and_readiness_may_take_time() {
    let from_five = |size: i32| set(size, json!({"ordinals": {"start": 5}}));
    assert_eq!(planned(&from_five(2), ""), "+5");
    assert_eq!(planned(&from_five(2), "5 ready new, 6 ready new"), "");
    assert_eq!(planned(&from_five(2), "4 ready new, 5 ready new, 6 ready new"), "-4");
    let slow = set(2, json!({"minReadySeconds": 10}));
    assert_eq!(planned(&slow, "0 young new"), "", "ready, but not for long enough");
    assert_eq!(planned(&slow, "0 ready new"), "+1");
}

#[test]
fn the_status_counts_by_revision() {
    let status = |there: &str| {
        let (set, pods, old, new) = (set(3, json!({})), pods(there), revision("old"), revision("new"));
        let pods: Vec<&Pod> = pods.iter().collect();
        let status = View { set: &set, pods: &pods, current: &old, update: &new, now: now() }.status();
        let numbers =
            [status.current_replicas, status.updated_replicas, status.ready_replicas].map(Option::unwrap_or_default);
        (status.replicas, numbers, status.available_replicas, status.current_revision.unwrap())
    };
    assert_eq!(status(""), (0, [0, 0, 0], Some(0), "old".to_owned()));
    assert_eq!(status("0 ready old, 1 starting new"), (2, [1, 1, 1], Some(1), "old".to_owned()));
    assert_eq!(status("0 ready old, 1 ending old, 2 ready new"), (3, [1, 1, 3], Some(3), "old".to_owned()));
    assert_eq!(
        status("0 ready new, 1 ready new, 2 ready new"),
        (3, [3, 3, 3], Some(3), "new".to_owned()),
        "rolled out"
    );
}

#[test]
fn a_pod_has_its_number_and_its_claims() {
    let set = set(
        1,
        json!({"volumeClaimTemplates": [
        {"metadata": {"name": "data", "labels": {"tier": "db"}}, "spec": {"accessModes": ["ReadWriteOnce"]}}]}),
    );
    let template = from_value(json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [],
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]}}))
    .unwrap();
    let made = pod::create(&set, &template, "web-abc", 7);
    assert_eq!(made.name_any(), "web-7");
    let labels: Vec<(&str, &str)> = made.labels().iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(
        labels,
        [
            ("app", "web"),
            ("apps.kubernetes.io/pod-index", "7"),
            ("controller-revision-hash", "web-abc"),
            ("statefulset.kubernetes.io/pod-name", "web-7"),
        ]
    );
    let spec = made.spec.unwrap();
    assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("web-7"), Some("web")));
    let volumes: Vec<(String, bool)> = spec
        .volumes
        .unwrap()
        .into_iter()
        .map(|volume| (volume.name, volume.persistent_volume_claim.is_some()))
        .collect();
    assert_eq!(volumes, [("data".to_owned(), true), ("tmp".to_owned(), false)]);
    let claims = pod::claims(&set, 7);
    assert_eq!((claims[0].0.as_str(), claims[0].1.name_any()), ("data", "data-web-7".to_owned()));
    assert_eq!(claims[0].1.labels().len(), 2, "its own, and those that the set selects by");
    for (name, expected) in
        [("web-7", Some(7)), ("web-07", Some(7)), ("web-", None), ("web-a", None), ("db-1", None), ("web-1-2", None)]
    {
        assert_eq!(pod::ordinal("web", name), expected, "{name}");
    }
}

#[test]
fn claims_belong_to_whom_the_policy_says() {
    let owner = |kind: &str, name: &str, uid: &str| {
        let group = if kind == "Pod" { "v1" } else { "apps/v1" };
        json!({"apiVersion": group, "kind": kind, "name": name, "uid": uid, "controller": true})
    };
    let (by_set, by_pod) = (owner("StatefulSet", "web", "set"), owner("Pod", "web-0", "web-0"));
    let foreign = json!({"apiVersion": "v1", "kind": "Backup", "name": "b", "uid": "b", "controller": true});
    for (scaled, deleted, place, given, expected) in [
        ("Retain", "Retain", Place::Within, json!([]), None),
        ("Retain", "Retain", Place::Within, json!([by_set]), Some(vec![])),
        ("Retain", "Delete", Place::Within, json!([]), Some(vec!["set"])),
        ("Retain", "Delete", Place::Beyond, json!([by_set]), None),
        ("Delete", "Retain", Place::Within, json!([]), None),
        ("Delete", "Retain", Place::Beyond, json!([]), Some(vec!["web-0"])),
        ("Delete", "Delete", Place::Within, json!([by_pod]), Some(vec!["set"])),
        ("Delete", "Delete", Place::Beyond, json!([by_set]), Some(vec!["web-0"])),
        ("Delete", "Delete", Place::Beyond, json!([foreign]), None),
        ("Delete", "Delete", Place::Beyond, json!([foreign, by_set]), Some(vec!["b"])),
        ("Delete", "Delete", Place::Within, json!([owner("StatefulSet", "web", "earlier")]), None),
    ] {
        let set =
            set(1, json!({"persistentVolumeClaimRetentionPolicy": {"whenScaled": scaled, "whenDeleted": deleted}}));
        let claim: PersistentVolumeClaim =
            from_value(json!({"metadata": {"name": "data-web-0", "ownerReferences": given}})).unwrap();
        let found = claims::owners(&claim, &set, &pods("0 ready new")[0], place);
        let found = found.map(|owners| owners.into_iter().map(|owner| owner.uid).collect::<Vec<_>>());
        let expected = expected.map(|uids| uids.into_iter().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(found, expected, "{scaled} {deleted} {place:?} {given}");
    }
}
