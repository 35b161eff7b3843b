//! Objects as the store keeps them, and the way from there to the wire without parsing.
//!
//! Stored bytes are `{"apiVersion":..,"kind":..,"metadata":{..},..}` in this order and without a resourceVersion, which the
//! store decides only when it writes. Answers are made by laying the head (kind, version, resourceVersion) in front of the
//! bytes that follow `"metadata":{`: a copy, never a serialisation.

use api::{error::ApiError, object::Fields, protobuf, resource::Resource};
use bytes::Bytes;
use serde_json::Value;
use std::{borrow::Cow, collections::BTreeMap, io::Write, sync::Arc};
use store::Entry;

const METADATA: &[u8] = b"\"metadata\":{";

/// What lists and watches need to know of a stored object; computed once per stored value.
#[derive(Debug)]
pub struct View {
    /// Where the first field of metadata begins.
    body_at: usize,
    /// For label selectors.
    pub labels: BTreeMap<String, String>,
    /// Declared selectable fields that are set, by their label.
    fields: Vec<(String, String)>,
    /// metadata.name.
    pub name: String,
    /// metadata.namespace, empty without one.
    pub namespace: String,
}

impl View {
    /// A selectable field as text; empty when it is not set.
    pub fn field(&self, label: &str) -> Cow<'_, str> {
        match label {
            "metadata.name" => Cow::Borrowed(&self.name),
            "metadata.namespace" => Cow::Borrowed(&self.namespace),
            _ => Cow::Borrowed(self.fields.iter().find(|(known, _)| known == label).map_or("", |(_, value)| value)),
        }
    }
}

/// The view of an entry, as `resource` declares its selectable fields.
pub fn view(entry: &Entry, resource: &Resource) -> Arc<View> {
    entry.view(|bytes| {
        let object: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let labels = object.map_at("metadata.labels").into_iter().flatten();
        let fields =
            resource.selectable.iter().filter_map(|(label, path)| Some((label.clone(), as_text(object.at(path))?)));
        View {
            body_at: body_at(bytes),
            labels: labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect(),
            fields: fields.collect(),
            name: object.str_at("metadata.name").to_owned(),
            namespace: object.str_at("metadata.namespace").to_owned(),
        }
    })
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Position after `"metadata":{`. Kind and apiVersion, which stand before it, cannot contain a quote.
fn body_at(bytes: &[u8]) -> usize {
    bytes.windows(METADATA.len()).position(|window| window == METADATA).map_or(0, |at| at + METADATA.len())
}

/// The bytes to store for an object: head first, resourceVersion left out.
pub fn encode(object: &Value) -> Result<Bytes, ApiError> {
    let Some(map) = object.as_object() else { return Err(ApiError::internal("only objects are stored")) };
    let mut out = Vec::with_capacity(1024);
    let write = |out: &mut Vec<u8>, value: &Value| serde_json::to_writer(out, value).map_err(ApiError::internal);
    out.extend_from_slice(b"{\"apiVersion\":");
    write(&mut out, object.at("apiVersion"))?;
    out.extend_from_slice(b",\"kind\":");
    write(&mut out, object.at("kind"))?;
    out.extend_from_slice(b",\"metadata\":{");
    let mut first = true;
    for (key, value) in object.map_at("metadata").into_iter().flatten().filter(|(key, _)| *key != "resourceVersion") {
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        write(&mut out, &Value::from(key.as_str()))?;
        out.push(b':');
        write(&mut out, value)?;
    }
    out.push(b'}');
    for (key, value) in map.iter().filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata")) {
        out.push(b',');
        write(&mut out, &Value::from(key.as_str()))?;
        out.push(b':');
        write(&mut out, value)?;
    }
    out.push(b'}');
    Ok(out.into())
}

/// The stored form of a value that may have been written by somebody else: kube-apiserver's protobuf, or JSON in another
/// order. What cannot be read stays as it is, and is told when somebody asks for it.
pub fn laid_out(value: &[u8]) -> Bytes {
    let ours = value.strip_prefix(b"{\"apiVersion\":\"".as_slice()).is_some_and(|rest| {
        let kind = rest.iter().position(|byte| *byte == b'"').map(|at| &rest[at..]);
        let kind = kind.and_then(|rest| rest.strip_prefix(b"\",\"kind\":\"".as_slice()));
        let rest = kind.and_then(|rest| rest.iter().position(|byte| *byte == b'"').map(|at| &rest[at..]));
        rest.is_some_and(|rest| rest.starts_with(b"\",\"metadata\":{"))
    });
    if ours {
        return Bytes::copy_from_slice(value);
    }
    let object = match value.starts_with(&protobuf::MAGIC) {
        true => protobuf::decode(value, None).ok(),
        false => serde_json::from_slice::<Value>(value).ok(),
    };
    object.and_then(|object| encode(&object).ok()).unwrap_or_else(|| Bytes::copy_from_slice(value))
}

