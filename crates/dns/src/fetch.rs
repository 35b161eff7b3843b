//! A page of a server nearby over plain HTTP: metrics of other servers, and this one's own health.

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;

/// Most bytes that are read.
const LARGEST: usize = 8 << 20;

/// The text of a page that is there.
pub(crate) async fn text(address: SocketAddr, path: &str) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let stream = tokio::net::TcpStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request =
        http::Request::get(path).header(http::header::HOST, address.to_string()).body(Empty::<Bytes>::new())?;
    let asked = async move {
        let response = sender.send_request(request).await?;
        if !response.status().is_success() {
            return Err(format!("{path}: {}", response.status()).into());
        }
        let body = Limited::new(response.into_body(), LARGEST).collect().await?.to_bytes();
        Ok(String::from_utf8_lossy(&body).into_owned())
    };
    // Dropped together: the connection ends with the answer.
    let mut connection = std::pin::pin!(connection);
    let mut asked = std::pin::pin!(asked);
    tokio::select! {
        answer = &mut asked => answer,
        ended = &mut connection => {
            ended?;
            asked.await
        }
    }
}
