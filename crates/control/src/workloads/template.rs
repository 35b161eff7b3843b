//! Pod templates: whether two are the same, a short hash of one, and the pod that is made from one.

use api::kinds::names;
use k8s_openapi::{
    api::core::v1::{Pod, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use serde_json::Value;

/// The label by which a Deployment tells the pods of its ReplicaSets apart.
pub const HASH_LABEL: &str = "pod-template-hash";

/// The template as a value in which an empty field and an absent one are the same, without the hash label.
pub fn essence(template: &PodTemplateSpec) -> Value {
    let mut value = objects::to_value(template).unwrap_or_default();
    if let Some(labels) = value.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(HASH_LABEL);
    }
    prune(&mut value);
    value
}

/// Whether both describe the same pods; the hash label is not looked at.
pub fn same(one: &PodTemplateSpec, other: &PodTemplateSpec) -> bool {
    essence(one) == essence(other)
}

/// A short name for the template, safe in labels and names. `collisions` gives another one for the same template.
pub fn hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let mut text = serde_json::to_string(&essence(template)).unwrap_or_default();
    if let Some(count) = collisions {
        text.push_str(&count.to_string());
    }
    safe(fnv(text.as_bytes()))
}

/// 32-bit FNV-1a.
pub(crate) fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// The number's digits in letters and figures that form no words, as Kubernetes writes them.
pub(crate) fn safe(number: u32) -> String {
    names::safe_letters(number.to_string().into_bytes())
}

/// A pod as the template describes it, owned by `owner` and named after it by the API server.
pub fn pod(template: &PodTemplateSpec, owner: &OwnerReference) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", owner.name)),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![owner.clone()]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        ..Pod::default()
    }
}

fn prune(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(prune);
            // An emptyDir that says nothing is still an emptyDir, so only empty lists, nulls and known maps go.
            fields.retain(|name, field| match field {
                Value::Null => false,
                Value::Array(items) => !items.is_empty(),
                Value::Object(inner) => {
                    !inner.is_empty()
                        || !matches!(
                            name.as_str(),
                            "labels" | "annotations" | "resources" | "securityContext" | "nodeSelector"
                        )
                }
                _ => true,
            });
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn template(value: Value) -> PodTemplateSpec {
        from_value(value).unwrap()
    }

    #[test]
    fn empty_and_absent_are_the_same_and_the_hash_label_does_not_count() {
        let plain = template(
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        );
        let spelt = template(json!({"metadata": {"labels": {"a": "b", HASH_LABEL: "x"}, "annotations": {}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {}, "args": []}], "securityContext": {}}}));
        let other = template(
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "j"}]}}),
        );
        assert!(same(&plain, &spelt));
        assert!(!same(&plain, &other));
        assert_eq!(hash(&plain, None), hash(&spelt, None));
        assert_ne!(hash(&plain, None), hash(&other, None));
        assert_ne!(hash(&plain, None), hash(&plain, Some(1)));
    }

    #[test]
    fn a_volume_without_settings_is_still_a_volume() {
        let spec = |volume: Value| template(json!({"spec": {"containers": [], "volumes": [volume]}}));
        assert!(!same(&spec(json!({"name": "v", "emptyDir": {}})), &spec(json!({"name": "v"}))));
    }

    #[test]
    fn hashes_are_spelt_as_kubernetes_spells_them() {
        assert_eq!(fnv(b""), 2_166_136_261);
        assert_eq!(fnv(b"a"), 0xe40c_292c);
        // Digits '0'..'9' are the bytes 48..57; 48 modulo 27 is 21.
        assert_eq!(safe(1_234_567_890), "56789bcdf4");
    }
}
