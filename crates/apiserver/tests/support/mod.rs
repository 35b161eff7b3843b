//! A server in memory and a way to ask it things, for the tests in this folder.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used, reason = "each test uses a part of it")]

use access::authn::User;
use apiserver::{ApiServer, service::Insider};
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use std::{fs::File, io::Read, path::PathBuf, sync::Arc};

pub fn testdata(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata")).join(name)
}

/// The lines of a gzip file as JSON.
pub fn lines(name: &str) -> Vec<Value> {
    let mut text = String::new();
    GzDecoder::new(File::open(testdata(name)).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub bytes: Bytes,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }
}

/// Asks as an administrator.
pub async fn ask(
    server: &Arc<ApiServer>,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Reply {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let admin = User::new("admin", ["system:masters", "system:authenticated"]);
    send(server, request.extension(Insider(admin)).body(Full::new(body.into())).unwrap()).await
}

/// Sends a request as it is.
pub async fn send(server: &Arc<ApiServer>, request: Request<Full<Bytes>>) -> Reply {
    let response = apiserver::service::handle(Arc::clone(server), request).await.unwrap();
    let (parts, body) = response.into_parts();
    Reply { status: parts.status.as_u16(), headers: parts.headers, bytes: body.collect().await.unwrap().to_bytes() }
}
