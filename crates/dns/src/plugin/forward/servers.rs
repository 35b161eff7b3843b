//! Servers to ask, as `forward` lines name them: where they are and how they are spoken to.

use super::{host::Host, https::Https, secure::Tls};
use crate::{
    corefile::{Problem, Token},
    wire::Name,
};
use http::Method;
use rustls::{ClientConfig, pki_types::ServerName};
use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::Arc,
};

/// A server to ask.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) place: Place,
    /// The addresses to ask from, if they matter, at most one of each family.
    sources: Vec<IpAddr>,
    pub(super) speaks: Speaks,
}

impl Server {
    /// The address to ask this one from.
    pub(super) fn source(&self, address: SocketAddr) -> Option<IpAddr> {
        self.sources.iter().copied().find(|own| own.is_ipv4() == address.is_ipv4())
    }
}

/// Where a server is.
#[derive(Clone)]
pub(super) enum Place {
    Address(SocketAddr),
    Host(Arc<Host>),
}

impl Place {
    pub(super) async fn address(&self) -> std::io::Result<SocketAddr> {
        match self {
            Self::Address(address) => Ok(*address),
            Self::Host(host) => host.address().await,
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Host(host) => host.fmt(f),
        }
    }
}

/// How a server is spoken to.
#[derive(Clone)]
pub(super) enum Speaks {
    Dns,
    Tls(Arc<ClientConfig>, ServerName<'static>),
    Https(Arc<ClientConfig>, ServerName<'static>, Arc<Https>),
}

/// What servers of a line have in common, and those that were read.
pub(super) struct Reader<'a> {
    pub(super) secure: Tls<'a>,
    pub(super) folder: &'a Path,
    pub(super) sources: Vec<IpAddr>,
    pub(super) resolvers: Vec<SocketAddr>,
    pub(super) method: Method,
    pub(super) found: Vec<Server>,
}

const ACCEPTED: &str =
    "accepted: IP, IP:PORT, [IPv6]:PORT or a host name, also after tls:// and https://, or a file with name servers";

impl Reader<'_> {
    /// `IP[:port]`, a host name, `tls://...[%name]`, `https://...`, or a file with `nameserver` lines.
    pub(super) fn servers(&mut self, word: &Token) -> Result<(), Problem> {
        let (scheme, rest) = word.text.split_once("://").unwrap_or(("", &word.text));
        match scheme {
            "" | "dns" => {
                if let Some(address) = address(rest, 53) {
                    self.add(Place::Address(address), Speaks::Dns);
                } else if scheme.is_empty() && self.folder.join(rest).exists() {
                    return self.file(word);
                } else {
                    let place = self.host(word, rest, 53)?;
                    self.add(place, Speaks::Dns);
                }
            }
            "tls" => {
                let (rest, name) = named(rest);
                let place = self.place(word, &rest, 853)?;
                let (config, name) = self.secure.config(word, name, &place, b"dot")?;
                self.add(place, Speaks::Tls(config, name));
            }
            "https" if rest.contains('/') => {
                return Err(Problem::at(word, "has a path; the path is always /dns-query"));
            }
            "https" => {
                let place = self.place(word, rest, 443)?;
                let (config, name) = self.secure.config(word, None, &place, b"h2")?;
                let https = Https::new(self.method.clone(), &name, place.port());
                self.add(place, Speaks::Https(config, name, Arc::new(https)));
            }
            _ => return Err(Problem::at(word, "is not spoken here; accepted: dns://, tls://, https://")),
        }
        Ok(())
    }

    fn add(&mut self, place: Place, speaks: Speaks) {
        self.found.push(Server { place, sources: self.sources.clone(), speaks });
    }

    fn place(&self, word: &Token, text: &str, port: u16) -> Result<Place, Problem> {
        address(text, port).map_or_else(|| self.host(word, text, port), |address| Ok(Place::Address(address)))
    }

    /// `NAME[:port]`. A name without a dot is more likely a file that is missing, one of numbers an address with a mistake.
    fn host(&self, word: &Token, text: &str, port: u16) -> Result<Place, Problem> {
        let wrong = || Problem::at(word, format!("is no address, no host name and no file; {ACCEPTED}"));
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None => (text, port),
        };
        let host = host.strip_suffix('.').unwrap_or(host).to_lowercase();
        let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
        let is_host = host.contains('.') && !host.rsplit('.').next().is_some_and(is_number);
        if !is_host || !api::kinds::names::is_domain(&host) {
            return Err(wrong());
        }
        let name = Name::parse(&host).map_err(|_| wrong())?;
        Ok(Place::Host(Arc::new(Host::new(name, port, self.resolvers.clone()))))
    }

    fn file(&mut self, word: &Token) -> Result<(), Problem> {
        let text = std::fs::read_to_string(self.folder.join(&word.text));
        let text = text.map_err(|error| Problem::at(word, format!("cannot be read: {error}")))?;
        let servers = name_servers(&text);
        if servers.is_empty() {
            return Err(Problem::at(word, "names no server"));
        }
        servers.into_iter().for_each(|address| self.add(Place::Address(address), Speaks::Dns));
        Ok(())
    }
}

impl Place {
    fn port(&self) -> u16 {
        match self {
            Self::Address(address) => address.port(),
            Self::Host(host) => host.port(),
        }
    }
}

/// The servers of a file such as `/etc/resolv.conf`.
pub(super) fn name_servers(text: &str) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        words.next().filter(|word| *word == "nameserver").and_then(|_| words.next()).and_then(|text| address(text, 53))
    };
    text.lines().filter_map(server).collect()
}

/// `PLACE[%NAME][:PORT]`: the place with its port, and the name.
fn named(text: &str) -> (String, Option<&str>) {
    match text.split_once('%') {
        None => (text.to_owned(), None),
        Some((place, name)) => match name.rsplit_once(':') {
            // The port may stand after the name.
            Some((name, port)) if place.parse::<std::net::Ipv6Addr>().is_ok() => {
                (format!("[{place}]:{port}"), Some(name))
            }
            Some((name, port)) => (format!("{place}:{port}"), Some(name)),
            None => (place.to_owned(), Some(name)),
        },
    }
}

pub(super) fn address(text: &str, port: u16) -> Option<SocketAddr> {
    // A zone such as %eth0 has a meaning only here; its interface is found by its number.
    let plain: Option<IpAddr> = text.trim_start_matches('[').trim_end_matches(']').parse().ok();
    plain.map(|address| SocketAddr::new(address, port)).or_else(|| text.parse().ok()).or_else(|| scoped(text, port))
}

/// `fe80::1%eth0` or `fe80::1%2`.
fn scoped(text: &str, port: u16) -> Option<SocketAddr> {
    let (address, zone) = text.split_once('%')?;
    let number = zone.parse().ok().or_else(|| crate::server::addresses::interface_number(zone))?;
    Some(std::net::SocketAddrV6::new(address.parse().ok()?, port, 0, number).into())
}
