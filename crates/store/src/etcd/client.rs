//! Calls to etcd: one channel per endpoint, the next one when the current one fails.

use super::{
    config::{EtcdConfig, Form},
    proto::{
        CompactionRequest, CompactionResponse, LeaseGrantRequest, LeaseGrantResponse, PutRequest, PutResponse,
        RangeRequest, RangeResponse, StatusRequest, StatusResponse, TxnRequest, TxnResponse, WatchCreateRequest,
        WatchRequest, WatchResponse, WatchUnion,
    },
};
use crate::{
    entry::{Entry, Stamp, StoredForm},
    error::OpenError,
    transform::{Plain, StorageKey, Transform},
};
use bytes::Bytes;
use futures::StreamExt;
use http::uri::PathAndQuery;
use prost::Message;
use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tonic::{
    Code, ConnectError, Request, Status, Streaming, client::Grpc, metadata::MetadataValue, transport::Channel,
};
use tonic_prost::ProstCodec;

/// How long a call may take; etcd itself gives up on a request after about seven seconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// When a failed call may be made again at another endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Repeat {
    /// Doing it twice is doing it once.
    Always,
    /// Only if it cannot have arrived.
    Unsent,
}

#[derive(Debug)]
pub(super) struct Client {
    channels: Vec<Channel>,
    /// Index of the channel that worked last.
    current: AtomicUsize,
    /// The endpoints as text, for messages.
    pub(super) names: String,
    /// What stands before every key of ours.
    pub(super) prefix: String,
    /// Between values in etcd and plain ones.
    transform: Arc<dyn Transform>,
    /// From plain values to ours.
    form: Form,
}

impl Client {
    pub(super) fn new(config: &EtcdConfig) -> Result<Self, OpenError> {
        let lively = |endpoint: tonic::transport::Endpoint| {
            endpoint
                .connect_timeout(Duration::from_secs(2))
                .tcp_nodelay(true)
                // A member that vanished without a goodbye; etcd allows pings every five seconds.
                .http2_keep_alive_interval(Duration::from_secs(10))
                .keep_alive_timeout(Duration::from_secs(5))
                .keep_alive_while_idle(true)
                .connect_lazy()
        };
        Ok(Self {
            channels: config.parse()?.into_iter().map(lively).collect(),
            current: AtomicUsize::new(0),
            names: config.endpoints.join(","),
            prefix: config.slashed_prefix(),
            transform: Arc::clone(&config.transform),
            form: config.form,
        })
    }

    /// The name in etcd of a key of ours.
    pub(super) fn key(&self, key: &str) -> Bytes {
        Bytes::from(format!("{}{key}", self.prefix))
    }

    /// The form in which a value of ours goes to etcd.
    pub(super) fn seal(&self, key: &str, value: &[u8]) -> Result<Bytes, Status> {
        let sealed = self.transform.seal(StorageKey { prefix: &self.prefix, key }, value);
        let sealed = sealed.map_err(|why| Status::internal(format!("{key}: {why}")))?;
        Ok(Bytes::copy_from_slice(&sealed))
    }

    /// The entry of a value that came from etcd.
    pub(super) fn entry(&self, key: &str, stored: &[u8], stamp: Stamp) -> Entry {
        match self.transform.open(StorageKey { prefix: &self.prefix, key }, stored) {
            Ok(Plain { value, stale }) => {
                let form = if stale { StoredForm::Stale } else { StoredForm::Current };
                Entry::stored(key.into(), (self.form)(&value), stamp, form)
            }
            Err(why) => {
                tracing::error!(key, why, "a value in etcd cannot be read");
                Entry::stored(key.into(), Bytes::new(), stamp, StoredForm::Unreadable(why))
            }
        }
    }

    /// The end of the range of all keys of ours: the prefix with its last byte, the slash, counted up.
    pub(super) fn range_end(&self) -> Bytes {
        let mut end = self.prefix.clone().into_bytes();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        end.into()
    }

    pub(super) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Status> {
        self.call("/etcdserverpb.KV/Range", request, Repeat::Always).await
    }

