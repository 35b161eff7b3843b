//! Where a request goes: addresses to try, how to talk there, what to ask for.

use std::{fmt, net::IpAddr};

/// A host of either family, or a name that may stand for both.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    Address(IpAddr),
    /// A name to resolve.
    Name(String),
}

impl Host {
    /// What a Node or Pod calls its address.
    pub fn new(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Address)
    }
}

/// A host and a port; written as in a URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    pub host: Host,
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(IpAddr::V6(v6)) => write!(f, "[{v6}]:{}", self.port),
            Host::Address(IpAddr::V4(v4)) => write!(f, "{v4}:{}", self.port),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

/// How the connection is secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// Not at all.
    Plain,
    /// TLS to whoever answers. Pods are reached by address, which no certificate can be expected to name.
    Unverified,
    /// TLS to a kubelet, with this server's certificate.
    Kubelet,
    /// The same without a look at the kubelet's certificate, which the caller asked for.
    KubeletUnverified,
}

/// One HTTP request's destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Tried in this order; never empty.
    pub to: Vec<Endpoint>,
    pub security: Security,
    /// Path and query, both encoded.
    pub path: String,
}

/// What is to be done about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// There is nothing to read yet.
    Nothing,
    /// Read a log.
    Log(Target),
    /// Upgrade, then pass bytes.
    Stream(Target),
    /// Pass the request on as it is.
    Proxy {
        /// Where to.
        target: Target,
        /// The path up to and with `/proxy`, below which the client sees the target.
        prefix: String,
    },
    /// Send the client to this path: the root of what is proxied ends in a slash, so that relative links work.
    Redirect(String),
}
