//! Volumes and claims: what may be asked for, and what may change afterwards.

use super::{CsiDriver, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment};
use crate::{error::FieldError, object::Fields, resource::Rules};
use serde_json::{Value, json};

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn claim(changes: &[(&str, Value)]) -> Value {
    let mut claim = json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    changes.iter().for_each(|(path, value)| claim.set(path, value.clone()));
    PersistentVolumeClaim.default(&mut claim);
    claim
}

fn volume(changes: &[(&str, Value)]) -> Value {
    let mut volume = json!({"metadata": {"name": "v"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"}}});
    changes.iter().for_each(|(path, value)| volume.set(path, value.clone()));
    PersistentVolume.default(&mut volume);
    volume
}

#[test]
fn a_claim_says_how_much_and_how() {
    assert_eq!(texts(&PersistentVolumeClaim.validate(&claim(&[]))), Vec::<String>::new());
    let wrong = claim(&[
        ("spec.accessModes", json!(["ReadWriteOnce", "ReadWriteOncePod", "Never"])),
        ("spec.resources.requests.storage", json!("0")),
        ("spec.storageClassName", json!("No Class")),
        ("spec.volumeMode", json!("Tape")),
    ]);
    let errors = texts(&PersistentVolumeClaim.validate(&wrong));
    assert_eq!(errors.len(), 5, "{errors:#?}");
    assert_eq!(errors[1], "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes");
    assert_eq!(errors[2], "spec.resources[storage]: Invalid value: \"0\": must be more than 0");
}

#[test]
fn a_claim_changes_only_by_being_bound_and_by_growing() {
    let rules = PersistentVolumeClaim;
    let fixed = "spec: Forbidden: spec is immutable after creation except resources.requests and \
                 volumeAttributesClassName for bound claims";
    let bound = |size: &str| {
        claim(&[
            ("spec.volumeName", json!("v")),
            ("spec.storageClassName", json!("s")),
            ("spec.resources.requests.storage", json!(size)),
            ("status", json!({"phase": "Bound", "capacity": {"storage": "1Gi"}})),
        ])
    };
    for (old, new, expected) in [
        (claim(&[]), claim(&[("spec.volumeName", json!("v"))]), vec![]),
        (claim(&[]), claim(&[("spec.storageClassName", json!("s"))]), vec![]),
        (claim(&[("spec.storageClassName", json!(""))]), claim(&[("spec.storageClassName", json!("s"))]), vec![fixed]),
        (claim(&[]), claim(&[("spec.resources.requests.storage", json!("2Gi"))]), vec![fixed]),
        (claim(&[]), claim(&[("spec.accessModes", json!(["ReadOnlyMany"]))]), vec![fixed]),
        (bound("1Gi"), bound("2Gi"), vec![]),
        (bound("3Gi"), bound("2Gi"), vec![]),
        (
            bound("3Gi"),
            bound("1Gi"),
            vec!["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"],
        ),
    ] {
        assert_eq!(texts(&rules.validate_update(&new, &old)), expected, "{old}\n{new}");
    }
}

#[test]
fn a_source_is_said_in_both_ways() {
    let source = json!({"kind": "PersistentVolumeClaim", "name": "other"});
    let mut made = claim(&[("spec.dataSource", source.clone())]);
    PersistentVolumeClaim.prepare_create(&mut made);
    assert_eq!(made["spec"]["dataSourceRef"], source);
    let mut strange = claim(&[("spec.dataSource", json!({"apiGroup": "x.y", "kind": "Z", "name": "n"}))]);
    PersistentVolumeClaim.prepare_create(&mut strange);
    assert!(strange["spec"]["dataSource"].is_null(), "what nobody knows is dropped");
}

#[test]
fn a_volume_is_one_thing_and_stays_it() {
    let rules = PersistentVolume;
    assert_eq!(texts(&rules.validate(&volume(&[]))), Vec::<String>::new());
    assert_eq!(
        texts(&rules.validate(&volume(&[("spec.hostPath", Value::Null)]))),
        ["spec: Required value: must specify a volume type"]
    );
    let local = volume(&[("spec.hostPath", Value::Null), ("spec.local", json!({"path": "/disk/../x"}))]);
    assert_eq!(
        texts(&rules.validate(&local)),
        [
            "spec.local.path: Invalid value: \"/disk/../x\": '..' is not accepted as a part of it",
            "spec.nodeAffinity: Required value: Local volume requires node affinity",
        ]
    );
    let two = volume(&[("spec.nfs", json!({"server": "s", "path": "/"}))]);
    assert_eq!(texts(&rules.validate(&two)), ["spec.nfs: Forbidden: may not specify more than 1 volume type"]);
    let moved = volume(&[("spec.hostPath.path", json!("/elsewhere"))]);
    assert_eq!(
        texts(&rules.validate_update(&moved, &volume(&[]))),
        ["spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"]
    );
    let grown = volume(&[("spec.capacity.storage", json!("2Gi")), ("spec.claimRef", json!({"name": "c"}))]);
    assert_eq!(texts(&rules.validate_update(&grown, &volume(&[]))), Vec::<String>::new());
}

#[test]
fn a_class_is_complete_and_stays_what_it_is() {
    let mut class = json!({"metadata": {"name": "s"}, "provisioner": "example.com/p"});
    StorageClass.default(&mut class);
    assert_eq!((&class["reclaimPolicy"], &class["volumeBindingMode"]), (&json!("Delete"), &json!("Immediate")));
    assert_eq!(texts(&StorageClass.validate(&class)), Vec::<String>::new());
    let mut other = class.clone();
    other["provisioner"] = "example.com/q".into();
    other["allowVolumeExpansion"] = true.into();
    assert_eq!(StorageClass.validate_update(&other, &class).len(), 1);
    class["metadata"]["annotations"] = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    assert_eq!(StorageClass.cells(&class, jiff::Timestamp::UNIX_EPOCH)[0], "s (default)");
}

#[test]
fn a_driver_has_what_upstream_fills_in() {
    let mut driver = json!({"metadata": {"name": "d.example.com"}, "spec": {}});
    CsiDriver.default(&mut driver);
    assert_eq!(
        driver["spec"],
        json!({"attachRequired": true, "podInfoOnMount": false, "storageCapacity": false, "requiresRepublish": false,
            "fsGroupPolicy": "ReadWriteOnceWithFSType", "seLinuxMount": false, "volumeLifecycleModes": ["Persistent"]})
    );
    let mut changed = driver.clone();
    changed["spec"]["attachRequired"] = false.into();
    assert_eq!(CsiDriver.validate_update(&changed, &driver).len(), 1);
}

#[test]
fn an_attachment_names_one_volume() {
    let attachment = |source: Value| json!({"metadata": {"name": "a"}, "spec": {"attacher": "d.example.com", "nodeName": "n", "source": source}});
    let exactly = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let csi = json!({"accessModes": ["ReadWriteOnce"], "csi": {"driver": "d.example.com", "volumeHandle": "h"}});
    for (source, expected) in [
        (json!({"persistentVolumeName": "v"}), vec![]),
        (json!({"inlineVolumeSpec": csi.clone()}), vec![]),
        (json!({}), vec![format!("spec.source: Required value: {exactly}")]),
        (
            json!({"persistentVolumeName": "v", "inlineVolumeSpec": csi}),
            vec![format!("spec.source: Forbidden: {exactly}")],
        ),
    ] {
        assert_eq!(texts(&VolumeAttachment.validate(&attachment(source))), expected);
    }
}
