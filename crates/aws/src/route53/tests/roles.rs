//! Zones of another account: they are asked in the name of a role, and nothing else is.

use super::{CHANGED, NLB, balancers, by_id, entry, listed, route53};
use crate::clients::testing::{Asked, Say, Server, ok, refusal};
use runtime::cloud::{CloudError, DnsProvider, DnsZone};

const ROLE: &str = "arn:aws:iam::210987654321:role/zones";

fn in_role(arn: &str) -> DnsZone {
    DnsZone { role: Some(arn.to_owned()), ..by_id() }
}

/// What STS answers: keys until then.
fn taken_on(token: &str, until: &str) -> Say {
    ok(&format!(
        "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>role-secret</SecretAccessKey>\
         <SessionToken>{token}</SessionToken><Expiration>{until}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
    ))
}

/// What was asked for, and with which session token: `GET records as token`.
fn described(asked: &[Asked]) -> Vec<String> {
    let one = |asked: &Asked| {
        let what = match (asked.line.split(' ').next(), asked.body.split('&').next()) {
            (Some("GET"), _) => "records",
            (_, Some(action)) if action.starts_with("Action=") => &action["Action=".len()..],
            _ => "change",
        };
        let token = asked.headers.iter().find_map(|line| line.strip_prefix("x-amz-security-token: "));
        format!("{what} as {}", token.unwrap_or("ourselves"))
    };
    asked.iter().map(one).collect()
}

#[tokio::test]
async fn the_role_asks_for_its_zone_alone() {
    let far = "2999-01-01T00:00:00Z";
    let server = Server::saying(vec![
        taken_on("first", far),
        balancers(NLB),
        listed(""),
        ok(CHANGED),
        // The public zone.
        listed(""),
        ok(CHANGED),
        // The private one again: what was taken on is kept until AWS says that it has ended.
        refusal(403, "ExpiredToken"),
        taken_on("second", far),
        listed(""),
        ok(CHANGED),
    ]);
    let provider = route53(&server).await;
    for zone in [in_role(ROLE), by_id(), in_role(ROLE)] {
        provider.ensure(&zone, &entry(true)).await.expect("written");
    }
    let asked = server.asked();
    let expected = [
        "AssumeRole as ourselves",
        "DescribeLoadBalancers as ourselves",
        "records as first",
        "change as first",
        "records as ourselves",
        "change as ourselves",
        "records as first",
        "AssumeRole as ourselves",
        "records as second",
        "change as second",
    ];
    assert_eq!(described(&asked), expected);
    assert!(asked[0].body.contains("RoleArn=arn%3Aaws%3Aiam%3A%3A210987654321%3Arole%2Fzones"), "{}", asked[0].body);
    let printed = format!("{asked:?} {provider:?}");
    assert!(
        !printed.contains("role-secret") && !printed.contains("very-secret"),
        "secrets are neither sent nor printed"
    );
}

#[tokio::test]
async fn credentials_of_a_role_are_renewed_before_they_end() {
    let soon = (jiff::Timestamp::now() + jiff::SignedDuration::from_secs(60)).to_string();
    let server = Server::saying(vec![
        taken_on("first", &soon),
        taken_on("second", "2999-01-01T00:00:00Z"),
        listed(""),
        listed(""),
    ]);
    let provider = route53(&server).await;
    for _ in 0..2 {
        provider.delete(&in_role(ROLE), &entry(true)).await.expect("nothing there");
    }
    let expected = ["AssumeRole as ourselves", "AssumeRole as ourselves", "records as second", "records as second"];
    assert_eq!(described(&server.asked()), expected);
}

#[tokio::test]
async fn a_role_that_cannot_be_taken_on_is_told() {
    let body = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>User: arn:aws:iam::1:user/u is not authorized</Message></Error></ErrorResponse>";
    let server = Server::saying(vec![Say::Body(403, body.to_owned())]);
    let provider = route53(&server).await;
    let error = provider.ensure(&in_role(ROLE), &entry(true)).await.expect_err("no role").to_string();
    let start = format!("the role {ROLE} of the zone cannot be taken on: ");
    assert!(error.starts_with(&start) && error.contains("needs sts:AssumeRole: User:"), "{error}");
    assert!(provider.delete(&in_role(ROLE), &entry(true)).await.is_err(), "nothing is taken for gone");
    assert_eq!(described(&server.asked()), ["AssumeRole as ourselves"; 2]);
    for arn in ["zones", "arn:aws:iam::210987654321:user/zones"] {
        let error = provider.ensure(&in_role(arn), &entry(true)).await.expect_err("no ARN");
        let expected = format!(
            "the role of the zone: {arn:?} is no ARN of a role; accepted is such as arn:aws:iam::123456789012:role/NAME"
        );
        assert!(matches!(&error, CloudError::Refused(text) if *text == expected), "{error}");
    }
    assert_eq!(server.asked().len(), 2, "what is no ARN is not asked for");
}
