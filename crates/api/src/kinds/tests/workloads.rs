//! Deployment, ReplicaSet, DaemonSet, StatefulSet, ReplicationController, ControllerRevision, PodDisruptionBudget, PriorityClass.

use super::*;

const LABELS: &str = "spec.template.metadata.labels";

fn workload(more: Value) -> Value {
    let mut spec = json!({
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    });
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"spec": spec})
}

/// What selector and template of all three share.
fn shared() -> Vec<Mistake<'static>> {
    vec![
        ("/spec/selector", json!({"matchLabels": {"app": "db"}}), LABELS, Invalid),
        ("/spec/template/metadata/labels", json!({}), LABELS, Invalid),
        ("/spec/template/spec/restartPolicy", json!("Never"), "spec.template.spec.restartPolicy", NotSupported),
        ("/spec/template/spec/activeDeadlineSeconds", json!(5), "spec.template.spec.activeDeadlineSeconds", Forbidden),
        ("/spec/template/spec/containers", json!([]), "spec.template.spec.containers", Required),
        ("/spec/template/spec/containers/0/image", json!(""), "spec.template.spec.containers[0].image", Required),
        ("/spec/minReadySeconds", json!(-1), "spec.minReadySeconds", Invalid),
        ("/metadata", json!({"name": "Bad"}), "metadata.name", Invalid),
    ]
}

#[test]
fn deployments() {
    let good = workload(json!({
        "replicas": 2, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
    }));
    let rolling = |field: &str| format!("spec.strategy.rollingUpdate.{field}");
    let (surge, unavailable) = (rolling("maxSurge"), rolling("maxUnavailable"));
    let mut mistakes = shared();
    mistakes.extend([
        ("/spec/replicas", json!(-1), "spec.replicas", Invalid),
        ("/spec/progressDeadlineSeconds", json!(0), "spec.progressDeadlineSeconds", Invalid),
        ("/spec/minReadySeconds", json!(600), "spec.progressDeadlineSeconds", Invalid),
        ("/spec/strategy/type", json!("Recreate"), "spec.strategy.rollingUpdate", Forbidden),
        ("/spec/strategy/type", json!("Slow"), "spec.strategy", NotSupported),
        ("/spec/strategy/rollingUpdate/maxSurge", json!("x"), surge.as_str(), Invalid),
        ("/spec/strategy/rollingUpdate/maxSurge", json!(-1), surge.as_str(), Invalid),
        ("/spec/strategy/rollingUpdate/maxUnavailable", json!("101%"), unavailable.as_str(), Invalid),
    ]);
    refuses("apps", "deployments", &good, &mistakes);
    keeps(
        "apps",
        "deployments",
        &good,
        &[
            ("/spec/replicas", json!(-1), "spec.replicas", Invalid),
            (
                "/spec/selector",
                json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
                "spec.selector",
                Invalid,
            ),
        ],
    );
}

#[test]
fn a_selector_with_mistakes_leaves_the_template_unread() {
    let bad = workload(json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}));
    let operator = ("spec.selector.matchExpressions[0].operator".to_owned(), Invalid);
    let whole = ("spec.selector".to_owned(), Invalid);
    for (plural, wanted) in [
        ("deployments", vec![operator.clone(), whole.clone()]),
        ("replicasets", vec![operator.clone(), whole.clone()]),
        ("statefulsets", vec![operator.clone(), whole]),
        ("daemonsets", vec![operator]),
    ] {
        assert_eq!(create(&resource("apps", plural), &bad).1, wanted, "{plural}");
    }
}

#[test]
fn replicasets_and_daemonsets() {
    refuses("apps", "replicasets", &workload(json!({})), &shared());
    keeps(
        "apps",
        "replicasets",
        &workload(json!({})),
        &[(
            "/spec/selector",
            json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
            "spec.selector",
            Invalid,
        )],
    );
    let mut mistakes = shared();
    mistakes.extend([
        ("/spec/updateStrategy", json!({"type": "Slow"}), "spec.updateStrategy", NotSupported),
        (
            "/spec/updateStrategy",
            json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
            "spec.updateStrategy.rollingUpdate.maxUnavailable",
            Required,
        ),
        (
            "/spec/updateStrategy",
            json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}),
            "spec.updateStrategy.rollingUpdate.maxSurge",
            Invalid,
        ),
        ("/spec/selector", json!({}), "spec.selector", Invalid),
    ]);
    refuses("apps", "daemonsets", &workload(json!({})), &mistakes);
}

