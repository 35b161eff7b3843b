//! Request bodies: read within limits, understood by their content type, brought into the shape of their kind.

use super::{bodies::Kept, query::FieldValidation};
use api::{
    error::ApiError,
    object::Fields,
    protobuf,
    resource::Resource,
    schema::{self, Decoded, Shape},
};
use bytes::Bytes;
use patch::apply::Claim;
use runtime::http::{BoxError, CollectError, Pace, collect};
use serde_json::{Value, json};

/// Upstream's limit for a request body.
pub const MOST_BYTES: usize = 3 * 1024 * 1024;

/// What a create or update accepts.
const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// A body that was read, and what it takes of the memory there is for bodies.
pub struct Whole {
    /// The body.
    pub bytes: Bytes,
    _kept: Kept,
}

/// Why a body was not read; only here to be turned into an answer.
struct Unread(ApiError);

impl From<CollectError> for Unread {
    fn from(error: CollectError) -> Self {
        Self(match error {
            CollectError::TooLarge(most) => ApiError::too_large(most),
            CollectError::TooSlow { .. } => ApiError::new(408, "RequestTimeout", error.to_string()),
            CollectError::Broken(error) => {
                ApiError::bad_request(format!("the request body could not be read: {error}"))
            }
        })
    }
}

/// Reads a whole body, refusing more than the limit, slower than `pace`, and more at a time than there is memory for.
pub async fn read<B>(body: B, pace: Pace, mut kept: Kept) -> Result<Whole, ApiError>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let read = collect(body, MOST_BYTES, pace, |bytes| kept.add(bytes).map_err(Unread)).await;
    read.map(|bytes| Whole { bytes, _kept: kept }).map_err(|Unread(error)| error)
}

/// A body as a value, and the fields that stood in it twice.
pub struct Parsed {
    pub value: Value,
    pub duplicates: Duplicates,
}

/// What stands twice in a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// Paths of fields, in JSON.
    Fields(Vec<String>),
    /// Lines and keys, in YAML, which has them before anything else is looked at.
    Keys(Vec<String>),
    /// Whatever is strange about a patch, as it is told.
    Patch(Vec<String>),
}

impl Default for Duplicates {
    fn default() -> Self {
        Self::Fields(Vec::new())
    }
}

impl Duplicates {
    /// As one reads of them in an error.
    fn mistakes(&self) -> Vec<String> {
        match self {
            Self::Fields(fields) => fields.iter().map(|path| format!("duplicate field {path:?}")).collect(),
            Self::Patch(odd) => odd.clone(),
            Self::Keys(keys) if keys.is_empty() => Vec::new(),
            Self::Keys(keys) => vec![format!("yaml: unmarshal errors:\n  {}", keys.join("\n  "))],
        }
    }

    /// As one reads of them in warnings.
    fn warnings(&self) -> Vec<String> {
        match self {
            Self::Fields(_) | Self::Patch(_) => self.mistakes(),
            Self::Keys(keys) => keys.clone(),
        }
    }
}

/// Understands a body by its content type; an empty one is JSON, as upstream has it.
pub fn parse(bytes: &[u8], content_type: &str) -> Result<Parsed, ApiError> {
    let media = content_type.split(';').next().unwrap_or_default().trim();
    match media {
        "" | "application/json" => {
            let (value, duplicates) = schema::parse_json(bytes)
                .map_err(|error| ApiError::bad_request(format!("error decoding JSON: {error}")))?;
            Ok(Parsed { value, duplicates: Duplicates::Fields(duplicates) })
        }
        "application/yaml" | "application/apply-patch+yaml" => {
            let (value, duplicates) = schema::parse_yaml(bytes)
                .map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))?;
            Ok(Parsed { value, duplicates: Duplicates::Keys(duplicates) })
        }
        "application/vnd.kubernetes.protobuf" => {
            let value = protobuf::decode(bytes, None)
                .map_err(|error| ApiError::bad_request(format!("error decoding protobuf: {error}")))?;
            Ok(Parsed { value, duplicates: Duplicates::default() })
        }
        _ => Err(ApiError::unsupported_media_type(ACCEPTED)),
    }
}

/// An object that a request wants, and what it says of managedFields.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The object, in the shape of its kind.
    pub object: Value,
    /// Read before the shape was enforced, as that drops an empty list.
    pub claim: Claim,
}

impl From<Value> for Wanted {
    fn from(object: Value) -> Self {
        Self { object, claim: Claim::default() }
    }
}

