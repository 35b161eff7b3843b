//! What went wrong with one attempt, and what that means: try again, or which [`AwsError`].
//!
//! Error bodies come in three shapes: `Response/Errors/Error` (EC2), `ErrorResponse/Error` (the others) and, for batches of Route53, a root
//! named after the code with `Messages/Message`. A proxy or a broken gateway answers with anything else.

use super::{actions::Action, xml::Element};
use crate::account::{AwsError, Kind};
use aws_credential_types::provider::error::CredentialsError;
use aws_smithy_runtime_api::{
    client::{
        orchestrator::HttpResponse,
        result::{ConnectorError, SdkError},
    },
    http::Headers,
};
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
    /// Again with new credentials.
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
const EXPIRED: &[&str] = &["ExpiredToken", "ExpiredTokenException", "RequestExpired"];
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
    pub(super) fn answered(status: u16, headers: &Headers, body: &[u8]) -> Self {
        let id = ["x-amzn-requestid", "x-amz-request-id"].iter().find_map(|name| headers.get(name));
        let text = String::from_utf8_lossy(body);
        let root = Element::parse(&text);
        let told = root.as_ref().and_then(told);
        let (code, message) = told.unwrap_or_else(|| {
            let start: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
            let what = if start.is_empty() { "an empty body".to_owned() } else { format!("no error of AWS: {start}") };
            (format!("HTTP {status}"), format!("the answer is {what}"))
        });
        let in_body = || root.as_ref().and_then(|root| root.some("RequestId").or_else(|| root.some("RequestID")));
        let request_id = id.map(str::to_owned).or_else(in_body).unwrap_or_default();
        Self { reach: Reach::Answered(status), code, message: shortened(&message), request_id }
    }

    /// From the SDK. The body is read here and not there: the SDK knows one of the shapes.
    pub(super) fn of_sdk<E: Error + Send + Sync + 'static>(error: &SdkError<E, HttpResponse>) -> Self {
        match (error, error.raw_response()) {
            (_, Some(raw)) if !raw.status().is_success() => {
                Self::answered(raw.status().as_u16(), raw.headers(), raw.body().bytes().unwrap_or_default())
            }
            (SdkError::TimeoutError(_), _) => Self::no_answer(chain(error)),
            (SdkError::DispatchFailure(failure), _) => match failure.as_connector_error() {
                Some(error) => Self::of_connector(error),
                None => Self::no_answer(chain(error)),
            },
            (SdkError::ConstructionFailure(_), _) => Self::not_sent(chain(error)),
            (_, _) => Self::no_answer(format!("the answer cannot be read: {}", chain(error))),
        }
    }

    /// From the connection.
    pub(super) fn of_connector(error: &ConnectorError) -> Self {
        let mut cause: Option<&(dyn Error + 'static)> = Some(error);
        let mut unsent = error.is_user();
        while let Some(error) = cause {
            unsent |= error.is::<CredentialsError>();
            cause = error.source();
        }
        if unsent { Self::not_sent(chain(error)) } else { Self::no_answer(chain(error)) }
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
        } else if status >= 500 || code == "RequestTimeout" || code == "InternalFailure" {
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
        let credentials =
            ["AuthFailure", "InvalidClientTokenId", "SignatureDoesNotMatch", "UnrecognizedClientException"];
        if code == format!("HTTP {status}") || credentials.contains(&plain) {
            return AwsError::Other { code, message, request_id };
        }
        AwsError::Invalid { code, message }
    }
}

