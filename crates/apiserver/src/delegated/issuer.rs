//! Issuers of JSON Web Tokens at work: their keys, what must be true of a token, and which user its claims name.

use super::{FileMistakes, IssuerMetrics, authentication::AuthenticationConfiguration, remote::Remote, wait};
use access::authn::{
    Anonymous, Authenticated, AuthnError, Token, TokenAuthenticator, User,
    jwt::{Jwks, Jwt},
    user::CREDENTIAL_ID,
};
use arc_swap::ArcSwap;
use jiff::Timestamp;
use parking_lot::Mutex;
use schema::cel::{Bound, Budget, Outcome, Program};
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(30);
/// Keys are asked for again no sooner than this, whoever comes with an unknown one.
const NOT_SOONER: Duration = Duration::from_secs(10);
/// How far clocks may differ for `nbf`.
const LEEWAY: i64 = 300;

/// `--oidc-*`.
#[derive(Clone, Debug)]
pub struct Oidc {
    pub issuer_url: String,
    pub client_id: String,
    pub ca_file: Option<PathBuf>,
    pub username_claim: String,
    pub username_prefix: String,
    pub groups_claim: String,
    pub groups_prefix: String,
    pub required_claims: Vec<(String, String)>,
    pub signing_algs: Vec<String>,
}

/// Where a name comes from.
pub(super) enum Mapping {
    Claim { name: String, prefix: String },
    Expression(Program),
}

pub(super) enum ClaimRule {
    Required { claim: String, value: String },
    Expression { program: Program, message: String },
}

/// One issuer.
pub(super) struct Issuer {
    pub(super) url: String,
    pub(super) discovery_url: Option<String>,
    pub(super) authorities: Option<String>,
    pub(super) audiences: Vec<String>,
    pub(super) algorithms: Vec<String>,
    pub(super) username: Mapping,
    pub(super) groups: Option<Mapping>,
    pub(super) uid: Option<Mapping>,
    pub(super) extra: Vec<(String, Program)>,
    pub(super) claim_rules: Vec<ClaimRule>,
    pub(super) user_rules: Vec<(Program, String)>,
    pub(super) keys: Mutex<Option<(Arc<Jwks>, Instant)>>,
}

/// All issuers. Those of a file follow it.
pub struct Issuers {
    current: ArcSwap<Vec<Issuer>>,
    anonymous: Option<Anonymous>,
    /// Whom their tokens are for: this server.
    audiences: Vec<String>,
    /// Who signs the server's own tokens.
    own: Vec<String>,
    metrics: IssuerMetrics,
}

impl Issuers {
    pub fn new(
        configuration: AuthenticationConfiguration,
        audiences: Vec<String>,
        own: Vec<String>,
        metrics: IssuerMetrics,
    ) -> Result<Self, FileMistakes> {
        let AuthenticationConfiguration { issuers, anonymous } = configuration.except(&own)?;
        Ok(Self { current: ArcSwap::from_pointee(issuers), anonymous, audiences, own, metrics })
    }

    /// Takes what the file says now. Keys of an issuer that stays as it was are asked for again.
    pub fn replace(&self, text: &str) -> Result<(), FileMistakes> {
        let read = AuthenticationConfiguration::parse(text)?;
        let read = read.except(&self.own)?.keeps(self.anonymous.as_ref())?;
        self.current.store(Arc::new(read.issuers));
        Ok(())
    }
}

impl TokenAuthenticator for Issuers {
    fn token(&self, token: &Token, wanted: &[String], now: Timestamp) -> Result<Option<Authenticated>, AuthnError> {
        let Some(jwt) = Jwt::parse(token) else { return Ok(None) };
        let current = self.current.load();
        let Some(issuer) = current.iter().find(|issuer| issuer.url == jwt.issuer()) else { return Ok(None) };
        let audiences: Vec<String> = self.audiences.iter().filter(|own| wanted.contains(own)).cloned().collect();
        if audiences.is_empty() && !wanted.is_empty() {
            return Ok(None);
        }
        let refused = |why: String| AuthnError::Refused(format!("oidc: {why}"));
        let begun = Instant::now();
        let user = issuer.signed(&jwt, &self.metrics).and_then(|()| issuer.user(&jwt, now));
        self.metrics.checked(&issuer.url, user.is_ok(), begun.elapsed());
        Ok(Some(Authenticated { user: user.map_err(refused)?, audiences }))
    }
}

impl Issuer {
    /// Refuses what the issuer did not sign.
    fn signed(&self, jwt: &Jwt, metrics: &IssuerMetrics) -> Result<(), String> {
        let known = self.keys.lock().clone();
        if let Some((keys, _)) = &known
            && keys.verifies(jwt, &self.algorithms)
        {
            return Ok(());
        }
        if known.is_some_and(|(_, since)| since.elapsed() < NOT_SOONER) {
            return Err("failed to verify signature".to_owned());
        }
        let fetched = wait(self.fetch());
        metrics.fetched(&self.url, fetched.is_ok());
        let keys = Arc::new(fetched?);
        *self.keys.lock() = Some((Arc::clone(&keys), Instant::now()));
        match keys.verifies(jwt, &self.algorithms) {
            true => Ok(()),
            false => Err("failed to verify signature".to_owned()),
        }
    }

    async fn fetch(&self) -> Result<Jwks, String> {
        let own = || format!("{}/.well-known/openid-configuration", self.url.trim_end_matches('/'));
        let document = self.read(&self.discovery_url.clone().unwrap_or_else(own)).await?;
        if document["issuer"] != self.url.as_str() {
            return Err(format!("the issuer calls itself {} and not {:?}", document["issuer"], self.url));
        }
        let url = document["jwks_uri"].as_str().ok_or("the issuer does not say where its keys are")?;
        Jwks::parse(&self.read(url).await?)
    }

