//! A runtime behind a unix socket. It may go away and come back: each call connects anew where it must.

use super::Cri;
use bytes::{Buf, BufMut};
use futures::future::BoxFuture;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::net::UnixStream;
use tonic::{
    Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::{Channel, Endpoint, Uri},
};
use tower::service_fn;

/// As upstream's limit on what a runtime may answer.
const LONGEST_ANSWER: usize = 16 << 20;

/// The address of a runtime.
#[derive(Clone, Debug)]
pub struct Socket {
    channel: Channel,
}

/// Why there can be no runtime at an address. Not retryable.
#[derive(Debug, thiserror::Error)]
#[error("--container-runtime-endpoint {}: {problem}; a unix socket such as unix:///run/containerd/containerd.sock is accepted", .path.display())]
pub struct SocketError {
    path: PathBuf,
    problem: String,
}

impl Socket {
    /// Nothing is sent yet.
    pub fn new(path: &Path) -> Result<Self, SocketError> {
        let wrong = |problem: String| SocketError { path: path.to_owned(), problem };
        if !path.is_absolute() {
            return Err(wrong("no absolute path".to_owned()));
        }
        // The name is never looked up; gRPC wants one.
        let endpoint = Endpoint::from_static("http://localhost").connect_timeout(Duration::from_secs(3));
        let socket = path.to_owned();
        let connect = service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        Ok(Self { channel: endpoint.connect_with_connector_lazy(connect) })
    }
}

impl Cri for Socket {
    fn call(&self, path: &'static str, request: Vec<u8>, patience: Duration) -> BoxFuture<'_, Result<Vec<u8>, Status>> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(LONGEST_ANSWER);
        Box::pin(async move {
            let answer = tokio::time::timeout(patience, async {
                grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
                grpc.unary(Request::new(request), PathAndQuery::from_static(path), Plain).await
            });
            let answer = answer
                .await
                .unwrap_or_else(|_| Err(Status::deadline_exceeded(format!("{path}: no answer within {patience:?}"))));
            Ok(answer?.into_inner())
        })
    }
}

/// Messages as the bytes that they are.
#[derive(Clone, Copy, Debug)]
struct Plain;

impl Codec for Plain {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Plain {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut bytes = vec![0; buffer.remaining()];
        buffer.copy_to_slice(&mut bytes);
        Ok(Some(bytes))
    }
}
