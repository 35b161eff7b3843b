//! Events about Pods and their containers, in upstream's words.

use super::Pods;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use runtime::controller::reference;

/// Which field of a Pod an event about a container is about.
fn about(pod: &Pod, container: Option<&str>) -> ObjectReference {
    let mut object = reference(pod);
    let Some(name) = container else { return object };
    let spec = pod.spec.clone().unwrap_or_default();
    let field = match () {
        () if spec.containers.iter().any(|one| one.name == name) => "containers",
        () if spec.init_containers.iter().flatten().any(|one| one.name == name) => "initContainers",
        () => "ephemeralContainers",
    };
    object.field_path = Some(format!("spec.{field}{{{name}}}"));
    object
}

impl Pods {
    pub(super) async fn normal(&self, pod: &Pod, container: Option<&str>, reason: &str, note: impl Into<String>) {
        self.events.normal(&about(pod, container), reason, note).await;
    }

    pub(super) async fn warn(&self, pod: &Pod, container: Option<&str>, reason: &str, note: impl Into<String>) {
        self.events.warning(&about(pod, container), reason, note).await;
    }
}
