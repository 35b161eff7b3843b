//! `persistentVolumeClaim`: from the claim to the volume behind it, read as far as this node needs it.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};
use runtime::client::{Api, error_line};
use serde_json::Value;

/// A volume that a claim is bound to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Persistent {
    /// The name of the PersistentVolume.
    pub(super) name: String,
    pub(super) source: Source,
    /// A device instead of a file system.
    pub(super) block: bool,
    pub(super) access_modes: Vec<String>,
    pub(super) mount_options: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Source {
    HostPath { path: String, kind: String },
    Local { path: String },
    Csi(Value),
}

fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn words(value: &Value, pointer: &str) -> Vec<String> {
    let words = value.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    words.filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(crate) fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// Objects of the cluster, of a kind that is read seldom.
pub(crate) async fn get(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<Value>, String> {
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    };
    let found = api.get_opt(name).await.map_err(|error| error_line(&error))?;
    found.map(|object| objects::to_value(&object).map_err(|error| error.to_string())).transpose()
}

/// All objects of such a kind; none where the cluster does not serve it.
pub(super) async fn list(client: &Client, resource: &ApiResource) -> Result<Vec<Value>, String> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let found = match api.list(&kube::api::ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
        found => found.map_err(|error| error_line(&error))?,
    };
    found.items.iter().map(|object| objects::to_value(object).map_err(|error| error.to_string())).collect()
}

/// What a claim of this Pod is bound to. `made_for` is the volume of the Pod that the claim was made for, if it was.
pub(super) async fn find(
    client: &Client,
    pod: &Pod,
    claim: &str,
    made_for: Option<&str>,
) -> Result<Persistent, String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let claims = resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
    let found = get(client, &claims, Some(namespace), claim).await?;
    let found = found.ok_or_else(|| format!("persistentvolumeclaim {claim:?} not found"))?;
    let volume = bound(&found, claim, pod.metadata.uid.as_deref(), made_for)?;
    let volumes = resource("", "v1", "PersistentVolume", "persistentvolumes");
    let object = get(client, &volumes, None, &volume).await?;
    let object = object.ok_or_else(|| format!("persistentvolume {volume:?} not found"))?;
    if text(&object, "/spec/claimRef/uid") != text(&found, "/metadata/uid") {
        return Err(format!("claim {claim:?} and volume {volume:?} do not name each other"));
    }
    read(&object, text(&found, "/spec/volumeMode") == "Block")
}

/// The name of the volume that a claim is bound to.
fn bound(claim: &Value, name: &str, uid: Option<&str>, made_for: Option<&str>) -> Result<String, String> {
    if let Some(volume) = made_for {
        let owners = claim.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let own = |owner: &Value| owner["controller"] == true && owner["uid"].as_str() == uid;
        if !owners.into_iter().flatten().any(own) {
            return Err(format!("PVC {name:?} was not created for the pod: it cannot be its volume {volume:?}"));
        }
    }
    if claim.pointer("/metadata/deletionTimestamp").is_some() {
        return Err(format!("can't start pod because PVC {name:?} is being deleted"));
    }
    let volume = text(claim, "/spec/volumeName");
    if text(claim, "/status/phase") != "Bound" || volume.is_empty() {
        return Err(format!("PVC {name:?} is not bound"));
    }
    Ok(volume)
}

fn read(volume: &Value, block: bool) -> Result<Persistent, String> {
    let name = text(volume, "/metadata/name");
    let spec = &volume["spec"];
    let source = if spec["hostPath"].is_object() {
        Source::HostPath { path: text(spec, "/hostPath/path"), kind: text(spec, "/hostPath/type") }
    } else if spec["local"].is_object() {
        Source::Local { path: text(spec, "/local/path") }
    } else if spec["csi"].is_object() {
        Source::Csi(spec["csi"].clone())
    } else {
        return Err(format!(
            "persistentvolume {name:?} is of a kind that this kubelet cannot mount; known are csi, hostPath and local"
        ));
    };
    let (access_modes, mount_options) = (words(spec, "/accessModes"), words(spec, "/mountOptions"));
    Ok(Persistent { name, source, block, access_modes, mount_options })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_claim_is_used_when_it_is_bound_and_ours() {
        let claim = |phase: &str| json!({"spec": {"volumeName": "v"}, "status": {"phase": phase}});
        assert_eq!(bound(&claim("Bound"), "c", Some("u"), None), Ok("v".to_owned()));
        assert_eq!(bound(&claim("Pending"), "c", Some("u"), None), Err("PVC \"c\" is not bound".to_owned()));
        let mut made = claim("Bound");
        let strange = "PVC \"c\" was not created for the pod: it cannot be its volume \"scratch\"";
        assert_eq!(bound(&made, "c", Some("u"), Some("scratch")), Err(strange.to_owned()));
        made["metadata"]["ownerReferences"] = json!([{"uid": "u", "controller": true}]);
        assert_eq!(bound(&made, "c", Some("u"), Some("scratch")), Ok("v".to_owned()));
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let going = "can't start pod because PVC \"c\" is being deleted";
        assert_eq!(bound(&made, "c", Some("u"), None), Err(going.to_owned()));
    }

    #[test]
    fn kinds_of_volumes_are_read_and_others_are_named() {
        let volume = |source: Value| {
            let mut spec = json!({"accessModes": ["ReadWriteOnce"], "mountOptions": ["ro"]});
            for (key, value) in source.as_object().unwrap() {
                spec[key] = value.clone();
            }
            read(&json!({"metadata": {"name": "v"}, "spec": spec}), false)
        };
        let host = volume(json!({"hostPath": {"path": "/a"}})).unwrap();
        assert_eq!(host.source, Source::HostPath { path: "/a".into(), kind: String::new() });
        assert_eq!((host.access_modes, host.mount_options), (vec!["ReadWriteOnce".into()], vec!["ro".into()]));
        assert_eq!(volume(json!({"local": {"path": "/b"}})).unwrap().source, Source::Local { path: "/b".into() });
        let want =
            "persistentvolume \"v\" is of a kind that this kubelet cannot mount; known are csi, hostPath and local";
        assert_eq!(volume(json!({"nfs": {}})).unwrap_err(), want);
    }
}
