//! `pods/NAME/binding`: the scheduler's word on which node a Pod runs.

use crate::{
    admission,
    answer::{self, Answer},
    call::Call,
    request::{
        body,
        query::{Write, WriteOptions},
    },
    verbs::{
        create,
        update::{self, Tracking},
        write::Part,
    },
};
use api::{
    error::{ApiError, FieldError},
    object::{Fields, timestamp},
    path::Path,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// POST: sets the node of a Pod that has none.
pub(super) async fn bind(call: &Call, bytes: &[u8]) -> Result<Answer, ApiError> {
    let mut binding = body::parse(bytes, &call.content_type)?.value;
    body::expect_kind(&mut binding, "v1", "Binding")?;
    if binding.str_at("metadata.name") != call.request.name {
        return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
    }
    bind_pod(call, binding).await
}

/// POST to `bindings`: the Pod is named by the object.
pub(super) async fn bind_named(call: &Call, binding: Value) -> Result<Answer, ApiError> {
    let registry = call.server.registry();
    let pods = registry.get("", "v1", "pods").ok_or_else(|| call.not_allowed())?;
    let mut request = call.request.clone();
    request.resource = "pods".into();
    request.subresource = "binding".into();
    request.name = binding.str_at("metadata.name").to_owned();
    bind_pod(&call.about(Arc::clone(pods), request), binding).await
}

async fn bind_pod(call: &Call, mut binding: Value) -> Result<Answer, ApiError> {
    create::match_namespace(call, &mut binding)?;
    let binding = admission::below(call, binding).await?;
    let options = WriteOptions::new(&call.query, Write::Create)?;
    let kind = binding.str_at("target.kind");
    let node = binding.str_at("target.name").to_owned();
    let mut errors = Vec::new();
    let target = Path::new("target");
    if !kind.is_empty() && kind != "Node" {
        errors.push(FieldError::not_supported(&target.child("kind"), kind, &["Node", "<empty>"]));
    }
    if node.is_empty() {
        errors.push(FieldError::required(&target.child("name"), "name the node that the Pod is to run on"));
    }
    if !errors.is_empty() {
        return Err(ApiError::invalid("Binding", "", &call.request.name, &errors));
    }
    let now = timestamp(call.server.now());
    update::change(call, Part::Binding, &options, Tracking::Update, |old| {
        let bound = old.str_at("spec.nodeName");
        if !old.at("metadata.deletionTimestamp").is_null() {
            return Err(
                call.conflict(format!("pod {} is being deleted, cannot be assigned to a host", call.request.name))
            );
        }
        if !bound.is_empty() {
            return Err(call.conflict(format!("pod {} is already assigned to node {bound:?}", call.request.name)));
        }
        if !old.list_at("spec.schedulingGates").is_empty() {
            return Err(call.conflict(format!("pod {} has non-empty .spec.schedulingGates", call.request.name)));
        }
        let mut pod = old.clone();
        pod.remove("metadata.resourceVersion");
        for path in ["metadata.uid", "metadata.resourceVersion"] {
            if !binding.str_at(path).is_empty() {
                pod.set(path, binding.str_at(path));
            }
        }
        pod.set("spec.nodeName", node.as_str());
        // Room that was made for it is taken now.
        pod.remove("status.nominatedNodeName");
        for (key, value) in binding.map_at("metadata.annotations").into_iter().flatten() {
            pod.at_mut("metadata.annotations")[key.as_str()] = value.clone();
        }
        scheduled(&mut pod, &now);
        Ok(pod.into())
    })
    .await?;
    answer::value(
        call,
        201,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    )
}

fn scheduled(pod: &mut Value, now: &str) {
    let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    let conditions = pod.at_mut("status.conditions");
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    if let Value::Array(list) = conditions {
        match list.iter_mut().find(|known| known.str_at("type") == "PodScheduled") {
            Some(known) => *known = condition,
            None => list.push(condition),
        }
    }
}
