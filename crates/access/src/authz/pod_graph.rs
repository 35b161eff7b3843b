//! Which objects a node needs for the pods it runs. Fed by the engine's watch of pods, asked by `node`; the walk over a pod's
//! references also serves `node_restriction`, which lets mirror pods have none.

use api::object::Fields;
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
};

/// Kinds whose objects a node may see when one of its pods refers to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Linked {
    /// A pod itself.
    Pod,
    /// Volumes, environment, pull secrets.
    Secret,
    /// Volumes, environment.
    ConfigMap,
    /// The pod's account.
    ServiceAccount,
    /// Volumes.
    PersistentVolumeClaim,
    /// What a claim is bound to.
    PersistentVolume,
    /// What attaches a volume to the node.
    VolumeAttachment,
}

/// Knows what belongs to the pods of a node.
pub trait NodeGraph: Send + Sync {
    /// Whether a pod on `node` refers to the object.
    fn reaches(&self, node: &str, kind: Linked, namespace: &str, name: &str) -> bool;
}

/// Annotation of a pod that a kubelet made to show one of its static pods.
pub const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// Secrets that volumes of storage drivers name, by volume field and the path below it.
const DRIVER_SECRETS: [(&str, &str); 9] = [
    ("azureFile", "secretName"),
    ("cephfs", "secretRef.name"),
    ("cinder", "secretRef.name"),
    ("csi", "nodePublishSecretRef.name"),
    ("flexVolume", "secretRef.name"),
    ("iscsi", "secretRef.name"),
    ("rbd", "secretRef.name"),
    ("scaleIO", "secretRef.name"),
    ("storageos", "secretRef.name"),
];

/// Everything a pod refers to in its namespace, by kind and name; an object may come more than once.
pub fn references(pod: &Value) -> Vec<(Linked, &str)> {
    let spec = pod.at("spec");
    let mut found = vec![(Linked::ServiceAccount, spec.str_at("serviceAccountName"))];
    found.extend(spec.list_at("imagePullSecrets").iter().map(|secret| (Linked::Secret, secret.str_at("name"))));
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.list_at(list) {
            for source in container.list_at("envFrom") {
                found.push((Linked::ConfigMap, source.str_at("configMapRef.name")));
                found.push((Linked::Secret, source.str_at("secretRef.name")));
            }
            for variable in container.list_at("env") {
                found.push((Linked::ConfigMap, variable.str_at("valueFrom.configMapKeyRef.name")));
                found.push((Linked::Secret, variable.str_at("valueFrom.secretKeyRef.name")));
            }
        }
    }
    for volume in spec.list_at("volumes") {
        found.push((Linked::Secret, volume.str_at("secret.secretName")));
        found.push((Linked::ConfigMap, volume.str_at("configMap.name")));
        found.push((Linked::PersistentVolumeClaim, volume.str_at("persistentVolumeClaim.claimName")));
        let drivers = DRIVER_SECRETS.iter().map(|(driver, path)| volume.at(driver).str_at(path));
        found.extend(drivers.map(|name| (Linked::Secret, name)));
        for source in volume.list_at("projected.sources") {
            found.push((Linked::Secret, source.str_at("secret.name")));
            found.push((Linked::ConfigMap, source.str_at("configMap.name")));
        }
    }
    found.retain(|(_, name)| !name.is_empty());
    found
}

/// Claims that a pod's ephemeral volumes make: named `<pod>-<volume>`.
fn ephemeral_claims(pod: &Value) -> impl Iterator<Item = String> {
    let volumes = pod.list_at("spec.volumes").iter().filter(|volume| volume.map_at("ephemeral").is_some());
    volumes.map(|volume| format!("{}-{}", pod.str_at("metadata.name"), volume.str_at("name")))
}

type Key = (Linked, String, String);

/// The references of all pods that run somewhere, and of the volumes behind their claims, kept for quick answers.
#[derive(Debug, Default)]
pub struct PodGraph {
    inner: RwLock<Inner>,
    volumes: RwLock<HashMap<String, Volume>>,
    /// Which node a volume is attached to, by the name of the attachment.
    attachments: RwLock<HashMap<String, String>>,
}

