//! CEL types: what an expression is before it runs.
//!
//! `declared` makes them of a schema, `overloads` of a table, `infer` of an expression.

use super::declared::Declared;
use std::{collections::BTreeMap, fmt, sync::Arc};

/// A CEL type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    /// Not known before the rule runs.
    Dyn,
    /// Of an expression that is mistaken; fits everywhere, so that one mistake is reported once.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Time,
    List(Arc<Self>),
    /// Keys and values.
    Map(Arc<(Self, Self)>),
    Object(Arc<Object>),
    /// What `Object.spec{..}` and `JSONPatch{..}` are, by their names.
    Message(Arc<str>),
    /// A library's type that may be null, `kubernetes.Quantity`.
    Struct(&'static str),
    /// A library's type, `net.IP`.
    Opaque(&'static str),
    Optional(Arc<Self>),
    /// Of what `type(x)` is.
    Meta(Arc<Self>),
    /// To be found out.
    Param(usize),
}

/// An object with fields by their escaped names. Two of them are the same type only if they stand at the same place of the
/// schema, which `name` is.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) name: String,
    pub(super) fields: BTreeMap<String, Arc<Declared>>,
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Type {
    pub(super) fn list(of: Self) -> Self {
        Self::List(Arc::new(of))
    }

    pub(super) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    pub(super) fn optional(of: Self) -> Self {
        Self::Optional(Arc::new(of))
    }

    /// What is inside: of a list its items, of a map keys and values.
    pub(super) fn parts(&self) -> Vec<&Self> {
        match self {
            Self::List(of) | Self::Optional(of) | Self::Meta(of) => vec![of],
            Self::Map(of) => vec![&of.0, &of.1],
            _ => Vec::new(),
        }
    }

    /// The same type with every part replaced.
    pub(super) fn with_parts(&self, mut part: impl FnMut(&Self) -> Self) -> Self {
        match self {
            Self::List(of) => Self::list(part(of)),
            Self::Optional(of) => Self::optional(part(of)),
            Self::Meta(of) => Self::Meta(Arc::new(part(of))),
            Self::Map(of) => Self::map(part(&of.0), part(&of.1)),
            _ => self.clone(),
        }
    }

    /// Values of these types have one size, which is known.
    pub(super) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Double | Self::Duration | Self::Int | Self::Time | Self::Uint => true,
            Self::Optional(of) => of.is_scalar(),
            _ => false,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn | Self::Param(_) => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::Text => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Duration => f.write_str("google.protobuf.Duration"),
            Self::Time => f.write_str("google.protobuf.Timestamp"),
            Self::List(item) => write!(f, "list({item})"),
            Self::Map(of) => write!(f, "map({}, {})", of.0, of.1),
            Self::Object(of) => f.write_str(&of.name),
            Self::Message(name) => f.write_str(name),
            Self::Struct(name) | Self::Opaque(name) => f.write_str(name),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Meta(of) => write!(f, "type({of})"),
        }
    }
}
