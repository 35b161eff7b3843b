//! Each place that credentials come from, and their order.

use crate::{
    clients::{
        Session,
        environment::Environment,
        testing::{Asked, Say, Server, ok},
    },
    cloud_config::CloudConfig,
};
use runtime::backoff::Backoff;
use std::{path::PathBuf, time::Duration};

const ZONES: &str = "<DescribeAvailabilityZonesResponse/>";

/// A folder of its own, gone in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("twinstack-chain-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What STS, the container or the instance answer.
fn of_sts(call: &str, id: &str) -> Say {
    ok(&format!(
        "<{call}Response><{call}Result><Credentials><AccessKeyId>{id}</AccessKeyId><SecretAccessKey>s</SecretAccessKey>\
         <SessionToken>token-of-{id}</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration></Credentials></{call}Result></{call}Response>"
    ))
}

fn of_service(id: &str) -> Say {
    ok(&format!(
        r#"{{"Code": "Success", "AccessKeyId": "{id}", "SecretAccessKey": "s", "Token": "token-of-{id}", "Expiration": "2999-01-01T00:00:00Z"}}"#
    ))
}

/// A session in an environment that knows nothing but these.
async fn session(config: &CloudConfig, variables: &[(&str, &str)]) -> Result<Session, String> {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let backoff = Backoff { first: Duration::from_millis(1), cap: Duration::from_millis(2) };
    let session = Session::in_environment(config, Environment::of(variables), backoff).await;
    session.map_err(|error| error.to_string())
}

/// Makes a call, and tells who made it by the signature: `ID` and the token with it.
async fn signer(server: &Server, variables: &[(&str, &str)]) -> (String, Option<String>) {
    let session = session(&server.config(), variables).await.expect("credentials");
    session.account().ec2.describe_availability_zones().await.expect("zones");
    let Asked { headers, .. } = server.asked().pop().expect("a call");
    let header = |name: &str| headers.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let authorization = header("authorization").expect("a signature");
    let id = authorization.split("Credential=").nth(1).and_then(|rest| rest.split('/').next()).expect("an id");
    (id.to_owned(), header("x-amz-security-token").map(str::to_owned))
}

#[tokio::test]
async fn the_environment_comes_first() {
    let folder = Folder::new("environment");
    let file = folder.write("credentials", "[default]\naws_access_key_id = FILE\naws_secret_access_key = s\n");
    let keys = [("AWS_ACCESS_KEY_ID", "ENV"), ("AWS_SECRET_ACCESS_KEY", "s"), ("AWS_SHARED_CREDENTIALS_FILE", &*file)];
    let server = Server::saying(vec![ok(ZONES)]);
    assert_eq!(signer(&server, &keys).await, ("ENV".to_owned(), None));
    let with_token = [keys[0], keys[1], ("AWS_SESSION_TOKEN", "token")];
    assert_eq!(signer(&server, &with_token).await, ("ENV".to_owned(), Some("token".to_owned())));
    assert_eq!(signer(&server, &keys[2..]).await, ("FILE".to_owned(), None));
}

