//! The endpoints every component has: `/metrics`, `/metrics/slis`, `/healthz`, `/livez`, `/readyz`, `/version`.
//!
//! Components serve them alone ([`Admin::service`]); the API server asks [`Admin::answer`] first and goes on with its
//! own paths.

use crate::{
    health::Health,
    http::{Body, full, text},
    metrics::{Metrics, TextFormat},
    version::BUILD,
};
use http::{
    Method, Request, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS},
};
use std::{
    convert::Infallible,
    future::{Ready, ready},
};

/// What the admin endpoints show.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Behind the health endpoints.
    pub health: Health,
    /// Behind `/metrics`.
    pub metrics: Metrics,
}

impl Admin {
    /// The answer, or `None` when the path is not an admin one.
    pub fn answer<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        let path = request.uri().path();
        let response = match path {
            "/metrics" => exposed(&self.metrics, request),
            "/metrics/slis" => exposed(self.health.slis(), request),
            "/version" => json(&serde_json::json!(BUILD)),
            _ => {
                let answer = self.health.answer(path, request.uri().query().unwrap_or_default())?;
                let status = StatusCode::from_u16(answer.status).expect("health answers with 200, 404 or 500");
                let mut response = text(status, answer.body);
                response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
                response
            }
        };
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return Some(text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed\n"));
        }
        Some(response)
    }

    /// A service of the admin endpoints alone; anything else is not found.
    pub fn service<B>(
        self,
    ) -> impl tower::Service<
        Request<B>,
        Response = Response<Body>,
        Error = Infallible,
        Future = Ready<Result<Response<Body>, Infallible>>,
    > + Clone {
        tower::service_fn(move |request: Request<B>| {
            ready(Ok(self.answer(&request).unwrap_or_else(|| text(StatusCode::NOT_FOUND, "404 page not found\n"))))
        })
    }
}

fn exposed<B>(metrics: &Metrics, request: &Request<B>) -> Response<Body> {
    let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
    let exposition = metrics.render(TextFormat::accepted(accept));
    let mut response = Response::new(full(exposition.body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(exposition.content_type));
    response
}

fn json(value: &serde_json::Value) -> Response<Body> {
    let mut response = Response::new(full(value.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: Method, path: &str, accept: &str) -> Option<(u16, String)> {
        let admin = Admin { health: Health::new(), metrics: Metrics::new() };
        let request = Request::builder().method(method).uri(path).header(ACCEPT, accept).body(()).unwrap();
        let response = admin.answer(&request)?;
        let content_type = response.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
        Some((response.status().as_u16(), content_type))
    }

    #[test]
    fn each_path_answers_in_its_own_type() {
        let plain = "text/plain; charset=utf-8";
        for (method, path, accept, expected) in [
            (Method::GET, "/metrics", "*/*", Some((200, "text/plain; version=0.0.4; charset=utf-8"))),
            (
                Method::GET,
                "/metrics",
                "application/openmetrics-text",
                Some((200, "application/openmetrics-text; version=1.0.0; charset=utf-8")),
            ),
            (Method::GET, "/metrics/slis", "*/*", Some((200, "text/plain; version=0.0.4; charset=utf-8"))),
            (Method::HEAD, "/readyz?verbose", "*/*", Some((200, plain))),
            (Method::GET, "/readyz/none", "*/*", Some((404, plain))),
            (Method::GET, "/version", "*/*", Some((200, "application/json"))),
            (Method::POST, "/metrics", "*/*", Some((405, plain))),
            (Method::GET, "/api", "*/*", None),
        ] {
            let expected = expected.map(|(status, content_type): (u16, &str)| (status, content_type.to_owned()));
            assert_eq!(ask(method, path, accept), expected, "{path}");
        }
    }
}
