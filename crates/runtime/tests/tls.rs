//! Certificates proved by real handshakes over 127.0.0.1 and [::1].
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use net::{Families, Family};
use runtime::{
    http::{Body, Limits, Peer, text},
    pki::{Authority, Identity, Purpose, Rotating},
    tls::{client_config, install_provider, server_config},
};
use rustls::pki_types::{CertificateDer, ServerName};
use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, SystemTime},
};
use support::{Running, closed, get, serve, soon};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Says which user and groups the client's certificate names.
async fn user(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let peer = request.extensions().get::<Peer>().unwrap();
    let answer = match peer.certificates.first() {
        None => "nobody".to_owned(),
        Some(certificate) => x509_parser::parse_x509_certificate(certificate).unwrap().1.subject().to_string(),
    };
    Ok(text(StatusCode::OK, answer))
}

fn serving(addresses: &[IpAddr]) -> Purpose {
    Purpose::Serving { names: vec!["localhost".to_owned()], addresses: addresses.to_vec() }
}

fn both_loopbacks() -> Purpose {
    serving(&Family::BOTH.map(Family::loopback))
}

struct Lab {
    authority: Authority,
    rotating: Arc<Rotating>,
    server: Running,
}

fn lab(purpose: &Purpose) -> Lab {
    install_provider();
    let authority = Authority::create("test", SystemTime::now()).unwrap();
    let rotating = Rotating::new(&authority.issue(purpose, SystemTime::now()).unwrap()).unwrap();
    let tls = server_config(Arc::clone(&rotating) as _, Some(authority.bundle())).unwrap();
    let server = serve(Families::both(Family::V4), Some(tls), Limits::default(), tower::service_fn(user));
    Lab { authority, rotating, server }
}

/// Connects over HTTP/1.1, which the tests write by hand.
async fn connect(
    authority: &Authority,
    identity: Option<&Identity>,
    address: SocketAddr,
    name: ServerName<'static>,
) -> io::Result<TlsStream<TcpStream>> {
    let mut config = (*client_config(authority.bundle(), identity).unwrap()).clone();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let stream = TcpStream::connect(address).await?;
    soon(TlsConnector::from(Arc::new(config)).connect(name, stream)).await
}

fn shown(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    stream.get_ref().1.peer_certificates().unwrap()[0].clone()
}

#[tokio::test]
async fn clients_verify_the_address_they_connect_to_in_both_families() {
    let lab = lab(&both_loopbacks());
    for address in &lab.server.addresses {
        for name in [ServerName::from(address.ip()), ServerName::try_from("localhost").unwrap()] {
            let mut stream = connect(&lab.authority, None, *address, name).await.unwrap();
            assert_eq!(soon(get(&mut stream, "/")).await.1, "nobody");
        }
        assert!(connect(&lab.authority, None, *address, ServerName::try_from("example.test").unwrap()).await.is_err());
    }
}

#[tokio::test]
async fn a_certificate_for_one_family_is_refused_in_the_other() {
    for family in Family::BOTH {
        let lab = lab(&serving(&[family.loopback()]));
        for address in &lab.server.addresses {
            let result = connect(&lab.authority, None, *address, ServerName::from(address.ip())).await;
            assert_eq!(result.is_ok(), address.ip() == family.loopback(), "{address}");
        }
    }
}

#[tokio::test]
async fn the_server_learns_user_and_groups_from_the_client_certificate() {
    let lab = lab(&both_loopbacks());
    let purpose = Purpose::Client {
        user: "system:node:a".to_owned(),
        groups: vec!["system:nodes".to_owned(), "rack-1".to_owned(), "rack-2".to_owned()],
    };
    let identity = lab.authority.issue(&purpose, SystemTime::now()).unwrap();
    for address in &lab.server.addresses {
        let mut stream = connect(&lab.authority, Some(&identity), *address, address.ip().into()).await.unwrap();
        assert_eq!(soon(get(&mut stream, "/")).await.1, "O=system:nodes, O=rack-1, O=rack-2, CN=system:node:a");
    }
}

#[tokio::test]
async fn strangers_are_trusted_by_neither_side() {
    let lab = lab(&both_loopbacks());
    let stranger = Authority::create("test", SystemTime::now()).unwrap();
    let purpose = Purpose::Client { user: "mallory".to_owned(), groups: vec!["system:masters".to_owned()] };
    let forged = stranger.issue(&purpose, SystemTime::now()).unwrap();
    for address in &lab.server.addresses {
        let name = || ServerName::from(address.ip());
        assert!(connect(&stranger, None, *address, name()).await.is_err(), "the client checks the server");
        // In TLS 1.3 the client has finished before the server refuses, so the refusal shows at the first read.
        if let Ok(mut stream) = connect(&lab.authority, Some(&forged), *address, name()).await {
            assert!(soon(closed(&mut stream)).await, "the server checks the client");
        }
        let serving = lab.authority.issue(&both_loopbacks(), SystemTime::now()).unwrap();
        if let Ok(mut stream) = connect(&lab.authority, Some(&serving), *address, name()).await {
            assert!(soon(closed(&mut stream)).await, "a serving certificate is no client's");
        }
    }
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    install_provider();
    let long_ago = SystemTime::now() - Duration::from_secs(30 * 86_400);
    let authority = Authority::create("test", long_ago).unwrap();
    let identity = authority.issue_for(&both_loopbacks(), long_ago, Duration::from_secs(86_400)).unwrap();
    let tls = server_config(Rotating::new(&identity).unwrap(), None).unwrap();
    let server = serve(Families::both(Family::V6), Some(tls), Limits::default(), tower::service_fn(user));
    for address in &server.addresses {
        let error = connect(&authority, None, *address, address.ip().into()).await.unwrap_err().to_string();
        assert!(error.contains("expired"), "{error}");
    }
}

#[tokio::test]
async fn rotation_shows_the_new_certificate_to_new_connections_while_old_ones_live() {
    let lab = lab(&both_loopbacks());
    for address in &lab.server.addresses {
        let name = || ServerName::from(address.ip());
        let mut old = connect(&lab.authority, None, *address, name()).await.unwrap();
        soon(get(&mut old, "/")).await;
        let before = shown(&old);

        let due = SystemTime::now() + Duration::from_secs(330 * 86_400);
        let issue = |_| lab.authority.issue_for(&both_loopbacks(), SystemTime::now(), Duration::from_secs(86_400));
        // The fresh certificate is made for today, so from the far future it is due again at once: each family rotates.
        assert!(lab.rotating.rotate_if_due(due, issue).unwrap());

        let mut new = connect(&lab.authority, None, *address, name()).await.unwrap();
        assert_ne!(shown(&new), before);
        assert_eq!(soon(get(&mut new, "/")).await.1, "nobody");
        assert_eq!(soon(get(&mut old, "/")).await.1, "nobody", "the old connection lives on");
    }
}
