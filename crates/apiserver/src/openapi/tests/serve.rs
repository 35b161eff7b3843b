//! Requests: which form is answered, what a client that has a document already is told, and how little is made twice.

use super::*;
use crate::{openapi::Documents, request::query::Query};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt;

const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Asks for a path below `/openapi`, with `?` and all.
fn ask(
    documents: &Documents,
    registry: &Registry,
    path: &str,
    headers: &[(header::HeaderName, &str)],
) -> Option<Response<crate::Body>> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let parts: Vec<&str> = path.split('/').collect();
    let headers: HeaderMap =
        headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect();
    documents.serve(registry, &[], &parts, &headers, &Query::new(Some(query)))
}

fn header_of(response: &Response<crate::Body>, name: header::HeaderName) -> &str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

async fn json_of(response: Response<crate::Body>) -> Value {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap()
}

/// The URL of each document by its key, without `/openapi/`.
async fn index(documents: &Documents, registry: &Registry) -> std::collections::BTreeMap<String, String> {
    let list = json_of(ask(documents, registry, "v3", &[]).unwrap()).await;
    let url =
        |value: &Value| value["serverRelativeURL"].as_str().unwrap().strip_prefix("/openapi/").unwrap().to_owned();
    list["paths"].as_object().unwrap().iter().map(|(key, value)| (key.clone(), url(value))).collect()
}

#[test]
fn the_form_is_the_first_of_those_asked_for_that_there_is() {
    let (documents, registry) = (Documents::default(), built_in());
    let cases = [
        ("v2", "", 200, "application/json"),
        ("v2", "*/*", 200, "application/json"),
        ("v2", "application/json", 200, "application/json"),
        // kubectl up to 1.26, and client-go of later days.
        ("v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf", 200, PROTOBUF),
        ("v2", PROTOBUF, 200, PROTOBUF),
        ("v2", "text/html, application/json;q=0.9", 200, "application/json"),
        ("v2", "application/json, application/com.github.proto-openapi.spec.v2@v1.0+protobuf", 200, "application/json"),
        ("v2", "text/html", 406, "text/plain; charset=utf-8"),
        ("v3", "application/json", 200, "application/json"),
        ("v3/apis/apps/v1", "application/json", 200, "application/json"),
        (
            "v3/apis/apps/v1",
            "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
            200,
            "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
        ),
        ("v3/apis/apps/v1", PROTOBUF, 406, "text/plain; charset=utf-8"),
    ];
    for (path, accept, status, kind) in cases {
        let response = ask(&documents, &registry, path, &[(header::ACCEPT, accept)]).unwrap();
        assert_eq!(
            (response.status().as_u16(), header_of(&response, header::CONTENT_TYPE)),
            (status, kind),
            "{path}: {accept}"
        );
    }
    for path in ["", "v1", "v4", "v2/api", "v3/api/v2", "v3/apis/apps", "v3/apis/nowhere/v1"] {
        assert!(ask(&documents, &registry, path, &[]).is_none(), "{path}");
    }
}

#[test]
fn a_client_that_has_the_document_is_told_so() {
    let (documents, registry) = (Documents::default(), built_in());
    let mut tags = Vec::new();
    for (path, accept) in [("v2", "application/json"), ("v2", PROTOBUF), ("v3", ""), ("v3/api/v1", "")] {
        let first = ask(&documents, &registry, path, &[(header::ACCEPT, accept)]).unwrap();
        let tag = header_of(&first, header::ETAG).to_owned();
        assert!(tag.len() > 10 && tag.starts_with('"') && tag.ends_with('"'), "{tag}");
        assert_eq!(header_of(&first, header::VARY), "Accept");
        for known in [tag.clone(), format!("\"other\", {tag}"), format!("W/{tag}")] {
            let again =
                ask(&documents, &registry, path, &[(header::ACCEPT, accept), (header::IF_NONE_MATCH, &known)]).unwrap();
            assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{path}: {known}");
        }
        let other = ask(&documents, &registry, path, &[(header::ACCEPT, accept), (header::IF_NONE_MATCH, "\"other\"")])
            .unwrap();
        assert_eq!(other.status(), StatusCode::OK);
        tags.push(tag);
    }
    let all = tags.len();
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), all, "each form has its own tag");
}

