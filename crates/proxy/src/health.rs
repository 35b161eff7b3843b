//! `/healthz` and `/livez` of the proxy, in kube-proxy's words: is what the API says in the kernel, for each family?
//!
//! Load balancers ask `/healthz` whether to send traffic to this node; it also fails while the node goes away. `/livez`
//! asks whether a restart would help.

use http::{
    Request, Response, StatusCode,
    header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS},
};
use jiff::Timestamp;
use net::Family;
use parking_lot::Mutex;
use runtime::http::{Body, full, text};
use serde_json::json;
use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::{Ready, ready},
    sync::Arc,
    time::{Duration, Instant},
};

/// The state behind the endpoints; clones share it.
#[derive(Clone, Debug)]
pub struct ProxyHealth {
    inner: Arc<Mutex<Inner>>,
    patience: Duration,
}

#[derive(Debug, Default)]
struct Inner {
    families: BTreeMap<&'static str, Sync>,
    eligible: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sync {
    /// When the kernel last had all that the API says.
    updated: Option<Timestamp>,
    /// The oldest change that it does not have.
    waiting: Option<Instant>,
}

impl ProxyHealth {
    /// Healthy while no change waits longer than `patience`.
    #[must_use]
    pub fn new(families: &[Family], patience: Duration) -> Self {
        let families = families.iter().map(|family| (name(*family), Sync::default())).collect();
        Self { inner: Arc::new(Mutex::new(Inner { families, eligible: false })), patience }
    }

    /// A change came in.
    pub fn queued(&self, now: Instant) {
        for sync in self.inner.lock().families.values_mut() {
            sync.waiting.get_or_insert(now);
        }
    }

    /// The kernel has everything.
    pub fn updated(&self, family: Family) {
        if let Some(sync) = self.inner.lock().families.get_mut(name(family)) {
            *sync = Sync { updated: Some(Timestamp::now()), waiting: None };
        }
    }

    /// Whether the node may be sent traffic.
    pub fn set_eligible(&self, eligible: bool) {
        self.inner.lock().eligible = eligible;
    }

    /// Status and JSON for a path, or `None` when it is not one of ours.
    #[must_use]
    pub fn answer(&self, path: &str, now: Instant) -> Option<(u16, serde_json::Value)> {
        let inner = self.inner.lock();
        let late =
            |sync: &Sync| sync.waiting.is_some_and(|since| now.saturating_duration_since(since) >= self.patience);
        let in_time = !inner.families.values().any(late);
        let healthy = match path {
            "/healthz" => in_time && inner.eligible,
            "/livez" => in_time,
            _ => return None,
        };
        let time = Timestamp::now();
        let last = inner.families.values().filter_map(|sync| sync.updated).max();
        let status: serde_json::Map<String, serde_json::Value> = inner
            .families
            .iter()
            .filter(|(_, sync)| sync.updated.is_some())
            .map(|(family, sync)| ((*family).to_owned(), json!({"lastUpdated": sync.updated, "healthy": !late(sync)})))
            .collect();
        let mut body = json!({
            // As old clients expect it, this is recent whenever all is well.
            "lastUpdated": if healthy { Some(time) } else { last },
            "currentTime": time,
            "healthy": in_time,
            "status": status,
        });
        if path == "/healthz" {
            body["nodeEligible"] = inner.eligible.into();
        }
        Some((if healthy { 200 } else { 503 }, body))
    }

    /// The endpoints as a service.
    pub fn service<B>(
        self,
        counted: impl Fn(&str, u16) + Clone,
    ) -> impl tower::Service<
        Request<B>,
        Response = Response<Body>,
        Error = Infallible,
        Future = Ready<Result<Response<Body>, Infallible>>,
    > + Clone {
        tower::service_fn(move |request: Request<B>| {
            let path = request.uri().path();
            let Some((status, body)) = self.answer(path, Instant::now()) else {
                return ready(Ok(text(StatusCode::NOT_FOUND, "404 page not found\n")));
            };
            counted(path, status);
            let mut response = Response::new(full(body.to_string()));
            *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            ready(Ok(response))
        })
    }
}

const fn name(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_waits_too_long_is_unhealthy_in_its_family() {
        let health = ProxyHealth::new(&Family::BOTH, Duration::from_secs(60));
        let start = Instant::now();
        let late = start + Duration::from_secs(61);
        let status = |path, now| health.answer(path, now).map(|(status, _)| status);
        assert_eq!(status("/livez", late), Some(200), "starting up is no illness");
        assert_eq!(status("/healthz", late), Some(503), "no Node yet");
        health.set_eligible(true);
        assert_eq!(status("/healthz", late), Some(200));
        Family::BOTH.into_iter().for_each(|family| health.updated(family));
        health.queued(start);
        health.updated(Family::V4);
        assert_eq!(status("/healthz", start), Some(200));
        let (code, body) = health.answer("/healthz", late).unwrap();
        assert_eq!((code, &body["healthy"], &body["nodeEligible"]), (503, &json!(false), &json!(true)));
        assert_eq!(
            (&body["status"]["IPv4"]["healthy"], &body["status"]["IPv6"]["healthy"]),
            (&json!(true), &json!(false))
        );
        health.updated(Family::V6);
        assert_eq!(status("/livez", late), Some(200));
        health.set_eligible(false);
        assert_eq!((status("/livez", late), status("/healthz", late)), (Some(200), Some(503)));
        assert_eq!(status("/other", late), None);
    }
}