/// Code and message, in each of the shapes.
fn told(root: &Element) -> Option<(String, String)> {
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
pub(super) fn chain(error: &dyn Error) -> String {
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

#[cfg(test)]
mod tests {
    use super::{super::actions, *};

    fn failure(status: u16, body: &str) -> Failure {
        Failure::answered(status, &Headers::new(), body.as_bytes())
    }

    const EC2: &str = "<Response><Errors><Error><Code>InvalidGroup.NotFound</Code><Message>The security group 'sg-1' does not \
                       exist</Message></Error></Errors><RequestID>r-1</RequestID></Response>";
    const QUERY: &str = "<ErrorResponse xmlns=\"http://x/\"><Error><Type>Sender</Type><Code>TargetGroupNotFound</Code><Message>gone</Message>\
                         </Error><RequestId>r-2</RequestId></ErrorResponse>";
    const BATCH: &str = "<InvalidChangeBatch xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\"><Messages><Message>one</Message>\
                         <Message>two</Message></Messages><RequestId>r-3</RequestId></InvalidChangeBatch>";

    #[test]
    fn each_shape_of_an_error_is_read() {
        let told = |body| {
            let Failure { code, message, request_id, .. } = failure(400, body);
            [code, message, request_id]
        };
        assert_eq!(told(EC2), ["InvalidGroup.NotFound", "The security group 'sg-1' does not exist", "r-1"]);
        assert_eq!(told(QUERY), ["TargetGroupNotFound", "gone", "r-2"]);
        assert_eq!(told(BATCH), ["InvalidChangeBatch", "one; two", "r-3"]);
    }

    #[test]
    fn what_is_no_error_of_aws_is_told_as_it_is() {
        for (body, message) in [
            ("", "the answer is an empty body"),
            (
                "<html>\n<h1>Bad\n Gateway</h1></html>",
                "the answer is no error of AWS: <html> <h1>Bad Gateway</h1></html>",
            ),
            ("{\"a\": 1}", "the answer is no error of AWS: {\"a\": 1}"),
            ("\u{0}\u{1}", "the answer is no error of AWS: \u{0}\u{1}"),
        ] {
            let failure = failure(502, body);
            assert_eq!((failure.code.as_str(), failure.message.as_str()), ("HTTP 502", message));
            assert_eq!(failure.class(), Class::Passing);
        }
        assert_eq!(failure(404, "nothing here").class(), Class::Final);
        let error = failure(404, "nothing here").into_error(&actions::DESCRIBE_VPCS);
        assert!(matches!(error, AwsError::Other { .. }), "{error:?}");
    }

    #[test]
    fn codes_become_errors() {
        let of = |status: u16, code: &str| {
            let body =
                format!("<Response><Errors><Error><Code>{code}</Code><Message>m</Message></Error></Errors></Response>");
            failure(status, &body).into_error(&actions::CREATE_SECURITY_GROUP)
        };
        let message = || "m".to_owned();
        let table = [
            (400, "InvalidGroup.NotFound", AwsError::NotFound { kind: Kind::SecurityGroup, message: message() }),
            (400, "InvalidPermission.NotFound", AwsError::NotFound { kind: Kind::Rule, message: message() }),
            (400, "InvalidGroup.Duplicate", AwsError::Duplicate { message: message() }),
            (400, "InvalidPermission.Duplicate", AwsError::Duplicate { message: message() }),
            (400, "DependencyViolation", AwsError::InUse { message: message() }),
            (400, "ResourceInUse", AwsError::InUse { message: message() }),
            (503, "RequestLimitExceeded", AwsError::Throttled { message: message() }),
            (400, "Throttling", AwsError::Throttled { message: message() }),
            (
                400,
                "RulesPerSecurityGroupLimitExceeded",
                AwsError::LimitExceeded { code: "RulesPerSecurityGroupLimitExceeded".to_owned(), message: message() },
            ),
            (400, "TooManyTargets", AwsError::LimitExceeded { code: "TooManyTargets".to_owned(), message: message() }),
            (
                403,
                "UnauthorizedOperation",
                AwsError::Unauthorized { action: "ec2:CreateSecurityGroup".to_owned(), message: message() },
            ),
            (
                403,
                "Client.UnauthorizedOperation",
                AwsError::Unauthorized { action: "ec2:CreateSecurityGroup".to_owned(), message: message() },
            ),
            (
                403,
                "AccessDenied",
                AwsError::Unauthorized { action: "ec2:CreateSecurityGroup".to_owned(), message: message() },
            ),
            (
                400,
                "InvalidParameterValue",
                AwsError::Invalid { code: "InvalidParameterValue".to_owned(), message: message() },
            ),
            (
                500,
                "InternalError",
                AwsError::Other { code: "InternalError".to_owned(), message: message(), request_id: String::new() },
            ),
            (
                401,
                "AuthFailure",
                AwsError::Other { code: "AuthFailure".to_owned(), message: message(), request_id: String::new() },
            ),
        ];
        for (status, code, error) in table {
            assert_eq!(of(status, code), error, "{code}");
        }
    }

    #[test]
    fn a_denial_goes_without_its_encoded_part() {
        let body = "<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>You are not authorized to perform this \
                    operation. Encoded authorization failure message: Zm9vYmFy</Message></Error></Errors></Response>";
        let error = failure(403, body).into_error(&actions::CREATE_ROUTE);
        assert_eq!(
            error.to_string(),
            "not permitted: the controller's role needs ec2:CreateRoute: You are not authorized to perform this operation."
        );
    }

    #[test]
    fn no_answer_names_the_call() {
        let error = Failure::no_answer("connection reset").into_error(&actions::CREATE_ROUTE);
        assert_eq!(error.to_string(), "no answer from AWS to ec2:CreateRoute: connection reset");
        assert_eq!(Failure::no_answer("x").class(), Class::Passing);
        assert_eq!(Failure::not_sent("x").class(), Class::Final);
    }
}
