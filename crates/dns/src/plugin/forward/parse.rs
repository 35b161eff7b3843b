//! Reading `forward` lines.

use super::{host::Host, https::Https};
use crate::{
    corefile::{Directive, Problem, Token, zones},
    text,
    wire::{Name, code::rcode},
};
use http::Method;
use runtime::pki::{Bundle, Identity};
use rustls::{ClientConfig, pki_types::ServerName};
use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

const KNOWN: &[&str] = &[
    "doh_method",
    "except",
    "expire",
    "failfast_all_unhealthy_upstreams",
    "failover",
    "force_tcp",
    "health_check",
    "max_age",
    "max_concurrent",
    "max_connect_attempts",
    "max_fails",
    "max_idle_conns",
    "next",
    "next_on_nodata",
    "policy",
    "prefer_udp",
    "read_timeout",
    "resolver",
    "source_address",
    "tls",
    "tls_servername",
];
/// Servers of one line.
const SERVERS: usize = 15;
/// Idle connections of one server, unless the line says otherwise.
const IDLE: usize = 16;

/// Which server is asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    Random,
    RoundRobin,
    Sequential,
}

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

/// What a stanza says.
#[derive(Clone)]
pub(super) struct ForwardOptions {
    pub(super) from: Name,
    pub(super) servers: Vec<Server>,
    pub(super) except: Vec<Name>,
    pub(super) policy: Policy,
    pub(super) force_tcp: bool,
    pub(super) prefer_udp: bool,
    pub(super) expire: Duration,
    /// Zero: connections have no age.
    pub(super) max_age: Duration,
    pub(super) max_idle: usize,
    /// Zero: as many as there is time for.
    pub(super) max_attempts: Option<usize>,
    /// Addresses to ask from, at most one of each family.
    pub(super) source: Vec<IpAddr>,
    pub(super) read_timeout: Duration,
    pub(super) max_fails: u32,
    pub(super) max_concurrent: usize,
    pub(super) failfast: bool,
    pub(super) failover: Vec<u16>,
    /// Codes after which the next stanza is asked.
    pub(super) next: Vec<u16>,
    pub(super) next_on_nodata: bool,
    pub(super) check_every: Duration,
    pub(super) check_recursion: bool,
    pub(super) check_name: Name,
}

pub(super) fn options(line: &Directive, folder: &Path) -> Result<ForwardOptions, Problem> {
    let [from, to @ ..] = line.args.as_slice() else {
        return Err(Problem::at(&line.name, "needs a zone and at least one server"));
    };
    let first = zones(&from.text).map_err(|problem| Problem::at(from, problem))?.into_iter().next();
    let mut options = ForwardOptions {
        from: first.unwrap_or(Name::ROOT),
        servers: Vec::new(),
        except: Vec::new(),
        policy: Policy::Random,
        force_tcp: false,
        prefer_udp: false,
        expire: Duration::from_secs(10),
        max_age: Duration::ZERO,
        max_idle: IDLE,
        max_attempts: None,
        source: Vec::new(),
        read_timeout: Duration::from_secs(2),
        max_fails: 2,
        max_concurrent: 0,
        failfast: false,
        failover: Vec::new(),
        next: Vec::new(),
        next_on_nodata: false,
        check_every: Duration::from_millis(500),
        check_recursion: true,
        check_name: Name::ROOT,
    };
    let (mut tls, mut server_name) = (None, None);
    let (mut resolvers, mut method) = (Vec::new(), Method::POST);
    for line in line.lines() {
        match line.name.text.as_str() {
            "tls" => tls = Some(line),
            "tls_servername" => server_name = Some(line.one()?),
            "resolver" if line.args.is_empty() => return Err(Problem::at(&line.name, "needs an address")),
            "resolver" => {
                for word in &line.args {
                    let wrong = || Problem::at(word, "is no address; accepted: IP, IP:PORT, [IPv6]:PORT");
                    resolvers.push(address(&word.text, 53).ok_or_else(wrong)?);
                }
            }
            "doh_method" => {
                let word = line.one()?;
                method = match word.text.to_uppercase().as_str() {
                    "GET" => Method::GET,
                    "POST" => Method::POST,
                    _ => return Err(Problem::at(word, "accepted: GET, POST")),
                };
            }
            _ => property(line, &mut options)?,
        }
    }
    let mut reader = Reader {
        secure: Tls { line: tls, name: server_name, folder, made: None },
        folder,
        sources: options.source.clone(),
        resolvers,
        method,
        found: Vec::new(),
    };
    for word in to {
        reader.servers(word)?;
    }
    options.servers = reader.found;
    match options.servers.len() {
        0 => Err(Problem::at(&line.name, "needs at least one server")),
        1..=SERVERS => Ok(options),
        more => Err(Problem::at(&line.name, format!("has {more} servers; accepted: up to {SERVERS}"))),
    }
}

