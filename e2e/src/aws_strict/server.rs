//! The proxy's HTTP: one call after the other, each with its fault, if it has one.

use super::{
    call::Call,
    faults::{Fault, Faults, answer},
    refusal::Answer,
    rules::World,
};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::{net::TcpListener, sync::Mutex as Turn, task::JoinSet};

/// What all connections share.
pub(super) struct ServerState {
    /// Whoever has it is the only one who asks moto, so that what a rule has seen stays so.
    pub(super) world: Turn<World>,
    pub(super) faults: Mutex<Faults>,
}

/// There is no answer; the connection ends.
#[derive(Debug)]
struct Lost;

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the answer is lost")
    }
}

impl std::error::Error for Lost {}

impl ServerState {
    /// A call with its fault; `None` when the answer is lost.
    pub(super) async fn serve(&self, call: &Call) -> Option<Answer> {
        let mut world = self.world.lock().await;
        if call.is_aside() {
            return Some(world.answer(call).await);
        }
        let (fault, old) = {
            let mut faults = self.faults.lock();
            (faults.next(call), faults.old(call))
        };
        match fault {
            Some(Fault::TimeOut) => return None,
            Some(Fault::Stale) => return old,
            Some(fault) => {
                if let Some(answer) = answer(fault, call.api) {
                    return Some(answer);
                }
            }
            None => {}
        }
        if let Some(denial) = world.denial(call).await {
            self.faults.lock().denials.push(denial);
            return answer(Fault::Deny, call.api);
        }
        let answer = world.answer(call).await;
        self.faults.lock().remember(call, &answer);
        if matches!(fault, Some(Fault::Lose | Fault::Kill)) { None } else { Some(answer) }
    }

    async fn request(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Lost> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Lost)?.to_bytes();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let call = Call::read(parts.method, path, parts.headers, body);
        let answer = self.serve(&call).await.ok_or(Lost)?;
        let response = Response::builder().status(answer.status).header("content-type", answer.kind);
        response.header("x-amzn-requestid", "strict").body(Full::new(answer.body)).map_err(|_| Lost)
    }
}

/// Serves until it is dropped.
pub(super) async fn run(listener: TcpListener, shared: Arc<ServerState>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(|request| shared.request(request));
            let server = hyper::server::conn::http1::Builder::new();
            // Fails when an answer is lost or the client leaves.
            let _ = server.clone().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}
