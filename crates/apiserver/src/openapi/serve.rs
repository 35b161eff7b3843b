//! Answers to requests below `/openapi`: which document, in which form, and whether the client has it already.

use super::{Document, Documents, v3};
use crate::{Body, registry::Registry, request::query::Query};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

/// `@` is no character of a media type, so answers have a dot where most clients ask with an `@`.
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V2_PROTOBUF_ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const V3_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
const V3_PROTOBUF_ASKED: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
const JSON: &str = "application/json";
/// A document whose hash is in the URL never changes.
const FOREVER: &str = "public, immutable, max-age=31536000";

impl Documents {
    /// Answers a GET of `/openapi/` and `parts`; none when there is no such document. `others` are the keys and places of
    /// documents that other servers have.
    pub fn serve(
        &self,
        registry: &Registry,
        others: &[(String, String)],
        parts: &[&str],
        headers: &HeaderMap,
        query: &Query,
    ) -> Option<Response<Body>> {
        let made = self.of(registry.iter().cloned().collect());
        match parts {
            ["v2"] => Some(match form(headers, [V2_PROTOBUF, V2_PROTOBUF_ASKED]) {
                Some(Form::Protobuf) => answer(made.v2_protobuf(), V2_PROTOBUF, headers),
                Some(Form::Json) => answer(made.v2(), JSON, headers),
                None => not_acceptable(&[JSON, V2_PROTOBUF]),
            }),
            ["v3"] => {
                let own = made.all_v3().map(|(key, document)| (key.to_owned(), v3::url(key, &document.hash)));
                // Where another server answers for a group, it also describes it.
                let index = v3::index(own.chain(others.iter().cloned()));
                Some(answer(&Document::new(index.to_string().into_bytes()), JSON, headers))
            }
            ["v3", key @ ..] => {
                let key = key.join("/");
                let document = made.v3(&key)?;
                let hash = query.get("hash");
                if !hash.is_empty() && hash != document.hash {
                    // The client's list of documents is from before a change.
                    return moved(&v3::url(&key, &document.hash));
                }
                let mut response = match form(headers, [V3_PROTOBUF, V3_PROTOBUF_ASKED]) {
                    Some(Form::Protobuf) => answer(made.v3_protobuf(&key)?, V3_PROTOBUF, headers),
                    Some(Form::Json) => answer(document, JSON, headers),
                    None => return Some(not_acceptable(&[JSON, V3_PROTOBUF])),
                };
                if !hash.is_empty() {
                    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(FOREVER));
                }
                Some(response)
            }
            _ => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Protobuf,
}

/// The first form in the Accept header that there is; protobuf has these names.
fn form(headers: &HeaderMap, protobuf: [&str; 2]) -> Option<Form> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.trim().is_empty() {
        return Some(Form::Json);
    }
    accept.split(',').find_map(|entry| match entry.split(';').next().unwrap_or_default().trim() {
        JSON | "application/*" | "*/*" => Some(Form::Json),
        named if protobuf.contains(&named) => Some(Form::Protobuf),
        _ => None,
    })
}

fn not_acceptable(accepted: &[&str]) -> Response<Body> {
    runtime::http::text(StatusCode::NOT_ACCEPTABLE, format!("accepted forms: {}\n", accepted.join(", ")))
}

fn answer(document: &Document, kind: &'static str, headers: &HeaderMap) -> Response<Body> {
    let tag = format!("\"{}\"", document.hash);
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let unchanged = known.split(',').any(|one| one.trim().trim_start_matches("W/") == tag);
    let mut response = if unchanged {
        let mut response = Response::new(runtime::http::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        let mut response = Response::new(runtime::http::full(document.bytes.clone()));
        response.extensions_mut().insert(crate::gzip::Whole(document.bytes.clone()));
        response
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

fn moved(to: &str) -> Option<Response<Body>> {
    let mut response = Response::new(runtime::http::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_str(to).ok()?);
    Some(response)
}
