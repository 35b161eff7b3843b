//! The patch formats that change an object in place: JSON patch, merge patch, strategic merge patch.
//!
//! Called by the engine for PATCH requests; server-side apply, the fourth format, is `crate::apply`. Everything here is
//! pure and works on JSON documents. The order of work around it, for all three formats:
//!
//! 1. the live object in the version of the request, as JSON, is the document;
//! 2. the format's `apply` makes the patched document; the engine keeps its `metadata.managedFields` aside for
//!    [`crate::apply::Claim`], since the typed round trip drops empty lists;
//! 3. the typed round trip, whose mistakes are 422 Invalid at the field `patch` ([`not_an_object`]), and then defaults;
//! 4. [`crate::apply::track_update`], before admission and before the kind's own preparation;
//! 5. name and namespace must be those of the request (400 otherwise), then the ordinary update.

pub mod apply;
pub mod json;
pub mod merge;
pub mod strategic;

use api::{
    error::{ApiError, FieldError},
    path::Path,
};
use serde_json::Value;

/// The format of a PATCH body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// RFC 6902: a list of operations.
    Json,
    /// RFC 7386: null deletes, objects merge, everything else replaces.
    Merge,
    /// Merge patch that knows the types: lists merge by key, directives start with `$`.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl Format {
    /// What every kind accepts.
    pub const ALL: [Self; 4] = [Self::Json, Self::Merge, Self::Strategic, Self::Apply];
    /// What custom resources accept: their types carry no merge keys.
    pub const CUSTOM: [Self; 3] = [Self::Json, Self::Merge, Self::Apply];

    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }

    /// The format a `Content-Type` header asks for, if it is one of `accepted`; 415 otherwise. Parameters such as a
    /// character set are ignored.
    pub fn from_content_type(header: &str, accepted: &[Self]) -> Result<Self, ApiError> {
        let media_type = header.split(';').next().unwrap_or_default().trim();
        accepted.iter().copied().find(|format| format.media_type() == media_type).ok_or_else(|| {
            let list = accepted.iter().map(|format| format.media_type()).collect::<Vec<_>>();
            ApiError::unsupported_media_type(&list.join(", "))
        })
    }
}

/// 422: the patched document is not an object of its kind. `why` is what the typed round trip found.
pub fn not_an_object(patched: &Value, why: &str) -> ApiError {
    ApiError::invalid("", "", "", &[FieldError::invalid(&Path::new("patch"), patched.to_string(), why)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_type_names_its_format_and_custom_resources_take_no_strategic_patch() {
        for format in Format::ALL {
            let header = format!("{}; charset=utf-8", format.media_type());
            assert_eq!(Format::from_content_type(&header, &Format::ALL), Ok(format));
        }
        let refused = Format::from_content_type("application/strategic-merge-patch+json", &Format::CUSTOM).unwrap_err();
        assert_eq!((refused.code, refused.reason), (415, "UnsupportedMediaType"));
        assert_eq!(Format::from_content_type("text/plain", &Format::ALL).unwrap_err().code, 415);
    }
}
