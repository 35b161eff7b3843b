//! Credentials: asked for once and kept until shortly before they end; and the SDK's chain, from which they come.

use super::failure::chain;
use aws_config::{Region, default_provider::credentials::DefaultCredentialsChain};
use aws_credential_types::{
    Credentials,
    provider::{self, ProvideCredentials, SharedCredentialsProvider, future::ProvideCredentials as Provided},
};
use futures::future::BoxFuture;
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
        let asked = self.inner.source.provide_credentials().await;
        let (credentials, until) = match (asked, held.take()) {
            (Ok(credentials), _) => {
                let until = match credentials.expiry() {
                    Some(end) => end.checked_sub(EARLY).unwrap_or(now),
                    None => now + UNDATED,
                };
                (credentials, until)
            }
            (Err(error), Some((old, _))) if old.expiry().is_none_or(|end| now < end) => {
                tracing::warn!(error = chain(&error), "new AWS credentials cannot be had; the old ones are still good");
                (old, now + AGAIN)
            }
            (Err(error), _) => return Err(error),
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

/// Makes a provider, anew whenever it is asked.
type Make = Box<dyn Fn() -> BoxFuture<'static, SharedCredentialsProvider> + Send + Sync>;

/// A provider that is made anew unless it has proved to know when its credentials end. The SDK's chain reads files once and for all; keys in a file have no
/// end, and whoever replaces them there wants them to be used.
pub(super) struct Anew {
    make: Make,
    /// One that tells ends, and so is kept: it may remember more than it tells, such as a token.
    current: Mutex<Option<SharedCredentialsProvider>>,
}

impl Anew {
    /// The SDK's chain: environment, files, web identity, container, instance.
    pub(super) fn chain(region: Region) -> Self {
        Self::new(Box::new(move || {
            let region = region.clone();
            Box::pin(async move {
                SharedCredentialsProvider::new(DefaultCredentialsChain::builder().region(region).build().await)
            })
        }))
    }

    fn new(make: Make) -> Self {
        Self { make, current: Mutex::default() }
    }

    async fn get(&self) -> provider::Result {
        let mut current = self.current.lock().await;
        let source = match current.take() {
            Some(source) => source,
            None => (self.make)().await,
        };
        let credentials = source.provide_credentials().await?;
        *current = credentials.expiry().map(|_| source);
        Ok(credentials)
    }
}

impl std::fmt::Debug for Anew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Anew").finish_non_exhaustive()
    }
}

impl ProvideCredentials for Anew {
    fn provide_credentials<'a>(&'a self) -> Provided<'a>
    where
        Self: 'a,
    {
        Provided::new(self.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_credential_types::provider::error::CredentialsError;
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

    /// Gives what it is told to give: the end in seconds from now, or nothing at all.
    #[derive(Debug)]
    struct Script(parking_lot::Mutex<Vec<Option<u64>>>);

    impl ProvideCredentials for Script {
        fn provide_credentials<'a>(&'a self) -> Provided<'a>
        where
            Self: 'a,
        {
            let mut left = self.0.lock();
            let Some(seconds) = left.remove(0) else {
                return Provided::ready(Err(CredentialsError::provider_error("STS is away")));
            };
            let end = SystemTime::now() + Duration::from_secs(seconds);
            Provided::ready(Ok(Credentials::new(format!("left-{}", left.len()), "secret", None, Some(end), "test")))
        }
    }

    #[tokio::test]
    async fn old_credentials_do_while_they_are_good_and_no_longer() {
        let get = async |kept: &Kept| kept.provide_credentials().await.map(|found| found.access_key_id().to_owned());
        // Ends in a minute, so that new ones are wanted at once; they cannot be had.
        let script = vec![Some(60), None, Some(3600)];
        let kept = Kept::new(SharedCredentialsProvider::new(Script(script.into())));
        for _ in 0..3 {
            assert_eq!(get(&kept).await.expect("the first ones"), "left-2");
        }
        // AWS says that they have ended after all.
        kept.forget().await;
        assert_eq!(get(&kept).await.expect("new ones"), "left-0");
        let kept = Kept::new(SharedCredentialsProvider::new(Script(vec![Some(0), None].into())));
        get(&kept).await.expect("what was given is given");
        assert!(get(&kept).await.is_err(), "they have ended");
    }

    #[tokio::test]
    #[expect(deprecated, reason = "where the types have gone to is a crate that nothing else here needs")]
    async fn keys_that_are_replaced_in_a_file_are_read_anew() {
        use aws_config::profile::{
            ProfileFileCredentialsProvider,
            profile_file::{ProfileFileKind, ProfileFiles},
        };
        let path = std::env::temp_dir().join(format!("twinstack-keys-{}", std::process::id()));
        let write = |id: &str| {
            std::fs::write(&path, format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = s\n"))
                .expect("a file");
        };
        let file = path.clone();
        let anew = Anew::new(Box::new(move || {
            let files = ProfileFiles::builder().with_file(ProfileFileKind::Credentials, &file).build();
            Box::pin(async move {
                let provider = ProfileFileCredentialsProvider::builder().profile_files(files).profile_name("default");
                SharedCredentialsProvider::new(provider.build())
            })
        }));
        for id in ["AKIDONE", "AKIDTWO"] {
            write(id);
            let found = anew.provide_credentials().await.expect("credentials");
            assert_eq!(found.access_key_id(), id);
        }
        std::fs::remove_file(&path).expect("it was there");
    }

    #[tokio::test]
    async fn what_knows_its_end_is_not_made_anew() {
        for (ends, expected) in [(Some(3600), 1), (None, 3)] {
            let made = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&made);
            let anew = Anew::new(Box::new(move || {
                count.fetch_add(1, Ordering::SeqCst);
                let source = Counting { given: Arc::default(), ends };
                Box::pin(async move { SharedCredentialsProvider::new(source) })
            }));
            for _ in 0..3 {
                anew.provide_credentials().await.expect("credentials");
            }
            assert_eq!(made.load(Ordering::SeqCst), expected, "{ends:?}");
        }
    }
}
