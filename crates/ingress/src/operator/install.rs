//! The definitions of what the operator reads and writes: made where they are missing, before a loop begins.

use kube::{
    Client,
    api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use runtime::controller::Result;
use std::time::Duration;

/// What the loops watch.
const NEEDED: [&str; 6] = [
    "infrastructures.config.openshift.io",
    "networks.config.openshift.io",
    "ingresses.config.openshift.io",
    "dnses.config.openshift.io",
    "ingresscontrollers.operator.openshift.io",
    "dnsrecords.ingress.operator.openshift.io",
];
/// Between looks at a definition that is not served yet.
const PAUSE: Duration = Duration::from_millis(50);

/// Makes those that are missing and waits until they are served. One that is there, of whatever version, stays.
pub async fn definitions(client: &Client) -> Result<()> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let mut names = Vec::new();
    for definition in api::config::definitions() {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if !NEEDED.contains(&name.as_str()) && name != "routes.route.openshift.io" {
            continue;
        }
        if api.get_opt(&name).await?.is_none() {
            match api.create(&PostParams::default(), &serde_json::from_value(definition)?).await {
                Ok(_) => tracing::info!(definition = name, "made"),
                // Somebody who was faster made the same.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(error.into()),
            }
        }
        names.push(name);
    }
    // All are made before the first is waited for: they become established side by side.
    for name in names {
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
