//! Whether the API can be reached, told once when it goes and once when it is back, whoever of this process asked.

use super::error_line;
use futures::future::BoxFuture;
use http::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tower::{BoxError, Layer, Service};

/// By address: several clients of one server tell of it together.
static KNOWN: LazyLock<Mutex<HashMap<String, Arc<Reach>>>> = LazyLock::new(Mutex::default);

/// One API server, or the balancer before several.
#[derive(Debug)]
pub(super) struct Reach {
    address: String,
    away: Mutex<Option<Away>>,
}

/// No request was answered.
#[derive(Clone, Copy, Debug)]
struct Away {
    since: Instant,
    reported: bool,
}

/// A single failure, such as a connection that the server was just closing, is nothing to tell.
const BLINK: Duration = Duration::from_millis(250);

impl Reach {
    pub(super) fn of(address: &str) -> Arc<Self> {
        let new = || Arc::new(Self { address: address.to_owned(), away: Mutex::default() });
        Arc::clone(KNOWN.lock().entry(address.to_owned()).or_insert_with(new))
    }

    fn answered(&self) {
        let away = self.away.lock().take();
        if let Some(Away { since, reported: true }) = away {
            let seconds = since.elapsed().as_secs();
            tracing::info!(api = self.address, seconds, "the API is back");
        }
    }

    fn failed(&self, error: &BoxError) {
        let mut away = self.away.lock();
        let away = away.get_or_insert_with(|| Away { since: Instant::now(), reported: false });
        if !away.reported && away.since.elapsed() > BLINK {
            away.reported = true;
            tracing::warn!(
                api = self.address,
                error = error_line(&**error),
                "the API cannot be reached; what is known stays in force, and it is tried again"
            );
        }
    }
}

/// Watches the answers of a client.
#[derive(Clone, Debug)]
pub(super) struct ReachLayer(pub(super) Arc<Reach>);

impl<S> Layer<S> for ReachLayer {
    type Service = Reaching<S>;

    fn layer(&self, inner: S) -> Reaching<S> {
        Reaching { inner, reach: Arc::clone(&self.0) }
    }
}

/// See [`ReachLayer`].
#[derive(Clone, Debug)]
pub(super) struct Reaching<S> {
    inner: S,
    reach: Arc<Reach>,
}

impl<S, B> Service<Request<Body>> for Reaching<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (answer, reach) = (self.inner.call(request), Arc::clone(&self.reach));
        Box::pin(async move {
            let answer = answer.await.map_err(Into::into);
            match &answer {
                Ok(_) => reach.answered(),
                Err(error) => reach.failed(error),
            }
            answer
        })
    }
}
