//! Credentials: where they come from, and that they are asked for once and kept until shortly before they end.
//!
//! `chain` looks in the environment, the profile, a web identity, the container and the instance, in this order, and reads files anew each time.

mod chain;
mod container;
mod profile;
mod web_identity;

pub(super) use chain::Chain;

use futures::future::BoxFuture;
use serde::Deserialize;
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::sync::Mutex;

/// New ones are asked for so long before the old ones end.
const EARLY: Duration = Duration::from_secs(300);
/// Those that do not end are read again after so long: a file may have changed.
const UNDATED: Duration = Duration::from_secs(900);
/// When to ask again after new ones could not be had and the old ones are still good.
const AGAIN: Duration = Duration::from_secs(30);

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    /// The access key's id.
    pub(super) id: String,
    pub(super) secret: String,
    /// The session's token, of credentials that end.
    pub(super) token: Option<String>,
    pub(super) expires: Option<SystemTime>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("id", &self.id).field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// Why there are none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CredentialsError {
    /// Not in this place; the next may have some.
    #[error("{0}")]
    NotHere(String),
    /// They should be in this place, and cannot be had.
    #[error("{0}")]
    Failed(String),
}

/// Where credentials come from.
pub(super) trait Provide: Send + Sync + std::fmt::Debug {
    fn provide(&self) -> BoxFuture<'_, Result<Credentials, CredentialsError>>;
}

/// The same always.
impl Provide for Credentials {
    fn provide(&self) -> BoxFuture<'_, Result<Credentials, CredentialsError>> {
        Box::pin(std::future::ready(Ok(self.clone())))
    }
}

/// As the container's and the instance's services write them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Written {
    code: Option<String>,
    message: Option<String>,
    access_key_id: Option<String>,
    secret_access_key: Option<String>,
    token: Option<String>,
    expiration: Option<String>,
}

/// Reads what the container's or the instance's service wrote; what is wrong with it.
pub(super) fn from_json(text: &str) -> Result<Credentials, String> {
    // The text is not told: it may hold keys.
    let Written { code, message, access_key_id, secret_access_key, token, expiration } =
        serde_json::from_str(text).map_err(|_| "the answer is not the JSON of credentials".to_owned())?;
    if let Some(code) = code.filter(|code| code != "Success") {
        return Err(format!("{code}: {}", message.unwrap_or_default()));
    }
    let (Some(id), Some(secret)) = (access_key_id, secret_access_key) else {
        return Err("the answer has no keys".to_owned());
    };
    let expires = expiration.map(|end| end.parse::<jiff::Timestamp>()).transpose();
    let expires = expires.map_err(|error| format!("Expiration: {error}"))?;
    Ok(Credentials { id, secret, token, expires: expires.map(SystemTime::from) })
}

/// Credentials that are kept; clones share them.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    source: Box<dyn Provide>,
    held: Mutex<Option<(Credentials, SystemTime)>>,
}

impl Kept {
    pub(super) fn new(source: impl Provide + 'static) -> Self {
        Self { inner: Arc::new(Inner { source: Box::new(source), held: Mutex::default() }) }
    }

    /// Asks anew the next time.
    pub(super) async fn forget(&self) {
        *self.inner.held.lock().await = None;
    }

