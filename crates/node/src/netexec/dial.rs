//! Asks another such server, from here: that is how a test sees a network through the eyes of a Pod.

use super::sctp;
use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use runtime::task::beside;
use serde_json::{Value, json};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpStream, UdpSocket, lookup_host},
    time::timeout,
};

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What to ask whom, how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dial {
    pub(super) protocol: String,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) request: String,
    pub(super) tries: usize,
}

impl Dial {
    pub(super) fn read(pairs: &[(String, String)]) -> Result<Self, String> {
        let text = |key: &str| pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str());
        let protocol = text("protocol").unwrap_or("http");
        if !["http", "tcp", "udp", "sctp"].contains(&protocol) {
            return Err(format!("protocol: {protocol:?} is not accepted; give http, tcp, udp or sctp"));
        }
        let host = text("host").filter(|host| !host.is_empty()).ok_or("host: give a name or an address")?;
        let port = text("port").unwrap_or_default();
        let tries = text("tries").unwrap_or("1");
        Ok(Self {
            protocol: protocol.to_owned(),
            host: host.trim_matches(['[', ']']).to_owned(),
            port: port.parse().map_err(|_| format!("port: {port:?} is not accepted; give a number from 1 to 65535"))?,
            request: text("request").or_else(|| text("msg")).unwrap_or("hostname").to_owned(),
            tries: tries.parse().map_err(|_| format!("tries: {tries:?} is not accepted; give a number"))?,
        })
    }

    /// Answers and what went wrong, as upstream's image tells it.
    pub(super) async fn ask_all(&self) -> Value {
        let (mut responses, mut errors) = (Vec::new(), Vec::new());
        for _ in 0..self.tries {
            match timeout(PATIENCE, self.ask()).await {
                Ok(Ok(answer)) => responses.push(answer),
                Ok(Err(error)) => errors.push(error.to_string()),
                Err(_) => errors.push(format!("no answer within {PATIENCE:?}")),
            }
        }
        let mut value = json!({"responses": responses});
        if !errors.is_empty() {
            value["errors"] = errors.into();
        }
        value
    }

    async fn address(&self) -> io::Result<SocketAddr> {
        let mut found = lookup_host((self.host.as_str(), self.port)).await?;
        found.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
    }

    async fn ask(&self) -> io::Result<String> {
        let address = self.address().await?;
        match self.protocol.as_str() {
            "udp" => udp(address, &self.request).await,
            "tcp" => tcp(address, &self.request).await,
            "sctp" => {
                let request = self.request.clone();
                tokio::task::spawn_blocking(move || sctp::ask(address, &request)).await.map_err(io::Error::other)?
            }
            _ => http(address, &self.request).await,
        }
    }
}

async fn udp(address: SocketAddr, request: &str) -> io::Result<String> {
    let any: IpAddr = if address.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(address).await?;
    socket.send(request.as_bytes()).await?;
    let mut buffer = vec![0; 64 * 1024];
    let size = socket.recv(&mut buffer).await?;
    Ok(String::from_utf8_lossy(&buffer[..size]).into_owned())
}

async fn tcp(address: SocketAddr, request: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("{request}\n").as_bytes()).await?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await?;
    Ok(line.trim_end().to_owned())
}

async fn http(address: SocketAddr, request: &str) -> io::Result<String> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // Ends with the answer.
    beside("netexec-dial", connection);
    let path = format!("/{}", request.trim_start_matches('/'));
    let asked = Request::builder().uri(path).header(header::HOST, address.to_string()).body(Empty::<Bytes>::new());
    let response = sender.send_request(asked.map_err(io::Error::other)?).await.map_err(io::Error::other)?;
    let body = response.into_body().collect().await.map_err(io::Error::other)?;
    Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dial_is_read_with_what_is_wrong() {
        let read = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            Dial::read(&pairs)
        };
        let want =
            Dial { protocol: "udp".into(), host: "fd00::1".into(), port: 80, request: "hostname".into(), tries: 2 };
        assert_eq!(read(&[("protocol", "udp"), ("host", "[fd00::1]"), ("port", "80"), ("tries", "2")]), Ok(want));
        assert_eq!(read(&[("port", "80")]), Err("host: give a name or an address".to_owned()));
        let error = "protocol: \"smoke\" is not accepted; give http, tcp, udp or sctp";
        assert_eq!(read(&[("protocol", "smoke")]), Err(error.to_owned()));
    }
}
