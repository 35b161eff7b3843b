//! A webhook that knows tokens (`--authentication-token-webhook-config-file`): asked with a TokenReview, its answers kept for a while.

use super::{cache::Cache, remote::Remote, wait};
use access::authn::{Authenticated, AuthnError, Token, TokenAuthenticator, User};
use api::object::Fields;
use aws_lc_rs::digest::{SHA256, digest};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

/// Upstream's time for one answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// `--authentication-token-webhook-*`.
#[derive(Clone, Debug)]
pub struct TokenWebhookSettings {
    pub config: PathBuf,
    /// `v1` or `v1beta1`.
    pub version: String,
    pub cache_ttl: Duration,
}

pub struct TokenWebhook {
    remote: Remote,
    version: String,
    holds: Duration,
    /// By the digest of token and audiences.
    known: Cache<Vec<u8>, Option<Authenticated>>,
}

impl TokenWebhook {
    /// As the file says.
    pub fn new(settings: &TokenWebhookSettings) -> Result<Self, String> {
        let TokenWebhookSettings { config, version, cache_ttl } = settings;
        Ok(Self { remote: Remote::load(config)?, version: version.clone(), holds: *cache_ttl, known: Cache::default() })
    }

    async fn ask(&self, token: &Token, wanted: &[String]) -> Result<Option<Authenticated>, String> {
        let review = json!({
            "apiVersion": format!("authentication.k8s.io/{}", self.version), "kind": "TokenReview",
            "metadata": {"creationTimestamp": null}, "spec": {"token": token.expose(), "audiences": wanted}, "status": {"user": {}},
        });
        let answer = self.remote.post(review.to_string().into(), PATIENCE).await?;
        let answer: Value =
            serde_json::from_slice(&answer).map_err(|error| format!("the answer is no JSON: {error}"))?;
        read(&answer, wanted)
    }
}

/// Whom an answer names.
pub(super) fn read(answer: &Value, wanted: &[String]) -> Result<Option<Authenticated>, String> {
    let status = answer.at("status");
    if !status.is_true("authenticated") {
        return match status.str_at("error") {
            "" => Ok(None),
            why => Err(why.to_owned()),
        };
    }
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let audiences = match texts(status.at("audiences")) {
        // One that does not know audiences speaks for the server's own.
        none if none.is_empty() => wanted.to_vec(),
        named => named.into_iter().filter(|audience| wanted.contains(audience)).collect(),
    };
    if audiences.is_empty() && !wanted.is_empty() {
        return Ok(None);
    }
    let named = status.at("user");
    let mut user = User::new(named.str_at("username"), texts(named.at("groups")));
    named.str_at("uid").clone_into(&mut user.uid);
    for (key, values) in named.map_at("extra").into_iter().flatten() {
        user.extra.insert(key.clone(), texts(values));
    }
    Ok(Some(Authenticated { user, audiences }))
}

impl TokenAuthenticator for TokenWebhook {
    fn token(&self, token: &Token, wanted: &[String], _now: Timestamp) -> Result<Option<Authenticated>, AuthnError> {
        let text = format!("{}\0{}", token.expose(), wanted.join("\0"));
        let key = digest(&SHA256, text.as_bytes()).as_ref().to_vec();
        if let Some(known) = self.known.get(&key, Instant::now()) {
            return Ok(known);
        }
        let found = wait(self.ask(token, wanted)).map_err(AuthnError::Refused)?;
        self.known.put(key, found.clone(), Instant::now(), self.holds);
        Ok(found)
    }
}