/// What a PersistentVolume says of others: the claim that has it, and secrets that its driver needs, with their namespaces.
#[derive(Debug, Default)]
struct Volume {
    claim: (String, String),
    secrets: Vec<(String, String)>,
}

impl Volume {
    fn of(volume: &Value) -> Self {
        let claim = volume.at("spec.claimRef");
        let own = |holder: &Value, name: &str, namespace: &str| {
            let given = holder.str_at(namespace);
            let namespace = if given.is_empty() { claim.str_at("namespace") } else { given };
            (namespace.to_owned(), holder.str_at(name).to_owned())
        };
        let spec = volume.at("spec");
        let mut secrets = vec![own(spec.at("azureFile"), "secretName", "secretNamespace")];
        for driver in ["cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"] {
            secrets.push(own(spec.at(driver).at("secretRef"), "name", "namespace"));
        }
        for field in ["controllerPublishSecretRef", "nodeExpandSecretRef", "nodePublishSecretRef", "nodeStageSecretRef"]
        {
            secrets.push(own(spec.at("csi").at(field), "name", "namespace"));
        }
        secrets.retain(|(_, name)| !name.is_empty());
        Self { claim: (claim.str_at("namespace").to_owned(), claim.str_at("name").to_owned()), secrets }
    }
}

#[derive(Debug, Default)]
struct Inner {
    /// Pod by namespace and name: its node and what it refers to.
    pods: HashMap<(String, String), (String, Vec<Key>)>,
    /// How many pods of a node refer to an object.
    uses: HashMap<Key, HashMap<String, usize>>,
}

impl PodGraph {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a pod. One without a node refers to nothing yet.
    pub fn set(&self, pod: &Value) {
        self.inner.write().unwrap_or_else(PoisonError::into_inner).set(pod);
    }

    /// Replaces all pods, at start and after a watch had to begin anew.
    pub fn replace(&self, pods: &[Value]) {
        let mut fresh = Inner::default();
        pods.iter().for_each(|pod| fresh.set(pod));
        *self.inner.write().unwrap_or_else(PoisonError::into_inner) = fresh;
    }

    /// A volume came, changed or went.
    pub fn set_volume(&self, name: &str, volume: Option<&Value>) {
        let mut volumes = self.volumes.write().unwrap_or_else(PoisonError::into_inner);
        match volume {
            Some(volume) => volumes.insert(name.to_owned(), Volume::of(volume)),
            None => volumes.remove(name),
        };
    }

    /// Replaces all volumes.
    pub fn replace_volumes(&self, volumes: &[Value]) {
        let fresh = volumes.iter().map(|volume| (volume.str_at("metadata.name").to_owned(), Volume::of(volume)));
        *self.volumes.write().unwrap_or_else(PoisonError::into_inner) = fresh.collect();
    }

    /// An attachment came, changed or went.
    pub fn set_attachment(&self, name: &str, attachment: Option<&Value>) {
        let mut attachments = self.attachments.write().unwrap_or_else(PoisonError::into_inner);
        match attachment {
            Some(attachment) => attachments.insert(name.to_owned(), attachment.str_at("spec.nodeName").to_owned()),
            None => attachments.remove(name),
        };
    }

    /// Replaces all attachments.
    pub fn replace_attachments(&self, attachments: &[Value]) {
        let name = |one: &Value, path: &str| one.str_at(path).to_owned();
        let fresh = attachments.iter().map(|one| (name(one, "metadata.name"), name(one, "spec.nodeName")));
        *self.attachments.write().unwrap_or_else(PoisonError::into_inner) = fresh.collect();
    }

    fn uses(&self, node: &str, kind: Linked, namespace: &str, name: &str) -> bool {
        let key = (kind, namespace.to_owned(), name.to_owned());
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.uses.get(&key).is_some_and(|nodes| nodes.contains_key(node))
    }

    fn has_volume(&self, node: &str, volume: &Volume) -> bool {
        let (namespace, name) = &volume.claim;
        !name.is_empty() && self.uses(node, Linked::PersistentVolumeClaim, namespace, name)
    }

