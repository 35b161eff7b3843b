//! Whether this server says that it is well: by `/healthz` and by gRPC's health protocol, until somebody asks for the contrary.

use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, HeaderValue, Response, header::CONTENT_TYPE};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use runtime::http::{Body, BoxError};
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const PATH: &str = "/grpc.health.v1.Health/Check";

static SERVING: AtomicBool = AtomicBool::new(true);

pub(super) fn is_serving() -> bool {
    SERVING.load(Ordering::Relaxed)
}

pub(super) fn set(serving: bool) -> &'static str {
    SERVING.store(serving, Ordering::Relaxed);
    if serving { "serving" } else { "not serving" }
}

/// The answer as gRPC frames it: no compression, two bytes, the field 1 with SERVING or NOT_SERVING.
pub(super) fn check() -> Response<Body> {
    let status = if is_serving() { 1 } else { 2 };
    let message = Bytes::from(vec![0, 0, 0, 0, 2, 0x08, status]);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let frames = stream::iter([Ok::<_, BoxError>(Frame::data(message)), Ok(Frame::trailers(trailers))]);
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}
