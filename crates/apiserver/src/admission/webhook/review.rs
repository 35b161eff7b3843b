//! AdmissionReview: what a webhook is sent, and what its answer means.

use super::hook::Hook;
use crate::admission::{attempt::Attempt, matching::Seen};
use api::{error::ApiError, object::Fields};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

/// What a webhook said.
#[derive(Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) refused: Option<ApiError>,
    /// Operations of a JSON patch.
    pub(super) patch: Option<Value>,
    pub(super) warnings: Vec<String>,
    pub(super) annotations: Vec<(String, String)>,
}

/// The review to send.
pub(super) async fn request(attempt: &Attempt<'_>, seen: &Seen, version: &str, uid: &str) -> Result<Value, ApiError> {
    let mut request = attempt.request(&seen.target);
    let (object, old) = seen.objects(attempt).await?;
    request["uid"] = uid.into();
    request["object"] = object.unwrap_or_default();
    request["oldObject"] = old.unwrap_or_default();
    let review =
        json!({"kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": request});
    Ok(review)
}

/// Reads an answer, or says why it is none.
pub(super) fn answer(hook: &Hook, mutating: bool, version: &str, uid: &str, answer: &Value) -> Result<Verdict, String> {
    let response = answer.at("response");
    if !response.is_object() {
        return Err("webhook response was absent".to_owned());
    }
    let strict = version == "v1";
    if strict && response.str_at("uid") != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", response.str_at("uid")));
    }
    let (api_version, kind) = (answer.str_at("apiVersion"), answer.str_at("kind"));
    if strict && (api_version, kind) != ("admission.k8s.io/v1", "AdmissionReview") {
        return Err(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {api_version}, Kind={kind}"
        ));
    }
    let annotations = response.map_at("auditAnnotations").into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let refused = !response.is_true("allowed");
    Ok(Verdict {
        refused: refused.then(|| rejection(&hook.name, response.at("status"))),
        patch: patch(response, mutating, strict)?,
        warnings: response.list_at("warnings").iter().map(text).collect(),
        annotations: annotations.map(|(key, value)| (format!("{}/{key}", hook.name), text(value))).collect(),
    })
}

fn patch(response: &Value, mutating: bool, strict: bool) -> Result<Option<Value>, String> {
    let (text, kind) = (response.str_at("patch"), response.at("patchType"));
    if strict {
        match (mutating, text.is_empty(), kind.is_null()) {
            (true, false, true) => return Err("webhook returned response.patch but not response.patchType".to_owned()),
            (true, true, false) => return Err("webhook returned response.patchType but not response.patch".to_owned()),
            (false, false, _) => return Err("validating webhook may not return response.patch".to_owned()),
            (false, _, false) => return Err("validating webhook may not return response.patchType".to_owned()),
            _ => {}
        }
        if kind.as_str() == Some("") {
            return Err("webhook returned invalid response.patchType of \"\"".to_owned());
        }
        if mutating && !kind.is_null() && kind != "JSONPatch" {
            return Err(format!("unsupported patch type {kind}"));
        }
    }
    if !mutating || text.is_empty() {
        return Ok(None);
    }
    let undecodable = |why: &dyn std::fmt::Display| format!("received undecodable patch in webhook response: {why}");
    let bytes = STANDARD.decode(text).map_err(|error| undecodable(&error))?;
    let patch: Value = serde_json::from_slice(&bytes).map_err(|error| undecodable(&error))?;
    Ok(Some(patch).filter(|patch| !patch.is_null() && patch.as_array().is_none_or(|list| !list.is_empty())))
}

/// Reasons that a Status may have; another one is left out.
const REASONS: [&str; 21] = [
    "Unauthorized",
    "Forbidden",
    "NotFound",
    "AlreadyExists",
    "Conflict",
    "Gone",
    "Invalid",
    "ServerTimeout",
    "StoreReadError",
    "Timeout",
    "TooManyRequests",
    "BadRequest",
    "MethodNotAllowed",
    "NotAcceptable",
    "RequestEntityTooLarge",
    "UnsupportedMediaType",
    "InternalError",
    "Expired",
    "ServiceUnavailable",
    "Unknown",
    "FailedPrecondition",
];

fn rejection(name: &str, status: &Value) -> ApiError {
    let code = status.int_at("code").and_then(|code| u16::try_from(code).ok()).unwrap_or_default();
    let denied = format!("admission webhook {name:?} denied the request");
    let message = match (status.str_at("message"), status.str_at("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let reason = REASONS.into_iter().find(|known| *known == status.str_at("reason")).unwrap_or_default();
    let code = if (400..600).contains(&code) { code } else { 400 };
    ApiError::new(code, reason, message).with_details(status.at("details").clone())
}
