//! What went wrong with one attempt, and what that means: try again, or which [`AwsError`].
//!
//! Error bodies come in three shapes: `Response/Errors/Error` (EC2), `ErrorResponse/Error` (the others) and, for batches of Route53, a root
//! named after the code with `Messages/Message`. A proxy or a broken gateway answers with anything else.

#[cfg(test)]
mod tests;

use super::{actions::Action, xml::Element};
use crate::account::{AwsError, Kind};
use http::HeaderMap;
use std::error::Error;

/// How far an attempt got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// AWS answered with this HTTP status.
    Answered(u16),
    /// It was or may have been sent, and no answer came.
    NoAnswer,
    /// It was not sent, and never will be: no credentials, a wrong address.
    NotSent,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) reach: Reach,
    /// AWS's code; the HTTP status when there is none.
    pub(super) code: String,
    pub(super) message: String,
    pub(super) request_id: String,
}

/// What to do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Too many calls: again, later, and slower.
    Throttled,
    /// Again: a server error, or no answer.
    Passing,
    /// Again with new credentials, and with the time that AWS has told.
    Expired,
    /// The permission is missing.
    Denied,
    /// The same again would fail again.
    Final,
}

const THROTTLING: &[&str] = &[
    "BandwidthLimitExceeded",
    "EC2ThrottledException",
    "PriorRequestNotComplete",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "ThrottledException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
];
/// Credentials that have ended or were taken back, and signatures of a clock that goes wrong. Keys that are new may not be known everywhere for a moment.
const EXPIRED: &[&str] = &[
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "RequestExpired",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
];
/// What passes though it comes with the status of a mistake.
const PASSING: &[&str] = &["InternalFailure", "RequestAbortedException", "RequestTimeout", "RequestTimeoutException"];
const DENIED: &[&str] =
    &["AccessDenied", "AccessDeniedException", "NotAuthorized", "UnauthorizedAccess", "UnauthorizedOperation"];
const IN_USE: &[&str] = &["DependencyViolation", "InvalidGroup.InUse", "ResourceInUse"];
const DUPLICATE: &[&str] = &[
    "DuplicateListener",
    "DuplicateLoadBalancerName",
    "DuplicatePolicyName",
    "DuplicateTargetGroupName",
    "InvalidGroup.Duplicate",
    "InvalidPermission.Duplicate",
    "RouteAlreadyExists",
];
const NOT_FOUND: &[(&str, Kind)] = &[
    ("AccessPointNotFound", Kind::LoadBalancer),
    ("LoadBalancerNotFound", Kind::LoadBalancer),
    ("ListenerNotFound", Kind::Listener),
    ("TargetGroupNotFound", Kind::TargetGroup),
    ("CertificateNotFound", Kind::Certificate),
    ("PolicyNotFound", Kind::Policy),
    ("PolicyTypeNotFound", Kind::Policy),
    ("InvalidInstance", Kind::Instance),
    ("InvalidInstanceID.NotFound", Kind::Instance),
    ("SubnetNotFound", Kind::Subnet),
    ("InvalidSubnetID.NotFound", Kind::Subnet),
    ("InvalidGroup.NotFound", Kind::SecurityGroup),
    ("InvalidSecurityGroupID.NotFound", Kind::SecurityGroup),
    ("InvalidPermission.NotFound", Kind::Rule),
    ("InvalidVpcID.NotFound", Kind::Vpc),
    ("InvalidRoute.NotFound", Kind::Route),
    ("InvalidRouteTableID.NotFound", Kind::Route),
    ("AllocationIdNotFound", Kind::Address),
    ("InvalidAllocationID.NotFound", Kind::Address),
];
/// Longer than any message that helps, and short enough for an event.
const LONGEST: usize = 800;

impl Failure {
    pub(super) fn not_sent(message: impl Into<String>) -> Self {
        Self::silent(Reach::NotSent, message.into())
    }

    pub(super) fn no_answer(message: impl Into<String>) -> Self {
        Self::silent(Reach::NoAnswer, message.into())
    }

    fn silent(reach: Reach, message: String) -> Self {
        Self { reach, code: String::new(), message, request_id: String::new() }
    }

