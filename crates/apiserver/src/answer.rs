//! Answers: objects, lists and watch events as JSON, Table, PartialObjectMetadata, YAML or protobuf.

use crate::{
    call::Call,
    request::accept::{Encoding, PROTOBUF, View},
    stored::{self, Head},
    table,
};
use api::{error::ApiError, object::Fields, protobuf, resource::Resource};
use bytes::Bytes;
use futures::stream::BoxStream;
use serde_json::{Value, json};
use std::io::Write;
use store::Entry;

/// What goes back to the client.
pub enum Answer {
    /// A whole body.
    Full {
        /// HTTP status.
        status: u16,
        content_type: &'static str,
        body: Bytes,
    },
    /// A watch.
    Stream { content_type: &'static str, stream: BoxStream<'static, Bytes> },
    /// A connection that was handed over (exec, attach, port-forward, proxied requests).
    Handed(http::Response<crate::Body>),
}

/// One page of objects.
pub struct Page {
    /// What was selected.
    pub entries: Vec<Entry>,
    /// The revision at which that was so.
    pub revision: u64,
    /// Where to go on.
    pub next: Option<String>,
    /// How many follow, when that is known.
    pub remaining: Option<u64>,
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// A value as it is, whatever view was asked for: Status, Scale, reviews.
pub(crate) fn value(call: &Call, status: u16, value: &Value) -> Result<Answer, ApiError> {
    encoded(call, status, serde_json::to_vec(value).map_err(ApiError::internal)?)
}

/// One object from its stored bytes.
pub(crate) fn object(call: &Call, status: u16, bytes: &[u8], revision: u64) -> Result<Answer, ApiError> {
    let resource = &call.resource;
    match call.accept.view {
        View::Object if resource.rules.shows_as_stored(revision) => {
            let mut out = Vec::new();
            stored::write_bytes(&mut out, bytes, revision, resource);
            encoded(call, status, out)
        }
        view => {
            let object = stored::shown(resource, stored::parse_bytes(bytes, revision)?);
            let shown = match view {
                View::Object => object,
                View::Metadata(version) => metadata(&object, version),
                View::Table(version) => {
                    let mut table = table::empty(resource, version, object.str_at("metadata.resourceVersion"));
                    table["rows"] = json!([table::row(call, object)]);
                    table
                }
            };
            value(call, status, &shown)
        }
    }
}

pub(crate) fn list(call: &Call, page: &Page) -> Result<Answer, ApiError> {
    let resource = &call.resource;
    let objects =
        || page.entries.iter().map(|entry| stored::parse(entry).map(|object| stored::shown(resource, object)));
    let mut shown = match call.accept.view {
        View::Object if page.entries.iter().all(|entry| resource.rules.shows_as_stored(entry.mod_revision())) => {
            return encoded(call, 200, list_bytes(resource, page));
        }
        View::Object => {
            let items = objects().collect::<Result<Vec<_>, _>>()?;
            json!({"kind": resource.list_kind, "apiVersion": resource.api_version(), "items": items})
        }
        View::Metadata(version) => {
            let items =
                objects().map(|object| Ok(metadata(&object?, version))).collect::<Result<Vec<_>, ApiError>>()?;
            json!({"kind": "PartialObjectMetadataList", "apiVersion": format!("meta.k8s.io/{version}"), "items": items})
        }
        View::Table(version) => {
            let mut table = table::empty(resource, version, "");
            let mut objects = objects().collect::<Result<Vec<_>, ApiError>>()?;
            resource.rules.in_table_order(&mut objects);
            table["rows"] = objects.into_iter().map(|object| table::row(call, object)).collect();
            table
        }
    };
    shown["metadata"] = list_metadata(resource, page);
    value(call, 200, &shown)
}

fn list_metadata(resource: &Resource, page: &Page) -> Value {
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if resource.custom {
        metadata["continue"] = "".into();
    }
    if let Some(next) = &page.next {
        metadata["continue"] = next.as_str().into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    metadata
}

fn list_bytes(resource: &Resource, page: &Page) -> Vec<u8> {
    let size: usize = page.entries.iter().map(|entry| entry.value().len() + 64).sum();
    let mut out = Vec::with_capacity(size + 256);
    // Writing to a Vec cannot fail.
    let _ = write!(
        out,
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{},\"items\":[",
        resource.list_kind,
        resource.api_version(),
        list_metadata(resource, page)
    );
    let head = if resource.rules.typed_items() { Head::Full } else { Head::Bare };
    for (index, entry) in page.entries.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        stored::write(&mut out, entry, entry.mod_revision(), resource, head);
    }
    out.extend_from_slice(b"]}\n");
    out
}

/// The metadata of an object, for clients that want nothing else.
fn metadata(object: &Value, version: &str) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": object.at("metadata")})
}

