//! A webhook over TLS, on a thread of its own: whoever asks is answered by a function from the review to the response.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use runtime::{
    http::{Body, Limits, full},
    pki::{Authority, Identity, Purpose, Rotating},
    tls,
};
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    net::{IpAddr, SocketAddr, TcpListener},
    time::SystemTime,
};
use tokio_util::sync::CancellationToken;

/// What the webhook says to `request` of a review.
pub type Verdict = fn(&Value) -> Value;

/// A webhook that answers. It ends when the token is cancelled.
pub struct Webhook {
    pub address: SocketAddr,
    pub stop: CancellationToken,
}

impl Webhook {
    pub fn start(address: SocketAddr, identity: &Identity, verdict: Verdict) -> Self {
        let listener = TcpListener::bind(address).expect("a loopback address can be listened on");
        listener.set_nonblocking(true).expect("it can be waited for");
        let address = listener.local_addr().expect("it has an address");
        let tls = tls::server_config(Rotating::new(identity).expect("the identity is whole"), None)
            .expect("it can be served");
        let server = runtime::http::Server { listeners: vec![listener], tls: Some(tls), limits: Limits::default() };
        let stop = CancellationToken::new();
        let until = stop.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let answers = tower::service_fn(move |request| answer(request, verdict));
            runtime.expect("a runtime can be made").block_on(server.run(answers, until))
        });
        Self { address, stop }
    }
}

/// An authority and a certificate of it for a webhook at this address.
pub fn identity(address: IpAddr) -> (Authority, Identity) {
    let authority = Authority::create("webhooks", SystemTime::now()).expect("an authority can be made");
    let purpose = Purpose::Serving { names: vec![], addresses: vec![address] };
    let identity = authority.issue(&purpose, SystemTime::now()).expect("a certificate can be made");
    (authority, identity)
}

async fn answer(request: Request<Incoming>, verdict: Verdict) -> Result<Response<Body>, Infallible> {
    let bytes = request.into_body().collect().await.expect("the request comes as a whole").to_bytes();
    let review: Value = serde_json::from_slice(&bytes).expect("the request is JSON");
    let mut response = verdict(&review["request"]);
    response["uid"] = review["request"]["uid"].clone();
    let review = json!({"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response});
    Ok(Response::new(full(Bytes::from(review.to_string()))))
}
