//! What a node's silence and conditions mean: conditions that are no longer known, and taints. Pure.

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Node, NodeCondition, Taint},
    apimachinery::pkg::apis::meta::v1::Time,
};

const READY: &str = "Ready";

/// Conditions that only the node itself can tell.
const OWN: [&str; 4] = [READY, "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Condition, its status, and the taint that goes with it.
const TAINTS: [(&str, &str, &str); 6] = [
    (READY, "False", "node.kubernetes.io/not-ready"),
    (READY, "Unknown", "node.kubernetes.io/unreachable"),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];

const CLOSED: &str = "node.kubernetes.io/unschedulable";

/// A condition's status; empty when the node has none.
pub(super) fn condition<'a>(node: &'a Node, kind: &str) -> &'a str {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().find(|one| one.type_ == kind).map(|one| one.status.as_str()).unwrap_or_default()
}

/// Whether nobody knows how the node is.
pub(super) fn is_unknown(node: &Node) -> bool {
    condition(node, READY) == "Unknown"
}

/// The conditions of a node that has fallen silent; none when they say so already.
pub(super) fn unknown(node: &Node, now: Timestamp) -> Option<Vec<NodeCondition>> {
    let mut conditions = node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let mut changed = false;
    for kind in OWN {
        let (reason, message) = match conditions.iter().find(|one| one.type_ == kind) {
            Some(known) if known.status == "Unknown" => continue,
            Some(_) => ("NodeStatusUnknown", "Kubelet stopped posting node status."),
            None => ("NodeStatusNeverUpdated", "Kubelet never posted node status."),
        };
        changed = true;
        let known = conditions.iter().position(|one| one.type_ == kind);
        let heartbeat = known.and_then(|at| conditions[at].last_heartbeat_time.clone());
        let condition = NodeCondition {
            type_: kind.to_owned(),
            status: "Unknown".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: heartbeat.or_else(|| node.metadata.creation_timestamp.clone()),
            last_transition_time: Some(Time(now)),
        };
        match known {
            Some(at) => conditions[at] = condition,
            None => conditions.push(condition),
        }
    }
    changed.then_some(conditions)
}

/// The taints that the node should have; none when it has them. Those of others stay as they are.
pub(super) fn taints(node: &Node, now: Timestamp) -> Option<Vec<Taint>> {
    let spec = node.spec.clone().unwrap_or_default();
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    for (kind, status, key) in TAINTS {
        if condition(node, kind) == status {
            wanted.push((key, "NoSchedule"));
            if kind == READY {
                wanted.push((key, "NoExecute"));
            }
        }
    }
    if spec.unschedulable == Some(true) {
        wanted.push((CLOSED, "NoSchedule"));
    }
    let old = spec.taints.unwrap_or_default();
    // A node that has not said anything keeps the taint it was born with.
    let newborn = condition(node, READY).is_empty();
    let ours = |taint: &Taint| {
        let ready = taint.key == TAINTS[0].2 || taint.key == TAINTS[1].2;
        let known = TAINTS.iter().any(|(_, _, key)| *key == taint.key) || taint.key == CLOSED;
        let managed = taint.effect == "NoSchedule" || (ready && taint.effect == "NoExecute");
        known && managed && !(newborn && ready)
    };
    let mut taints: Vec<Taint> =
        old.iter().filter(|taint| !ours(taint) || wanted.contains(&(&taint.key, &taint.effect))).cloned().collect();
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| taint.key == key && taint.effect == effect) {
            let time_added = Some(Time(now));
            taints.push(Taint { key: key.to_owned(), effect: effect.to_owned(), time_added, value: None });
        }
    }
    (taints != old).then_some(taints)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn node(ready: &str, spec: Value) -> Node {
        let conditions = if ready.is_empty() { json!([]) } else { json!([{"type": "Ready", "status": ready}]) };
        from_value(json!({"metadata": {"name": "n"}, "spec": spec, "status": {"conditions": conditions}})).unwrap()
    }

    fn texts(taints: Option<Vec<Taint>>) -> Option<Vec<String>> {
        Some(
            taints?
                .iter()
                .map(|taint| format!("{}:{}", taint.key.replace("node.kubernetes.io/", ""), taint.effect))
                .collect(),
        )
    }

    #[test]
    fn taints_follow_conditions() {
        let has = |taints: &[(&str, &str)]| -> Value {
            taints.iter().map(|(key, effect)| json!({"key": key, "effect": effect})).collect()
        };
        let not_ready = "node.kubernetes.io/not-ready";
        for (ready, spec, expected) in [
            ("True", json!({}), None),
            ("False", json!({}), Some(vec!["not-ready:NoSchedule", "not-ready:NoExecute"])),
            ("Unknown", json!({}), Some(vec!["unreachable:NoSchedule", "unreachable:NoExecute"])),
            (
                "True",
                json!({"taints": has(&[(not_ready, "NoSchedule"), ("mine", "NoExecute")])}),
                Some(vec!["mine:NoExecute"]),
            ),
            (
                "Unknown",
                json!({"taints": has(&[(not_ready, "NoExecute")])}),
                Some(vec!["unreachable:NoSchedule", "unreachable:NoExecute"]),
            ),
            ("", json!({"taints": has(&[(not_ready, "NoSchedule")])}), None),
            ("True", json!({"unschedulable": true}), Some(vec!["unschedulable:NoSchedule"])),
            ("True", json!({"taints": has(&[(CLOSED, "NoSchedule")])}), Some(vec![])),
        ] {
            let found = texts(taints(&node(ready, spec.clone()), now()));
            assert_eq!(found, expected.map(|list| list.into_iter().map(str::to_owned).collect()), "{ready} {spec}");
        }
    }

    #[test]
    fn silence_makes_what_the_node_said_unknown() {
        let conditions = unknown(&node("True", json!({})), now()).unwrap();
        let found: Vec<(&str, &str, &str)> = conditions
            .iter()
            .map(|one| (one.type_.as_str(), one.status.as_str(), one.reason.as_deref().unwrap()))
            .collect();
        assert_eq!(found[0], ("Ready", "Unknown", "NodeStatusUnknown"));
        assert_eq!(found[1], ("MemoryPressure", "Unknown", "NodeStatusNeverUpdated"));
        let mut silent = node("True", json!({}));
        silent.status.as_mut().unwrap().conditions = Some(conditions);
        assert_eq!(unknown(&silent, now()), None);
        assert!(is_unknown(&silent));
    }
}
