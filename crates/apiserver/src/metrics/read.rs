//! From a kubelet's summary to metrics. Pure.

use api::object::Fields;
use serde_json::{Value, json};

/// The time over which processors were measured: as often as kubelets look.
const WINDOW: &str = "10s";

fn usage(value: &Value) -> Option<Value> {
    let cpu = value.at("cpu.usageNanoCores").as_u64()?;
    let memory = value.at("memory.workingSetBytes").as_u64()?;
    Some(json!({"cpu": format!("{cpu}n"), "memory": format!("{}Ki", memory / 1024)}))
}

/// Nothing while the node has not been measured twice.
pub(super) fn node(node: &Value, summary: &Value) -> Option<Value> {
    let of_node = summary.at("node");
    let mut metadata = json!({"name": node.str_at("metadata.name"), "creationTimestamp": of_node.str_at("cpu.time")});
    if let Some(labels) = node.map_at("metadata.labels") {
        metadata["labels"] = labels.clone().into();
    }
    Some(
        json!({"metadata": metadata, "timestamp": of_node.str_at("cpu.time"), "window": WINDOW, "usage": usage(of_node)?}),
    )
}

/// Nothing while a container of it has not been measured twice.
pub(super) fn pod(pod: &Value, summaries: &[Value]) -> Option<Value> {
    let (uid, name) = (pod.str_at("metadata.uid"), pod.str_at("metadata.name"));
    let mut all = summaries.iter().flat_map(|summary| summary.list_at("pods"));
    let found = all.find(|one| one.str_at("podRef.uid") == uid)?;
    let containers: Option<Vec<Value>> = found
        .list_at("containers")
        .iter()
        .map(|one| Some(json!({"name": one.str_at("name"), "usage": usage(one)?})))
        .collect();
    let time = found.str_at("cpu.time");
    let mut metadata = json!({"name": name, "namespace": pod.str_at("metadata.namespace"), "creationTimestamp": time});
    if let Some(labels) = pod.map_at("metadata.labels") {
        metadata["labels"] = labels.clone().into();
    }
    Some(json!({"metadata": metadata, "timestamp": time, "window": WINDOW, "containers": containers?}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_twice_is_shown() {
        let used = |nanos: Option<u64>| json!({"cpu": {"time": "2026-01-01T00:00:00Z", "usageNanoCores": nanos}, "memory": {"workingSetBytes": 2048}});
        let container = |nanos| {
            let mut one = used(nanos);
            one["name"] = "c".into();
            one
        };
        let summary = |nanos| {
            let mut pod = used(nanos);
            (pod["podRef"], pod["containers"]) = (json!({"uid": "u"}), json!([container(nanos)]));
            json!({"node": used(nanos), "pods": [pod]})
        };
        let object = json!({"metadata": {"name": "x", "namespace": "n", "uid": "u", "labels": {"a": "b"}}});
        let wanted = json!({"cpu": "5n", "memory": "2Ki"});
        assert_eq!(node(&object, &summary(Some(5))).unwrap()["usage"], wanted);
        assert_eq!(pod(&object, &[summary(Some(5))]).unwrap()["containers"], json!([{"name": "c", "usage": wanted}]));
        assert_eq!(pod(&object, &[summary(Some(5))]).unwrap()["metadata"]["labels"], json!({"a": "b"}));
        assert_eq!(
            (node(&object, &summary(None)), pod(&object, &[summary(None)]), pod(&object, &[])),
            (None, None, None)
        );
    }
}
