//! Protobuf bodies of typed clients, decoded and encoded by the table of types.
//!
//! A body is four magic bytes and an envelope (`runtime.Unknown`) that names the kind and holds the message. No message has
//! code of its own: `schema::table` knows the numbers, `decode` and `encode` walk them. Called by the API server for bodies
//! of `application/vnd.kubernetes.protobuf`.

mod decode;
mod encode;
#[cfg(test)]
mod tests;
mod wire;

pub use wire::{put_bytes, put_double, put_number};

use crate::schema::{self, Shape, Struct};
use serde_json::Value;

/// What every protobuf body starts with.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// Why a body cannot be read or written. Never worth a retry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Something other than protobuf.
    #[error("the body is no Kubernetes protobuf: it must start with the bytes 6b 38 73 00")]
    NotProtobuf,
    /// A kind that is not built in.
    #[error("no kind {kind:?} in version {api_version:?} is known in protobuf form")]
    UnknownKind {
        /// As the envelope says.
        api_version: String,
        /// As the envelope says.
        kind: String,
    },
    /// The envelope holds something else than a plain message.
    #[error("content encoding {0:?} is not supported; send the message as it is")]
    Encoding(String),
    /// Bytes that are no message of this type, or a value that does not fit it.
    #[error("{}{problem}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
    Malformed {
        /// The field in question.
        path: String,
        problem: &'static str,
    },
}

impl Error {
    fn malformed(problem: &'static str) -> Self {
        Self::Malformed { path: String::new(), problem }
    }

    /// Adds the field that it happened in, from the inside out.
    fn within(self, field: &str) -> Self {
        match self {
            Self::Malformed { path, problem } if path.is_empty() => Self::Malformed { path: field.to_owned(), problem },
            Self::Malformed { path, problem } => Self::Malformed { path: format!("{field}.{path}"), problem },
            other => other,
        }
    }
}

/// Reads a body into the JSON form that a typed server would write, `apiVersion` and `kind` included.
///
/// `expected` is the type to take when the envelope names no kind.
pub fn decode(body: &[u8], expected: Option<&'static Struct>) -> Result<Value, Error> {
    let envelope = decode::envelope(body)?;
    let unnamed = envelope.kind.is_empty();
    let structure = if unnamed { expected } else { find(&envelope.api_version, &envelope.kind) };
    let Some(structure) = structure else {
        return Err(Error::UnknownKind { api_version: envelope.api_version, kind: envelope.kind });
    };
    let mut value = Value::Object(decode::message(structure, envelope.raw)?);
    for (name, text) in [("apiVersion", envelope.api_version), ("kind", envelope.kind)] {
        if !text.is_empty() && structure.fields.contains_key(name) {
            value[name] = text.into();
        }
    }
    // Protobuf clients write empty fields that JSON leaves out.
    schema::decode(&Shape::Named(&structure.name), &mut value);
    // A level of messages may be several of JSON, and JSON inside of it has levels of its own. What nests deeper than a body
    // of JSON may could be stored, but not read again.
    if !nests_within(&value, schema::NESTING_LIMIT) {
        return Err(Error::malformed("nested too deep"));
    }
    Ok(value)
}

fn nests_within(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) if levels == 0 => false,
        Value::Array(list) => list.iter().all(|item| nests_within(item, levels - 1)),
        Value::Object(map) => map.values().all(|item| nests_within(item, levels - 1)),
        _ => true,
    }
}

/// Writes a built-in object as a body. `value` must have gone through `schema::decode`.
pub fn encode(value: &Value) -> Result<Vec<u8>, Error> {
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let structure = find(api_version, kind)
        .ok_or_else(|| Error::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() })?;
    let message = encode::message(structure, value)?;
    Ok(encode::envelope(api_version, kind, &message))
}

/// The type of a kind. Options, Status and other meta types belong to every group.
fn find(api_version: &str, kind: &str) -> Option<&'static Struct> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    schema::of_kind(group, version, kind)
        .or_else(|| schema::named(&format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}")))
}
