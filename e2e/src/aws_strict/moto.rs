//! moto as a child process, and questions to it.

use super::{
    call::{Api, Call, Params},
    refusal::{Answer, Refusal},
    xml::Element,
};
use crate::{Process, wait_for};
use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use std::{
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    time::Duration,
};
use tempfile::TempDir;

const LAUNCHER: &str = include_str!("launcher.py");

/// A loaded machine may refuse a connection for a moment, also after moto has accepted its first.
const CONNECT_ATTEMPTS: u32 = 50;
const CONNECT_PAUSE: Duration = Duration::from_millis(100);

/// A running moto. It ends with the handle.
pub(super) struct Running {
    _process: Process,
    _folder: TempDir,
}

/// How moto is asked.
pub(super) struct Moto {
    address: SocketAddr,
    client: Http,
}

pub(super) type Http = Client<HttpConnector, Full<Bytes>>;

pub(super) fn client() -> Http {
    Client::builder(TokioExecutor::new()).build_http()
}

/// The Python that has moto, if `scripts/need` has fetched it.
fn python() -> Option<PathBuf> {
    let tools = std::env::var_os("TWINSTACK_TOOLS").map(PathBuf::from)?;
    Some(tools.join("moto/bin/python")).filter(|python| python.exists())
}

impl Moto {
    /// Starts one on a free port of loopback; `None` when the machine has none, which is noted.
    pub(super) fn start() -> Option<(Self, Running)> {
        let Some(python) = python() else {
            crate::skip("everything with AWS behind moto", "scripts/need test");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder can be made");
        let launcher = folder.path().join("launcher.py");
        std::fs::write(&launcher, LAUNCHER).expect("a file can be written");
        let address = SocketAddr::from(([127, 0, 0, 1], crate::free_port()));
        let words = [launcher.display().to_string(), address.port().to_string()];
        let mut process = Process::start(python, &[&words[0], &words[1]], &folder.path().join("moto.log"));
        let mut ended = None;
        let ready = wait_for(Duration::from_secs(120), || {
            ended = process.ended(Duration::ZERO);
            (ended.is_some() || TcpStream::connect(address).is_ok()).then_some(())
        });
        assert!(ready.is_some() && ended.is_none(), "moto does not start:\n{}", process.output());
        Some((Self { address, client: client() }, Running { _process: process, _folder: folder }))
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes a call on.
    pub(super) async fn send(&self, call: &Call) -> Answer {
        send(&self.client, self.address, call).await
    }

    /// Asks a query API.
    pub(super) async fn ask(
        &self,
        api: Api,
        region: &str,
        action: &str,
        params: &[(&str, &str)],
    ) -> Result<Element, Refusal> {
        let (version, _) = api.version_and_scope();
        let mut all = Params::new(&[("Action", action), ("Version", version)]);
        all.0.extend(Params::new(params).0);
        let call = plain(api, region, action, "/", all.write().into());
        let answer = self.send(&call).await;
        understood(answer)
    }
}

pub(super) async fn send(client: &Http, address: SocketAddr, call: &Call) -> Answer {
    let body = match call.api {
        Api::Route53 | Api::Other => call.body.clone(),
        _ => call.params.write().into(),
    };
    let mut request = Request::builder().method(call.method.clone()).uri(format!("http://{}{}", address, call.path));
    let keep = |name: &&header::HeaderName| {
        let name = name.as_str();
        name.starts_with("x-amz-target") || ["authorization", "content-type", "accept"].contains(&name)
    };
    for name in call.headers.keys().filter(keep) {
        if let Some(value) = call.headers.get(name) {
            request = request.header(name, value);
        }
    }
    let gone = |why: String| Answer { status: 502, kind: "text/plain".to_owned(), body: why.into() };
    let request = match request.body(Full::new(body)) {
        Ok(request) => request,
        Err(error) => return gone(error.to_string()),
    };
    let mut attempts = 0;
    let response = loop {
        match client.request(request.clone()).await {
            Ok(response) => break response,
            // Nothing was sent, so nothing is done twice.
            Err(error) if error.is_connect() && attempts < CONNECT_ATTEMPTS => {
                attempts += 1;
                tokio::time::sleep(CONNECT_PAUSE).await;
            }
            Err(error) => {
                return gone(format!("moto does not answer: {error}: {:?}", std::error::Error::source(&error)));
            }
        }
    };
    let status = response.status().as_u16();
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or("text/xml").to_owned();
    match response.into_body().collect().await {
        Ok(body) => Answer { status, kind, body: body.to_bytes() },
        Err(error) => gone(format!("moto does not finish its answer: {error}")),
    }
}

/// A call as a client would make it.
pub(super) fn plain(api: Api, region: &str, action: &str, path: &str, body: Bytes) -> Call {
    let (_, scope) = api.version_and_scope();
    let signed = format!(
        "AWS4-HMAC-SHA256 Credential=strict/20260101/{region}/{scope}/aws4_request, SignedHeaders=host, Signature=0"
    );
    let kind = match api {
        Api::Route53 => "text/xml",
        Api::Other => "application/x-amz-json-1.1",
        _ => "application/x-www-form-urlencoded",
    };
    let mut headers = http::HeaderMap::new();
    let mut header = |name: &'static str, value: &str| {
        if let Ok(value) = value.parse() {
            headers.insert(name, value);
        }
    };
    header("authorization", &signed);
    header("content-type", kind);
    if api == Api::Other {
        header("x-amz-target", action);
    }
    let method = if api == Api::Route53 && body.is_empty() { http::Method::GET } else { http::Method::POST };
    Call::read(method, path, headers, body)
}

/// The answer as a document, empty when there is nothing to say; or why there is none.
pub(super) fn understood(answer: Answer) -> Result<Element, Refusal> {
    let text = answer.text();
    if text.is_empty() && answer.status < 300 {
        return Ok(Element::default());
    }
    match Element::parse(&text) {
        Some(element) if answer.status < 300 => Ok(element),
        _ => Err(Refusal::Theirs(answer)),
    }
}