#[tokio::test]
async fn every_document_of_version_3_is_listed_and_its_url_holds_for_ever() {
    let (documents, registry) = (Documents::default(), built_in());
    let list = index(&documents, &registry).await;
    let keys: Vec<&str> = list.keys().map(String::as_str).collect();
    assert!(keys.contains(&"api/v1") && keys.contains(&"apis/apps/v1"), "{keys:?}");
    for (key, url) in &list {
        let response = ask(&documents, &registry, url, &[]).unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{key}");
        assert_eq!(header_of(&response, header::CACHE_CONTROL), "public, immutable, max-age=31536000", "{key}");
        assert_eq!(json_of(response).await["openapi"], "3.0.0", "{key}");
        let plain = ask(&documents, &registry, &format!("v3/{key}"), &[]).unwrap();
        assert_eq!(header_of(&plain, header::CACHE_CONTROL), "no-cache, private", "{key}");
    }
}

#[tokio::test]
async fn a_url_from_before_a_change_leads_to_the_present_one() {
    let (documents, registry) = (Documents::default(), built_in());
    let present = index(&documents, &registry).await["apis/apps/v1"].clone();
    let response = ask(&documents, &registry, "v3/apis/apps/v1?hash=0123456789ABCDEF", &[]).unwrap();
    assert_eq!(response.status(), StatusCode::MOVED_PERMANENTLY);
    assert_eq!(header_of(&response, header::LOCATION), format!("/openapi/{present}"));
}

#[tokio::test]
async fn custom_kinds_appear_and_vanish_and_leave_the_other_documents_alone() {
    let (documents, plain) = (Documents::default(), built_in());
    let before = index(&documents, &plain).await;
    assert!(!before.contains_key("apis/example.com/v1"));
    let core = Arc::as_ptr(&documents.made.lock().v3["api/v1"].document);

    documents.set_schemas(schemas(&["Gateway"]));
    let registry = plain.with_custom([custom("Gateway")]);
    let with = index(&documents, &registry).await;
    let shown = json_of(ask(&documents, &registry, &with["apis/example.com/v1"], &[]).unwrap()).await;
    assert!(shown["components"]["schemas"]["com.example.v1.Gateway"]["properties"]["spec"].is_object());
    let all = json_of(ask(&documents, &registry, "v2", &[]).unwrap()).await;
    assert!(all["definitions"]["com.example.v1.GatewayList"].is_object());
    for (key, url) in &before {
        assert_eq!(with.get(key), Some(url), "{key} speaks of nothing that has changed");
    }
    assert_eq!(Arc::as_ptr(&documents.made.lock().v3["api/v1"].document), core, "and is not made again");

    documents.set_schemas(Schemas::new());
    assert_eq!(index(&documents, &plain).await, before);
    let all = json_of(ask(&documents, &plain, "v2", &[]).unwrap()).await;
    assert!(all["definitions"].get("com.example.v1.Gateway").is_none());
}

#[tokio::test]
async fn documents_are_made_again_only_when_something_has_changed() {
    let (documents, plain) = (Documents::default(), built_in());
    documents.set_schemas(schemas(&["Gateway"]));
    let made = |registry: &Registry| {
        ask(&documents, registry, "v2", &[]).unwrap();
        documents.made.lock().clone()
    };
    let first = made(&plain.with_custom([custom("Gateway")]));
    // Another definition's status changed: every custom resource is made anew, and the schemas are set again.
    documents.set_schemas(schemas(&["Gateway"]));
    let same = made(&plain.with_custom([custom("Gateway")]));
    assert!(Arc::ptr_eq(&first, &same));
    assert!(first.v2.get().is_some() && first.v2_protobuf.get().is_none(), "only what was asked for is made");
    assert!(first.v3.values().all(|part| part.document.get().is_none()));

    let url = index(&documents, &plain.with_custom([custom("Gateway")])).await["apis/example.com/v1"].clone();
    let mut changed = gateway_schema();
    changed["properties"]["spec"]["properties"]["more"] = json!({"type": "string"});
    documents.set_schemas([(key("Gateway"), Packed::new(&changed))].into());
    let other = made(&plain.with_custom([custom("Gateway")]));
    assert!(!Arc::ptr_eq(&first, &other));
    let moved = ask(&documents, &plain.with_custom([custom("Gateway")]), &url, &[]).unwrap();
    assert_eq!(moved.status(), StatusCode::MOVED_PERMANENTLY);
}
