//! Calls against a server that answers as AWS does: retries, refusals, credentials, discovery.

use super::{
    Session, discover,
    testing::{Say, Server, ok, refusal},
};
use crate::{
    account::{Account, AwsError, GroupFilter, Kind, TargetGroupFilter},
    cloud_config::CloudConfig,
};

const ZONES: &str = "<DescribeAvailabilityZonesResponse><requestId>r-9</requestId><availabilityZoneInfo><item><zoneName>us-east-1a</zoneName>\
                     <zoneId>use1-az1</zoneId><zoneType>availability-zone</zoneType></item></availabilityZoneInfo></DescribeAvailabilityZonesResponse>";

async fn account(server: &Server) -> Account {
    server.session().await.account()
}

#[tokio::test]
async fn what_passes_is_tried_again() {
    let gateway = || Say::Body(502, "<html>Bad Gateway</html>".to_owned());
    for first in [
        refusal(503, "RequestLimitExceeded"),
        refusal(400, "Throttling"),
        refusal(500, "InternalError"),
        refusal(408, "RequestTimeoutException"),
        // Keys that were replaced, or are so new that not everybody knows them; a clock that goes wrong.
        refusal(401, "AuthFailure"),
        refusal(403, "InvalidClientTokenId"),
        refusal(403, "RequestTimeTooSkewed"),
        gateway(),
        Say::HangUp,
        ok("this is no XML"),
    ] {
        let server = Server::saying(vec![first.clone(), first.clone(), ok(ZONES)]);
        let zones = account(&server).await.ec2.describe_availability_zones().await;
        assert_eq!(zones.unwrap_or_else(|error| panic!("{first:?}: {error}"))[0].name, "us-east-1a");
        assert_eq!(server.asked().len(), 3, "{first:?}");
    }
}