    pub(super) async fn get(&self) -> Result<Credentials, CredentialsError> {
        let mut held = self.inner.held.lock().await;
        let now = SystemTime::now();
        if let Some((credentials, _)) = held.as_ref().filter(|(_, until)| now < *until) {
            return Ok(credentials.clone());
        }
        let asked = self.inner.source.provide().await;
        let (credentials, until) = match (asked, held.take()) {
            (Ok(credentials), _) => {
                let until = match credentials.expires {
                    Some(end) => end.checked_sub(EARLY).unwrap_or(now),
                    None => now + UNDATED,
                };
                (credentials, until)
            }
            (Err(error), Some((old, _))) if old.expires.is_none_or(|end| now < end) => {
                tracing::warn!(%error, "new AWS credentials cannot be had; the old ones are still good");
                (old, now + AGAIN)
            }
            (Err(error), _) => return Err(error),
        };
        *held = Some((credentials.clone(), until));
        Ok(credentials)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn ending(id: String, seconds: Option<u64>) -> Credentials {
        let expires = seconds.map(|seconds| SystemTime::now() + Duration::from_secs(seconds));
        Credentials { id, secret: "secret".to_owned(), token: None, expires }
    }

    /// Gives credentials that end so many seconds from now.
    #[derive(Debug, Default)]
    struct Counting {
        given: Arc<AtomicUsize>,
        ends: Option<u64>,
    }

    impl Provide for Counting {
        fn provide(&self) -> BoxFuture<'_, Result<Credentials, CredentialsError>> {
            let nth = self.given.fetch_add(1, Ordering::SeqCst);
            Box::pin(std::future::ready(Ok(ending(format!("id-{nth}"), self.ends))))
        }
    }

    #[tokio::test]
    async fn credentials_are_kept_until_shortly_before_they_end() {
        for (ends, asked) in [(None, 1), (Some(3600), 1), (Some(60), 3)] {
            let given = Arc::new(AtomicUsize::new(0));
            let kept = Kept::new(Counting { given: Arc::clone(&given), ends });
            for _ in 0..3 {
                kept.get().await.expect("credentials");
            }
            assert_eq!(given.load(Ordering::SeqCst), asked, "{ends:?}");
            kept.forget().await;
            kept.get().await.expect("credentials");
            assert_eq!(given.load(Ordering::SeqCst), asked + 1, "{ends:?}");
        }
    }

    /// Gives what it is told to give: the end in seconds from now, or nothing at all.
    #[derive(Debug)]
    struct Script(parking_lot::Mutex<Vec<Option<u64>>>);

    impl Provide for Script {
        fn provide(&self) -> BoxFuture<'_, Result<Credentials, CredentialsError>> {
            let mut left = self.0.lock();
            let answer = match left.remove(0) {
                None => Err(CredentialsError::Failed("STS is away".to_owned())),
                Some(seconds) => Ok(ending(format!("left-{}", left.len()), Some(seconds))),
            };
            Box::pin(std::future::ready(answer))
        }
    }

    #[tokio::test]
    async fn old_credentials_do_while_they_are_good_and_no_longer() {
        let get = async |kept: &Kept| kept.get().await.map(|found| found.id);
        // Ends in a minute, so that new ones are wanted at once; they cannot be had.
        let kept = Kept::new(Script(vec![Some(60), None, Some(3600)].into()));
        for _ in 0..3 {
            assert_eq!(get(&kept).await.expect("the first ones"), "left-2");
        }
        // AWS says that they have ended after all.
        kept.forget().await;
        assert_eq!(get(&kept).await.expect("new ones"), "left-0");
        let kept = Kept::new(Script(vec![Some(0), None].into()));
        get(&kept).await.expect("what was given is given");
        assert!(get(&kept).await.is_err(), "they have ended");
    }

    #[test]
    fn credentials_are_not_printed_and_mistakes_in_them_neither() {
        let text = r#"{"AccessKeyId": "ASIA", "SecretAccessKey": "very-secret", "Token": "very-token", "Expiration": "2999-01-01T00:00:00Z"}"#;
        let credentials = from_json(text).expect("credentials");
        assert_eq!((credentials.id.as_str(), credentials.token.as_deref()), ("ASIA", Some("very-token")));
        assert!(!format!("{credentials:?}").contains("very-"));
        for (text, why) in [
            (r#"{"AccessKeyId": "very-secret"#, "the answer is not the JSON of credentials"),
            (r#"{"Code": "Failed", "Message": "no role"}"#, "Failed: no role"),
            (r#"{"AccessKeyId": "ASIA"}"#, "the answer has no keys"),
        ] {
            assert_eq!(from_json(text), Err(why.to_owned()));
        }
    }
}