/// An object of `resource`'s kind from a parsed body; unknown and duplicate fields are treated as asked.
pub fn object(
    parsed: Parsed,
    resource: &Resource,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<Wanted, ApiError> {
    let Parsed { mut value, duplicates } = parsed;
    if value.is_null() {
        value = json!({});
    }
    expect_kind(&mut value, &resource.api_version(), &resource.kind)?;
    let claim = Claim::of(&value);
    let unfit = |(Mismatch::Type(why) | Mismatch::Strict(why))| {
        let Resource { kind, version, .. } = resource;
        ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    };
    typed(&mut value, resource, &duplicates, validation, warnings).map_err(unfit)?;
    Ok(Wanted { object: value, claim })
}

/// Checks `apiVersion` and `kind`, or fills them in.
pub fn expect_kind(value: &mut Value, api_version: &str, kind: &str) -> Result<(), ApiError> {
    if !value.is_object() {
        return Err(ApiError::bad_request(format!(
            "the body must be an object of kind {kind}, not {}",
            describe(value)
        )));
    }
    for (field, want) in [("apiVersion", api_version), ("kind", kind)] {
        match value.at(field) {
            Value::Null => value.set(field, want),
            Value::String(text) if text.is_empty() => value.set(field, want),
            Value::String(text) if text == want => {}
            other => {
                return Err(ApiError::bad_request(format!(
                    "the {field} in the data ({other}) does not match the expected {field} ({want})"
                )));
            }
        }
    }
    Ok(())
}

/// Why something is no object of its kind.
#[derive(Debug)]
pub enum Mismatch {
    /// A field has a type that it cannot have.
    Type(String),
    /// There are fields that the kind does not have, or that stand twice, and the client wants to hear of it.
    Strict(String),
}

impl From<Mismatch> for ApiError {
    fn from(mismatch: Mismatch) -> Self {
        match mismatch {
            Mismatch::Type(why) | Mismatch::Strict(why) => Self::bad_request(why),
        }
    }
}

/// The typed round trip of an object, by its shape or by the rules of its kind.
pub fn typed(
    value: &mut Value,
    resource: &Resource,
    duplicates: &Duplicates,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<(), Mismatch> {
    match resource.rules.decode(value) {
        Some(decoded) => judge(&decoded, Odd::DuplicatesFirst, duplicates, validation, warnings),
        None => shape(value, &resource.shape, duplicates, validation, warnings),
    }
}

/// In which order odd fields are told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Odd {
    /// Of custom kinds, which are read before they are held against their schema.
    DuplicatesFirst,
    UnknownFirst,
}

/// The typed round trip by a shape.
pub fn shape(
    value: &mut Value,
    shape: &Shape,
    duplicates: &Duplicates,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<(), Mismatch> {
    judge(&schema::decode(shape, value), Odd::UnknownFirst, duplicates, validation, warnings)
}

/// What is done about wrong types and about fields that the type does not have.
fn judge(
    decoded: &Decoded,
    order: Odd,
    duplicates: &Duplicates,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<(), Mismatch> {
    if let Some(first) = decoded.errors.first() {
        let more = decoded.errors.len() - 1;
        let more = if more == 0 { String::new() } else { format!(" (and {more} more mistakes)") };
        return Err(Mismatch::Type(format!("{first}{more}")));
    }
    tolerate(&decoded.unknown, order, duplicates, validation, warnings)
}

/// What is done about fields that the kind does not have, or that stand twice.
pub fn tolerate(
    unknown: &[String],
    order: Odd,
    duplicates: &Duplicates,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<(), Mismatch> {
    let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
    let first = order == Odd::DuplicatesFirst || !matches!(duplicates, Duplicates::Fields(_));
    let ordered = |duplicates: Vec<String>| -> Vec<String> {
        if first { duplicates.into_iter().chain(unknown).collect() } else { unknown.chain(duplicates).collect() }
    };
    match validation {
        FieldValidation::Strict => {
            let odd = ordered(duplicates.mistakes());
            if !odd.is_empty() {
                return Err(Mismatch::Strict(format!("strict decoding error: {}", odd.join(", "))));
            }
        }
        FieldValidation::Warn => warnings.append(&mut ordered(duplicates.warnings())),
        FieldValidation::Ignore => {}
    }
    Ok(())
}

/// What is done about keys that stand twice in an applied configuration, once it is known to be one.
pub fn tolerate_applied(
    duplicates: &Duplicates,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    match (validation, duplicates.mistakes().as_slice()) {
        (_, []) | (FieldValidation::Ignore, _) => {}
        (FieldValidation::Warn, _) => warnings.extend(duplicates.warnings()),
        (FieldValidation::Strict, mistakes) => {
            let mistakes = mistakes.join(", ");
            let text = format!("error strict decoding patch: error converting YAML to JSON: {mistakes}");
            return Err(ApiError::bad_request(text));
        }
    }
    Ok(())
}

fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
