//! What the objects `cluster` of config.openshift.io say; a cluster without them says nothing.

use api::config::{CloudConfigReference, FeatureGateStatus, InfrastructureSpec};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject},
};
use runtime::controller::Result;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The part of the Infrastructure that counts here.
#[derive(Default)]
pub(super) struct Infrastructure {
    /// For events about it.
    pub(super) reference: Option<ObjectReference>,
    /// What the cluster runs on, where that is known.
    pub(super) platform: Option<String>,
    /// Where the administrator's cloud-config is; without a name there is none.
    pub(super) file: CloudConfigReference,
}

/// Reads the Infrastructure.
pub(super) async fn infrastructure(client: &Client) -> Result<Infrastructure> {
    let resource = resource("Infrastructure", "infrastructures");
    let Some(object) = get(client, &resource).await? else { return Ok(Infrastructure::default()) };
    let spec: InfrastructureSpec = part(&object, &resource, "spec")?;
    Ok(Infrastructure {
        reference: Some(object.object_ref(&resource)),
        platform: object.data.pointer("/status/platformStatus/type").and_then(Value::as_str).map(str::to_owned),
        file: spec.cloud_config.unwrap_or_default(),
    })
}

/// Reads which gates are open.
pub(super) async fn feature_gates(client: &Client) -> Result<FeatureGateStatus> {
    let resource = resource("FeatureGate", "featuregates");
    match get(client, &resource).await? {
        Some(object) => part(&object, &resource, "status"),
        None => Ok(FeatureGateStatus::default()),
    }
}

fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "config.openshift.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "config.openshift.io/v1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

async fn get(client: &Client, resource: &ApiResource) -> Result<Option<DynamicObject>> {
    Ok(Api::all_with(client.clone(), resource).get_opt("cluster").await?)
}

/// A part that cannot be understood is an error: taken for nothing, it would undo what was written from it.
fn part<T: DeserializeOwned + Default>(object: &DynamicObject, resource: &ApiResource, name: &str) -> Result<T> {
    match object.data.get(name) {
        None | Some(Value::Null) => Ok(T::default()),
        Some(value) => serde_json::from_value(value.clone())
            .map_err(|error| format!("{} cluster: {name}: {error}", resource.kind).into()),
    }
}
