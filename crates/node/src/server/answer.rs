//! Answers of the server: problems in plain words, texts, JSON.

use http::{HeaderValue, Response, StatusCode, header};
use runtime::http::{Body, full, text};
use serde_json::Value;

/// Why there is no better answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    message: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    pub(super) fn response(&self) -> Response<Body> {
        text(self.status, self.message.clone())
    }
}

pub(super) fn json(value: &Value) -> Response<Body> {
    json_text(value.to_string())
}

pub(super) fn json_text(value: String) -> Response<Body> {
    let mut response = Response::new(full(value));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Metrics in Prometheus' text format.
pub(super) fn exposition(value: String) -> Response<Body> {
    let mut response = Response::new(full(value));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
