//! Says on a pod that is taken away why, so that a Job can tell a disruption from a failure of its own.

use super::now;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use runtime::client::Api;
use serde_json::json;

/// Writes the condition `DisruptionTarget`.
pub(crate) async fn mark(api: &Api<Pod>, pod: &Pod, reason: &str, message: &str) -> kube::Result<()> {
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message,
        "lastTransitionTime": now().to_string()});
    patch(api, pod, json!({"conditions": [condition]})).await
}

/// Writes that a pod has failed, for nobody else will.
pub(crate) async fn fail(api: &Api<Pod>, pod: &Pod) -> kube::Result<()> {
    patch(api, pod, json!({"phase": "Failed"})).await
}

async fn patch(api: &Api<Pod>, pod: &Pod, status: serde_json::Value) -> kube::Result<()> {
    let patch = json!({"metadata": {"uid": pod.uid()}, "status": status});
    api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await.map(drop)
}