#[test]
fn statefulsets() {
    let good = workload(json!({
        "serviceName": "web", "replicas": 2, "ordinals": {"start": 3},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1, "maxUnavailable": "50%"}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"hostname": "Not Looked At", "containers": [
            {"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]}},
    }));
    let (claims, rolling) = ("/spec/volumeClaimTemplates/0/spec", "/spec/updateStrategy/rollingUpdate");
    let most = "spec.updateStrategy.rollingUpdate.maxUnavailable";
    let (no_modes, no_storage) = (format!("{claims}/accessModes"), format!("{claims}/resources"));
    let (maximum, partition) = (format!("{rolling}/maxUnavailable"), format!("{rolling}/partition"));
    let mut mistakes: Vec<Mistake<'_>> =
        shared().into_iter().filter(|(pointer, ..)| !pointer.contains("containers")).collect();
    mistakes.extend([
        ("/spec/replicas", json!(-1), "spec.replicas", Invalid),
        ("/spec/ordinals/start", json!(-1), "spec.ordinals.start", Invalid),
        ("/spec/podManagementPolicy", json!("Random"), "spec.podManagementPolicy", Invalid),
        ("/spec/serviceName", json!("a.b"), "spec.serviceName", Invalid),
        ("/spec/updateStrategy/type", json!("OnDelete"), "spec.updateStrategy.rollingUpdate", Invalid),
        ("/spec/updateStrategy/type", json!("Recreate"), "spec.updateStrategy", Invalid),
        (maximum.as_str(), json!(0), most, Invalid),
        (maximum.as_str(), json!("101%"), most, Invalid),
        (partition.as_str(), json!(-1), "spec.updateStrategy.rollingUpdate.partition", Invalid),
        (no_modes.as_str(), json!([]), "spec.volumeClaimTemplates[0].spec.accessModes", Required),
        (no_storage.as_str(), json!({}), "spec.volumeClaimTemplates[0].spec.resources[storage]", Required),
        (
            "/spec/persistentVolumeClaimRetentionPolicy",
            json!({"whenScaled": "Keep"}),
            "spec.persistentVolumeClaimRetentionPolicy.whenScaled",
            NotSupported,
        ),
        ("/metadata", json!({"name": "a.b"}), "metadata.name", Invalid),
    ]);
    refuses("apps", "statefulsets", &good, &mistakes);
    keeps(
        "apps",
        "statefulsets",
        &good,
        &[
            ("/spec/serviceName", json!("other"), "spec.serviceName", Invalid),
            ("/spec/podManagementPolicy", json!("Parallel"), "spec.podManagementPolicy", Invalid),
            ("/spec/volumeClaimTemplates/0/metadata/labels", json!({"a": "b"}), "spec.volumeClaimTemplates", Invalid),
        ],
    );
    let rules = resource("apps", "statefulsets");
    let (stored, _) = create(&rules, &good);
    assert_eq!(stored.at("spec.podManagementPolicy"), "OrderedReady");
    assert_eq!(stored.at("status"), &json!({"replicas": 0, "availableReplicas": 0}));
    assert_eq!(stored["spec"]["volumeClaimTemplates"][0]["kind"], "PersistentVolumeClaim");
    for field in ["replicas", "minReadySeconds", "revisionHistoryLimit", "ordinals"] {
        let next = if field == "ordinals" { json!({"start": 1}) } else { json!(7) };
        assert_eq!(update(&rules, &changed(&stored, &format!("/spec/{field}"), &next), &stored), [], "{field}");
    }
}

#[test]
fn replication_controllers_and_pod_templates() {
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let good = json!({"spec": {"selector": {"app": "web"}, "template": template}});
    let mut mistakes: Vec<Mistake<'_>> =
        shared().into_iter().filter(|(pointer, ..)| *pointer != "/spec/selector").collect();
    mistakes.extend([
        ("/spec/selector", json!({"app": "db"}), LABELS, Invalid),
        ("/spec/replicas", json!(-1), "spec.replicas", Invalid),
    ]);
    refuses("", "replicationcontrollers", &good, &mistakes);
    let rules = resource("", "replicationcontrollers");
    let (stored, wrong) = create(&rules, &json!({"spec": {"template": template}}));
    assert_eq!(wrong, []);
    for path in ["spec.selector", "metadata.labels"] {
        assert_eq!(stored.at(path), &json!({"app": "web"}), "what is not said is the template's: {path}");
    }
    let moved = changed(&stored, "/spec/selector", &json!({"app": "web", "tier": "a"}));
    let moved = changed(&moved, "/spec/template/metadata/labels", &json!({"app": "web", "tier": "a"}));
    assert_eq!(update(&rules, &moved, &stored), [], "its selector may change");
    let wanted: Vec<(String, Reason)> =
        ["spec.selector", "spec.template"].map(|field| (field.to_owned(), Required)).into();
    assert_eq!(create(&rules, &json!({"spec": {}})).1, wanted);

    refuses(
        "",
        "podtemplates",
        &json!({"template": template}),
        &[("/template/spec/containers", json!([]), "template.spec.containers", Required)],
    );
}

#[test]
fn a_daemonset_counts_the_changes_of_its_template() {
    let rules = resource("apps", "daemonsets");
    let (stored, _) = create(&rules, &workload(json!({})));
    let generation = |set: &Value| set.at("metadata.annotations")["deprecated.daemonset.template.generation"].clone();
    assert_eq!(generation(&stored), "1");
    let mut next = changed(&stored, "/spec/template/spec/containers/0/image", &json!("j"));
    rules.rules.prepare_update(&mut next, &stored);
    assert_eq!(generation(&next), "2");
}

#[test]
fn statuses_of_workloads_add_up() {
    let status = json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 1, "updatedReplicas": 1});
    let rules = resource("apps", "deployments");
    let (stored, _) = create(&rules, &workload(json!({})));
    assert_eq!(update_status(&rules, status.clone(), &stored), []);
    for (field, value) in [("replicas", 1), ("readyReplicas", 3), ("availableReplicas", -1), ("updatedReplicas", 3)] {
        assert_ne!(
            update_status(&rules, changed(&status, &format!("/{field}"), &json!(value)), &stored),
            [],
            "{field}"
        );
    }
}

