//! Connections to nodes: what is not served here is handed over to the kubelet.

pub mod settings;

use crate::{answer::Answer, call::Call, request::body};
use api::error::ApiError;
use bytes::Bytes;
use http::Request;
use runtime::http::BoxError;

/// How to reach kubelets.
#[derive(Default)]
pub struct Kubelets {}

/// A request that may have to be handed over as it is.
pub struct Connection {}

impl Connection {
    /// Keeps what is handed over, reads the body of everything else.
    pub async fn split<B>(_call: &Call, request: Request<B>) -> Result<(Self, Bytes), ApiError>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Ok((Self {}, body::read(request.into_body()).await?))
    }
}

/// Hands over.
pub async fn connect(call: &Call, _connection: Connection) -> Result<Answer, ApiError> {
    Err(call.not_allowed())
}
