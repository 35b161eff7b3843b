//! Connections: a probe of its own, and the first step of the others.

use super::{
    state::Answer,
    target::{Target, host_port},
};
use k8s_openapi::api::core::v1::TCPSocketAction;
use std::{io, time::Duration};
use tokio::{net::TcpStream, time::timeout};

/// Connects, and that is all.
pub(super) async fn probe(action: &TCPSocketAction, target: &Target<'_>, patience: Duration) -> Answer {
    let place = target.host(action.host.as_deref()).and_then(|host| Ok((host, target.port(&action.port)?)));
    let (host, port) = match place {
        Ok(place) => place,
        Err(why) => return Answer::Unknown(why),
    };
    match timeout(patience, TcpStream::connect((host.as_str(), port))).await {
        Ok(Ok(_)) => Answer::Healthy,
        Ok(Err(error)) => Answer::Unhealthy(dial_error(&host, port, &error)),
        Err(_) => Answer::Unhealthy(format!("dial tcp {}: i/o timeout", host_port(&host, port))),
    }
}

/// As Go tells it, which people know.
pub(super) fn dial_error(host: &str, port: u16, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        io::ErrorKind::ConnectionReset => "connect: connection reset by peer".to_owned(),
        _ => error.to_string(),
    };
    format!("dial tcp {}: {why}", host_port(host, port))
}
