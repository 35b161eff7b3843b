//! What stands before a body: method, path, query and headers, and a whole request on a server in memory.

use crate::{Target, input};
use access::authn::User;
use apiserver::{
    ApiServer,
    handle::{self, Insider},
    kubelet::plan::{path, proxy, query::Parameters},
    request::{
        accept::Accept,
        info::{RequestInfo, decode},
        query::{Query, Write, WriteOptions},
    },
    verbs::{delete::options::DeleteOptions, list},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use http_body_util::{BodyExt, Full};
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::runtime::Runtime;

pub(crate) const TARGETS: &[Target] =
    &[Target::new("request-line", line).up_to(1024), Target::new("request", request).up_to(16 << 10)];

/// `METHOD PATH?QUERY` on the first line, an Accept header and options of a delete after it.
fn line(data: &[u8]) {
    let text = input::text(data);
    let [line, accept, options] = input::parts(&text);
    let (method, target) = line.split_once(' ').unwrap_or(("GET", line));
    let (whole, query) = target.split_once('?').unwrap_or((target, ""));
    let method = method.parse().unwrap_or(Method::GET);
    let read = Query::new(Some(query));
    if let RequestInfo::Resource(asked) = RequestInfo::new(&method, whole, read.flag("watch")) {
        let below = path::below(&asked.rest, whole);
        let climbs = decode(&below).split(['/', '\\']).any(|segment| matches!(segment, "." | ".."));
        assert!(!climbs, "{whole} leads to {below}");
        let _ = (path::prefix(&asked.rest, whole), proxy::Id::new("pods", &asked.name).is_ok());
    }
    for write in [Write::Create, Write::Update, Write::Patch, Write::Apply] {
        let _ = WriteOptions::new(&read, write);
    }
    let _ = (Parameters::new(query), list::parse_revision(read.get("resourceVersion")));
    let _ = DeleteOptions::new(&read, options.as_bytes(), "application/json");
    let _ = [false, true].map(|custom| Accept::new(Some(accept), custom));
}

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made")
});
static SERVER: LazyLock<Arc<ApiServer>> = LazyLock::new(|| RUNTIME.block_on(apiserver::testing::server()));

/// The most that one request may wait: reads of a revision to come wait for it.
const PATIENCE: Duration = Duration::from_millis(200);

/// `METHOD PATH?QUERY`, headers, body, by somebody who may do everything. Nothing of it stays: every change is a dry run.
fn request(data: &[u8]) {
    let text = input::text(data);
    let [head, body] = input::parts(&text);
    let mut lines = head.lines();
    let (method, target) = lines.next().and_then(|line| line.split_once(' ')).unwrap_or(("GET", "/"));
    let sign = if target.contains('?') { '&' } else { '?' };
    let Ok(mut request) = Request::builder()
        .method(method)
        .uri(format!("{target}{sign}dryRun=All"))
        .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
    else {
        return;
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) && !is_dry(&request) {
        return;
    }
    *request.headers_mut() = headers(lines);
    request.extensions_mut().insert(Insider(User::new("admin", ["system:masters"])));
    let server = Arc::clone(&SERVER);
    let answer = RUNTIME.block_on(async { tokio::time::timeout(PATIENCE, handle::handle(server, request)).await });
    let Ok(Ok(response)) = answer else { return };
    assert!(response.status() != 500, "{} for {head}: {body}", text_of(response));
}

/// Whether nothing will be kept: the first `dryRun` of a query counts.
fn is_dry<B>(request: &Request<B>) -> bool {
    Query::new(request.uri().query()).get("dryRun") == "All" && !request.uri().path().contains("reviews")
}

fn text_of(response: http::Response<apiserver::Body>) -> String {
    let collected = RUNTIME.block_on(async { tokio::time::timeout(PATIENCE, response.into_body().collect()).await });
    let bytes = collected.ok().and_then(Result::ok).map(|collected| collected.to_bytes()).unwrap_or_default();
    input::text(&bytes)
}

/// `Name: value` lines.
pub(crate) fn headers<'a>(lines: impl Iterator<Item = &'a str>) -> HeaderMap {
    lines
        .filter_map(|line| line.split_once(':'))
        .filter_map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            Some((name, HeaderValue::from_bytes(value.trim().as_bytes()).ok()?))
        })
        .collect()
}
