//! Whether a pod may run on a node, as far as only the two are concerned: selectors, affinity and taints.
//!
//! Used by the scheduler and by DaemonSets.

use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};
use std::collections::BTreeMap;

/// Whether `nodeSelector` and the required node affinity pick the node.
pub fn selects_node(spec: &PodSpec, node: &Node) -> bool {
    let labels = labels(node);
    let selected = spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    selected && required.is_none_or(|required| meets_one(required, node))
}

/// Whether the node meets one of the terms.
pub fn meets_one(selector: &NodeSelector, node: &Node) -> bool {
    selector.node_selector_terms.iter().any(|term| picks(term, node, labels(node)))
}

/// The weight of the preferred node affinity terms that pick the node.
pub(super) fn preference(spec: &PodSpec, node: &Node) -> i64 {
    let labels = labels(node);
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let preferred =
        affinity.and_then(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.as_ref());
    let liked = preferred.into_iter().flatten().filter(|term| picks(&term.preference, node, labels));
    liked.map(|term| i64::from(term.weight)).sum()
}

/// The first taint of the node with one of these effects that nobody tolerates.
pub fn untolerated<'a>(node: &'a Node, tolerations: &[Toleration], effects: &[&str]) -> Option<&'a Taint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints
        .into_iter()
        .flatten()
        .filter(|taint| effects.contains(&taint.effect.as_str()))
        .find(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

/// Whether a toleration covers a taint.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let effect = given(&toleration.effect).is_none_or(|effect| effect == taint.effect);
    let key = given(&toleration.key).is_none_or(|key| key == taint.key);
    let value = taint.value.as_deref().unwrap_or_default();
    let wanted = toleration.value.as_deref().unwrap_or_default();
    let number = |text: &str| text.parse::<i64>().ok();
    effect
        && key
        && match toleration.operator.as_deref().unwrap_or_default() {
            "Exists" => true,
            "" | "Equal" => wanted == value,
            "Lt" => number(value).zip(number(wanted)).is_some_and(|(value, wanted)| value < wanted),
            "Gt" => number(value).zip(number(wanted)).is_some_and(|(value, wanted)| value > wanted),
            _ => false,
        }
}

fn labels(node: &Node) -> &BTreeMap<String, String> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    node.metadata.labels.as_ref().unwrap_or(&NONE)
}

/// A term without any requirement picks nothing.
fn picks(term: &NodeSelectorTerm, node: &Node, labels: &BTreeMap<String, String>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let field = |rule: &NodeSelectorRequirement| node.metadata.name.as_ref().filter(|_| rule.key == "metadata.name");
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|rule| meets(rule, labels.get(&rule.key)))
        && fields.iter().all(|rule| meets(rule, field(rule)))
}

fn meets(rule: &NodeSelectorRequirement, value: Option<&String>) -> bool {
    let listed = || value.is_some_and(|value| rule.values.iter().flatten().any(|one| one == value));
    let compared = |test: fn(i64, i64) -> bool| {
        let limit = rule.values.as_ref().and_then(|values| values.first()).and_then(|text| text.parse().ok());
        value.and_then(|value| value.parse().ok()).zip(limit).is_some_and(|(value, limit)| test(value, limit))
    };
    match rule.operator.as_str() {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared(|value, limit| value > limit),
        "Lt" => compared(|value, limit| value < limit),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    #[test]
    fn tolerations_cover_taints() {
        let taint = |value: &str| Taint {
            key: "k".into(),
            value: Some(value.into()),
            effect: "NoSchedule".into(),
            time_added: None,
        };
        for (toleration, value, expected) in [
            (json!({"operator": "Exists"}), "v", true),
            (json!({"key": "k", "operator": "Exists"}), "v", true),
            (json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}), "v", false),
            (json!({"key": "k", "value": "v"}), "v", true),
            (json!({"key": "k", "value": "w", "operator": "Equal"}), "v", false),
            (json!({"key": "other", "operator": "Exists"}), "v", false),
            (json!({"key": "k", "operator": "Gt", "value": "5"}), "7", true),
            (json!({"key": "k", "operator": "Lt", "value": "5"}), "7", false),
            (json!({"key": "k", "operator": "Near"}), "v", false),
        ] {
            let toleration: Toleration = from_value(toleration).unwrap();
            assert_eq!(tolerates(&toleration, &taint(value)), expected, "{toleration:?} {value}");
        }
    }

    #[test]
    fn nodes_are_picked_by_labels_and_names() {
        let node: Node =
            from_value(json!({"metadata": {"name": "n1", "labels": {"zone": "a", "cores": "8"}}})).unwrap();
        let required = |term: Value| {
            json!({"containers": [], "affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}})
        };
        let expression = |key: &str, operator: &str, values: &[&str]| {
            required(json!({"matchExpressions": [
            {"key": key, "operator": operator, "values": values}]}))
        };
        for (spec, expected) in [
            (json!({"containers": []}), true),
            (json!({"containers": [], "nodeSelector": {"zone": "a"}}), true),
            (json!({"containers": [], "nodeSelector": {"zone": "b"}}), false),
            (expression("zone", "In", &["a", "b"]), true),
            (expression("zone", "NotIn", &["a"]), false),
            (expression("disk", "NotIn", &["a"]), true),
            (expression("disk", "Exists", &[]), false),
            (expression("disk", "DoesNotExist", &[]), true),
            (expression("cores", "Gt", &["4"]), true),
            (expression("cores", "Lt", &["4"]), false),
            (required(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]})), true),
            (required(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]})), false),
            (required(json!({})), false),
        ] {
            let pod: PodSpec = from_value(spec).unwrap();
            assert_eq!(selects_node(&pod, &node), expected, "{pod:?}");
        }
    }
}