fn encoded(call: &Call, status: u16, json: Vec<u8>) -> Result<Answer, ApiError> {
    let pretty = call.query.flag("pretty");
    Ok(match call.accept.encoding {
        Encoding::Json if !pretty => Answer::Full { status, content_type: JSON, body: json.into() },
        Encoding::Json => {
            let value: Value = serde_json::from_slice(&json).map_err(ApiError::internal)?;
            let body = serde_json::to_vec_pretty(&value).map_err(ApiError::internal)?;
            Answer::Full { status, content_type: JSON, body: body.into() }
        }
        Encoding::Yaml => {
            let value: Value = serde_json::from_slice(&json).map_err(ApiError::internal)?;
            let body = serde_saphyr::to_string(&value).map_err(ApiError::internal)?;
            Answer::Full { status, content_type: YAML, body: body.into() }
        }
        Encoding::Protobuf => {
            let value: Value = serde_json::from_slice(&json).map_err(ApiError::internal)?;
            Answer::Full { status, content_type: PROTOBUF, body: in_protobuf(&value)?.into() }
        }
    })
}

fn in_protobuf(value: &Value) -> Result<Vec<u8>, ApiError> {
    protobuf::encode(value).map_err(|error| match error {
        protobuf::Error::UnknownKind { .. } => ApiError::not_acceptable("application/json, application/yaml"),
        other => ApiError::internal(other),
    })
}

/// How a watch is sent; YAML has no way to tell where one event ends.
pub(crate) fn stream_type(encoding: Encoding) -> Result<&'static str, ApiError> {
    match encoding {
        Encoding::Json => Ok(JSON),
        Encoding::Protobuf => Ok("application/vnd.kubernetes.protobuf;stream=watch"),
        Encoding::Yaml => Err(ApiError::not_acceptable(
            "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
        )),
    }
}

/// Writes watch events in the view that the client asked for.
pub(crate) struct Frames {
    encoding: Encoding,
    /// Of a Table, only the first event carries the columns.
    columns_sent: bool,
}

impl Frames {
    pub(crate) fn new(encoding: Encoding) -> Self {
        Self { encoding, columns_sent: false }
    }

    fn put(&self, out: &mut Vec<u8>, word: &str, object: &Value) {
        match self.encoding {
            Encoding::Protobuf => frame(out, word, object),
            Encoding::Json | Encoding::Yaml => line(out, word, object),
        }
    }

    /// One change.
    pub(crate) fn event(&mut self, out: &mut Vec<u8>, call: &Call, word: &str, entry: &Entry, revision: u64) {
        let as_stored = call.accept.view == View::Object && self.encoding == Encoding::Json;
        if as_stored && call.resource.rules.shows_as_stored(entry.mod_revision()) {
            // Writing to a Vec cannot fail.
            let _ = write!(out, "{{\"type\":\"{word}\",\"object\":");
            stored::write(out, entry, revision, &call.resource, Head::Full);
            out.extend_from_slice(b"}\n");
            return;
        }
        match stored::parse(entry) {
            Ok(mut object) => {
                object.set("metadata.resourceVersion", revision.to_string());
                let object = stored::shown(&call.resource, object);
                let shown = self.shown(call, object, revision);
                self.put(out, word, &shown);
            }
            Err(error) => self.error(out, &error),
        }
    }

    /// How far the server is; `initial` marks the end of the initial events.
    pub(crate) fn bookmark(&mut self, out: &mut Vec<u8>, call: &Call, revision: u64, initial: bool) {
        let mut object = json!({
            "kind": call.resource.kind, "apiVersion": call.resource.api_version(),
            "metadata": {"resourceVersion": revision.to_string(), "creationTimestamp": null},
        });
        if initial {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let shown = match call.accept.view {
            View::Object => object,
            View::Metadata(version) => metadata(&object, version),
            View::Table(_) => self.shown(call, object, revision),
        };
        self.put(out, "BOOKMARK", &shown);
    }

    /// The watch breaks off.
    pub(crate) fn error(&self, out: &mut Vec<u8>, error: &ApiError) {
        self.put(out, "ERROR", &error.status());
    }

    fn shown(&mut self, call: &Call, object: Value, revision: u64) -> Value {
        match call.accept.view {
            View::Object => object,
            View::Metadata(version) => metadata(&object, version),
            View::Table(version) => {
                let mut table = table::empty(&call.resource, version, &revision.to_string());
                if std::mem::replace(&mut self.columns_sent, true) {
                    table["columnDefinitions"] = Value::Null;
                }
                table["rows"] = json!([table::row(call, object)]);
                table
            }
        }
    }
}

/// An event in protobuf: its length, then a WatchEvent whose object is wrapped as one that is sent by itself.
fn frame(out: &mut Vec<u8>, word: &str, object: &Value) {
    let encoded = match protobuf::encode(object) {
        Ok(encoded) => encoded,
        Err(error) => {
            tracing::error!(%error, "an event cannot be written in protobuf");
            return;
        }
    };
    let (mut raw, mut event) = (Vec::with_capacity(encoded.len() + 8), Vec::with_capacity(encoded.len() + 32));
    protobuf::put_bytes(&mut raw, 1, &encoded);
    protobuf::put_bytes(&mut event, 1, word.as_bytes());
    protobuf::put_bytes(&mut event, 2, &raw);
    out.extend_from_slice(&u32::try_from(event.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(&event);
}

fn line(out: &mut Vec<u8>, word: &str, object: &Value) {
    // Writing to a Vec cannot fail.
    let _ = writeln!(out, "{}", json!({"type": word, "object": object}));
}