    async fn read(&self, url: &str) -> Result<Value, String> {
        let answer = Remote::new(url, self.authorities.as_deref())?.get(PATIENCE).await?;
        serde_json::from_slice(&answer).map_err(|error| format!("{url}: the answer is no JSON: {error}"))
    }

    /// The user that a signed token names.
    pub(super) fn user(&self, jwt: &Jwt, now: Timestamp) -> Result<User, String> {
        let now = now.as_second();
        if jwt.seconds("exp").is_none_or(|end| now >= end) {
            return Err("token is expired".to_owned());
        }
        if jwt.seconds("nbf").is_some_and(|begin| now + LEEWAY < begin) {
            return Err("token is not valid yet".to_owned());
        }
        let audiences = jwt.audiences();
        if !audiences.iter().any(|audience| self.audiences.contains(audience)) {
            return Err(format!("expected audience {:?} got {audiences:?}", self.audiences));
        }
        let claims = Value::Object(jwt.claims().clone());
        let scene = Scene { bound: Bound::new().with("claims", &claims), claims: &claims };
        for rule in &self.claim_rules {
            scene.check(rule)?;
        }
        let name = scene.text(&self.username, "username")?.filter(|name| !name.is_empty());
        let mut user = User::new(name.ok_or("the username is empty")?, scene.groups(self.groups.as_ref())?);
        if let Some(uid) = &self.uid {
            user.uid = scene.text(uid, "uid")?.unwrap_or_default();
        }
        for (key, program) in &self.extra {
            let values = texts(&run(program, &scene.bound)?).ok_or_else(|| format!("extra {key:?} is no text"))?;
            if !values.is_empty() {
                user.extra.insert(key.clone(), values);
            }
        }
        if !jwt.text("jti").is_empty() {
            user.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={}", jwt.text("jti"))]);
        }
        let shown = user.info();
        let bound = Bound::new().with("user", &shown);
        for (program, message) in &self.user_rules {
            if run(program, &bound)? != json!(true) {
                return Err(told(message, "user", program));
            }
        }
        Ok(user)
    }
}

struct Scene<'a> {
    bound: Bound<'a>,
    claims: &'a Value,
}

impl Scene<'_> {
    fn check(&self, rule: &ClaimRule) -> Result<(), String> {
        match rule {
            ClaimRule::Required { claim, value } => match self.claims.get(claim).and_then(Value::as_str) {
                Some(found) if found == value => Ok(()),
                Some(_) => Err(format!("required claim {claim:?} has another value")),
                None => Err(format!("required claim {claim:?} is not there")),
            },
            ClaimRule::Expression { program, message } => match run(program, &self.bound)? == json!(true) {
                true => Ok(()),
                false => Err(told(message, "claim", program)),
            },
        }
    }

    fn text(&self, mapping: &Mapping, what: &str) -> Result<Option<String>, String> {
        match mapping {
            Mapping::Expression(program) => match run(program, &self.bound)? {
                Value::String(text) => Ok(Some(text)),
                Value::Null => Ok(None),
                other => Err(format!("{what}: {other} is no text")),
            },
            Mapping::Claim { name, prefix } => {
                let found = self.claims.get(name).and_then(Value::as_str);
                let found = found.ok_or_else(|| format!("{what}: claim {name:?} is not there"))?;
                // An address counts only if its owner has shown that it is one's own.
                if name == "email" && self.claims.get("email_verified").is_some_and(|verified| *verified != json!(true))
                {
                    return Err("email not verified".to_owned());
                }
                Ok(Some(format!("{prefix}{found}")))
            }
        }
    }

    fn groups(&self, mapping: Option<&Mapping>) -> Result<Vec<String>, String> {
        match mapping {
            None => Ok(Vec::new()),
            Some(Mapping::Expression(program)) => {
                texts(&run(program, &self.bound)?).ok_or_else(|| "groups: no list of texts".to_owned())
            }
            Some(Mapping::Claim { name, prefix }) => {
                let Some(found) = self.claims.get(name) else { return Ok(Vec::new()) };
                let found = texts(found).ok_or_else(|| format!("groups: claim {name:?} is no list of texts"))?;
                Ok(found.into_iter().map(|group| format!("{prefix}{group}")).collect())
            }
        }
    }
}

fn told(message: &str, what: &str, program: &Program) -> String {
    match message {
        "" => format!("{what} validation rule {:?} is not met", program.text()),
        message => message.to_owned(),
    }
}

fn run(program: &Program, bound: &Bound<'_>) -> Result<Value, String> {
    match program.run(bound, &mut Budget::for_conditions()) {
        Ok(Outcome::Bool(value)) => Ok(value.into()),
        Ok(Outcome::Text(text)) => Ok(text.into()),
        Ok(Outcome::Null) => Ok(Value::Null),
        Ok(Outcome::Other(Some(other))) => Ok(other),
        // The last two are for policies alone: there is no `Object{}` here.
        Ok(Outcome::Other(None) | Outcome::Configuration(_) | Outcome::Operations(_)) => {
            Err(format!("{:?} makes nothing that can be used", program.text()))
        }
        Err(why) => Err(format!("{:?}: {why:?}", program.text())),
    }
}

/// One text, or a list of them; nothing is an empty list.
fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Null => Some(Vec::new()),
        Value::String(text) if text.is_empty() => Some(Vec::new()),
        Value::String(text) => Some(vec![text.clone()]),
        Value::Array(list) => list.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}
