//! The structural schema of one version of a custom resource.
//!
//! `parse` turns `openAPIV3Schema` into this type and reports every mistake; `complete` and `defaults` check what needs
//! the whole tree. `walk`, `cel`, `shape` read it. A `Schema` that came out of `Structural::parse` keeps upstream's rules
//! for structural schemas, so no reader has to check them again.

mod complete;
mod defaults;
mod extensions;
mod keywords;
mod nested;
mod parse;
mod rule;

pub use rule::{Rule, RuleReason};

use super::walk::format::Format;
use api::{error::FieldError, go_regex::Pattern, path::Path};
use serde_json::{Number, Value};
use std::collections::BTreeMap;

/// Deepest nesting of schemas that is accepted; the walkers recurse as deep as this and no deeper.
pub const MAX_DEPTH: usize = 64;

/// A schema that was checked as a whole: structural, complete, with valid defaults.
#[derive(Debug)]
pub struct Structural(Schema);

impl Structural {
    /// Reads and checks the schema at `path`. `status` says whether the status subresource is on: the root of the schema
    /// is then restricted, because status is checked by `properties.status` alone.
    pub fn parse(raw: &Value, path: &Path, status: bool) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let schema = parse::root(raw, path, status, &mut errors);
        complete::check(&schema, path, &mut errors);
        if errors.is_empty() {
            defaults::check(&schema, path, &mut errors);
        }
        if errors.is_empty() { Ok(Self(schema)) } else { Err(errors) }
    }

    /// The schema of the object as a whole.
    pub fn root(&self) -> &Schema {
        &self.0
    }
}

/// The JSON type that a schema asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A JSON object.
    Object,
    /// A list.
    Array,
    /// Text.
    String,
    /// A whole number.
    Integer,
    Number,
    /// true or false.
    Boolean,
}

impl Kind {
    /// All, in the order in which messages list them.
    pub const ALL: [Self; 6] = [Self::Array, Self::Boolean, Self::Integer, Self::Number, Self::Object, Self::String];

    /// As the schema writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// How items of a list are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    /// Not at all: the list is one value.
    Atomic,
    /// By their value.
    Set,
    /// By these fields.
    Map(Vec<String>),
}

/// What may stand beside the declared properties.
#[derive(Clone, Debug)]
pub enum Additional {
    /// `additionalProperties: true`: free keys with values that nobody looks at (and that are pruned).
    Free,
    /// `additionalProperties: false`: nothing; what comes is pruned.
    Nothing,
    /// Free keys, each with a value of this schema.
    Each(Box<Schema>),
}

/// One node of the structural part: it has a type, and pruning, defaulting and CEL follow it.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Absent only with `int_or_string` or `preserve_unknown`.
    pub kind: Option<Kind>,
    /// null is a value.
    pub nullable: bool,
    /// Filled in when the field is absent.
    pub default: Option<Value>,
    /// Schema of list items.
    pub items: Option<Box<Self>>,
    /// Declared fields.
    pub properties: BTreeMap<String, Self>,
    /// Free keys.
    pub additional: Option<Additional>,
    /// Unknown fields are kept.
    pub preserve_unknown: bool,
    /// The value is a Kubernetes object of its own.
    pub embedded: bool,
    /// The value is a whole number or text.
    pub int_or_string: bool,
    /// How list items are told apart; absent means atomic.
    pub list_type: Option<ListType>,
    /// The object is one value for server-side apply.
    pub atomic_map: bool,
    /// `x-kubernetes-validations`.
    pub rules: Vec<Rule>,
    /// What the value must satisfy.
    pub checks: Checks,
}

impl Schema {
    /// The schema of the field `name`: declared, or that of free keys.
    pub fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(match &self.additional {
            Some(Additional::Each(schema)) => Some(schema),
            _ => None,
        })
    }

    /// The fields that tell list items apart, if any do.
    pub fn map_keys(&self) -> Option<&[String]> {
        match &self.list_type {
            Some(ListType::Map(keys)) => Some(keys),
            _ => None,
        }
    }
}

/// Value validation: what narrows a value down without giving it structure.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// A format that is enforced; unknown formats are not kept.
    pub format: Option<Format>,
    /// Least number.
    pub minimum: Option<Bound>,
    /// Greatest number.
    pub maximum: Option<Bound>,
    /// The number is a multiple of this one, which is positive.
    pub multiple_of: Option<Number>,
    /// Least number of characters.
    pub min_length: Option<u64>,
    /// Greatest number of characters.
    pub max_length: Option<u64>,
    /// Regular expression in Go's dialect.
    pub pattern: Option<Pattern>,
    /// Least number of items.
    pub min_items: Option<u64>,
    /// Greatest number of items.
    pub max_items: Option<u64>,
    /// Least number of fields.
    pub min_properties: Option<u64>,
    /// Greatest number of fields.
    pub max_properties: Option<u64>,
    /// Fields that must be there.
    pub required: Vec<String>,
    /// The only accepted values; empty accepts all.
    pub allowed: Vec<Value>,
    /// Every one must hold.
    pub all_of: Vec<Nested>,
    /// At least one must hold.
    pub any_of: Vec<Nested>,
    /// Exactly one must hold.
    pub one_of: Vec<Nested>,
    /// Must not hold.
    pub not: Option<Box<Nested>>,
}

/// A limit of a number, itself accepted or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    pub limit: Number,
    /// The limit itself is refused.
    pub exclusive: bool,
}

/// A schema below `allOf`, `anyOf`, `oneOf` or `not`: checks without structure.
#[derive(Clone, Debug, Default)]
pub struct Nested {
    /// Only in the two accepted spellings of int-or-string (`anyOf: [{type: integer}, {type: string}]`).
    pub kind: Option<Kind>,
    /// What the value must satisfy.
    pub checks: Checks,
    /// Checks of list items.
    pub items: Option<Box<Self>>,
    /// Checks of fields.
    pub properties: BTreeMap<String, Self>,
}
