//! State in memory, for tests of controllers: `--etcd-servers` names the stand-in of `twinstack etcd`, which keeps nothing.

use std::{net::IpAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// What the stand-in answers to `GET /version`.
pub const VERSION: &str = r#"{"twinstack":"memory"}"#;
/// Something on this machine answers at once or is not there.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether the only endpoint is a stand-in on this machine. Anything else is etcd, also when it does not answer.
pub(super) async fn is_meant(endpoints: &[String]) -> bool {
    let [endpoint] = endpoints else { return false };
    let Some(authority) = endpoint.strip_prefix("http://").map(|rest| rest.trim_end_matches('/')) else { return false };
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    if host != "localhost" && !address.is_ok_and(|address| address.is_loopback()) {
        return false;
    }
    tokio::time::timeout(PATIENCE, version(authority))
        .await
        .is_ok_and(|answer| answer.is_ok_and(|text| text.ends_with(VERSION)))
}

async fn version(authority: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(authority).await?;
    stream
        .write_all(format!("GET /version HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n").as_bytes())
        .await?;
    let mut answer = String::new();
    stream.take(4096).read_to_string(&mut answer).await?;
    Ok(answer)
}
