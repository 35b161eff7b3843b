//! `twinstack etcd`: stands in for etcd where a test environment starts one. Keeps nothing; the API server that is pointed at it keeps its
//! state in memory.

use super::Command;
use crate::{
    component,
    flag::{DefaultFlag, Flag, flags, folder, switch, word},
};
use anyhow::Context;
use apiserver::launch::memory;
use http::{Request, Response, StatusCode};
use runtime::{
    config::Settings,
    http::{Body, Limits, Server, full},
};
use std::{convert::Infallible, net::TcpListener, path::PathBuf};

pub(super) const COMMAND: Command = Command {
    name: "etcd",
    about: "stand in for etcd in a test environment",
    more: "Answers /health and /version at the address of --listen-client-urls and keeps nothing. An API server whose --etcd-servers names it keeps its state \
           in memory. The other flags are those that test environments give to etcd; nothing follows from them.",
    example: "twinstack etcd --listen-client-urls http://127.0.0.1:2379",
    flags: &[FLAGS],
    positional: None,
    long_running: true,
    check: |given| read(given).map(drop),
    run,
};

const URL: &str = "URL";
const URLS: &str = "http://ADDRESS:PORT";

flags! {
    FLAGS:
    LISTEN_CLIENT_URLS: DefaultFlag<String> = word("listen-client-urls", URL, URLS, "where to listen").or("http://127.0.0.1:2379");
    ADVERTISE_CLIENT_URLS: Flag<String> = word("advertise-client-urls", URL, URLS, "not used");
    LISTEN_PEER_URLS: Flag<String> = word("listen-peer-urls", URL, URLS, "not used");
    DATA_DIR: Flag<PathBuf> = folder("data-dir", "not used");
    UNSAFE_NO_FSYNC: DefaultFlag<bool> = switch("unsafe-no-fsync", "not used").or("false");
}

fn read(given: &mut Settings) -> Option<String> {
    for ignored in [&ADVERTISE_CLIENT_URLS, &LISTEN_PEER_URLS] {
        given.optional(ignored);
    }
    given.optional(&DATA_DIR);
    given.get(&UNSAFE_NO_FSYNC);
    Some(given.get(&LISTEN_CLIENT_URLS))
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let (log, url) = settings.read(|given| Some((component::log(given), read(given)?)))?;
    component::run(&log, async |_, tasks| {
        let address = url.strip_prefix("http://").unwrap_or(&url).trim_end_matches('/').to_owned();
        let listener = TcpListener::bind(&address).with_context(|| format!("--listen-client-urls {url}"))?;
        listener.set_nonblocking(true)?;
        tracing::info!(address, "stands in for etcd");
        tasks.serve("etcd", move |stop| {
            let serve = tower::service_fn(|request| async move { Ok::<_, Infallible>(answer(&request)) });
            let serving = Server { listeners: vec![listener], tls: None, limits: Limits::default() }.run(serve, stop);
            async move { serving.await.map(drop) }
        });
        Ok(())
    })
}

fn answer<B>(request: &Request<B>) -> Response<Body> {
    let body = match request.uri().path() {
        "/health" => r#"{"health":"true","reason":""}"#,
        "/version" => memory::VERSION,
        _ => "",
    };
    let mut response = Response::new(full(body));
    if body.is_empty() {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    response
}
