//! Writes what aggregated ClusterRoles gather into their `rules`, where people and programs read it. Mirrors the
//! clusterrole-aggregation controller; checks do not depend on it, as the index gathers by itself.
//!
//! `warm` runs one task of it. Two servers on one store write the same, so they need not agree on who does.

use crate::{
    ApiServer,
    client::myself,
    follow::FollowError,
    handle::{self, Insider},
};
use api::object::Fields;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

const PREFIX: &str = "clusterroles/";
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Changes come in groups (a start, an `apply` of many roles); one look follows each group. The index, which is fed by
/// another watch, has caught up by then, or the next round finds the rest.
const PAUSE: Duration = Duration::from_millis(100);

/// How often all is looked at without any change.
const ROUND: Duration = Duration::from_secs(60);

/// Follows ClusterRoles and keeps the aggregated ones filled until the server stops.
pub(crate) async fn run(server: Arc<ApiServer>, stop: CancellationToken) -> Result<(), FollowError> {
    let mut watch = server.store.watch(PREFIX, None).await?;
    loop {
        fill(&server).await;
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            event = watch.next() => drop(event?),
            () = tokio::time::sleep(ROUND) => {}
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(PAUSE) => {}
        }
        while watch.try_next()?.is_some() {}
    }
}

/// Fills every aggregated ClusterRole whose `rules` are not what it gathers. One that cannot be written is told of and left
/// to the next round.
pub(crate) async fn fill(server: &Arc<ApiServer>) {
    let snapshot = server.access.rbac().snapshot();
    for name in snapshot.aggregated_names() {
        let Some(rules) = snapshot.aggregated_rules(name) else { continue };
        let stored = server.object(&format!("clusterroles/{name}"));
        // Gone, or filled already; no rules may be written as null or as nothing at all.
        if stored.is_none_or(|role| role.list_at("rules") == rules.as_array().map_or(&[][..], Vec::as_slice)) {
            continue;
        }
        if let Err(problem) = write(server, name, &rules).await {
            tracing::warn!(role = name, problem, "aggregated rules cannot be written");
        }
    }
}

async fn write(server: &Arc<ApiServer>, name: &str, rules: &Value) -> Result<(), String> {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                      "metadata": {"name": name}, "rules": rules});
    let path =
        format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{}?fieldManager={MANAGER}&force=true", escaped(name));
    let request = Request::patch(path)
        .header("content-type", "application/apply-patch+yaml")
        .header("user-agent", MANAGER)
        .extension(Insider(myself()))
        .body(Full::new(Bytes::from(role.to_string())))
        .map_err(|error| error.to_string())?;
    let response = match Box::pin(handle::handle(Arc::clone(server), request)).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    if response.status().is_success() { Ok(()) } else { Err(response.status().to_string()) }
}

/// A name of a role as part of a path: it may hold anything but `/` and `%`.
fn escaped(name: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(byte);
    name.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