#[test]
fn small_kinds() {
    let revision = json!({"data": {"a": 1}, "revision": 1});
    refuses(
        "apps",
        "controllerrevisions",
        &revision,
        &[("/revision", json!(-1), "revision", Invalid), ("/data", json!(null), "data", Required)],
    );
    keeps("apps", "controllerrevisions", &revision, &[("/data", json!({"a": 2}), "data", Invalid)]);

    let budget = json!({"spec": {"minAvailable": 1, "selector": {}}});
    refuses(
        "policy",
        "poddisruptionbudgets",
        &budget,
        &[
            ("/spec/maxUnavailable", json!(1), "spec", Invalid),
            ("/spec/minAvailable", json!(-1), "spec.minAvailable", Invalid),
            ("/spec/minAvailable", json!("101%"), "spec.minAvailable", Invalid),
            ("/spec/minAvailable", json!("some"), "spec.minAvailable", Invalid),
            ("/spec/selector", json!({"matchLabels": {"a": "b c"}}), "spec.selector.matchLabels", Invalid),
            ("/spec/unhealthyPodEvictionPolicy", json!("Maybe"), "spec.unhealthyPodEvictionPolicy", NotSupported),
        ],
    );

    let class = json!({"metadata": {"name": "high"}, "value": 5});
    refuses(
        "scheduling.k8s.io",
        "priorityclasses",
        &class,
        &[
            ("/value", json!(1_000_000_001), "value", Forbidden),
            ("/metadata/name", json!("system-mine"), "metadata.name", Forbidden),
            ("/preemptionPolicy", json!("Sometimes"), "preemptionPolicy", NotSupported),
        ],
    );
    keeps(
        "scheduling.k8s.io",
        "priorityclasses",
        &class,
        &[("/value", json!(6), "value", Forbidden), ("/preemptionPolicy", json!("Never"), "preemptionPolicy", Invalid)],
    );
}