#[tokio::test]
async fn what_is_final_is_not_tried_again() {
    let server = Server::saying(vec![refusal(400, "InvalidParameterValue")]);
    let error = account(&server).await.ec2.describe_availability_zones().await.expect_err("a refusal");
    assert_eq!(error.to_string(), "refused by AWS (InvalidParameterValue): it says InvalidParameterValue");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn attempts_end() {
    for (answer, error) in [
        (refusal(503, "RequestLimitExceeded"), "throttled by AWS: it says RequestLimitExceeded"),
        (refusal(500, "InternalError"), "AWS answers InternalError: it says InternalError (request r-1)"),
    ] {
        let server = Server::saying(vec![answer]);
        let outcome = account(&server).await.ec2.describe_availability_zones().await;
        assert_eq!(outcome.expect_err("an error").to_string(), error);
        assert_eq!(server.asked().len(), 6);
    }
}

#[tokio::test]
async fn a_missing_permission_names_the_action() {
    let server = Server::saying(vec![refusal(403, "UnauthorizedOperation")]);
    let error = account(&server).await.ec2.describe_availability_zones().await.expect_err("a refusal");
    assert!(
        matches!(&error, AwsError::Unauthorized { action, .. } if action == "ec2:DescribeAvailabilityZones"),
        "{error:?}"
    );
    let body = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>";
    let server = Server::saying(vec![Say::Body(403, body.to_owned())]);
    let error = account(&server).await.network.describe_load_balancers(None).await.expect_err("a refusal");
    assert!(
        matches!(&error, AwsError::Unauthorized { action, .. } if action == "elasticloadbalancing:DescribeLoadBalancers"),
        "{error:?}"
    );
}

#[tokio::test]
async fn requests_are_signed_and_do_not_carry_the_secret() {
    let server = Server::saying(vec![ok(ZONES)]);
    account(&server).await.ec2.describe_availability_zones().await.expect("zones");
    let asked = server.asked().remove(0);
    assert_eq!(asked.line, "POST / HTTP/1.1");
    assert_eq!(asked.body, "Action=DescribeAvailabilityZones&Version=2016-11-15");
    let signed = |line: &String| {
        let line = line.to_ascii_lowercase();
        line.starts_with("authorization: aws4-hmac-sha256 credential=akidexample/") && line.contains("/us-east-1/ec2/")
    };
    assert!(asked.headers.iter().any(signed), "{:?}", asked.headers);
    assert!(!format!("{asked:?}").contains("very-secret"));
}

#[tokio::test]
async fn requests_are_signed_with_the_time_of_aws() {
    let date = "Fri, 01 Jan 2100 12:00:00 GMT".to_owned();
    let Say::Body(_, refused) = refusal(403, "RequestExpired") else { return };
    let server = Server::saying(vec![Say::Dated(403, refused, date), ok(ZONES)]);
    account(&server).await.ec2.describe_availability_zones().await.expect("zones");
    let signed = |asked: &super::testing::Asked| {
        let date = asked.headers.iter().find_map(|line| line.strip_prefix("x-amz-date: ")).map(str::to_owned);
        date.expect("a signature has a date")
    };
    let asked = server.asked();
    assert!(!signed(&asked[0]).starts_with("2100"), "{asked:?}");
    assert!(signed(&asked[1]).starts_with("21000101T12"), "{asked:?}");
}

#[tokio::test]
async fn what_does_not_exist_is_left_out() {
    let not_found = |code: &str| {
        let body = format!("<ErrorResponse><Error><Code>{code}</Code><Message>gone</Message></Error></ErrorResponse>");
        Server::saying(vec![Say::Body(400, body)])
    };
    let server = not_found("LoadBalancerNotFound");
    let account_ = account(&server).await;
    assert_eq!(account_.network.describe_load_balancers(Some("a")).await, Ok(Vec::new()));
    assert_eq!(account_.classic.describe_classic(Some("a")).await, Ok(Vec::new()));
    assert_eq!(account_.network.describe_target_groups(TargetGroupFilter::Of("arn")).await, Ok(Vec::new()));
    assert_eq!(account_.network.delete_load_balancer("arn").await, Ok(()));
    assert_eq!(account_.classic.delete_classic("a").await, Ok(()));
    let tags = account_.network.describe_tags(&["a".to_owned(), "b".to_owned()]).await.expect("tags");
    assert!(tags.is_empty(), "{tags:?}");
    // Both together, then each by itself.
    assert_eq!(server.asked().len(), 5 + 3);
    let server = not_found("TargetGroupNotFound");
    let account_ = account(&server).await;
    assert_eq!(account_.network.delete_target_group("arn").await, Ok(()));
    let error = account_.network.describe_target_health("arn").await.expect_err("no such group");
    assert!(matches!(error, AwsError::NotFound { kind: Kind::TargetGroup, .. }), "{error:?}");
}

#[tokio::test]
async fn answers_of_the_sdk_that_are_no_xml_do_not_break_it() {
    for body in ["", "<html><body>Internal Server Error</body></html>", "{}", "<unfinished"] {
        let server = Server::saying(vec![Say::Body(500, body.to_owned())]);
        let error = account(&server).await.network.describe_listeners("arn").await.expect_err("an error");
        assert!(matches!(&error, AwsError::Other { code, .. } if code == "HTTP 500"), "{error:?}");
        assert_eq!(server.asked().len(), 6, "{body}");
    }
}

#[tokio::test]
async fn a_role_is_taken_on_with_the_source_it_is_for() {
    let role = "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>s</SecretAccessKey>\
                <SessionToken>token</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>";
    let server = Server::saying(vec![ok(role), ok(ZONES), refusal(400, "ExpiredToken"), ok(role), ok(ZONES)]);
    let mut config = server.config();
    config.global.role = "arn:aws:iam::1:role/ccm".to_owned();
    config.global.source = "arn:aws:eks:us-east-1:1:cluster/blue".to_owned();
    let session = server.session_with(&config).await;
    let account = session.account();
    // The second time they have expired, and are asked for anew.
    for _ in 0..2 {
        account.ec2.describe_availability_zones().await.expect("zones");
    }
    let asked = server.asked();
    let actions: Vec<&str> = asked.iter().filter_map(|asked| asked.body.split('&').next()).collect();
    let zones = "Action=DescribeAvailabilityZones";
    assert_eq!(actions, ["Action=AssumeRole", zones, zones, "Action=AssumeRole", zones]);
    assert!(asked[0].body.contains("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fccm"), "{}", asked[0].body);
    let source = "x-amz-source-arn: arn:aws:eks:us-east-1:1:cluster/blue".to_owned();
    assert!(asked[0].headers.contains(&source), "{:?}", asked[0].headers);
    assert!(asked[1].headers.contains(&"x-amz-security-token: token".to_owned()), "{:?}", asked[1].headers);
}

fn named(vpc: &str, id: &str) -> CloudConfig {
    let mut config = CloudConfig::default();
    (config.global.vpc, config.global.cluster_id) = (vpc.to_owned(), id.to_owned());
    config
}

#[tokio::test]
async fn what_the_cloud_config_says_is_not_looked_up() {
    let server = Server::saying(vec![refusal(500, "InternalError")]);
    let session = server.session().await;
    let account = session.account();
    let found = discover(&session, &account, &named("vpc-1", "blue")).await.expect("found");
    assert_eq!((found.vpc.as_str(), found.cluster_id.as_str(), found.legacy_tag), ("vpc-1", "blue", false));
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn an_instance_is_asked_for_vpc_and_cluster() {
    let instance = "<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId><vpcId>vpc-9</vpcId>\
                    <tagSet><item><key>kubernetes.io/cluster/green</key><value>owned</value></item></tagSet></item></instancesSet></item>\
                    </reservationSet></DescribeInstancesResponse>";
    // A token of the metadata service, the id, then EC2.
    let server = Server::saying(vec![ok("token"), ok("i-1"), ok(instance)]);
    let session = server.session().await;
    let account = session.account();
    let found = discover(&session, &account, &named("", "")).await.expect("found");
    assert_eq!((found.vpc.as_str(), found.cluster_id.as_str()), ("vpc-9", "green"));
    assert_eq!(server.asked()[1].line, "GET /latest/meta-data/instance-id HTTP/1.1");
}

#[tokio::test]
async fn without_an_instance_the_error_says_what_to_set() {
    let server = Server::saying(vec![Say::Body(404, "not here".to_owned())]);
    let session = server.session().await;
    let account = session.account();
    for (vpc, id, missing) in
        [("", "blue", "VPC is"), ("vpc-1", "", "KubernetesClusterID is"), ("", "", "VPC and KubernetesClusterID is")]
    {
        let error = discover(&session, &account, &named(vpc, id)).await.expect_err("nothing found").to_string();
        let start = format!("{missing} not known: set it in [Global] of the cloud-config, or run on an EC2 instance");
        assert!(error.starts_with(&start), "{error}");
    }
}

#[tokio::test]
async fn calls_are_counted() {
    let metrics = runtime::metrics::Metrics::new();
    let server = Server::saying(vec![refusal(403, "UnauthorizedOperation")]);
    let keys = super::Keys { id: "id".to_owned(), secret: "secret".to_owned() };
    let session = Session::with_keys(&server.config(), keys, &metrics).await.expect("a session");
    let account = session.account();
    assert!(account.ec2.describe_security_groups(&GroupFilter::default()).await.is_err());
    let text = metrics.render(runtime::metrics::TextFormat::Classic).body;
    let line = "twinstack_aws_calls_total{service=\"ec2\",action=\"DescribeSecurityGroups\",outcome=\"denied\"} 1";
    assert!(text.contains(line), "{text}");
    assert!(
        text.contains("twinstack_aws_call_seconds_count{service=\"ec2\",action=\"DescribeSecurityGroups\"} 1"),
        "{text}"
    );
}
