//! The container runtime, through CRI v1: the one door to sandboxes, containers and images.
//!
//! [`Runtime`] is what the other rooms hold. Behind it stands a [`Cri`]: the socket of a real runtime, or the fake, which keeps
//! sandboxes and containers in memory. Messages cross that seam as bytes, so that it is small and compiled once.

mod fake;
pub mod proto;
mod socket;

use futures::future::BoxFuture;
use prost::Message;
use proto::Rpc;
use std::{fmt, path::Path, sync::Arc, time::Duration};
use tonic::{Code, Status};

pub use fake::{Fake, FakeContainer};
pub use socket::{Socket, SocketError};

/// How long most calls may take, as upstream's `--runtime-request-timeout`.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Carries out calls.
pub trait Cri: Send + Sync {
    /// Sends an encoded request to this path of the service and gives the encoded answer.
    fn call(&self, path: &'static str, request: Vec<u8>, patience: Duration) -> BoxFuture<'_, Result<Vec<u8>, Status>>;
}

/// Why the runtime did not do something.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct CriError {
    pub code: Code,
    /// What the runtime said.
    pub message: String,
}

impl CriError {
    /// Whether what it was about is not there, which for a removal is as wanted.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.code == Code::NotFound
    }
}

/// A container runtime; clones share it.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<dyn Cri>,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Runtime")
    }
}

impl Runtime {
    /// The runtime behind a socket, given as a path or as `unix://` and a path. Nothing is sent yet.
    pub fn at(endpoint: &str) -> Result<Self, SocketError> {
        Ok(Self { inner: Arc::new(Socket::new(Path::new(endpoint.strip_prefix("unix://").unwrap_or(endpoint)))?) })
    }

    /// One that keeps everything in memory.
    #[must_use]
    pub fn fake() -> Self {
        Self::with(Arc::new(Fake::default()))
    }

    #[must_use]
    pub fn with(inner: Arc<dyn Cri>) -> Self {
        Self { inner }
    }

    pub async fn call<R: Rpc>(&self, request: R) -> Result<R::Answer, CriError> {
        self.call_within(request, PATIENCE).await
    }

    /// The same for what takes its own time, such as a pull or the end of a container.
    pub async fn call_within<R: Rpc>(&self, request: R, patience: Duration) -> Result<R::Answer, CriError> {
        let answer = self.inner.call(R::PATH, request.encode_to_vec(), patience).await;
        let bytes = answer.map_err(|status| CriError { code: status.code(), message: describe(&status) })?;
        R::Answer::decode(bytes.as_slice()).map_err(|error| CriError {
            code: Code::Internal,
            message: format!("the answer of {} cannot be read: {error}", R::PATH),
        })
    }

    /// A call that may find its work done already.
    pub async fn end<R: Rpc>(&self, request: R, patience: Duration) -> Result<(), CriError> {
        match self.call_within(request, patience).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// What a status says; a connection that failed says it in its cause.
fn describe(status: &Status) -> String {
    let mut parts = vec![status.message().to_owned()];
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let text = error.to_string();
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
        cause = error.source();
    }
    parts.retain(|part| !part.is_empty());
    parts.join(": ")
}