    /// Removes a pod.
    pub fn remove(&self, namespace: &str, name: &str) {
        self.inner.write().unwrap_or_else(PoisonError::into_inner).remove(namespace, name);
    }
}

impl Inner {
    fn set(&mut self, pod: &Value) {
        let (namespace, name) = (pod.str_at("metadata.namespace"), pod.str_at("metadata.name"));
        let node = pod.str_at("spec.nodeName");
        self.remove(namespace, name);
        if node.is_empty() {
            return;
        }
        let mut keys = vec![(Linked::Pod, namespace.to_owned(), name.to_owned())];
        // A kubelet makes mirror pods itself: it must not gain access by naming things in one.
        let mirror = pod.map_at("metadata.annotations").is_some_and(|all| all.contains_key(MIRROR_ANNOTATION));
        if !mirror {
            let named = references(pod).into_iter().map(|(kind, name)| (kind, namespace.to_owned(), name.to_owned()));
            keys.extend(named);
            let claims = ephemeral_claims(pod);
            keys.extend(claims.map(|claim| (Linked::PersistentVolumeClaim, namespace.to_owned(), claim)));
        }
        for key in &keys {
            *self.uses.entry(key.clone()).or_default().entry(node.to_owned()).or_default() += 1;
        }
        self.pods.insert((namespace.to_owned(), name.to_owned()), (node.to_owned(), keys));
    }

    fn remove(&mut self, namespace: &str, name: &str) {
        let Some((node, keys)) = self.pods.remove(&(namespace.to_owned(), name.to_owned())) else { return };
        for key in keys {
            let Some(nodes) = self.uses.get_mut(&key) else { continue };
            if let Some(count) = nodes.get_mut(&node) {
                *count -= 1;
                if *count == 0 {
                    nodes.remove(&node);
                }
            }
            if nodes.is_empty() {
                self.uses.remove(&key);
            }
        }
    }
}

