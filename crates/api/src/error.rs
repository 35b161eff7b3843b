//! What the API answers when it refuses: field errors that collect, and the `Status` they become.

use crate::path::Path;
use serde_json::{Value, json};
use std::fmt;

/// Why one field was refused, in upstream's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The field must be given.
    Required,
    /// The value breaks a rule.
    Invalid,
    /// The value is not one of those accepted.
    NotSupported,
    /// The value stands twice where it may stand once.
    Duplicate,
    /// The field must not be given here.
    Forbidden,
    /// The value is too long.
    TooLong,
    /// The list has too many entries.
    TooMany,
    /// What the value refers to does not exist.
    NotFound,
    /// The value has the wrong JSON type.
    TypeInvalid,
    /// The server could not decide.
    Internal,
}

impl Reason {
    /// The `reason` of a cause.
    pub fn cause(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
            Self::Internal => "Internal error",
        }
    }
}

/// One refused field: where, why, the offending value, what is accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Path of the field.
    pub field: String,
    /// Class of the mistake.
    pub reason: Reason,
    /// The value in question, if showing it helps.
    pub value: Option<Value>,
    /// What is wrong with it and what is accepted.
    pub detail: String,
}

impl FieldError {
    fn new(path: &Path, reason: Reason, value: Option<Value>, detail: impl Into<String>) -> Self {
        Self { field: path.to_string(), reason, value, detail: detail.into() }
    }
    /// The field must be given.
    pub fn required(path: &Path, detail: impl Into<String>) -> Self {
        Self::new(path, Reason::Required, None, detail)
    }
    /// The value breaks a rule.
    pub fn invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(path, Reason::Invalid, Some(value.into()), detail)
    }
    /// The value has the wrong JSON type.
    pub fn type_invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(path, Reason::TypeInvalid, Some(value.into()), detail)
    }
    /// The value is not one of `accepted`.
    pub fn not_supported(path: &Path, value: impl Into<Value>, accepted: &[&str]) -> Self {
        let list = accepted.iter().map(|v| format!("\"{v}\"")).collect::<Vec<_>>().join(", ");
        Self::new(path, Reason::NotSupported, Some(value.into()), format!("supported values: {list}"))
    }
    /// The value stands twice.
    pub fn duplicate(path: &Path, value: impl Into<Value>) -> Self {
        Self::new(path, Reason::Duplicate, Some(value.into()), "")
    }
    /// The field must not be given here.
    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Self {
        Self::new(path, Reason::Forbidden, None, detail)
    }
    /// The value is longer than `most`.
    pub fn too_long(path: &Path, most: usize) -> Self {
        Self::new(path, Reason::TooLong, None, format!("may not be more than {most} bytes"))
    }
    /// The list has `got` entries, `most` are accepted.
    pub fn too_many(path: &Path, got: usize, most: usize) -> Self {
        Self::new(path, Reason::TooMany, Some(got.into()), format!("must have at most {most} items"))
    }
    /// What the value names does not exist.
    pub fn not_found(path: &Path, value: impl Into<Value>) -> Self {
        Self::new(path, Reason::NotFound, Some(value.into()), "")
    }
    /// The server could not decide.
    pub fn internal(path: &Path, detail: impl Into<String>) -> Self {
        Self::new(path, Reason::Internal, None, detail)
    }

    /// The text of the cause, without the path.
    pub fn body(&self) -> String {
        let mut text = self.reason.text().to_owned();
        if let Some(value) = &self.value {
            text.push_str(": ");
            text.push_str(&value.to_string());
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// An answer that is not the one asked for; becomes a `Status` object.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, e.g. `NotFound`.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// `details` of the Status, or null.
    pub details: Value,
    /// `metadata` of the Status: where a list may go on (`continue`).
    pub metadata: Value,
}

impl std::error::Error for ApiError {}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// `plural.group`, or `plural` in the core group, as messages name a resource.
pub fn qualified(plural_or_kind: &str, group: &str) -> String {
    if group.is_empty() { plural_or_kind.to_owned() } else { format!("{plural_or_kind}.{group}") }
}

impl ApiError {
    /// Any error; the constructors below know the usual ones.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Value::Null, metadata: json!({}) }
    }
    /// Adds `details`.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }
    /// Sets `metadata`.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Value) -> Self {
        self.metadata = metadata;
        self
    }
    /// 400: the request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }
    /// 401.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }
    /// 403 for a resource.
    pub fn forbidden(plural: &str, group: &str, name: &str, why: impl fmt::Display) -> Self {
        let what = qualified(plural, group);
        let message = if name.is_empty() {
            format!("{what} is forbidden: {why}")
        } else {
            format!("{what} \"{name}\" is forbidden: {why}")
        };
        Self::new(403, "Forbidden", message).with_details(details(name, group, plural))
    }
    /// 404 for an object.
    pub fn not_found(plural: &str, group: &str, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", qualified(plural, group)))
            .with_details(details(name, group, plural))
    }
    /// 404 for a path that no resource answers to.
    pub fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").with_details(json!({}))
    }
    /// 405.
    pub fn method_not_allowed(verb: &str, plural: &str, group: &str) -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            format!("{verb} is not supported on resources of kind \"{}\"", qualified(plural, group)),
        )
        .with_details(details("", group, plural))
    }
    /// 406: none of the media types in Accept can be served.
    pub fn not_acceptable(accepted: &str) -> Self {
        Self::new(406, "NotAcceptable", format!("only the following media types are accepted: {accepted}"))
    }
    /// 409: the name is taken.
    pub fn already_exists(plural: &str, group: &str, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", qualified(plural, group)))
            .with_details(details(name, group, plural))
    }
    /// 409: somebody else was faster, or a precondition does not hold.
    pub fn conflict(plural: &str, group: &str, name: &str, why: impl fmt::Display) -> Self {
        let what = qualified(plural, group);
        Self::new(409, "Conflict", format!("Operation cannot be fulfilled on {what} \"{name}\": {why}"))
            .with_details(details(name, group, plural))
    }
    /// 410: the resource version is too old.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }
    /// 413.
    pub fn too_large(limit: usize) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("the request body is larger than the limit of {limit} bytes"))
    }
    /// 415.
    pub fn unsupported_media_type(accepted: &str) -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}"),
        )
    }
    /// 422: the object breaks rules; every one is listed.
    pub fn invalid(kind: &str, group: &str, name: &str, errors: &[FieldError]) -> Self {
        let list = errors.iter().map(ToString::to_string).collect::<Vec<_>>();
        let text = match list.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let causes: Vec<Value> =
            errors.iter().map(|e| json!({"reason": e.reason.cause(), "message": e.body(), "field": e.field})).collect();
        let mut shown = details(name, group, kind);
        shown["causes"] = causes.into();
        Self::new(422, "Invalid", format!("{} \"{name}\" is invalid: {text}", qualified(kind, group)))
            .with_details(shown)
    }
    /// 429 with the seconds to wait.
    pub fn too_many_requests(message: impl Into<String>, retry_after: u32) -> Self {
        Self::new(429, "TooManyRequests", message).with_details(json!({"retryAfterSeconds": retry_after}))
    }
    /// 500.
    pub fn internal(message: impl fmt::Display) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
            .with_details(json!({"causes": [{"message": message.to_string()}]}))
    }
    /// 503: ask again later.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }
    /// 504.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self::new(504, "Timeout", message)
    }

    /// The `Status` object.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": self.metadata, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}

fn details(name: &str, group: &str, kind: &str) -> Value {
    let mut details = json!({});
    for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            details[key] = value.into();
        }
    }
    details
}
