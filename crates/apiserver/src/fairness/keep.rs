//! Keeps flow control in step with its objects: those that every cluster has are made and mended, all are obeyed, and each
//! FlowSchema says whether its priority level exists.

use super::defaults::{Keep, decide};
use crate::{ApiServer, client, follow::FollowError};
use api::{error::ApiError, kinds::flowcontrol::defaults as objects, object::Fields};
use http::Method;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Plural, which is also the storage prefix.
const SCHEMAS: &str = "flowschemas";
const LEVELS: &str = "prioritylevelconfigurations";
/// Changes come in groups; one look follows each.
const PAUSE: Duration = Duration::from_millis(100);
/// How often seats are lent and taken back.
const LENDING: Duration = Duration::from_secs(10);
/// How many of those go by until all is looked at without any change.
const ROUNDS: u32 = 6;

/// Makes what is missing and obeys what is stored; called before the server is ready.
pub async fn prime(server: &Arc<ApiServer>) -> Result<(), ApiError> {
    if server.fairness.is_some() {
        ensure(server).await?;
        obey(server).await?;
    }
    Ok(())
}

/// Follows the objects until the server stops.
pub async fn run(server: Arc<ApiServer>, stop: CancellationToken) -> Result<(), FollowError> {
    let Some(fairness) = &server.fairness else { return Ok(()) };
    let mut schemas = server.store.watch(&format!("{SCHEMAS}/"), None).await?;
    let mut levels = server.store.watch(&format!("{LEVELS}/"), None).await?;
    loop {
        for done in [ensure(&server).await, obey(&server).await, report(&server).await] {
            if let Err(error) = done {
                tracing::warn!(%error, "FlowSchemas and PriorityLevelConfigurations cannot be kept");
            }
        }
        for _ in 0..ROUNDS {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                event = schemas.next() => drop(event?),
                event = levels.next() => drop(event?),
                () = tokio::time::sleep(LENDING) => {
                    fairness.adjust();
                    continue;
                }
            }
            break;
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(PAUSE) => {}
        }
        while schemas.try_next()?.is_some() || levels.try_next()?.is_some() {}
    }
}

fn path(plural: &str) -> String {
    format!("/apis/{}/{plural}", objects::API_VERSION)
}

async fn ensure(server: &Arc<ApiServer>) -> Result<(), ApiError> {
    // Levels first: a schema may only wait for one that exists.
    for (plural, defaults) in [(LEVELS, objects::levels()), (SCHEMAS, objects::schemas())] {
        for (need, wanted) in defaults {
            let name = wanted.str_at("metadata.name");
            let (method, path, object) =
                match decide(need, &wanted, server.object(&format!("{plural}/{name}")).as_ref()) {
                    Keep::AsItIs => continue,
                    Keep::Create => (Method::POST, path(plural), wanted),
                    Keep::Update(object) => (Method::PUT, format!("{}/{name}", path(plural)), object),
                };
            match client::ask(server, method, &path, Some(&object)).await {
                // Another server on the same store was faster; what it wrote is looked at in the next round.
                Err(error) if error.code == 409 => {}
                other => drop(other?),
            }
        }
    }
    Ok(())
}

async fn obey(server: &Arc<ApiServer>) -> Result<(), ApiError> {
    if let Some(fairness) = &server.fairness {
        fairness.configure(&server.objects(SCHEMAS).await?, &server.objects(LEVELS).await?);
    }
    Ok(())
}

/// Writes the condition of each FlowSchema that has the wrong one.
async fn report(server: &Arc<ApiServer>) -> Result<(), ApiError> {
    for (schema, condition) in unreported(server).await? {
        let path = format!("{}/{}/status", path(SCHEMAS), schema.str_at("metadata.name"));
        let others = schema.list_at("status.conditions").iter().filter(|other| other.str_at("type") != "Dangling");
        let conditions: Vec<Value> = others.cloned().chain([condition]).collect();
        let patch = json!({"status": {"conditions": conditions}});
        if let Err(error) = client::ask(server, Method::PATCH, &path, Some(&patch)).await {
            tracing::debug!(%error, path, "the condition of a FlowSchema cannot be written");
        }
    }
    Ok(())
}

/// The FlowSchemas that have the wrong condition, with the right one.
pub(crate) async fn unreported(server: &ApiServer) -> Result<Vec<(Value, Value)>, ApiError> {
    let levels = server.objects(LEVELS).await?;
    let unreported = server.objects(SCHEMAS).await?.into_iter().filter_map(|schema| {
        let level = schema.str_at("spec.priorityLevelConfiguration.name");
        let exists = levels.iter().any(|object| object.str_at("metadata.name") == level);
        let condition = condition(&schema, level, exists, server.now())?;
        Some((schema, condition))
    });
    Ok(unreported.collect())
}

/// The condition that a schema should have, if it has another one.
fn condition(schema: &Value, level: &str, exists: bool, now: jiff::Timestamp) -> Option<Value> {
    let (status, reason, text) = match exists {
        true => ("False", "Found", "exists"),
        false => ("True", "NotFound", "does not exist, so this FlowSchema matches nothing"),
    };
    let message = format!("PriorityLevelConfiguration {level:?} {text}");
    let stored = schema.list_at("status.conditions").iter().find(|other| other.str_at("type") == "Dangling");
    let same = |stored: &Value| stored.str_at("status") == status && stored.str_at("message") == message;
    if stored.is_some_and(same) {
        return None;
    }
    let since = stored.filter(|stored| stored.str_at("status") == status).map(|stored| stored.at("lastTransitionTime"));
    let now = Value::from(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let since = since.cloned().unwrap_or(now);
    Some(
        json!({"type": "Dangling", "status": status, "lastTransitionTime": since, "reason": reason, "message": message}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_says_whether_its_level_exists_and_since_when() {
        let now = "2026-01-02T03:04:05.6Z".parse().unwrap();
        let fresh = condition(&json!({}), "low", true, now).unwrap();
        assert_eq!((fresh.str_at("status"), fresh.str_at("lastTransitionTime")), ("False", "2026-01-02T03:04:05Z"));
        let stored = json!({"status": {"conditions": [fresh]}});
        assert_eq!(condition(&stored, "low", true, now), None);
        assert_eq!(condition(&stored, "low", false, now).unwrap().str_at("status"), "True");
        let later = "2026-02-02T03:04:05Z".parse().unwrap();
        let moved = condition(&stored, "high", true, later).unwrap();
        assert_eq!(moved.str_at("lastTransitionTime"), "2026-01-02T03:04:05Z", "it existed before");
    }
}
