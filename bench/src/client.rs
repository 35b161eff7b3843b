//! One TLS connection with HTTP/1.1 on it, so that "16 connections" means just that.

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use std::{net::SocketAddr, sync::Arc};
use tokio::{net::TcpStream, task::JoinSet};
use tokio_rustls::TlsConnector;

/// Where a server is, and how to speak to it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Arc<ClientConfig>,
}

pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    /// Moves the bytes; ends with the connection.
    _driver: JoinSet<()>,
}

impl Target {
    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        let tcp = TcpStream::connect(self.address).await?;
        tcp.set_nodelay(true)?;
        let tls = TlsConnector::from(Arc::clone(&self.tls)).connect(self.address.ip().into(), tcp).await?;
        let (sender, connection) = handshake(TokioIo::new(tls)).await?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // A failure reaches whoever waits for an answer.
            _ = connection.await;
        });
        Ok(Connection { sender, host: self.address.to_string(), _driver: driver })
    }
}

impl Connection {
    /// The whole answer to a GET.
    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<(StatusCode, Bytes)> {
        whole(self.send(Method::GET, path, Bytes::new()).await?).await
    }

    /// The body of a GET that must succeed.
    pub(crate) async fn read(&mut self, path: &str) -> anyhow::Result<Bytes> {
        let (status, body) = self.get(path).await?;
        ensure!(status == StatusCode::OK, "GET {path}: {status}: {}", String::from_utf8_lossy(&body));
        Ok(body)
    }

    /// Creates an object, which must succeed.
    pub(crate) async fn create(&mut self, path: &str, object: &serde_json::Value) -> anyhow::Result<Bytes> {
        let (status, body) = whole(self.send(Method::POST, path, object.to_string().into()).await?).await?;
        ensure!(status == StatusCode::CREATED, "POST {path}: {status}: {}", String::from_utf8_lossy(&body));
        Ok(body)
    }

    /// Changes an object by a merge patch, which must succeed.
    pub(crate) async fn merge(&mut self, path: &str, patch: &serde_json::Value) -> anyhow::Result<()> {
        let answer =
            self.send_as("application/merge-patch+json", Method::PATCH, path, patch.to_string().into()).await?;
        let (status, body) = whole(answer).await?;
        ensure!(status == StatusCode::OK, "PATCH {path}: {status}: {}", String::from_utf8_lossy(&body));
        Ok(())
    }

    /// The body of a watch as it comes.
    pub(crate) async fn watch(&mut self, path: &str) -> anyhow::Result<Incoming> {
        let answer = self.send(Method::GET, path, Bytes::new()).await?;
        ensure!(answer.status() == StatusCode::OK, "GET {path}: {}", answer.status());
        Ok(answer.into_body())
    }

    async fn send(&mut self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Response<Incoming>> {
        self.send_as("application/json", method, path, body).await
    }

    async fn send_as(
        &mut self,
        content: &str,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<Response<Incoming>> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.host)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, content)
            .body(Full::new(body))?;
        self.sender.ready().await?;
        self.sender.send_request(request).await.with_context(|| format!("request for {path}"))
    }
}

async fn whole(answer: Response<Incoming>) -> anyhow::Result<(StatusCode, Bytes)> {
    let (head, body) = answer.into_parts();
    Ok((head.status, body.collect().await?.to_bytes()))
}
