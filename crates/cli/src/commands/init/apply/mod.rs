//! Bringing the objects of a directory that `init` wrote into a server of this process, status included.
//!
//! Called by `up` once the server answers. Server-side apply, so that doing it again changes nothing, and without force, so
//! that what somebody else has changed since stays: that is said in the log and no failure.

use ::apiserver::{ApiServer, client::InProcess};
use access::authn::User;
use anyhow::{Context, anyhow};
use api::object::Fields;
use kube::{
    Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use runtime::{client::Api, operator::definitions};
use serde_json::{Value, json};
use std::sync::Arc;

const MANAGER: &str = "twinstack-init";

/// Definitions, then the rest, in the given order.
pub(crate) async fn apply(server: &Arc<ApiServer>, objects: &[Value]) -> anyhow::Result<()> {
    let user = User::new(MANAGER, ["system:masters", "system:authenticated"]);
    let client = Client::new(InProcess::new(Arc::clone(server), user), "default");
    let (given, others): (Vec<&Value>, Vec<&Value>) =
        objects.iter().partition(|object| object["kind"] == "CustomResourceDefinition");
    // The directory may be of an older release; operators bring the definitions of this one.
    let ours = api::config::definitions();
    let newest = |given: &Value| ours.iter().find(|own| own["metadata"]["name"] == given["metadata"]["name"]).cloned();
    let needed: Vec<Value> = given.into_iter().map(|given| newest(given).unwrap_or_else(|| given.clone())).collect();
    definitions::install(&client, &needed).await?;
    for object in others {
        apply_one(server, &client, object).await?;
    }
    tracing::info!(objects = objects.len(), "configuration objects are in place");
    Ok(())
}

/// Spec and status; where a kind has no status of its own, one request brings both.
async fn apply_one(server: &ApiServer, client: &Client, object: &Value) -> anyhow::Result<()> {
    let what = format!("{} {}", object.str_at("kind"), object.str_at("metadata.name"));
    let (api, has_status) = resource(server, client, object).with_context(|| format!("{what} cannot be applied"))?;
    let (name, parameters) = (object.str_at("metadata.name"), PatchParams::apply(MANAGER));
    let answer = api.patch(name, &parameters, &Patch::Apply(object)).await;
    accepted(answer, &what).with_context(|| format!("{what} was not accepted"))?;
    if has_status && !object["status"].is_null() {
        let (api_version, kind, metadata) = (&object["apiVersion"], &object["kind"], &object["metadata"]);
        let status = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "status": object["status"]});
        let answer = api.patch_status(name, &parameters, &Patch::Apply(status)).await;
        accepted(answer, &what).with_context(|| format!("the status of {what} was not accepted"))?;
    }
    Ok(())
}

fn accepted(answer: kube::Result<DynamicObject>, what: &str) -> kube::Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            tracing::warn!(
                object = what,
                message = status.message,
                "somebody else has changed this object; it stays as it is"
            );
            Ok(())
        }
        answer => answer.map(drop),
    }
}

/// Where objects of this kind are, and whether their status has a path of its own.
fn resource(server: &ApiServer, client: &Client, object: &Value) -> anyhow::Result<(Api<DynamicObject>, bool)> {
    let api_version = object.str_at("apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let registry = server.registry.load();
    let kind = object.str_at("kind");
    let resource = registry.group(group).find(|resource| resource.version == version && resource.kind == kind);
    let resource = resource.ok_or_else(|| anyhow!("{api_version} {kind} is not served"))?;
    let [group, version, api_version, kind] = [group, version, api_version, kind].map(str::to_owned);
    let known = ApiResource { group, version, api_version, kind, plural: resource.plural.to_string() };
    let api = match object.str_at("metadata.namespace") {
        "" => Api::all_with(client.clone(), &known),
        namespace => Api::namespaced_with(client.clone(), namespace, &known),
    };
    Ok((api, resource.subresource("status").is_some()))
}

#[cfg(test)]
mod tests;
