//! The shape of every type: what decoding, patching, applying, protobuf and OpenAPI need to know of a field.
//!
//! Built-in types are read once from `types.txt` (facts of the Kubernetes API: names, types, numbers, merge keys; made by
//! `cargo xtask types`). Custom resources build the same `Shape` from their schema at run time.

mod decode;
mod quantity;
pub(crate) mod scalar;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod text;

pub use decode::{Decoded, Mistake, decode};
pub use table::{kinds, named, of_kind};
pub use text::{NESTING_LIMIT, TextError, parse_json, parse_yaml};

use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// What a JSON value may be.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// true or false.
    Bool,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    Number,
    /// Text.
    String,
    /// Bytes, base64 in JSON.
    Bytes,
    /// RFC 3339, seconds.
    Time,
    /// RFC 3339, microseconds.
    MicroTime,
    /// `metav1.Duration`: text like `5m`.
    Duration,
    /// An amount like `500m` or `1Gi`; numbers are accepted and become text.
    Quantity,
    /// A number or text.
    IntOrString,
    /// Anything, kept as it is.
    Any,
    /// The first when the JSON value is an object, otherwise the second (the unions of JSON schemas).
    Or(Box<Self>, Box<Self>),
    List(Box<Self>, ListKind),
    /// A map with free keys.
    Map(Box<Self>, MapKind),
    /// A built-in struct, by its name in the table.
    Named(&'static str),
    /// A struct made at run time.
    Struct(Arc<Struct>),
}

impl Shape {
    /// The struct, built-in or made at run time.
    pub fn as_struct(&self) -> Option<&Struct> {
        match self {
            Self::Named(name) => named(name),
            Self::Struct(made) => Some(made),
            _ => None,
        }
    }
    /// The field of a struct.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.as_struct()?.fields.get(name)
    }
    /// What a list holds, and how apply sees the list.
    pub fn as_list(&self) -> Option<(&Self, &ListKind)> {
        match self {
            Self::List(item, kind) => Some((item, kind)),
            _ => None,
        }
    }
    /// What a map holds, and how apply sees the map.
    pub fn as_map(&self) -> Option<(&Self, MapKind)> {
        match self {
            Self::Map(value, kind) => Some((value, *kind)),
            _ => None,
        }
    }
}

/// How server-side apply sees a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// Replaced as a whole.
    Atomic,
    /// Scalars, each owned by itself.
    Set,
    /// Items told apart by these fields.
    Map(Vec<String>),
}

/// How server-side apply sees a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// Every key is owned by itself.
    Granular,
    /// Replaced as a whole.
    Atomic,
}

/// A struct: its fields in the order of the original type.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Struct {
    /// Name for messages and OpenAPI (`io.k8s.api.core.v1.ServicePort`).
    pub name: String,
    /// Fields by JSON name, embedded structs already flattened in.
    pub fields: BTreeMap<String, Field>,
    /// Server-side apply owns it as a whole.
    pub atomic: bool,
    /// Unknown fields are kept, not pruned (custom resources only).
    pub open: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// What it holds.
    pub shape: Shape,
    /// Whether an empty value is left out when an object is written.
    pub omit: Omit,
    /// Whether absent and zero differ (a pointer in the original type).
    pub pointer: bool,
    /// Whether OpenAPI lists it as required.
    pub required: bool,
    /// Field number in protobuf; 0 when it has none.
    pub number: u32,
    /// How strategic merge patch treats it.
    pub patch: Patch,
    /// Default that server-side apply needs to know keys (`protocol: TCP`).
    pub default: Option<Value>,
}

/// When a field is left out of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omit {
    /// Always written, zero values too.
    Never,
    /// Left out when zero, empty or null (structs are always written).
    Empty,
    /// Left out also when it is a struct whose every field is left out.
    Zero,
}

/// How strategic merge patch treats a field.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Patch {
    /// Lists are merged, not replaced.
    pub merge: bool,
    /// Fields not named in `$retainKeys` are dropped first.
    pub retain_keys: bool,
    /// The field that tells items of a merged list of structs apart.
    pub merge_key: Option<String>,
}
