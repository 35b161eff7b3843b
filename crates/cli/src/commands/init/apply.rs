//! Bringing the objects of a directory that `init` wrote into a server of this process, status included.
//!
//! Called by `up` once the server answers. Server-side apply, so that doing it again changes nothing, and without force, so
//! that what somebody else has changed since stays: that is said in the log and no failure.

use ::apiserver::{ApiServer, client::InProcess};
use access::authn::User;
use anyhow::{Context, anyhow};
use api::object::Fields;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tower::ServiceExt;

const MANAGER: &str = "twinstack-init";

/// How often, and for how long, to ask whether a definition is served.
const PAUSE: Duration = Duration::from_millis(20);
const PATIENCE: u32 = 1000;

/// Definitions, then the rest, in the given order.
pub(crate) async fn apply(server: &Arc<ApiServer>, objects: &[Value]) -> anyhow::Result<()> {
    let user = User::new(MANAGER, ["system:masters", "system:authenticated"]);
    let client = Client { server, sender: InProcess::new(Arc::clone(server), user) };
    let (definitions, others): (Vec<&Value>, Vec<&Value>) =
        objects.iter().partition(|object| object["kind"] == "CustomResourceDefinition");
    for definition in &definitions {
        client.apply(definition).await?;
    }
    for definition in &definitions {
        client.established(definition).await?;
    }
    for object in others {
        client.apply(object).await?;
    }
    tracing::info!(objects = objects.len(), "configuration objects are in place");
    Ok(())
}

struct Client<'a> {
    server: &'a Arc<ApiServer>,
    sender: InProcess,
}

impl Client<'_> {
    /// Spec and status; where a kind has no status of its own, one request brings both.
    async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        let what = format!("{} {}", object.str_at("kind"), object.str_at("metadata.name"));
        let (path, has_status) = self.path(object).with_context(|| format!("{what} cannot be applied"))?;
        self.patch(&path, object).await.with_context(|| format!("{what} was not accepted"))?;
        if has_status && !object["status"].is_null() {
            let (api_version, kind, metadata) = (&object["apiVersion"], &object["kind"], &object["metadata"]);
            let status =
                json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "status": object["status"]});
            let path = format!("{path}/status");
            self.patch(&path, &status).await.with_context(|| format!("the status of {what} was not accepted"))?;
        }
        Ok(())
    }

    /// Where the object is, and whether its status has a path of its own.
    fn path(&self, object: &Value) -> anyhow::Result<(String, bool)> {
        let (group, version) = match object.str_at("apiVersion").split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", object.str_at("apiVersion")),
        };
        let registry = self.server.registry.load();
        let kind = object.str_at("kind");
        let resource = registry.group(group).find(|resource| resource.version == version && resource.kind == kind);
        let resource = resource.ok_or_else(|| anyhow!("{group}/{version} {kind} is not served"))?;
        let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let (plural, name) = (&resource.plural, object.str_at("metadata.name"));
        let path = match object.str_at("metadata.namespace") {
            "" => format!("{root}/{plural}/{name}"),
            namespace => format!("{root}/namespaces/{namespace}/{plural}/{name}"),
        };
        Ok((path, resource.subresource("status").is_some()))
    }

    async fn patch(&self, path: &str, object: &Value) -> anyhow::Result<()> {
        let uri = format!("{path}?fieldManager={MANAGER}");
        let (status, answer) = self.send("PATCH", &uri, object.to_string()).await?;
        let message = answer.str_at("message");
        match status {
            200..300 => Ok(()),
            409 => {
                tracing::warn!(path, message, "somebody else has changed this object; it stays as it is");
                Ok(())
            }
            _ => Err(anyhow!("{message}")),
        }
    }

    /// Waits until objects of a definition can be written.
    async fn established(&self, definition: &Value) -> anyhow::Result<()> {
        let name = definition.str_at("metadata.name");
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        let mut last = Value::Null;
        for _ in 0..PATIENCE {
            let (_, answer) = self.send("GET", &path, String::new()).await?;
            last = answer["status"]["conditions"].clone();
            let conditions = last.as_array().into_iter().flatten();
            let mut established = conditions.filter(|one| one["type"] == "Established" && one["status"] == "True");
            let served = self
                .server
                .registry
                .load()
                .by_kind(definition.str_at("spec.group"), definition.str_at("spec.names.kind"))
                .is_some();
            if established.next().is_some() && served {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(anyhow!("the definition {name} is not served: {last}"))
    }

    async fn send(&self, method: &str, uri: &str, body: String) -> anyhow::Result<(u16, Value)> {
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", "application/apply-patch+yaml")
            .header("user-agent", MANAGER)
            .body(Full::new(Bytes::from(body)))?;
        let response = match self.sender.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.map_err(|error| anyhow!("{error}"))?.to_bytes();
        Ok((status, serde_json::from_slice(&bytes)?))
    }
}

#[cfg(test)]
mod tests;
