//! The server as its own client: requests without sockets, for the parts that live in the same process.
//!
//! `InProcess` is a tower service, which is all that `kube::Client::new` wants; `ask` is for the server's own chores.

use crate::{
    ApiServer, Body,
    handle::{self, Insider},
};
use access::authn::User;
use api::error::ApiError;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use runtime::http::BoxError;
use serde_json::Value;
use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// Requests of one user, straight into the server.
#[derive(Clone)]
pub struct InProcess {
    server: Arc<ApiServer>,
    user: User,
}

impl InProcess {
    /// Everything sent through it is sent by `user`, and authorized like anybody's.
    pub fn new(server: Arc<ApiServer>, user: User) -> Self {
        Self { server, user }
    }
}

impl<B> tower::Service<Request<B>> for InProcess
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(Insider(self.user.clone()));
        Box::pin(handle::handle(Arc::clone(&self.server), request))
    }
}

/// The server's own identity.
pub fn myself() -> User {
    User::new("system:apiserver", ["system:masters", "system:authenticated"])
}

/// Applies an object in the server's own name, whoever owns its fields.
pub(crate) async fn apply(server: &Arc<ApiServer>, manager: &str, path: &str, object: &Value) -> Result<(), String> {
    let request = Request::patch(format!("{path}?fieldManager={manager}&force=true"))
        .header("content-type", "application/apply-patch+yaml")
        .header("user-agent", manager)
        .extension(Insider(myself()))
        .body(Full::new(Bytes::from(object.to_string())))
        .map_err(|error| error.to_string())?;
    let response = match Box::pin(handle::handle(Arc::clone(server), request)).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    if response.status().is_success() { Ok(()) } else { Err(response.status().to_string()) }
}

/// Asks the server something in its own name; a refusal is an error.
pub async fn ask(server: &Arc<ApiServer>, method: Method, path: &str, body: Option<&Value>) -> Result<Value, ApiError> {
    let bytes = body.map(Value::to_string).unwrap_or_default();
    let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .header("user-agent", "apiserver")
        .extension(Insider(myself()))
        .body(Full::new(Bytes::from(bytes)))
        .map_err(ApiError::internal)?;
    // On the heap: whoever asks need not be as large as everything that a request can come to.
    let response = match Box::pin(handle::handle(Arc::clone(server), request)).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let status = response.status().as_u16();
    let collected = response.into_body().collect().await.map_err(ApiError::internal)?;
    let value: Value = serde_json::from_slice(&collected.to_bytes()).map_err(ApiError::internal)?;
    if status < 300 {
        return Ok(value);
    }
    let reason = if status == 409 && value["reason"] == "AlreadyExists" { "AlreadyExists" } else { "Refused" };
    Err(ApiError::new(status, reason, value["message"].as_str().unwrap_or_default()))
}
