//! Nodes: kubelets write only what concerns their own, and a new one is not ready.

use crate::call::Call;
use access::authz::node_restriction::{self, Operation, Write};
use api::{error::ApiError, object::Fields};
use serde_json::{Value, json};

/// A new node gets no pods before somebody has said that it is ready.
pub(super) fn taint_new(node: &mut Value) {
    const NOT_READY: &str = "node.kubernetes.io/not-ready";
    let has = |taint: &Value| taint.str_at("key") == NOT_READY && taint.str_at("effect") == "NoSchedule";
    if !node.list_at("spec.taints").iter().any(has) {
        let taint = json!({"key": NOT_READY, "effect": "NoSchedule"});
        match node.at_mut("spec.taints") {
            Value::Array(taints) => taints.push(taint),
            other => *other = json!([taint]),
        }
    }
}

/// Refuses writes of a node that concern others; `old` is absent on create.
pub(super) fn restrict(call: &Call, object: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    admit(call, operation, object, old.unwrap_or(&Value::Null))
}

/// The same for a deletion.
pub(super) fn restrict_delete(call: &Call, old: &Value) -> Result<(), ApiError> {
    admit(call, Operation::Delete, &Value::Null, old)
}

fn admit(call: &Call, operation: Operation, object: &Value, old: &Value) -> Result<(), ApiError> {
    let request = &call.request;
    let name = if request.name.is_empty() { object.str_at("metadata.name") } else { &request.name };
    let write = Write {
        user: &call.user,
        operation,
        group: &call.resource.group,
        resource: &call.resource.plural,
        subresource: &request.subresource,
        namespace: &request.namespace,
        name,
        object,
        old,
    };
    node_restriction::admit(write, &*call.server, call.server.access.chain())
}
