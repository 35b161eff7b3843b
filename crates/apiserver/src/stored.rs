//! Objects as the store keeps them, and the way from there to the wire without parsing.
//!
//! Stored bytes are `{"apiVersion":..,"kind":..,"metadata":{..},..}` in this order and without a resourceVersion, which the
//! store decides only when it writes. Answers are made by laying the head (kind, version, resourceVersion) in front of the
//! bytes that follow `"metadata":{`: a copy, never a serialisation.

use api::{error::ApiError, object::Fields, protobuf, resource::Resource};
use bytes::Bytes;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::Write,
    sync::{Arc, Weak},
};
use store::Entry;

const METADATA: &[u8] = b"\"metadata\":{";

/// What selectors need to know of a stored object; read once per stored value.
#[derive(Debug, Default)]
pub struct View {
    /// metadata.labels.
    pub labels: BTreeMap<String, String>,
    /// metadata.name.
    pub name: String,
    /// metadata.namespace, empty without one.
    pub namespace: String,
    /// The declared fields, for each resource that was asked: several may show the same bytes, each in its own words.
    selected: Mutex<Vec<Selected>>,
}

/// The `selectable` of a resource, which is gone when its definition is, and what its fields hold.
type Selected = (Weak<[(String, String)]>, Arc<[Box<str>]>);

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    labels: Option<BTreeMap<String, String>>,
    name: String,
    namespace: String,
}

impl View {
    /// What the selectable fields of `resource` hold, in the order in which it declares them.
    pub fn selected(&self, entry: &Entry, resource: &Resource) -> Arc<[Box<str>]> {
        let asked = Arc::downgrade(&resource.selectable);
        let known =
            |all: &Vec<Selected>| all.iter().find(|(of, _)| of.ptr_eq(&asked)).map(|(_, found)| Arc::clone(found));
        if let Some(found) = known(&self.selected.lock()) {
            return found;
        }
        let mut object: Value = serde_json::from_slice(entry.value()).unwrap_or_default();
        if !resource.rules.shows_as_stored(entry.mod_revision()) {
            object = shown(resource, object);
        }
        let found = resource.selected(&object);
        let mut all = self.selected.lock();
        all.retain(|(of, _)| of.strong_count() > 0 && !of.ptr_eq(&asked));
        all.push((asked, Arc::clone(&found)));
        found
    }
}

/// The view of an entry. Metadata comes first in what is stored, so that nothing after it is read.
pub fn view(entry: &Entry) -> Arc<View> {
    entry.view(|bytes| {
        let metadata = body_at(bytes).checked_sub(1).map(|at| &bytes[at..]).unwrap_or_default();
        let metadata = serde_json::Deserializer::from_slice(metadata).into_iter::<Metadata>().next();
        let Metadata { labels, name, namespace } = metadata.and_then(Result::ok).unwrap_or_default();
        View { labels: labels.unwrap_or_default(), name, namespace, selected: Mutex::default() }
    })
}

/// A stored object in the version that was asked for.
pub fn shown(resource: &Resource, mut object: Value) -> Value {
    object.set("kind", resource.kind.as_str());
    object.set("apiVersion", resource.api_version());
    resource.rules.show_stored(&mut object);
    object
}

/// Position after `"metadata":{`. Kind and apiVersion, which stand before it, cannot contain a quote.
fn body_at(bytes: &[u8]) -> usize {
    bytes.windows(METADATA.len()).position(|window| window == METADATA).map_or(0, |at| at + METADATA.len())
}

/// The apiVersion in whose words bytes are stored.
pub fn api_version(bytes: &[u8]) -> &str {
    let text = bytes.strip_prefix(b"{\"apiVersion\":\"".as_slice()).unwrap_or_default();
    let end = text.iter().position(|byte| *byte == b'"').unwrap_or_default();
    std::str::from_utf8(&text[..end]).unwrap_or_default()
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
    write_from(out, &entry.value()[body_at(entry.value())..], revision, resource, head);
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