/// What whoever asks for an entry must hear when its stored form cannot be read.
pub fn readable(entry: &Entry) -> Result<(), ApiError> {
    match entry.unreadable() {
        Some(why) => Err(ApiError::internal(format!("{}: {why}", entry.key()))),
        None => Ok(()),
    }
}

/// The object as a value, with its resourceVersion.
pub fn parse(entry: &Entry) -> Result<Value, ApiError> {
    readable(entry)?;
    parse_bytes(entry.value(), entry.mod_revision())
        .map_err(|error| ApiError::internal(format!("{}: {error}", entry.key())))
}

/// The same for bytes that are not, or not yet, an entry; revision 0 is a dry run and leaves the field out.
pub fn parse_bytes(bytes: &[u8], revision: u64) -> Result<Value, ApiError> {
    let mut object: Value = serde_json::from_slice(bytes)
        .map_err(|error| ApiError::internal(format!("stored object cannot be read: {error}")))?;
    if revision > 0 {
        object.set("metadata.resourceVersion", revision.to_string());
    }
    Ok(object)
}

/// Whether an answer names kind and apiVersion at each object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// Single objects, watch events, items of custom lists.
    Full,
    /// Items of built-in lists, as upstream writes them.
    Bare,
}

/// Appends an entry as JSON, with the given resourceVersion, in the words of `resource`.
pub fn write(out: &mut Vec<u8>, entry: &Entry, revision: u64, resource: &Resource, head: Head) {
    let at = view(entry, resource).body_at;
    write_from(out, &entry.value()[at..], revision, resource, head);
}

/// The same for bytes that are not, or not yet, an entry; revision 0 is a dry run and leaves the field out.
pub fn write_bytes(out: &mut Vec<u8>, bytes: &[u8], revision: u64, resource: &Resource) {
    write_from(out, &bytes[body_at(bytes)..], revision, resource, Head::Full);
}

fn write_from(out: &mut Vec<u8>, body: &[u8], revision: u64, resource: &Resource, head: Head) {
    out.reserve(body.len() + 128);
    // Writing to a Vec cannot fail.
    let _ = match head {
        Head::Full => write!(out, "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", resource.kind, resource.api_version()),
        Head::Bare => write!(out, "{{"),
    };
    out.extend_from_slice(METADATA);
    if revision > 0 {
        let _ = write!(out, "\"resourceVersion\":\"{revision}\",");
    }
    out.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_head_comes_first_whatever_else_sorts_before_it() {
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"\"metadata\":{": "x"}, "metadata": {"name": "a", "resourceVersion": "7", "uid": "u"}});
        let bytes = encode(&object).unwrap();
        let text =
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"u"},"data":{"\"metadata\":{":"x"}}"#;
        assert_eq!(std::str::from_utf8(&bytes).unwrap(), text);
        assert_eq!(&bytes[body_at(&bytes)..][..10], br#""name":"a""#);
    }
}

#[cfg(test)]
mod layout_tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_others_wrote_gets_our_layout_and_ours_stays() {
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"a": "b"}, "metadata": {"name": "x", "resourceVersion": "7"}});
        let ours = encode(&object).unwrap();
        assert_eq!(laid_out(&ours), ours);
        assert_eq!(laid_out(object.to_string().as_bytes()), ours);
        let small = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"a": "b"}, "metadata": {"name": "x"}});
        let bytes = protobuf::encode(&small).unwrap();
        assert!(bytes.starts_with(&protobuf::MAGIC));
        let read: Value = serde_json::from_slice(&laid_out(&bytes)).unwrap();
        assert_eq!((&read["data"], &read["metadata"]["name"]), (&small["data"], &small["metadata"]["name"]));
        assert_eq!(&laid_out(b"something else")[..], b"something else");
    }
}
