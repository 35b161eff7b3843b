//! Every shape of an error, and what its code comes to.

use super::{super::actions, *};

fn failure(status: u16, body: &str) -> Failure {
    Failure::answered(status, &HeaderMap::new(), body.as_bytes())
}

const EC2: &str = "<Response><Errors><Error><Code>InvalidGroup.NotFound</Code><Message>The security group 'sg-1' does not \
                   exist</Message></Error></Errors><RequestID>r-1</RequestID></Response>";
const QUERY: &str = "<ErrorResponse xmlns=\"http://x/\"><Error><Type>Sender</Type><Code>TargetGroupNotFound</Code><Message>gone</Message>\
                     </Error><RequestId>r-2</RequestId></ErrorResponse>";
const BATCH: &str = "<InvalidChangeBatch xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\"><Messages><Message>one</Message>\
                     <Message>two</Message></Messages><RequestId>r-3</RequestId></InvalidChangeBatch>";

#[test]
fn each_shape_of_an_error_is_read() {
    let parsed = |body| {
        let Failure { code, message, request_id, .. } = failure(400, body);
        [code, message, request_id]
    };
    assert_eq!(parsed(EC2), ["InvalidGroup.NotFound", "The security group 'sg-1' does not exist", "r-1"]);
    assert_eq!(parsed(QUERY), ["TargetGroupNotFound", "gone", "r-2"]);
    assert_eq!(parsed(BATCH), ["InvalidChangeBatch", "one; two", "r-3"]);
}

#[test]
fn what_is_no_error_of_aws_is_told_as_it_is() {
    for (body, message) in [
        ("", "the answer is an empty body"),
        ("<html>\n<h1>Bad\n Gateway</h1></html>", "the answer is no error of AWS: <html> <h1>Bad Gateway</h1></html>"),
        ("{\"a\": 1}", "the answer is no error of AWS: {\"a\": 1}"),
        ("\u{0}\u{1}", "the answer is no error of AWS: \u{0}\u{1}"),
    ] {
        let failure = failure(502, body);
        assert_eq!((failure.code.as_str(), failure.message.as_str()), ("HTTP 502", message));
        assert_eq!(failure.class(), Class::Passing);
    }
    assert_eq!(failure(404, "nothing here").class(), Class::Final);
    let error = failure(404, "nothing here").into_error(&actions::DESCRIBE_SUBNETS);
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
