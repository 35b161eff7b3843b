//! The end of a request: a whole answer is recorded at once, a stream when it starts and again when its last byte is out,
//! and a request without an answer (the client hung up, the handler broke) all the same.

use super::{Auditor, Record, Response as Answered, Stage};
use crate::Body;
use bytes::Bytes;
use futures::FutureExt as _;
use http::{Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use runtime::http::BoxError;
use serde_json::{Value, json};
use std::{
    ops::{Deref, DerefMut},
    pin::Pin,
    task::{Context, Poll},
};

/// A record whose request has not been answered.
#[derive(Debug)]
pub struct Open {
    auditor: Auditor,
    record: Record,
    answered: bool,
}

impl Open {
    pub(super) fn new(auditor: Auditor, record: Record) -> Self {
        Self { auditor, record, answered: false }
    }

    /// Records how the request was answered and hands the answer back.
    pub fn finish(mut self, response: Response<Body>) -> Response<Body> {
        self.answered = true;
        let status = response.status();
        if self.record.lasts() || response.body().size_hint().exact().is_none() {
            self.note(Stage::ResponseStarted, status, None);
            return response.map(|body| Watched { body, _last: Last { open: self, status } }.boxed_unsync());
        }
        let refused = status.is_client_error() || status.is_server_error();
        if !refused && !self.record.wants_response() {
            self.note(Stage::ResponseComplete, status, None);
            return response;
        }
        let (parts, body) = response.into_parts();
        // The server's own answers are there as a whole: reading one never waits.
        let bytes = body.collect().now_or_never().and_then(Result::ok).map(|all| all.to_bytes()).unwrap_or_default();
        self.note(Stage::ResponseComplete, status, read(&bytes).as_ref());
        Response::from_parts(parts, runtime::http::full(bytes))
    }

    fn note(&self, stage: Stage, status: StatusCode, object: Option<&Value>) {
        let refusal = object.filter(|object| object["kind"] == "Status" && !status.is_success());
        let answered = Answered { code: status.as_u16(), status: refusal, object };
        self.auditor.write(&self.record, stage, answered, Timestamp::now());
    }
}

/// An answer as an object, in whichever form it is sent.
fn read(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice(bytes).ok().or_else(|| api::protobuf::decode(bytes, None).ok())
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let (stage, code, status) = if std::thread::panicking() {
            (Stage::Panic, 500, json!({"status": "Failure", "reason": "InternalError", "message": "the handler broke"}))
        } else {
            // Upstream's words and code; nobody was there to be told another one.
            (Stage::ResponseComplete, 200, json!({"status": "Success", "message": "Connection closed early"}))
        };
        self.auditor.write(
            &self.record,
            stage,
            Answered { code, status: Some(&status), object: None },
            Timestamp::now(),
        );
    }
}

impl Deref for Open {
    type Target = Record;

    fn deref(&self) -> &Record {
        &self.record
    }
}

impl DerefMut for Open {
    fn deref_mut(&mut self) -> &mut Record {
        &mut self.record
    }
}

/// A body that tells when it is over, however it ends.
struct Watched {
    body: Body,
    _last: Last,
}

struct Last {
    open: Open,
    status: StatusCode,
}

impl Drop for Last {
    fn drop(&mut self) {
        self.open.note(Stage::ResponseComplete, self.status, None);
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