impl NodeGraph for PodGraph {
    fn reaches(&self, node: &str, kind: Linked, namespace: &str, name: &str) -> bool {
        if self.uses(node, kind, namespace, name) {
            return true;
        }
        let volumes = || self.volumes.read().unwrap_or_else(PoisonError::into_inner);
        match kind {
            Linked::PersistentVolume => volumes().get(name).is_some_and(|volume| self.has_volume(node, volume)),
            Linked::VolumeAttachment => {
                let attachments = self.attachments.read().unwrap_or_else(PoisonError::into_inner);
                attachments.get(name).is_some_and(|attached| attached == node)
            }
            Linked::Secret => volumes().values().any(|volume| {
                volume.secrets.iter().any(|(of, secret)| of == namespace && secret == name)
                    && self.has_volume(node, volume)
            }),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, node: &str) -> Value {
        json!({"metadata": {"namespace": "ns", "name": name}, "spec": {
            "nodeName": node, "serviceAccountName": "sa", "imagePullSecrets": [{"name": "pull"}],
            "initContainers": [{"envFrom": [{"secretRef": {"name": "env-all"}}]}],
            "containers": [{"env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm-env", "key": "a"}}},
                {"name": "B", "value": "plain"}]}],
            "volumes": [
                {"name": "v1", "secret": {"secretName": "s-vol"}},
                {"name": "v2", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}, {"serviceAccountToken": {"path": "token"}}]}},
                {"name": "v3", "persistentVolumeClaim": {"claimName": "claim"}},
                {"name": "v4", "ephemeral": {"volumeClaimTemplate": {}}},
                {"name": "v5", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s-csi"}}},
                {"name": "v6", "emptyDir": {}}],
        }})
    }

    #[test]
    fn a_node_reaches_what_its_pods_refer_to_and_nothing_else() {
        let graph = PodGraph::new();
        graph.set(&pod("web", "n1"));
        for (kind, name) in [
            (Linked::Pod, "web"),
            (Linked::ServiceAccount, "sa"),
            (Linked::Secret, "pull"),
            (Linked::Secret, "env-all"),
            (Linked::Secret, "s-vol"),
            (Linked::Secret, "s-csi"),
            (Linked::ConfigMap, "cm-env"),
            (Linked::ConfigMap, "kube-root-ca.crt"),
            (Linked::PersistentVolumeClaim, "claim"),
            (Linked::PersistentVolumeClaim, "web-v4"),
        ] {
            assert!(graph.reaches("n1", kind, "ns", name), "{kind:?} {name}");
            assert!(!graph.reaches("n2", kind, "ns", name), "another node: {kind:?} {name}");
            assert!(!graph.reaches("n1", kind, "other", name), "another namespace: {kind:?} {name}");
        }
        assert!(!graph.reaches("n1", Linked::Secret, "ns", "cm-env"), "another kind");
    }

    #[test]
    fn access_ends_with_the_last_pod_that_needs_it() {
        let graph = PodGraph::new();
        for name in ["a", "b"] {
            graph.set(&pod(name, "n1"));
        }
        graph.set(&pod("a", "n1"));
        graph.remove("ns", "a");
        assert!(graph.reaches("n1", Linked::Secret, "ns", "s-vol"));
        assert!(!graph.reaches("n1", Linked::Pod, "ns", "a"));
        graph.set(&pod("b", "n2"));
        assert!(!graph.reaches("n1", Linked::Secret, "ns", "s-vol"), "b has moved");
        assert!(graph.reaches("n2", Linked::Secret, "ns", "s-vol"));
        graph.remove("ns", "b");
        graph.remove("ns", "b");
        let inner = graph.inner.read().unwrap();
        assert!(inner.uses.is_empty() && inner.pods.is_empty(), "nothing is left behind");
    }

    #[test]
    fn a_fresh_list_forgets_what_is_not_in_it() {
        let graph = PodGraph::new();
        graph.set(&pod("old", "n1"));
        graph.replace(&[pod("new", "n2")]);
        assert!(!graph.reaches("n1", Linked::Secret, "ns", "s-vol"));
        assert!(graph.reaches("n2", Linked::Secret, "ns", "s-vol"));
    }

    #[test]
    fn a_waiting_pod_and_a_mirror_pod_open_nothing() {
        let graph = PodGraph::new();
        graph.set(&pod("waiting", ""));
        assert!(!graph.reaches("", Linked::Secret, "ns", "s-vol"));
        let mut mirror = pod("static", "n1");
        mirror.set("metadata.annotations", json!({MIRROR_ANNOTATION: "x"}));
        graph.set(&mirror);
        assert!(graph.reaches("n1", Linked::Pod, "ns", "static"));
        assert!(!graph.reaches("n1", Linked::Secret, "ns", "s-vol"));
    }

    #[test]
    fn a_node_sees_the_volumes_behind_the_claims_of_its_pods() {
        let graph = PodGraph::new();
        graph.set(&json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"nodeName": "n1", "volumes": [
            {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}}));
        let volume = json!({"metadata": {"name": "pv"}, "spec": {"claimRef": {"namespace": "ns", "name": "c"},
            "csi": {"nodeStageSecretRef": {"name": "s", "namespace": "drivers"}}}});
        graph.replace_volumes(std::slice::from_ref(&volume));
        graph.set_attachment("a", Some(&json!({"spec": {"nodeName": "n1"}})));
        for (kind, namespace, name) in [
            (Linked::PersistentVolume, "", "pv"),
            (Linked::Secret, "drivers", "s"),
            (Linked::VolumeAttachment, "", "a"),
        ] {
            assert!(graph.reaches("n1", kind, namespace, name), "{kind:?}");
            assert!(!graph.reaches("n2", kind, namespace, name), "{kind:?}");
        }
        graph.set_volume("pv", None);
        graph.set_attachment("a", None);
        assert!(!graph.reaches("n1", Linked::PersistentVolume, "", "pv"));
        assert!(!graph.reaches("n1", Linked::Secret, "drivers", "s"));
        assert!(!graph.reaches("n1", Linked::VolumeAttachment, "", "a"));
    }
}