/// Response codes by name.
fn codes(line: &Directive, found: &mut Vec<u16>) -> Result<(), Problem> {
    if line.args.is_empty() {
        return Err(Problem::at(&line.name, "needs at least one response code"));
    }
    for word in &line.args {
        found.push(rcode::number(&word.text).ok_or_else(|| Problem::at(word, "is no response code"))?);
    }
    Ok(())
}

/// Addresses of this machine, at most one of each family.
fn source(line: &Directive, found: &mut Vec<IpAddr>) -> Result<(), Problem> {
    if line.args.is_empty() {
        return Err(Problem::at(&line.name, "needs an address"));
    }
    for word in &line.args {
        let address: IpAddr = word.text.parse().map_err(|_| Problem::at(word, "is no IP address"))?;
        if found.iter().any(|other| other.is_ipv4() == address.is_ipv4()) {
            return Err(Problem::at(word, "is the second of its family; accepted: one, or one of each"));
        }
        found.push(address);
    }
    Ok(())
}

fn property(line: &Directive, options: &mut ForwardOptions) -> Result<(), Problem> {
    match line.name.text.as_str() {
        "except" => options.except = text::zones_or(&line.args, &[])?,
        "policy" => {
            let policy = line.one()?;
            options.policy = match policy.text.as_str() {
                "random" => Policy::Random,
                "round_robin" => Policy::RoundRobin,
                "sequential" => Policy::Sequential,
                _ => return Err(Problem::at(policy, "accepted: random, round_robin, sequential")),
            };
        }
        "force_tcp" => {
            line.none()?;
            options.force_tcp = true;
        }
        "prefer_udp" => {
            line.none()?;
            options.prefer_udp = true;
        }
        "failfast_all_unhealthy_upstreams" => {
            line.none()?;
            options.failfast = true;
        }
        "expire" => options.expire = text::duration(line.one()?)?,
        "read_timeout" => options.read_timeout = text::duration(line.one()?)?,
        "max_fails" => options.max_fails = text::number(line.one()?, 0.., "a number")?,
        "max_concurrent" => options.max_concurrent = text::number(line.one()?, 0.., "a number")?,
        "max_age" => {
            let token = line.one()?;
            options.max_age = text::duration(token)?;
            if !options.max_age.is_zero() && options.max_age < options.expire {
                return Err(Problem::at(token, "is less than expire"));
            }
        }
        "max_idle_conns" => {
            let most: usize = text::number(line.one()?, 0.., "a number")?;
            options.max_idle = if most == 0 { usize::MAX } else { most };
        }
        "max_connect_attempts" => {
            let most: usize = text::number(line.one()?, 0.., "a number")?;
            options.max_attempts = Some(if most == 0 { usize::MAX } else { most });
        }
        "source_address" => source(line, &mut options.source)?,
        "failover" => codes(line, &mut options.failover)?,
        "next" => codes(line, &mut options.next)?,
        "next_on_nodata" => {
            line.none()?;
            options.next_on_nodata = true;
        }
        "health_check" => {
            let [every, rest @ ..] = line.args.as_slice() else {
                return Err(Problem::at(&line.name, "needs a duration"));
            };
            options.check_every = text::duration(every)?.max(Duration::from_millis(10));
            let mut words = rest.iter();
            while let Some(word) = words.next() {
                match (word.text.as_str(), words.as_slice().first()) {
                    ("no_rec", _) => options.check_recursion = false,
                    ("domain", Some(name)) => {
                        options.check_name = Name::parse(&name.text).map_err(|e| Problem::at(name, e.to_string()))?;
                        words.next();
                    }
                    _ => return Err(Problem::at(word, "accepted: no_rec, domain NAME")),
                }
            }
        }
        _ => return Err(line.unknown(KNOWN)),
    }
    Ok(())
}

