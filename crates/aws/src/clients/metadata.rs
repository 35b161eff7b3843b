//! The instance metadata service, version 2: a token first, then what the instance is and may do.

use super::{
    credentials::{Credentials, CredentialsError, from_json},
    environment::Environment,
    failure::{Failure, Reach},
    http::{Http, Patience, Proxy},
    profile::Profiles,
};
use bytes::Bytes;
use http::{Method, Request};
use parking_lot::Mutex;
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

const IPV4: &str = "http://169.254.169.254";
const IPV6: &str = "http://[fd00:ec2::254]";
/// It is next to the instance, or not there at all.
const PATIENCE: Patience = Patience { connect: Duration::from_secs(1), answer: Duration::from_secs(2) };
const ATTEMPTS: u32 = 2;
/// How long a token is good for, and how long before that another one is asked for.
const TOKEN: (u64, Duration) = (21_600, Duration::from_secs(120));
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";
/// Credentials that are past their end when the service gives them are accepted for longer: it could not get newer ones.
const PAST_END: Duration = Duration::from_secs(600);

/// A client; clones share the token.
#[derive(Clone, Debug)]
pub(super) struct Metadata {
    http: Http,
    url: String,
    /// Whether the environment says that it is not to be asked for credentials and region.
    disabled: bool,
    token: Arc<Mutex<Option<(Token, Instant)>>>,
}

#[derive(Clone)]
struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Metadata {
    /// Where the cloud-config says, else the environment, the profile, AWS itself.
    pub(super) fn new(given: Option<String>, environment: &Environment, profiles: &Profiles) -> Self {
        let named =
            |variable: &str, key: &str| environment.get(variable).or_else(|| profiles.own(key)).map(str::to_owned);
        let url = given.or_else(|| named("AWS_EC2_METADATA_SERVICE_ENDPOINT", "ec2_metadata_service_endpoint"));
        let mode = named("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "ec2_metadata_service_endpoint_mode");
        let usual = if mode.is_some_and(|mode| mode.eq_ignore_ascii_case("ipv6")) { IPV6 } else { IPV4 };
        Self {
            http: Http::new(Proxy::None, PATIENCE),
            url: url.unwrap_or_else(|| usual.to_owned()).trim_end_matches('/').to_owned(),
            disabled: environment.is_true("AWS_EC2_METADATA_DISABLED"),
            token: Arc::default(),
        }
    }

    /// The text at a path; why not.
    pub(super) async fn get(&self, path: &str) -> Result<String, String> {
        let mut attempt = 1;
        loop {
            match self.attempt(path).await {
                Ok(text) => return Ok(text),
                Err(failure) => {
                    // A token that is not accepted any more: the instance may have been stopped in between.
                    let refused = failure.reach == Reach::Answered(401);
                    let passing = matches!(failure.reach, Reach::NoAnswer | Reach::Answered(500..));
                    if refused {
                        *self.token.lock() = None;
                    }
                    if attempt == ATTEMPTS || !(refused || passing) {
                        return Err(format!("{}{path}: {}", self.url, failure.describe()));
                    }
                    attempt += 1;
                }
            }
        }
    }

    async fn attempt(&self, path: &str) -> Result<String, Failure> {
        let Token(token) = self.token().await?;
        self.ask(Method::GET, path, ("x-aws-ec2-metadata-token", &token)).await
    }

    async fn token(&self) -> Result<Token, Failure> {
        let held = self.token.lock().clone().filter(|(_, until)| Instant::now() < *until);
        if let Some((token, _)) = held {
            return Ok(token);
        }
        let (seconds, early) = TOKEN;
        let header = ("x-aws-ec2-metadata-token-ttl-seconds", seconds.to_string());
        let token = Token(self.ask(Method::PUT, "/latest/api/token", (header.0, &header.1)).await?);
        *self.token.lock() = Some((token.clone(), Instant::now() + Duration::from_secs(seconds) - early));
        Ok(token)
    }

    async fn ask(&self, method: Method, path: &str, header: (&'static str, &str)) -> Result<String, Failure> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.url)).header(header.0, header.1);
        let request = request.body(Bytes::new()).map_err(|error| Failure::not_sent(error.to_string()))?;
        let answer = self.http.send(request).await?;
        if !answer.status().is_success() {
            return Err(Failure::answered(answer.status().as_u16(), answer.headers(), answer.body()));
        }
        Ok(String::from_utf8_lossy(answer.body()).into_owned())
    }

    /// The region of the instance, if the service may be asked.
    pub(super) async fn region(&self) -> Option<String> {
        if self.disabled {
            return None;
        }
        let region = self.get("/latest/meta-data/placement/region").await.ok()?;
        Some(region.trim().to_owned()).filter(|region| !region.is_empty())
    }

    /// The credentials of the instance's role.
    pub(super) async fn credentials(&self) -> Result<Credentials, CredentialsError> {
        if self.disabled {
            return Err(CredentialsError::NotHere("AWS_EC2_METADATA_DISABLED is set".to_owned()));
        }
        let missing = |why: String| CredentialsError::NotHere(format!("instance metadata service: {why}"));
        let roles = self.get(ROLES).await.map_err(missing)?;
        let role = roles.lines().map(str::trim).find(|role| !role.is_empty());
        let role = role.ok_or_else(|| missing("the instance has no role".to_owned()))?;
        let text = self.get(&format!("{ROLES}{role}")).await.map_err(missing)?;
        let mut credentials = from_json(&text)
            .map_err(|why| CredentialsError::Failed(format!("instance metadata service, role {role}: {why}")))?;
        let now = SystemTime::now();
        if credentials.expires.is_some_and(|end| end < now) {
            credentials.expires = Some(now + PAST_END);
        }
        Ok(credentials)
    }
}
