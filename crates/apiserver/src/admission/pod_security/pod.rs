//! A pod as the checks see it: metadata and spec of a Pod or of a template, and its containers in upstream's order.

use api::object::Fields;
use serde_json::Value;

/// What is checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodView<'a> {
    metadata: &'a Value,
    spec: &'a Value,
}

impl<'a> PodView<'a> {
    /// Of a Pod, or of an object that has `metadata` and `spec` like one.
    pub(super) fn new(pod: &'a Value) -> Self {
        Self { metadata: pod.at("metadata"), spec: pod.at("spec") }
    }

    pub(super) fn spec(&self) -> &'a Value {
        self.spec
    }

    pub(super) fn security_context(&self) -> &'a Value {
        self.spec.at("securityContext")
    }

    pub(super) fn annotations(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let all = self.metadata.map_at("annotations").into_iter().flatten();
        all.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    /// The annotation of exactly this key; keys have dots, so a dotted path cannot name them.
    pub(super) fn annotation(&self, key: &str) -> Option<&'a str> {
        self.metadata.map_at("annotations")?.get(key)?.as_str()
    }

    /// Init containers, containers, ephemeral containers.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Value> {
        ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|list| self.spec.list_at(list))
    }

    /// The names of the containers that `is_bad` finds.
    pub(super) fn bad_containers(&self, mut is_bad: impl FnMut(&'a Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(|container| is_bad(container)).map(|container| container.str_at("name")).collect()
    }

    /// Whether the pod says that it is for Windows.
    pub(super) fn is_windows(&self) -> bool {
        self.spec.str_at("os.name") == "windows"
    }

    /// Whether root in the pod is nobody on the node.
    pub(super) fn has_own_users(&self) -> bool {
        *self.spec.at("hostUsers") == false
    }
}