    pub(super) async fn put(&self, request: PutRequest) -> Result<PutResponse, Status> {
        self.call("/etcdserverpb.KV/Put", request, Repeat::Always).await
    }

    pub(super) async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        self.call("/etcdserverpb.KV/Txn", request, Repeat::Unsent).await
    }

    pub(super) async fn compact(&self, request: CompactionRequest) -> Result<CompactionResponse, Status> {
        self.call("/etcdserverpb.KV/Compact", request, Repeat::Always).await
    }

    pub(super) async fn lease_grant(&self, request: LeaseGrantRequest) -> Result<LeaseGrantResponse, Status> {
        self.call("/etcdserverpb.Lease/LeaseGrant", request, Repeat::Always).await
    }

    pub(super) async fn status(&self) -> Result<StatusResponse, Status> {
        self.call("/etcdserverpb.Maintenance/Status", StatusRequest {}, Repeat::Always).await
    }

    /// A watch on the current endpoint. On failure the next call uses another one.
    pub(super) async fn watch(&self, create: WatchCreateRequest) -> Result<Streaming<WatchResponse>, Status> {
        let index = self.current.load(Ordering::Relaxed);
        let create = WatchRequest { request_union: Some(WatchUnion::Create(create)) };
        // etcd ends the watch when we end the requests.
        let requests = futures::stream::iter([create]).chain(futures::stream::pending());
        let mut request = Request::new(requests);
        // A member cut off from the others ends the watch instead of staying silent.
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
        let opened = tokio::time::timeout(PATIENCE, async {
            let mut grpc = self.grpc(index).await?;
            grpc.streaming(request, path, ProstCodec::new()).await
        });
        match opened.await.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer to the watch"))) {
            Ok(response) => Ok(response.into_inner()),
            Err(status) => {
                self.leave(index);
                Err(status)
            }
        }
    }

    /// Turns to the next endpoint for all calls that follow, unless someone already has.
    pub(super) fn leave_current(&self) {
        self.leave(self.current.load(Ordering::Relaxed));
    }

    fn leave(&self, index: usize) {
        let next = (index + 1) % self.channels.len();
        _ = self.current.compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    async fn grpc(&self, index: usize) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channels[index].clone()).max_decoding_message_size(usize::MAX);
        grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
        Ok(grpc)
    }

    async fn call<Q, A>(&self, path: &'static str, request: Q, repeat: Repeat) -> Result<A, Status>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let mut last = Status::unavailable("no endpoint");
        for _ in 0..self.channels.len() {
            let index = self.current.load(Ordering::Relaxed);
            let attempt = tokio::time::timeout(PATIENCE, async {
                let mut grpc = self.grpc(index).await?;
                grpc.unary(Request::new(request.clone()), PathAndQuery::from_static(path), ProstCodec::new()).await
            });
            match attempt
                .await
                .unwrap_or_else(|_| Err(Status::deadline_exceeded(format!("no answer within {PATIENCE:?}"))))
            {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) if is_endpoint_fault(&status) => {
                    self.leave(index);
                    let unsent = is_unsent(&status);
                    last = status;
                    if repeat == Repeat::Unsent && !unsent {
                        break;
                    }
                }
                Err(status) => return Err(status),
            }
        }
        Err(last)
    }
}

/// Whether another endpoint might do better.
fn is_endpoint_fault(status: &Status) -> bool {
    is_unsent(status) || matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled)
}

/// Whether there was not even a connection to send the request on.
fn is_unsent(status: &Status) -> bool {
    std::iter::successors(status.source(), |error| (*error).source()).any(|error| error.is::<ConnectError>())
}

/// What a status says, with its causes, which tonic leaves out of its own text.
pub(super) fn describe(status: &Status) -> String {
    let causes = std::iter::successors(status.source(), |error| (*error).source()).map(ToString::to_string);
    let mut parts = vec![status.message().to_owned()];
    for cause in causes {
        if !parts.iter().any(|part| part.contains(&cause)) {
            parts.push(cause);
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join(": ")
}
