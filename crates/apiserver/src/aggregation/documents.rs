//! What other servers say of themselves, for discovery and OpenAPI. Fetched by `keep` while a server is available, forgotten when it
//! goes away: nothing is said in the name of a server that does not answer.

use super::{backend, index::Remote, proxy};
use crate::{ApiServer, Body};
use api::object::Fields;
use http::{HeaderMap, Response, StatusCode, header};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const JSON: &str = "application/json";

/// What one server says of one group and version.
#[derive(Default)]
pub(crate) struct Told {
    /// Its resources in the form of aggregated discovery; none when it did not say.
    pub(crate) resources: Option<Value>,
    /// Where its OpenAPI document of version 3 is, below this server.
    pub(crate) v3: Option<String>,
    /// Its paths and types of version 2.
    pub(crate) v2: Option<Arc<Value>>,
    /// The tag under which it said the latter.
    v2_tag: String,
}

/// By the name of the APIService.
#[derive(Default)]
pub(super) struct Documents(Mutex<ByName>);

/// What each server told last, and which one that was.
type ByName = BTreeMap<String, (Arc<Remote>, Arc<Told>)>;

impl Documents {
    pub(super) fn of(&self, name: &str) -> Option<Arc<Told>> {
        self.0.lock().get(name).map(|(_, told)| Arc::clone(told))
    }

    /// Forgets what a server said.
    pub(super) fn forget(&self, name: &str) {
        self.0.lock().remove(name);
    }

    /// Forgets all but these.
    pub(super) fn keep_only(&self, names: &BTreeSet<String>) {
        self.0.lock().retain(|name, _| names.contains(name));
    }

    /// What a server says now. What it does not say is not held against it.
    pub(super) async fn refresh(&self, server: &Arc<ApiServer>, remote: &Arc<Remote>) {
        let before = self.0.lock().get(&remote.name).cloned();
        let before = before.filter(|(of, _)| of.is_same_place(remote)).map(|(_, told)| told);
        let (resources, v3, v2) =
            tokio::join!(resources(server, remote), v3(server, remote), v2(server, remote, before.as_deref()));
        let (v2, v2_tag) = v2.unwrap_or_default();
        let told = Told { resources, v3, v2, v2_tag };
        let changed = match &before {
            Some(before) => match (&before.v2, &told.v2) {
                (None, None) => false,
                (Some(old), Some(new)) => !Arc::ptr_eq(old, new),
                _ => true,
            },
            None => told.v2.is_some(),
        };
        self.0.lock().insert(remote.name.clone(), (Arc::clone(remote), Arc::new(told)));
        if changed {
            self.publish_v2(server);
        }
    }

    /// Hands what servers said of version 2 to the document that has it all.
    pub(super) fn publish_v2(&self, server: &ApiServer) {
        let all = self.0.lock().values().filter_map(|(_, told)| told.v2.clone()).collect();
        server.documents.set_remote(all);
    }
}

async fn resources(server: &Arc<ApiServer>, remote: &Remote) -> Option<Value> {
    let root = if remote.group.is_empty() { "/api" } else { "/apis" };
    if let Ok(answer) = backend::get(server, remote, root, &[(header::ACCEPT, AGGREGATED)]).await
        && answer.status == StatusCode::OK
        && is_aggregated(&answer.headers)
    {
        let document: Value = serde_json::from_slice(&answer.body).ok()?;
        return Some(version_of(&document, remote).map_or_else(|| json!([]), |found| found.at("resources").clone()));
    }
    let answer = backend::get(server, remote, &remote.path(), &[(header::ACCEPT, JSON)]).await.ok()?;
    let document: Value = serde_json::from_slice(&answer.body).ok().filter(|_| answer.status == StatusCode::OK)?;
    Some(from_legacy(&document, &remote.group, &remote.version))
}

fn is_aggregated(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.contains("as=APIGroupDiscoveryList") && kind.split(';').any(|part| part.trim() == "v=v2")
}

fn version_of<'a>(document: &'a Value, remote: &Remote) -> Option<&'a Value> {
    let group = document.list_at("items").iter().find(|group| group.str_at("metadata.name") == remote.group)?;
    group.list_at("versions").iter().find(|version| version.str_at("version") == remote.version)
}

