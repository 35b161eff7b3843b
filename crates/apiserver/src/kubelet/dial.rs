//! Opening a connection to the first of several addresses that answers.
//!
//! The next address is tried when one fails, or when it has not answered for a moment: a node with two families is reached at
//! once even if one of them leads nowhere (RFC 8305 does the same for browsers).

use super::{
    Kubelets,
    exchange::Trouble,
    plan::target::{Endpoint, Host, Target},
    reach::{Filter, Via},
};
use futures::{StreamExt, stream::FuturesUnordered};
use rustls::{ClientConfig, pki_types::ServerName};
use socket2::{SockRef, TcpKeepalive};
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    time::{sleep, timeout},
};
use tokio_rustls::TlsConnector;

/// How long an address may stay silent before the next one is tried beside it (RFC 8305, section 5).
const HEAD_START: Duration = Duration::from_millis(250);

/// A node that is gone says nothing; this finds out, about as fast as upstream's client.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A connection, secured or not.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Why one address did not work.
enum Failure {
    NotAllowed(&'static str),
    Failed(String),
}

/// Connects. Only addresses that the filter allows are tried, whatever name they hide behind.
pub async fn dial<'a>(
    kubelets: &Kubelets,
    target: &'a Target,
    via: Via,
) -> Result<(Box<dyn Io>, &'a Endpoint), Trouble> {
    let tls = kubelets.clients.pick(target.security);
    let (patience, filter) = (kubelets.settings.timeout, kubelets.filter());
    let mut waiting = target.to.iter();
    let mut running = FuturesUnordered::new();
    let mut failures = Vec::new();
    loop {
        if let Some(endpoint) = waiting.next() {
            let attempt = timeout(patience, open(endpoint, tls.clone(), filter, via));
            running.push(async move { (endpoint, attempt.await.unwrap_or_else(|_| Err(late(patience)))) });
        }
        if running.is_empty() {
            return Err(trouble(&failures));
        }
        tokio::select! {
            Some((endpoint, ended)) = running.next() => match ended {
                Ok(stream) => return Ok((stream, endpoint)),
                Err(failure) => failures.push((endpoint, failure)),
            },
            () = sleep(HEAD_START), if !waiting.as_slice().is_empty() => {}
        }
    }
}

fn late(patience: Duration) -> Failure {
    Failure::Failed(format!("no answer within {patience:?}"))
}

fn trouble(failures: &[(&Endpoint, Failure)]) -> Trouble {
    let describe = |(endpoint, failure): &(&Endpoint, Failure)| match failure {
        Failure::NotAllowed(why) => format!("{endpoint} {why}"),
        Failure::Failed(why) => format!("dial tcp {endpoint}: {why}"),
    };
    let text = failures.iter().map(describe).collect::<Vec<_>>().join("; ");
    match failures.iter().all(|(_, failure)| matches!(failure, Failure::NotAllowed(_))) {
        true => Trouble::NotAllowed(text),
        false => Trouble::Unreachable(text),
    }
}

async fn open(
    endpoint: &Endpoint,
    tls: Option<Arc<ClientConfig>>,
    filter: Filter,
    via: Via,
) -> Result<Box<dyn Io>, Failure> {
    let failed = |error: io::Error| Failure::Failed(error.to_string());
    let addresses: Vec<SocketAddr> = match &endpoint.host {
        Host::Address(address) => vec![SocketAddr::new(*address, endpoint.port)],
        Host::Name(name) => lookup_host((name.as_str(), endpoint.port)).await.map_err(failed)?.collect(),
    };
    if let Some(why) = addresses.iter().find_map(|address| filter.refusal(via, *address)) {
        return Err(Failure::NotAllowed(why));
    }
    let stream = TcpStream::connect(addresses.as_slice()).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive).map_err(failed)?;
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    let name = match &endpoint.host {
        Host::Address(address) => ServerName::IpAddress((*address).into()),
        Host::Name(name) => ServerName::try_from(name.clone()).map_err(|error| Failure::Failed(error.to_string()))?,
    };
    let secured = TlsConnector::from(tls).connect(name, stream).await;
    Ok(Box::new(secured.map_err(|error| Failure::Failed(format!("TLS: {error}")))?))
}
