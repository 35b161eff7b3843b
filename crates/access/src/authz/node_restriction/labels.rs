//! Labels that a kubelet may set on its own Node: its own, and of the Kubernetes ones only those listed here.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

const KUBELET: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Label prefixes that are the kubelet's.
const KUBELET_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// The labels that differ and that a kubelet must leave alone, sorted.
pub(super) fn forbidden(old: &Value, new: &Value) -> Vec<String> {
    let empty = Map::new();
    let (old, new) = (old.as_object().unwrap_or(&empty), new.as_object().unwrap_or(&empty));
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let changed = keys.into_iter().filter(|key| old.get(*key) != new.get(*key));
    changed.filter(|key| !is_free(key)).cloned().collect()
}

/// Whether two sets of labels are equal; absent and empty are the same.
pub(super) fn same(one: &Value, other: &Value) -> bool {
    let empty = Map::new();
    one.as_object().unwrap_or(&empty) == other.as_object().unwrap_or(&empty)
}

fn is_free(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let within =
        |parent: &str| domain.strip_suffix(parent).is_some_and(|before| before.is_empty() || before.ends_with('.'));
    // `node-restriction.kubernetes.io`, kept for administrators, is among these and in neither list.
    let kubernetes = within("kubernetes.io") || within("k8s.io");
    !kubernetes || KUBELET.contains(&label) || KUBELET_DOMAINS.into_iter().any(within)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_kubelet_may_set_its_own_labels_only() {
        for (label, free) in [
            ("plain", true),
            ("example.com/a", true),
            ("notkubernetes.io/a", true),
            ("kubernetes.io/hostname", true),
            ("topology.kubernetes.io/zone", true),
            ("node.kubernetes.io/anything", true),
            ("sub.kubelet.kubernetes.io/x", true),
            ("node-role.kubernetes.io/control-plane", false),
            ("kubernetes.io/other", false),
            ("x.k8s.io/a", false),
            ("k8s.io/a", false),
            ("node-restriction.kubernetes.io/secure", false),
            ("example.node-restriction.kubernetes.io/secure", false),
        ] {
            assert_eq!(is_free(label), free, "{label}");
        }
    }

    #[test]
    fn only_changed_labels_count() {
        let old = json!({"k8s.io/a": "1", "k8s.io/b": "1", "k8s.io/c": "1"});
        let new = json!({"k8s.io/a": "1", "k8s.io/b": "2", "k8s.io/d": "1", "own": "x"});
        assert_eq!(forbidden(&old, &new), ["k8s.io/b", "k8s.io/c", "k8s.io/d"]);
        assert!(same(&json!(null), &json!({})));
    }
}
