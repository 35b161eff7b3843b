//! Response bodies. Used by everything that answers HTTP.

use bytes::Bytes;
use http::{
    Response, StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};
use http_body_util::{BodyExt, Empty, Full, combinators::UnsyncBoxBody};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// Any error that may move between threads.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of every response: whole or streamed. Not `Sync`, because one connection alone reads it and streams often
/// are not.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// A body that is there as a whole.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// No body.
#[must_use]
pub fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A plain text response.
pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// A body that keeps something (a place, a permit) until the last of it is gone or nobody wants it any more.
pub fn holding<B, G>(body: B, guard: G) -> Body
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
    G: Send + Unpin + 'static,
{
    Holding { body, _guard: guard }.boxed_unsync()
}

struct Holding<B, G> {
    body: B,
    _guard: G,
}

impl<B, G> HttpBody for Holding<B, G>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
    G: Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