/// What servers of a line have in common, and those that were read.
struct Reader<'a> {
    secure: Tls<'a>,
    folder: &'a Path,
    sources: Vec<IpAddr>,
    resolvers: Vec<SocketAddr>,
    method: Method,
    found: Vec<Server>,
}

const ACCEPTED: &str =
    "accepted: IP, IP:PORT, [IPv6]:PORT or a host name, also after tls:// and https://, or a file with name servers";

impl Reader<'_> {
    /// `IP[:port]`, a host name, `tls://...[%name]`, `https://...`, or a file with `nameserver` lines.
    fn servers(&mut self, word: &Token) -> Result<(), Problem> {
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

fn address(text: &str, port: u16) -> Option<SocketAddr> {
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

/// The TLS settings of a stanza, made when the first server needs them.
struct Tls<'a> {
    line: Option<&'a Directive>,
    name: Option<&'a Token>,
    folder: &'a Path,
    made: Option<ClientConfig>,
}

impl Tls<'_> {
    fn config(
        &mut self,
        word: &Token,
        name: Option<&str>,
        place: &Place,
        protocol: &[u8],
    ) -> Result<(Arc<ClientConfig>, ServerName<'static>), Problem> {
        let mut config = match &self.made {
            Some(config) => config.clone(),
            None => self.made.insert(self.make(word)?).clone(),
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        let given = self.name.map(|name| name.text.as_str());
        let host = match place {
            Place::Address(_) => None,
            Place::Host(host) => Some(host.name()),
        };
        let name = match (name.or(given).or(host.as_deref()), place) {
            (None, Place::Address(address)) => ServerName::from(address.ip()),
            (name, _) => ServerName::try_from(name.unwrap_or_default().to_owned())
                .map_err(|_| Problem::at(word, "its server name is no name"))?,
        };
        Ok((Arc::new(config), name))
    }

    fn make(&self, word: &Token) -> Result<ClientConfig, Problem> {
        let args = self.line.map_or(&[][..], |line| line.args.as_slice());
        let path = |token: &Token| self.folder.join(&token.text);
        let wrong =
            |error: runtime::pki::PkiError| Problem::at(self.line.map_or(word, |line| &line.name), error.to_string());
        let bundle = |token: &Token| Bundle::load(&path(token)).map_err(wrong);
        let identity = |cert: &Token, key: &Token| Identity::load_pair(&path(cert), &path(key)).map_err(wrong);
        let (authorities, identity) = match args {
            [] => (system(word)?, None),
            [authority] => (bundle(authority)?, None),
            [cert, key] => (system(word)?, Some(identity(cert, key)?)),
            [cert, key, authority] => (bundle(authority)?, Some(identity(cert, key)?)),
            [.., last] => return Err(Problem::at(last, "accepted: nothing, CA, CERT KEY, or CERT KEY CA")),
        };
        let config = runtime::tls::client_config(&authorities, identity.as_ref()).map_err(wrong)?;
        Ok(ClientConfig::clone(&config))
    }
}

/// The authorities that the machine trusts, where the usual distributions keep them.
fn system(word: &Token) -> Result<Bundle, Problem> {
    let usual = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
    let found = usual.iter().find_map(|path| Bundle::load(Path::new(path)).ok());
    found.ok_or_else(|| {
        Problem::at(word, format!("this machine has no authorities at {}; name a CA with tls", usual.join(", ")))
    })
}