    /// From an answer that is an error.
    pub(super) fn answered(status: u16, headers: &HeaderMap, body: &[u8]) -> Self {
        let id = ["x-amzn-requestid", "x-amz-request-id"].iter().find_map(|name| headers.get(*name)?.to_str().ok());
        let text = String::from_utf8_lossy(body);
        let root = Element::parse(&text);
        let reported = root.as_ref().and_then(code_and_message);
        let (code, message) = reported.unwrap_or_else(|| {
            let start: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
            let what = if start.is_empty() { "an empty body".to_owned() } else { format!("no error of AWS: {start}") };
            (format!("HTTP {status}"), format!("the answer is {what}"))
        });
        let in_body = || root.as_ref().and_then(|root| root.some("RequestId").or_else(|| root.some("RequestID")));
        let request_id = id.map(str::to_owned).or_else(in_body).unwrap_or_default();
        Self { reach: Reach::Answered(status), code, message: shortened(&message), request_id }
    }

    /// From the connection.
    pub(super) fn of_connection(error: &(dyn Error + 'static)) -> Self {
        Self::no_answer(chain(error))
    }

    /// In words.
    pub(super) fn describe(&self) -> String {
        if self.code.is_empty() { self.message.clone() } else { format!("{}: {}", self.code, self.message) }
    }

    /// What to do about it.
    pub(super) fn class(&self) -> Class {
        let status = match self.reach {
            Reach::NoAnswer => return Class::Passing,
            Reach::NotSent => return Class::Final,
            Reach::Answered(status) => status,
        };
        // EC2 has long begun its codes so in answers to older versions.
        let code = self.code.strip_prefix("Client.").unwrap_or(&self.code);
        if THROTTLING.contains(&code) || status == 429 {
            Class::Throttled
        } else if EXPIRED.contains(&code) {
            Class::Expired
        } else if DENIED.contains(&code) {
            Class::Denied
        } else if status >= 500 || PASSING.contains(&code) {
            Class::Passing
        } else {
            Class::Final
        }
    }

    /// The error it comes to when nothing more is tried.
    pub(super) fn into_error(self, action: &Action) -> AwsError {
        let Self { reach, code, message, request_id } = self.clone();
        let Reach::Answered(status) = reach else {
            return AwsError::Timeout { action: action.iam(), message };
        };
        match self.class() {
            Class::Throttled => return AwsError::Throttled { message },
            Class::Denied => return AwsError::Unauthorized { action: action.iam(), message },
            Class::Passing | Class::Expired => return AwsError::Other { code, message, request_id },
            Class::Final => {}
        }
        let plain = code.strip_prefix("Client.").unwrap_or(&code);
        if let Some((_, kind)) = NOT_FOUND.iter().find(|(known, _)| *known == plain) {
            return AwsError::NotFound { kind: *kind, message };
        }
        if DUPLICATE.contains(&plain) {
            return AwsError::Duplicate { message };
        }
        if IN_USE.contains(&plain) {
            return AwsError::InUse { message };
        }
        if plain.ends_with("LimitExceeded") || plain.starts_with("TooMany") || plain.ends_with("AssociationLimit") {
            return AwsError::LimitExceeded { code, message };
        }
        // Without a code of AWS it is not AWS that refused, or not what was asked.
        if code == format!("HTTP {status}") {
            return AwsError::Other { code, message, request_id };
        }
        AwsError::Invalid { code, message }
    }
}

/// Code and message, in each of the shapes.
fn code_and_message(root: &Element) -> Option<(String, String)> {
    let wrapped = root.child("Errors").and_then(|errors| errors.child("Error")).or_else(|| root.child("Error"));
    if let Some(error) = wrapped {
        let code = error.some("Code")?;
        return Some((code, error.text(&["Message"]).to_owned()));
    }
    if let Some(messages) = root.child("Messages") {
        let all: Vec<&str> = messages.all("Message").map(|message| message.text(&[])).collect();
        return Some((root.name.clone(), all.join("; ")));
    }
    // One error by itself.
    Some((root.some("Code")?, root.text(&["Message"]).to_owned()))
}

/// Without the part that only AWS can read.
fn shortened(message: &str) -> String {
    let readable = message.split("Encoded authorization failure message:").next().unwrap_or_default().trim();
    match readable.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &readable[..end]),
        None => readable.to_owned(),
    }
}

/// An error with what caused it.
fn chain(error: &dyn Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut cause = Some(error);
    while let Some(error) = cause {
        let text = error.to_string();
        // Many errors repeat their cause.
        if !texts.last().is_some_and(|last| last.contains(&text)) {
            texts.push(text);
        }
        cause = error.source();
    }
    texts.join(": ")
}
