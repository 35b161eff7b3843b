//! The end of a request: a whole answer is recorded at once, a stream when it starts and again when its last byte is out.

use super::{Auditor, Record, Response as Answered, Stage};
use crate::Body;
use bytes::Bytes;
use futures::FutureExt as _;
use http::{Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use runtime::http::BoxError;
use serde_json::Value;
use std::{
    pin::Pin,
    task::{Context, Poll},
};

impl Auditor {
    /// Records how a request was answered and hands the answer back.
    pub fn finish(&self, record: Record, response: Response<Body>) -> Response<Body> {
        let status = response.status();
        if record.lasts() || response.body().size_hint().exact().is_none() {
            self.note(&record, Stage::ResponseStarted, status, None);
            let last = Last { auditor: self.clone(), record, status };
            return response.map(|body| Watched { body, _last: last }.boxed_unsync());
        }
        let refused = status.is_client_error() || status.is_server_error();
        if !refused && !record.wants_response() {
            self.note(&record, Stage::ResponseComplete, status, None);
            return response;
        }
        let (parts, body) = response.into_parts();
        // The server's own answers are there as a whole: reading one never waits.
        let bytes = body.collect().now_or_never().and_then(Result::ok).map(|all| all.to_bytes()).unwrap_or_default();
        self.note(&record, Stage::ResponseComplete, status, serde_json::from_slice(&bytes).ok().as_ref());
        Response::from_parts(parts, runtime::http::full(bytes))
    }

    fn note(&self, record: &Record, stage: Stage, status: StatusCode, object: Option<&Value>) {
        let refusal = object.filter(|object| object["kind"] == "Status" && !status.is_success());
        let answered = Answered { code: status.as_u16(), status: refusal, object };
        self.write(record, stage, answered, Timestamp::now());
    }
}

/// A body that tells when it is over, however it ends.
struct Watched {
    body: Body,
    _last: Last,
}

struct Last {
    auditor: Auditor,
    record: Record,
    status: StatusCode,
}

impl Drop for Last {
    fn drop(&mut self) {
        self.auditor.note(&self.record, Stage::ResponseComplete, self.status, None);
    }
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
