//! The Service that pods ask, in every family the cluster has.

use super::{Parts, object};
use crate::operator::{DNS, NAME, Operand, POD_LABEL};
use serde_json::{Value, json};

pub(super) fn service(parts: &Parts<'_>) -> Value {
    let mut spec = json!({
        "type": "ClusterIP",
        "ipFamilyPolicy": "PreferDualStack",
        "ports": [
            {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "dns"},
            {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": "dns-tcp"},
        ],
    });
    if let Operand::Workload { .. } = parts.operand {
        spec["selector"] = json!({POD_LABEL: DNS});
        spec["trafficDistribution"] = "PreferClose".into();
    }
    if let Some(address) = parts.address {
        spec["clusterIP"] = address.to_string().into();
    }
    object("v1", "Service", NAME, json!({"spec": spec}))
}
