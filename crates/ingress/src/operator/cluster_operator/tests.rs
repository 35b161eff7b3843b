//! The table of what the cluster is told.

use super::*;
use serde_json::Value;

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
const IMAGE: &str = "twinstack:2";

fn controller(name: &str, conditions: &[(&str, &str)]) -> Arc<IngressController> {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(kind, status)| json!({"type": kind, "status": status, "reason": "R", "message": "m", "lastTransitionTime": ""}))
        .collect();
    let object = json!({"metadata": {"name": name, "namespace": names::OPERATOR_NAMESPACE}, "status": {"conditions": conditions}});
    Arc::new(serde_json::from_value(object).unwrap())
}

fn shown(status: &ClusterOperatorStatus) -> Vec<String> {
    status.conditions.iter().map(|one| format!("{}={} {}", one.kind, one.status, one.reason)).collect()
}

#[test]
fn what_the_cluster_is_told_of_its_ingress_controllers() {
    let good = [("Available", "True"), ("Progressing", "False"), ("Degraded", "False"), ("Upgradeable", "True")];
    let with = |change: (&'static str, &'static str)| {
        let mut all = good.to_vec();
        all.retain(|(kind, _)| *kind != change.0);
        all.push(change);
        all
    };
    let names = ["Available", "Progressing", "Degraded", "Upgradeable", "EvaluationConditionsDetected"];
    let sound = [
        "True IngressAvailable",
        "False AsExpected",
        "False IngressNotDegraded",
        "True IngressControllersUpgradeable",
        "False AsExpected",
    ];
    for (what, controllers, changes) in [
        ("one, sound", vec![controller("default", &good)], vec![]),
        (
            "none",
            vec![],
            vec![(0, "False IngressDoesNotExist"), (1, "True Reconciling"), (2, "True IngressDoesNotExist")],
        ),
        (
            "one that says nothing yet",
            vec![controller("default", &[])],
            vec![
                (0, "Unknown IngressDoesNotHaveAvailableCondition"),
                (1, "True Reconciling"),
                (2, "Unknown IngressDoesNotHaveDegradedCondition"),
            ],
        ),
        (
            "not available",
            vec![controller("default", &with(("Available", "False")))],
            vec![(0, "False IngressUnavailable"), (1, "True Reconciling")],
        ),
        ("degraded", vec![controller("default", &with(("Degraded", "True")))], vec![(2, "True IngressDegraded")]),
        (
            "unknown",
            vec![controller("default", &with(("Degraded", "Unknown")))],
            vec![(2, "Unknown IngressDegradedStatusUnknown")],
        ),
        (
            "another one is down and degraded: only Progressing",
            vec![controller("default", &good), controller("other", &[("Available", "False"), ("Degraded", "True")])],
            vec![(1, "True Reconciling")],
        ),
        (
            "another one progresses",
            vec![controller("default", &good), controller("other", &with(("Progressing", "True")))],
            vec![(1, "True Reconciling")],
        ),
        (
            "another one is not upgradeable",
            vec![controller("default", &good), controller("other", &with(("Upgradeable", "False")))],
            vec![(3, "False IngressControllersNotUpgradeable")],
        ),
        (
            "another one is to be evaluated",
            vec![controller("default", &good), controller("other", &with(("EvaluationConditionsDetected", "True")))],
            vec![(4, "True IngressControllersHaveEvaluationConditions")],
        ),
    ] {
        let mut expected: Vec<String> =
            names.iter().zip(sound).map(|(name, condition)| format!("{name}={condition}")).collect();
        for (at, condition) in changes {
            expected[at] = format!("{}={condition}", names[at]);
        }
        let status = status(&ClusterOperatorStatus::default(), controllers, IMAGE, NOW);
        assert_eq!(shown(&status), expected, "{what}");
    }
}

#[test]
fn a_version_is_told_when_all_have_reached_it() {
    let (up, down) = ([("Available", "True")], [("Available", "False")]);
    let old = ClusterOperatorStatus {
        versions: vec![OperandVersion { name: "ingress-controller".to_owned(), version: "twinstack:1".to_owned() }],
        ..ClusterOperatorStatus::default()
    };
    for (conditions, expected) in [(&up, IMAGE), (&down, "twinstack:1")] {
        let status = status(&old, vec![controller("default", conditions)], IMAGE, NOW);
        let router = status.versions.iter().find(|one| one.name == "ingress-controller").unwrap();
        assert_eq!(router.version, expected);
        assert_eq!(shown(&status)[1].starts_with("Progressing=True"), expected != IMAGE);
    }
}

#[test]
fn conditions_of_others_and_times_are_kept() {
    let known = |kind: &str, status: &str| OperatorCondition {
        last_transition_time: "2026-01-01T00:00:00Z".to_owned(),
        ..condition(kind, status, "R", "m")
    };
    let before = ClusterOperatorStatus {
        conditions: vec![known("Available", "True"), known("Degraded", "True"), known("Theirs", "True")],
        ..ClusterOperatorStatus::default()
    };
    let good = [("Available", "True"), ("Degraded", "False")];
    let after = status(&before, vec![controller("default", &good)], IMAGE, NOW);
    let time = |kind: &str| after.conditions.iter().find(|one| one.kind == kind).unwrap().last_transition_time.clone();
    assert_eq!(time("Available"), "2026-01-01T00:00:00Z");
    assert_eq!(time("Theirs"), "2026-01-01T00:00:00Z");
    assert_eq!(time("Degraded"), merge::time(NOW));
}
