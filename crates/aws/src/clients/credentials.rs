//! Credentials: the SDK's chain, asked once and kept until shortly before they end; and a role taken on with them.

use super::{
    actions,
    query::{Form, Query},
};
use aws_credential_types::{
    Credentials,
    provider::{
        self, ProvideCredentials, SharedCredentialsProvider, error::CredentialsError,
        future::ProvideCredentials as Provided,
    },
};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::sync::Mutex;

/// New ones are asked for so long before the old ones end.
const EARLY: Duration = Duration::from_secs(300);
/// Those that do not end are read again after so long: a file may have changed.
const UNDATED: Duration = Duration::from_secs(900);

/// Credentials that are kept; clones share them.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    source: SharedCredentialsProvider,
    held: Mutex<Option<(Credentials, SystemTime)>>,
}

impl Kept {
    pub(super) fn new(source: SharedCredentialsProvider) -> Self {
        Self { inner: Arc::new(Inner { source, held: Mutex::default() }) }
    }

    /// Asks anew the next time.
    pub(super) async fn forget(&self) {
        *self.inner.held.lock().await = None;
    }

    async fn get(&self) -> provider::Result {
        let mut held = self.inner.held.lock().await;
        let now = SystemTime::now();
        if let Some((credentials, _)) = held.as_ref().filter(|(_, until)| now < *until) {
            return Ok(credentials.clone());
        }
        let credentials = self.inner.source.provide_credentials().await?;
        let until = match credentials.expiry() {
            Some(end) => end.checked_sub(EARLY).unwrap_or(now),
            None => now + UNDATED,
        };
        *held = Some((credentials.clone(), until));
        Ok(credentials)
    }
}

impl ProvideCredentials for Kept {
    fn provide_credentials<'a>(&'a self) -> Provided<'a>
    where
        Self: 'a,
    {
        Provided::new(self.get())
    }
}

/// A role to take on: `RoleARN`, on behalf of `SourceARN`.
#[derive(Debug)]
pub(super) struct Role {
    pub(super) sts: Query,
    pub(super) role: String,
    pub(super) source: String,
}

impl Role {
    async fn take_on(&self) -> provider::Result {
        let mut form = Form::default();
        form.set("RoleArn", &self.role);
        form.set("RoleSessionName", "twinstack");
        let headers = headers(&self.source);
        let answer = self.sts.ask_with(actions::ASSUME_ROLE, &form, &headers).await;
        let answer = answer.map_err(CredentialsError::provider_error)?;
        let text = |name: &str| answer.text(&["AssumeRoleResult", "Credentials", name]).to_owned();
        let end: jiff::Timestamp = text("Expiration").parse().map_err(CredentialsError::provider_error)?;
        let (id, secret, token) = (text("AccessKeyId"), text("SecretAccessKey"), text("SessionToken"));
        if id.is_empty() || secret.is_empty() {
            return Err(CredentialsError::provider_error("STS answered without keys"));
        }
        Ok(Credentials::new(id, secret, Some(token), Some(end.into()), "twinstack-role"))
    }
}

/// What tells STS on whose behalf, so that roles can refuse others: the resource and its account.
fn headers(source: &str) -> Vec<(&'static str, String)> {
    if source.is_empty() {
        return Vec::new();
    }
    let account = source.split(':').nth(4).unwrap_or_default();
    vec![("x-amz-source-arn", source.to_owned()), ("x-amz-source-account", account.to_owned())]
}

impl ProvideCredentials for Role {
    fn provide_credentials<'a>(&'a self) -> Provided<'a>
    where
        Self: 'a,
    {
        Provided::new(self.take_on())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Gives credentials that end so many seconds from now.
    #[derive(Debug, Default)]
    struct Counting {
        given: Arc<AtomicUsize>,
        ends: Option<u64>,
    }

    impl ProvideCredentials for Counting {
        fn provide_credentials<'a>(&'a self) -> Provided<'a>
        where
            Self: 'a,
        {
            let nth = self.given.fetch_add(1, Ordering::SeqCst);
            let end = self.ends.map(|seconds| SystemTime::now() + Duration::from_secs(seconds));
            Provided::ready(Ok(Credentials::new(format!("id-{nth}"), "secret", None, end, "test")))
        }
    }

    #[tokio::test]
    async fn credentials_are_kept_until_shortly_before_they_end() {
        for (ends, asked) in [(None, 1), (Some(3600), 1), (Some(60), 3)] {
            let given = Arc::new(AtomicUsize::new(0));
            let source = Counting { given: Arc::clone(&given), ends };
            let kept = Kept::new(SharedCredentialsProvider::new(source));
            for _ in 0..3 {
                kept.provide_credentials().await.expect("credentials");
            }
            assert_eq!(given.load(Ordering::SeqCst), asked, "{ends:?}");
            kept.forget().await;
            kept.provide_credentials().await.expect("credentials");
            assert_eq!(given.load(Ordering::SeqCst), asked + 1, "{ends:?}");
        }
    }

    #[test]
    fn a_source_is_told_with_its_account() {
        assert_eq!(headers(""), []);
        let source = "arn:aws:eks:us-east-1:123456789012:cluster/blue";
        let expected = [("x-amz-source-arn", source.to_owned()), ("x-amz-source-account", "123456789012".to_owned())];
        assert_eq!(headers(source), expected);
    }
}
