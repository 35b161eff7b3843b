//! Writes what aggregated ClusterRoles gather into their `rules`, where people and programs read it. Mirrors the
//! clusterrole-aggregation controller; checks do not depend on it, as the index gathers by itself.
//!
//! `warm` runs one task of it. Two servers on one store write the same, so they need not agree on who does.

use crate::{ApiServer, client, follow::FollowError};
use api::object::Fields;
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
    for (name, rules) in unfilled(server) {
        if let Err(problem) = write(server, &name, &rules).await {
            tracing::warn!(role = name, problem, "aggregated rules cannot be written");
        }
    }
}

/// The aggregated ClusterRoles that do not have the rules they gather, with those.
pub(crate) fn unfilled(server: &ApiServer) -> Vec<(String, Value)> {
    let snapshot = server.access.rbac().snapshot();
    let wanted = snapshot.aggregated_names().filter_map(|name| Some((name, snapshot.aggregated_rules(name)?)));
    let unfilled = wanted.filter(|(name, rules)| {
        let stored = server.object(&format!("clusterroles/{name}"));
        // Gone, or filled already; no rules may be written as null or as nothing at all.
        stored.is_some_and(|role| role.list_at("rules") != rules.as_array().map_or(&[][..], Vec::as_slice))
    });
    unfilled.map(|(name, rules)| (name.to_owned(), rules)).collect()
}

async fn write(server: &Arc<ApiServer>, name: &str, rules: &Value) -> Result<(), String> {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                      "metadata": {"name": name}, "rules": rules});
    let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{}", escaped(name));
    client::apply(server, MANAGER, &path, &role).await
}

/// A name of a role as part of a path: it may hold anything but `/` and `%`.
fn escaped(name: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(byte);
    name.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
