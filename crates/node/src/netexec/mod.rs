//! A server that tells who asks whom, for tests of networks: by HTTP, HTTPS, TCP, UDP, and SCTP where the kernel has it.
//!
//! Speaks as upstream's test image does (`/hostname`, `/clientip`, `/echo`, `/dial`; `hostname`, `echo`, `clientip` by line or datagram), and
//! says its own address too: what an address translation did is seen from both ends.

mod answer;
mod dial;
mod health;
mod http;
mod line;
mod sctp;

use runtime::{
    listen::{self, Hosts, ListenError},
    pki::{Authority, PkiError, Purpose, Rotating},
    task::Tasks,
    tls,
};
use std::{net::IpAddr, time::SystemTime};

/// Where it listens; a port of 0 is not served.
#[derive(Clone, Debug)]
pub struct NetexecOptions {
    pub hosts: Hosts,
    pub http_port: u16,
    pub https_port: u16,
    pub tcp_port: u16,
    pub udp_port: u16,
    pub sctp_port: u16,
}

/// Why it cannot serve. Not retryable.
#[derive(Debug, thiserror::Error)]
pub enum NetexecError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Tls(#[from] PkiError),
}

/// Starts all of it.
pub fn start(options: &NetexecOptions, tasks: &Tasks) -> Result<(), NetexecError> {
    let NetexecOptions { hosts, http_port, https_port, tcp_port, udp_port, sctp_port } = options;
    if *http_port > 0 {
        let listeners = listen::tcp("http-port", hosts, *http_port)?;
        tasks.serve("http", |stop| http::serve(listeners, None, stop));
    }
    if *https_port > 0 {
        let listeners = listen::tcp("https-port", hosts, *https_port)?;
        let now = SystemTime::now();
        let purpose = Purpose::Serving { names: vec!["localhost".to_owned()], addresses: Vec::new() };
        let identity = Authority::create("netexec", now)?.issue(&purpose, now)?;
        let tls = tls::server_config(Rotating::new(&identity)?, None)?;
        tasks.serve("https", |stop| http::serve(listeners, Some(tls), stop));
    }
    if *tcp_port > 0 {
        for listener in listen::tcp("tcp-port", hosts, *tcp_port)? {
            tasks.serve("tcp", |stop| line::tcp(listener, stop));
        }
    }
    if *udp_port > 0 {
        for socket in listen::udp("udp-port", hosts, *udp_port)? {
            tasks.serve("udp", |stop| line::udp(socket, stop));
        }
    }
    if *sctp_port > 0 {
        for address in addresses(hosts) {
            match sctp::listen(address, *sctp_port) {
                Ok(listener) => tasks.serve("sctp", |stop| sctp::serve(listener, stop)),
                Err(error) => tracing::warn!(%error, "SCTP is not served: this kernel may not have it"),
            }
        }
    }
    Ok(())
}

fn addresses(hosts: &Hosts) -> Vec<IpAddr> {
    match hosts {
        Hosts::Everywhere => vec![net::Family::V6.unspecified()],
        Hosts::Each(each) => each.iter().copied().collect(),
    }
}

/// What this machine, or its Pod, is called.
fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned()).unwrap_or_default()
}