#[tokio::test]
async fn a_profile_has_keys_or_takes_on_roles() {
    let folder = Folder::new("profile");
    let config = folder.write(
        "config",
        "[profile last]\nrole_arn = arn:aws:iam::1:role/last\nsource_profile = middle\nrole_session_name = me\nexternal_id = 42\n\
         [profile middle]\nrole_arn = arn:aws:iam::1:role/middle\nsource_profile = keys\n\
         [profile environment]\nrole_arn = arn:aws:iam::1:role/e\ncredential_source = Environment\n\
         [profile loop]\nrole_arn = arn:aws:iam::1:role/l\nsource_profile = back\n[profile back]\nrole_arn = r\nsource_profile = loop\n\
         [profile process]\ncredential_process = /bin/keys\n",
    );
    let credentials = folder.write("credentials", "[keys]\naws_access_key_id = KEYS\naws_secret_access_key = s\n");
    let files = [("AWS_CONFIG_FILE", config.as_str()), ("AWS_SHARED_CREDENTIALS_FILE", credentials.as_str())];
    let with = |more: &[(&'static str, &'static str)]| [&files[..], more].concat();

    let server = Server::saying(vec![ok(ZONES)]);
    assert_eq!(signer(&server, &with(&[("AWS_PROFILE", "keys")])).await.0, "KEYS");

    let server = Server::saying(vec![of_sts("AssumeRole", "MIDDLE"), of_sts("AssumeRole", "LAST"), ok(ZONES)]);
    let last = signer(&server, &with(&[("AWS_PROFILE", "last")])).await;
    assert_eq!(last, ("LAST".to_owned(), Some("token-of-LAST".to_owned())));
    let bodies = server.bodies();
    assert!(bodies[0].contains("role%2Fmiddle") && !bodies[0].contains("ExternalId"), "{}", bodies[0]);
    assert!(bodies[1].contains("role%2Flast&RoleSessionName=me&ExternalId=42"), "{}", bodies[1]);

    let server = Server::saying(vec![of_sts("AssumeRole", "ROLE"), ok(ZONES)]);
    let variables = with(&[("AWS_PROFILE", "environment"), ("AWS_SECRET_ACCESS_KEY", "s")]);
    let why = session(&server.config(), &variables).await.err();
    assert_eq!(why.as_deref(), Some("no AWS credentials: AWS_ACCESS_KEY_ID is not set"));

    for (profile, why) in [
        ("none", "AWS_PROFILE: there is no profile \"none\""),
        ("loop", "profile \"loop\": source_profile leads back to it"),
        ("process", "profile \"process\": credential_process is not supported"),
    ] {
        let error = session(&server.config(), &with(&[("AWS_PROFILE", profile)])).await.err();
        assert_eq!(error, Some(format!("no AWS credentials: {why}")));
    }
}

#[tokio::test]
async fn keys_that_are_replaced_in_a_file_are_read_anew() {
    let folder = Folder::new("replaced");
    let keys = |id: &str| format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = s\n");
    let file = folder.write("credentials", &keys("ONE"));
    let refused = crate::clients::testing::refusal(401, "AuthFailure");
    let server = Server::saying(vec![ok(ZONES), refused, ok(ZONES)]);
    let session = session(&server.config(), &[("AWS_SHARED_CREDENTIALS_FILE", &*file)]).await.expect("credentials");
    let account = session.account();
    account.ec2.describe_availability_zones().await.expect("zones");
    folder.write("credentials", &keys("TWO"));
    account.ec2.describe_availability_zones().await.expect("zones");
    let signed = |asked: &Asked, id: &str| asked.headers.iter().any(|line| line.contains(&format!("Credential={id}/")));
    let asked = server.asked();
    assert!(signed(&asked[0], "ONE") && signed(&asked[1], "ONE") && signed(&asked[2], "TWO"), "{asked:?}");
}

#[tokio::test]
async fn a_web_identity_is_changed_for_a_role() {
    let folder = Folder::new("web-identity");
    let file = folder.write("token", "signed-by-the-cluster\n");
    let server = Server::saying(vec![of_sts("AssumeRoleWithWebIdentity", "WEB"), ok(ZONES)]);
    let variables = [("AWS_WEB_IDENTITY_TOKEN_FILE", &*file), ("AWS_ROLE_ARN", "arn:aws:iam::1:role/web")];
    assert_eq!(signer(&server, &variables).await, ("WEB".to_owned(), Some("token-of-WEB".to_owned())));
    let asked = server.asked();
    assert!(asked[0].body.starts_with("Action=AssumeRoleWithWebIdentity&Version=2011-06-15&"), "{}", asked[0].body);
    assert!(asked[0].body.contains("WebIdentityToken=signed-by-the-cluster"), "{}", asked[0].body);
    assert!(!asked[0].headers.iter().any(|line| line.starts_with("authorization")), "nobody's name");
    // It stands in a profile, too.
    let text = format!("[default]\nrole_arn = arn:aws:iam::1:role/web\nweb_identity_token_file = {file}\n");
    let config = folder.write("config", &text);
    let server = Server::saying(vec![of_sts("AssumeRoleWithWebIdentity", "PROFILE"), ok(ZONES)]);
    assert_eq!(signer(&server, &[("AWS_CONFIG_FILE", &*config)]).await.0, "PROFILE");
    let error = session(&server.config(), &variables[..1]).await.err();
    assert_eq!(
        error.as_deref(),
        Some("no AWS credentials: AWS_WEB_IDENTITY_TOKEN_FILE is set, and AWS_ROLE_ARN is not")
    );
}

