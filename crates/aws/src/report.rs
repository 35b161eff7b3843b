//! What events about no single object are events of.

use k8s_openapi::api::core::v1::ObjectReference;

/// What concerns the whole cluster is told of the namespace of its components.
pub(crate) fn everybody() -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Namespace".to_owned()),
        name: Some("kube-system".to_owned()),
        ..ObjectReference::default()
    }
}
