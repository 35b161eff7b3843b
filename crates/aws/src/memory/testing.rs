//! Settings and Services for tests, and changes of Services.

use crate::{
    apply::{Caution, Leftovers},
    cloud_config::GroupMode,
    memory::Example,
    model::{Settings, names::Cluster},
};
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};
use std::time::Duration;

/// Settings for the example account: managed groups, no shared probe.
#[must_use]
pub fn settings() -> Settings {
    Settings {
        cluster: Cluster {
            id: Example::CLUSTER.to_owned(),
            name: "kubernetes".to_owned(),
            vpc: Example::VPC.to_owned(),
            legacy_tag: false,
            uid: Some("0c1d-kube-system".to_owned()),
        },
        nlb_groups: GroupMode::Managed,
        disable_node_rules: false,
        elb_group: None,
        shared_probe: None,
        fallback_subnet: None,
    }
}

/// Sweeps that remove all that they find a second time.
pub const AT_ONCE: Caution = Caution { leftovers: Leftovers::Remove, age: Duration::ZERO, most: usize::MAX };

/// A Service of type LoadBalancer for a network load balancer with one TCP port; `change` is merged into it.
#[must_use]
pub fn service(name: &str, change: &Value) -> Service {
    let mut object = json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("{name}-0000-1111-2222-333344445555"),
            "annotations": {"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"},
        },
        "spec": {
            "type": "LoadBalancer", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "http", "port": 80, "nodePort": 30080, "protocol": "TCP"}],
        },
    });
    merge(&mut object, change);
    without_nulls(&mut object);
    serde_json::from_value(object).unwrap_or_default()
}

fn without_nulls(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, value| !value.is_null());
        map.values_mut().for_each(without_nulls);
    }
}

/// Merges one change into another, key by key. A null takes away what [`service`] would have there.
pub fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change.clone(),
    }
}

/// Several changes in one; a later one wins.
#[must_use]
pub fn merged(changes: &[Value]) -> Value {
    let mut all = json!({});
    changes.iter().for_each(|change| merge(&mut all, change));
    all
}

/// Families of a Service, as a change for [`service`].
#[must_use]
pub fn families(policy: &str, list: &[&str]) -> Value {
    json!({"spec": {"ipFamilyPolicy": policy, "ipFamilies": list}})
}

/// Ports of a Service, as a change for [`service`]: port, node port, protocol. They are named `p80tcp` and so on.
#[must_use]
pub fn ports(list: &[(u16, u16, &str)]) -> Value {
    let port = |(port, node, protocol): &(u16, u16, &str)| {
        let name = format!("p{port}{}", protocol.to_lowercase());
        json!({"name": name, "port": port, "nodePort": node, "protocol": protocol})
    };
    json!({"spec": {"ports": list.iter().map(port).collect::<Vec<Value>>()}})
}

/// Annotations by their suffixes, as a change for [`service`].
#[must_use]
pub fn annotated(pairs: &[(&str, &str)]) -> Value {
    let name = |suffix: &str| crate::model::annotations::name(suffix);
    let map: serde_json::Map<String, Value> =
        pairs.iter().map(|(suffix, value)| (name(suffix), json!(value))).collect();
    json!({"metadata": {"annotations": map}})
}
