//! Which volume a claim gets, what is protected, and names of attachments.

use super::{
    attach, claims_of, host_path,
    matching::{Candidates, best, is_promised, reaches},
    protect::{Step, step},
};
use k8s_openapi::{
    api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::{Value, from_value, json};

fn claim(size: &str, class: &str) -> PersistentVolumeClaim {
    from_value(json!({"metadata": {"name": "c", "namespace": "d", "uid": "u"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "storageClassName": class}}))
    .unwrap()
}

fn volume(name: &str, size: &str, class: &str, more: Value) -> PersistentVolume {
    let mut volume = json!({"metadata": {"name": name, "labels": {"disk": name}}, "spec": {
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "capacity": {"storage": size}, "storageClassName": class},
        "status": {"phase": "Available"}});
    for (key, value) in more.as_object().unwrap() {
        volume["spec"][key] = value.clone();
    }
    from_value(volume).unwrap()
}

fn found(claim: &PersistentVolumeClaim, volumes: &[PersistentVolume], candidates: Candidates<'_>) -> Option<String> {
    best(claim, volumes, candidates).and_then(|volume| volume.metadata.name.clone())
}

#[test]
fn the_smallest_volume_that_does_is_taken() {
    let volumes = [
        volume("big", "10Gi", "", json!({})),
        volume("small", "1Gi", "", json!({})),
        volume("right", "5Gi", "", json!({})),
        volume("classy", "5Gi", "fast", json!({})),
        volume("block", "5Gi", "", json!({"volumeMode": "Block"})),
        volume("taken", "5Gi", "", json!({"claimRef": {"namespace": "d", "name": "other"}})),
    ];
    let all = Candidates::All;
    assert_eq!(found(&claim("2Gi", ""), &volumes, all).as_deref(), Some("right"));
    assert_eq!(found(&claim("6Gi", ""), &volumes, all).as_deref(), Some("big"));
    assert_eq!(found(&claim("20Gi", ""), &volumes, all), None);
    assert_eq!(found(&claim("2Gi", "fast"), &volumes, all).as_deref(), Some("classy"));
    assert_eq!(found(&claim("2Gi", ""), &volumes, Candidates::Promised), None);
    let mut picky = claim("1Gi", "");
    picky.spec.as_mut().unwrap().selector = Some(from_value(json!({"matchLabels": {"disk": "big"}})).unwrap());
    assert_eq!(found(&picky, &volumes, all).as_deref(), Some("big"));
    let mut many = claim("1Gi", "");
    many.spec.as_mut().unwrap().access_modes = Some(vec!["ReadWriteMany".to_owned()]);
    assert_eq!(found(&many, &volumes, all), None);
}

#[test]
fn a_volume_that_is_promised_comes_first_and_is_nobody_elses() {
    let promised = volume("promised", "9Gi", "", json!({"claimRef": {"namespace": "d", "name": "c"}}));
    let volumes = [volume("free", "1Gi", "", json!({})), promised.clone()];
    assert_eq!(found(&claim("1Gi", ""), &volumes, Candidates::All).as_deref(), Some("promised"));
    assert_eq!(found(&claim("1Gi", ""), &volumes, Candidates::Promised).as_deref(), Some("promised"));
    let mut other = claim("1Gi", "");
    other.metadata.name = Some("x".to_owned());
    assert_eq!(found(&other, &volumes, Candidates::All).as_deref(), Some("free"));
    let mut kept = promised;
    kept.spec.as_mut().unwrap().claim_ref.as_mut().unwrap().uid = Some("of one that is gone".to_owned());
    assert!(!is_promised(&claim("1Gi", ""), &kept), "a claim of the same name is another claim");
}

#[test]
fn a_volume_reaches_the_nodes_that_it_names() {
    let node = |name: &str| -> Node {
        from_value(json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})).unwrap()
    };
    let local = volume(
        "l",
        "1Gi",
        "",
        json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}]}}}),
    );
    assert!(reaches(&local, &node("a")) && !reaches(&local, &node("b")));
    assert!(reaches(&volume("any", "1Gi", "", json!({})), &node("b")));
    assert_eq!(
        found(&claim("1Gi", ""), std::slice::from_ref(&local), Candidates::On(&node("a"))).as_deref(),
        Some("l")
    );
    assert_eq!(found(&claim("1Gi", ""), &[local], Candidates::On(&node("b"))), None);
}

#[test]
fn what_is_in_use_keeps_its_finalizer() {
    let meta = |finalizers: &[&str], deleted: bool| -> ObjectMeta {
        from_value(json!({"finalizers": finalizers, "deletionTimestamp": deleted.then_some("2026-01-01T00:00:00Z")}))
            .unwrap()
    };
    for (finalizers, deleted, in_use, expected) in [
        (&[][..], false, false, Step::Add),
        (&["f"][..], false, true, Step::Keep),
        (&["f"][..], true, true, Step::Keep),
        (&["f", "g"][..], true, false, Step::Remove),
        (&["g"][..], true, false, Step::Keep),
    ] {
        assert_eq!(step(&meta(finalizers, deleted), "f", in_use), expected, "{finalizers:?} {deleted} {in_use}");
    }
}

#[test]
fn a_pod_has_the_claims_it_names_and_those_made_for_it() {
    let pod: Pod = from_value(json!({"metadata": {"name": "p"}, "spec": {"containers": [], "volumes": [
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "b", "ephemeral": {}},
        {"name": "c", "emptyDir": {}}]}}))
    .unwrap();
    assert_eq!(claims_of(&pod), ["data", "p-b"]);
}

#[test]
fn attachments_have_upstreams_names() {
    let name = attach::name("handle", "driver", "node");
    assert_eq!(name, "csi-fdef298eb16db6fa42906ef1ff09a93a7f3028f8290cc9d71628ff91c237bfa7");
    assert_ne!(name, attach::name("handle", "driver", "other"));
}

#[test]
fn the_class_of_up_is_the_default_and_waits() {
    let class = host_path::class();
    assert!(api::kinds::storage::is_default(&class));
    assert_eq!(class["volumeBindingMode"], "WaitForFirstConsumer");
}
