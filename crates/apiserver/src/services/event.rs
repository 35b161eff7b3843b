//! Events about Services and addresses: one per object and reason, counted when it happens again.

use crate::{ApiServer, client};
use api::object::{Fields, timestamp};
use http::Method;
use serde_json::{Value, json};
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

/// What happened to an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub about: Value,
    /// In one word.
    pub reason: &'static str,
    /// In a sentence.
    pub message: String,
}

/// Records a warning. An event that cannot be written is only logged.
pub(super) async fn record(server: &Arc<ApiServer>, note: &Note) {
    let Note { about, reason, message } = note;
    let name = about.str_at("metadata.name");
    let namespace = match about.str_at("metadata.namespace") {
        "" => "default",
        namespace => namespace,
    };
    tracing::warn!(kind = about.str_at("kind"), namespace, name, reason, message, "service addresses");
    let mut hash = DefaultHasher::new();
    (about.str_at("kind"), reason, message).hash(&mut hash);
    let id = format!("{}.{:016x}", name.replace(':', "-"), hash.finish());
    let now = timestamp(server.now());
    let mut involved = json!({
        "apiVersion": about.at("apiVersion"), "kind": about.at("kind"), "name": name, "uid": about.at("metadata.uid"),
    });
    if !about.str_at("metadata.namespace").is_empty() {
        involved["namespace"] = namespace.into();
    }
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": id, "namespace": namespace},
        "involvedObject": involved, "reason": reason, "message": message, "type": "Warning",
        "source": {"component": "ipallocator-repair-controller"}, "reportingComponent": "ipallocator-repair-controller",
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    });
    let path = format!("/api/v1/namespaces/{namespace}/events");
    let written = match client::ask(server, Method::POST, &path, Some(&event)).await {
        Err(error) if error.reason == "AlreadyExists" => {
            let known = server.object(&format!("events/{namespace}/{id}")).unwrap_or_default();
            let count = known.int_at("count").unwrap_or(1) + 1;
            let again = json!({"count": count, "lastTimestamp": now});
            client::ask(server, Method::PATCH, &format!("{path}/{id}"), Some(&again)).await
        }
        other => other,
    };
    if let Err(error) = written {
        tracing::warn!(%error, "event was not recorded");
    }
}