#[tokio::test]
async fn a_container_is_asked_with_its_token() {
    let folder = Folder::new("container");
    let token = folder.write("token", "of-the-pod\n");
    let server = Server::saying(vec![of_service("CONTAINER"), ok(ZONES)]);
    let url = server.url() + "/v1/credentials";
    let variables =
        [("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*url), ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &*token)];
    assert_eq!(signer(&server, &variables).await, ("CONTAINER".to_owned(), Some("token-of-CONTAINER".to_owned())));
    let asked = server.asked().remove(0);
    assert_eq!(asked.line, "GET /v1/credentials HTTP/1.1");
    assert!(asked.headers.contains(&"authorization: of-the-pod".to_owned()), "{:?}", asked.headers);
    let server = Server::saying(vec![Say::Body(403, "no".to_owned())]);
    let url = server.url() + "/v1";
    let error = session(&server.config(), &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*url)]).await.err();
    assert_eq!(error, Some(format!("no AWS credentials: container credentials at {url}: HTTP 403 Forbidden")));
}

#[tokio::test]
async fn an_instance_is_asked_last() {
    let server = Server::saying(vec![ok("imds-token"), ok("nodes\n"), of_service("INSTANCE"), ok(ZONES)]);
    assert_eq!(signer(&server, &[]).await, ("INSTANCE".to_owned(), Some("token-of-INSTANCE".to_owned())));
    let asked = server.asked();
    let lines: Vec<&str> = asked.iter().map(|asked| asked.line.as_str()).collect();
    let path = "/latest/meta-data/iam/security-credentials/";
    assert_eq!(
        lines[..3],
        ["PUT /latest/api/token HTTP/1.1", &format!("GET {path} HTTP/1.1"), &format!("GET {path}nodes HTTP/1.1")]
    );
    assert!(asked[0].headers.contains(&"x-aws-ec2-metadata-token-ttl-seconds: 21600".to_owned()));
    assert!(asked[2].headers.contains(&"x-aws-ec2-metadata-token: imds-token".to_owned()));
    // Nowhere any, and every place says why.
    let error = session(&server.config(), &[("AWS_EC2_METADATA_DISABLED", "true")]).await.err();
    assert_eq!(
        error.as_deref(),
        Some(
            "no AWS credentials: AWS_ACCESS_KEY_ID is not set; profile \"default\" has no credentials; \
             AWS_WEB_IDENTITY_TOKEN_FILE is not set; AWS_CONTAINER_CREDENTIALS_FULL_URI is not set; \
             AWS_EC2_METADATA_DISABLED is set"
        )
    );
}

#[tokio::test]
async fn the_region_is_looked_for_in_the_same_places() {
    let folder = Folder::new("region");
    let file = folder.write("config", "[default]\nregion = eu-west-1\n");
    let server = Server::saying(vec![ok("imds-token"), ok("ap-south-1")]);
    let mut config = server.config();
    config.global = CloudConfig::default().global;
    let keys = [("AWS_ACCESS_KEY_ID", "ENV"), ("AWS_SECRET_ACCESS_KEY", "s")];
    for (more, region) in [
        (vec![("AWS_REGION", "eu-north-1"), ("AWS_CONFIG_FILE", &*file)], "eu-north-1"),
        (vec![("AWS_DEFAULT_REGION", "eu-central-1")], "eu-central-1"),
        (vec![("AWS_CONFIG_FILE", &*file)], "eu-west-1"),
        (vec![], "ap-south-1"),
    ] {
        let session = session(&config, &[&keys[..], &more].concat()).await.expect("a session");
        assert_eq!(session.region(), region);
    }
    let none = [&keys[..], &[("AWS_EC2_METADATA_DISABLED", "true")]].concat();
    assert!(session(&config, &none).await.err().is_some_and(|error| error.starts_with("which AWS region?")));
}
