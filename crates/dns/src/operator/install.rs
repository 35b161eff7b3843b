//! What the operator needs of the API before it can begin: the definitions of what it reads, and the DNS `default`.

use super::{DNS, MANAGER, resource::Dns};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use runtime::controller::Result;
use serde_json::{Value, json};
use std::time::Duration;

/// What is read here.
const NEEDED: [&str; 4] = [
    "dnses.operator.openshift.io",
    "networks.config.openshift.io",
    "infrastructures.config.openshift.io",
    "featuregates.config.openshift.io",
];
/// Between looks at a definition that is not served yet.
const PAUSE: Duration = Duration::from_millis(50);

/// Makes the definitions that are missing, and waits until they are served. One that is there, of whatever version, stays.
pub async fn definitions(client: &Client) -> Result<()> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    for definition in api::config::definitions() {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if !NEEDED.contains(&name.as_str()) {
            continue;
        }
        if api.get_opt(&name).await?.is_none() {
            create(&api, definition).await?;
            tracing::info!(definition = name, "made");
        }
        while !is_established(api.get_opt(&name).await?.as_ref()) {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

fn is_established(definition: Option<&DynamicObject>) -> bool {
    let conditions = definition.and_then(|definition| definition.data["status"]["conditions"].as_array());
    conditions.into_iter().flatten().any(|one| one["type"] == "Established" && one["status"] == "True")
}

/// Makes the DNS `default`, if there is none.
pub async fn default_dns(client: &Client) -> Result<()> {
    if Api::<Dns>::all(client.clone()).get_opt(DNS).await?.is_some() {
        return Ok(());
    }
    let kind = GroupVersionKind::gvk("operator.openshift.io", "v1", "DNS");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&kind, "dnses"));
    let object = json!({
        "apiVersion": "operator.openshift.io/v1",
        "kind": "DNS",
        "metadata": {"name": DNS},
        "spec": {},
    });
    create(&api, object).await?;
    tracing::info!(dns = DNS, "made");
    Ok(())
}

/// Somebody who was faster made the same.
async fn create(api: &Api<DynamicObject>, object: Value) -> Result<()> {
    let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    match api.create(&parameters, &serde_json::from_value(object)?).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        answer => Ok(answer.map(|_| ())?),
    }
}