/// An APIResourceList in the form of aggregated discovery.
pub(super) fn from_legacy(document: &Value, group: &str, version: &str) -> Value {
    let kind_of = |entry: &Value| {
        let or = |field: &str, otherwise: &str| match entry.str_at(field) {
            "" => otherwise.to_owned(),
            given => given.to_owned(),
        };
        json!({"group": or("group", group), "version": or("version", version), "kind": entry.at("kind")})
    };
    let list = document.list_at("resources");
    let below = |name: &str| -> Vec<Value> {
        let prefix = format!("{name}/");
        let below = list.iter().filter_map(|entry| Some((entry.str_at("name").strip_prefix(&prefix)?, entry)));
        below
            .map(|(name, entry)| json!({"subresource": name, "responseKind": kind_of(entry), "verbs": entry.at("verbs")}))
            .collect()
    };
    let resources = list.iter().filter(|entry| !entry.str_at("name").contains('/')).map(|entry| {
        let name = entry.str_at("name");
        let mut shown = json!({
            "resource": name, "responseKind": kind_of(entry), "verbs": entry.at("verbs"),
            "scope": if entry.is_true("namespaced") { "Namespaced" } else { "Cluster" },
            "singularResource": entry.str_at("singularName"),
        });
        for field in ["shortNames", "categories"] {
            if !entry.list_at(field).is_empty() {
                shown[field] = entry.at(field).clone();
            }
        }
        let below = below(name);
        if !below.is_empty() {
            shown["subresources"] = below.into();
        }
        shown
    });
    resources.collect::<Vec<_>>().into()
}

async fn v3(server: &Arc<ApiServer>, remote: &Remote) -> Option<String> {
    let answer = backend::get(server, remote, "/openapi/v3", &[(header::ACCEPT, JSON)]).await.ok()?;
    let index: Value = serde_json::from_slice(&answer.body).ok().filter(|_| answer.status == StatusCode::OK)?;
    let url = index["paths"].get(remote.path().trim_start_matches('/'))?.str_at("serverRelativeURL");
    // Only what this server passes on to the same place.
    url.starts_with(&format!("/openapi/v3{}", remote.path())).then(|| url.to_owned())
}

async fn v2(server: &Arc<ApiServer>, remote: &Remote, before: Option<&Told>) -> Option<(Option<Arc<Value>>, String)> {
    let known = before.filter(|before| before.v2.is_some() && !before.v2_tag.is_empty());
    let mut headers = vec![(header::ACCEPT, JSON)];
    if let Some(known) = known {
        headers.push((header::IF_NONE_MATCH, known.v2_tag.as_str()));
    }
    let answer = backend::get(server, remote, "/openapi/v2", &headers).await.ok()?;
    match (answer.status, known) {
        (StatusCode::NOT_MODIFIED, Some(known)) => Some((known.v2.clone(), known.v2_tag.clone())),
        (StatusCode::OK, _) => {
            let tag = answer.headers.get(header::ETAG).and_then(|tag| tag.to_str().ok()).unwrap_or_default().to_owned();
            let document: Value = serde_json::from_slice(&answer.body).ok()?;
            let own = own_part(document, &remote.path());
            // A server without tags says the same again and again.
            let same = before.and_then(|before| before.v2.clone()).filter(|before| **before == own);
            Some((Some(same.unwrap_or_else(|| Arc::new(own))), tag))
        }
        _ => None,
    }
}

/// The paths below `path` alone, with the types that they need: a server speaks for nothing else.
pub(super) fn own_part(mut document: Value, path: &str) -> Value {
    let below = format!("{path}/");
    let all = document["paths"].take();
    let paths: Map<String, Value> = match all {
        Value::Object(all) => all.into_iter().filter(|(key, _)| key == path || key.starts_with(&below)).collect(),
        _ => Map::new(),
    };
    let paths = Value::Object(paths);
    let definitions = document["definitions"].take();
    let mut needed = BTreeSet::new();
    let mut waiting = Vec::new();
    references(&paths, &mut waiting);
    while let Some(name) = waiting.pop() {
        if needed.insert(name.clone())
            && let Some(definition) = definitions.get(&name)
        {
            references(definition, &mut waiting);
        }
    }
    let definitions: Map<String, Value> = match definitions {
        Value::Object(all) => all.into_iter().filter(|(name, _)| needed.contains(name)).collect(),
        _ => Map::new(),
    };
    json!({"paths": paths, "definitions": definitions})
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if let Some(name) = map.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix("#/definitions/"))
            {
                found.push(name.to_owned());
            }
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

/// Passes on a request for a document of version 3.
pub(super) async fn pass(
    server: &Arc<ApiServer>,
    remote: &Remote,
    uri: &http::Uri,
    headers: &HeaderMap,
) -> Response<Body> {
    if !remote.available {
        return proxy::unavailable("service unavailable");
    }
    let passed: Vec<_> = [header::ACCEPT, header::IF_NONE_MATCH]
        .into_iter()
        .filter_map(|name| Some((name.clone(), headers.get(&name)?.to_str().ok()?)))
        .collect();
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let answer = match backend::get(server, remote, path, &passed).await {
        Ok(answer) => answer,
        Err(why) => return proxy::unavailable(&format!("error trying to reach service: {why}")),
    };
    let mut response = Response::new(runtime::http::full(answer.body));
    *response.status_mut() = answer.status;
    for name in [header::CONTENT_TYPE, header::ETAG, header::VARY, header::CACHE_CONTROL, header::LOCATION] {
        if let Some(value) = answer.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}
