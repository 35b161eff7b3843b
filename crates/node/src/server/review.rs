//! Who asks and whether they may: the API server is asked about tokens and rights, and its answers are kept for a while.

use access::authn::{
    Credentials, Shown, Token, User, shown,
    user::{AUTHENTICATED, MASTERS},
};
use http::{HeaderMap, Method, Request};
use kube::Client;
use parking_lot::Mutex;
use runtime::client::error_line;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// As upstream's defaults: tokens two minutes, a yes five minutes, a no half a minute.
const TOKEN_LASTS: Duration = Duration::from_secs(120);
const YES_LASTS: Duration = Duration::from_secs(300);
const NO_LASTS: Duration = Duration::from_secs(30);
/// Answers that are kept at a time.
const MOST_KEPT: usize = 4096;

/// How it is decided who may do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authorization {
    /// Whoever is known.
    AlwaysAllow,
    /// Whom the API server allows.
    Webhook,
}

/// Why a request is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Unauthorized,
    Forbidden(String),
    /// The API server could not be asked.
    Unknown(String),
}

pub(super) struct Reviews {
    pub(super) client: Client,
    pub(super) node: String,
    pub(super) anonymous: bool,
    pub(super) authorization: Authorization,
    pub(super) tokens: Kept<String, Option<User>>,
    pub(super) rights: Kept<String, bool>,
}

impl Reviews {
    pub(super) async fn user(
        &self,
        certificate: Option<&[u8]>,
        headers: &HeaderMap,
        path: &str,
    ) -> Result<User, Refusal> {
        match shown(Credentials { certificate, front_proxy: None, headers, path }) {
            Ok(Shown::User(user)) => Ok(user),
            Ok(Shown::Token(token)) => self.token(&token).await?.ok_or(Refusal::Unauthorized),
            Ok(Shown::Nothing) if self.anonymous => Ok(User::anonymous()),
            Ok(Shown::Nothing) | Err(_) => Err(Refusal::Unauthorized),
        }
    }

    async fn token(&self, token: &Token) -> Result<Option<User>, Refusal> {
        let key = token.expose().to_owned();
        if let Some(kept) = self.tokens.get(&key) {
            return Ok(kept);
        }
        let review =
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token.expose()}});
        let answer = self.ask("/apis/authentication.k8s.io/v1/tokenreviews", &review).await?;
        let user = reviewed(&answer);
        self.tokens.keep(key, user.clone(), TOKEN_LASTS);
        Ok(user)
    }

    /// Whether a user may do this with any of the node's subresources.
    pub(super) async fn authorize(&self, user: &User, verb: &str, subresources: &[&str]) -> Result<(), Refusal> {
        if self.authorization == Authorization::AlwaysAllow || user.in_group(MASTERS) {
            return Ok(());
        }
        for subresource in subresources {
            if self.may(user, verb, subresource).await? {
                return Ok(());
            }
        }
        let first = subresources.first().copied().unwrap_or("proxy");
        Err(Refusal::Forbidden(format!(
            "Forbidden (user={}, verb={verb}, resource=nodes, subresource(s)=[{first}])",
            user.name
        )))
    }

    async fn may(&self, user: &User, verb: &str, subresource: &str) -> Result<bool, Refusal> {
        let spec = json!({
            "user": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra,
            "resourceAttributes": {"verb": verb, "version": "v1", "resource": "nodes", "subresource": subresource, "name": self.node},
        });
        let key = spec.to_string();
        if let Some(kept) = self.rights.get(&key) {
            return Ok(kept);
        }
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
        let answer = self.ask("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await?;
        let allowed = answer["status"]["allowed"] == true;
        self.rights.keep(key, allowed, if allowed { YES_LASTS } else { NO_LASTS });
        Ok(allowed)
    }

    async fn ask(&self, path: &str, review: &Value) -> Result<Value, Refusal> {
        let request = Request::builder().method(Method::POST).uri(path).header("content-type", "application/json");
        let request =
            request.body(review.to_string().into_bytes()).map_err(|error| Refusal::Unknown(error.to_string()))?;
        let text = self.client.request_text(request).await.map_err(|error| Refusal::Unknown(error_line(&error)))?;
        serde_json::from_str(&text).map_err(|error| Refusal::Unknown(error.to_string()))
    }
}

/// Whose a token is, as the API server says.
fn reviewed(answer: &Value) -> Option<User> {
    let status = &answer["status"];
    if status["authenticated"] != true {
        return None;
    }
    let user = &status["user"];
    let mut groups: Vec<String> = serde_json::from_value(user["groups"].clone()).unwrap_or_default();
    if !groups.iter().any(|group| group == AUTHENTICATED) {
        groups.push(AUTHENTICATED.to_owned());
    }
    Some(User {
        name: user["username"].as_str()?.to_owned(),
        uid: user["uid"].as_str().unwrap_or_default().to_owned(),
        groups,
        extra: serde_json::from_value(user["extra"].clone()).unwrap_or_default(),
    })
}

/// Answers, each until its time is over.
pub(super) struct Kept<K, V>(Mutex<HashMap<K, (V, Instant)>>);

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: std::hash::Hash + Eq, V: Clone> Kept<K, V> {
    fn get(&self, key: &K) -> Option<V> {
        self.0.lock().get(key).filter(|(_, until)| *until > Instant::now()).map(|(value, _)| value.clone())
    }

    fn keep(&self, key: K, value: V, lasts: Duration) {
        let mut kept = self.0.lock();
        let now = Instant::now();
        if kept.len() >= MOST_KEPT {
            kept.retain(|_, (_, until)| *until > now);
        }
        if kept.len() < MOST_KEPT {
            kept.insert(key, (value, now + lasts));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_review_names_the_user() {
        let answer = json!({"status": {"authenticated": true, "user": {"username": "a", "uid": "u", "groups": ["g"], "extra": {"k": ["v"]}}}});
        let user = reviewed(&answer).unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("a", "u"));
        assert_eq!(user.groups, ["g", "system:authenticated"]);
        assert_eq!(user.extra["k"], ["v"]);
        assert_eq!(reviewed(&json!({"status": {"error": "expired"}})), None);
    }

    #[test]
    fn answers_are_kept_until_their_time_is_over() {
        let kept = Kept::<&str, bool>::default();
        kept.keep("yes", true, Duration::from_secs(600));
        kept.keep("late", true, Duration::ZERO);
        assert_eq!((kept.get(&"yes"), kept.get(&"late"), kept.get(&"none")), (Some(true), None, None));
    }
}
