//! Reading `forward` lines.

use crate::{
    corefile::{Directive, Problem, Token, zones},
    text,
    wire::{Name, code::rcode},
};
use runtime::pki::{Bundle, Identity};
use rustls::{ClientConfig, pki_types::ServerName};
use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

const KNOWN: &[&str] = &[
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
    pub(super) address: SocketAddr,
    /// The address to ask from, if it matters.
    pub(super) source: Option<IpAddr>,
    pub(super) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
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
    for line in line.lines() {
        match line.name.text.as_str() {
            "tls" => tls = Some(line),
            "tls_servername" => server_name = Some(line.one()?),
            _ => property(line, &mut options)?,
        }
    }
    let mut secure = Tls { line: tls, name: server_name, folder, made: None };
    for word in to {
        servers(word, folder, &mut secure, &mut options.servers)?;
    }
    for server in &mut options.servers {
        server.source = options.source.iter().copied().find(|own| own.is_ipv4() == server.address.is_ipv4());
    }
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

/// `IP[:port]`, `dns://...`, `tls://...[%name]`, or a file with `nameserver` lines.
fn servers(word: &Token, folder: &Path, secure: &mut Tls<'_>, found: &mut Vec<Server>) -> Result<(), Problem> {
    let (scheme, rest) = word.text.split_once("://").unwrap_or(("dns", &word.text));
    match scheme {
        "dns" => {
            if let Some(address) = address(rest, 53) {
                found.push(Server { address, source: None, tls: None });
                return Ok(());
            }
        }
        "tls" => {
            let (place, name) = rest.split_once('%').map_or((rest, None), |(place, name)| {
                // The port may stand after the name.
                match name.rsplit_once(':') {
                    Some((name, _)) => (place, Some(name)),
                    None => (place, Some(name)),
                }
            });
            let port = rest.split_once('%').and_then(|(_, name)| name.rsplit_once(':')?.1.parse().ok()).unwrap_or(853);
            if let Some(address) = address(place, port) {
                let tls = Some(secure.config(word, name, address.ip())?);
                found.push(Server { address, source: None, tls });
                return Ok(());
            }
        }
        _ => return Err(Problem::at(word, "is not spoken here; accepted: dns://, tls://")),
    }
    let accepted = "is no address and no file with name servers; accepted: IP, IP:PORT, [IPv6]:PORT, tls://IP, a file";
    if scheme != "dns" || word.text.contains("://") {
        return Err(Problem::at(word, accepted));
    }
    let text = std::fs::read_to_string(folder.join(rest))
        .map_err(|error| Problem::at(word, format!("{accepted} ({error})")))?;
    let before = found.len();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.next() == Some("nameserver")
            && let Some(address) = words.next().and_then(|text| address(text, 53))
        {
            found.push(Server { address, source: None, tls: None });
        }
    }
    if found.len() == before { Err(Problem::at(word, "names no server")) } else { Ok(()) }
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
    made: Option<Arc<ClientConfig>>,
}

impl Tls<'_> {
    fn config(
        &mut self,
        word: &Token,
        name: Option<&str>,
        ip: IpAddr,
    ) -> Result<(Arc<ClientConfig>, ServerName<'static>), Problem> {
        let config = match &self.made {
            Some(config) => Arc::clone(config),
            None => {
                let config = self.make(word)?;
                self.made = Some(Arc::clone(&config));
                config
            }
        };
        let name = match name.or_else(|| self.name.map(|name| name.text.as_str())) {
            Some(name) => {
                ServerName::try_from(name.to_owned()).map_err(|_| Problem::at(word, "its server name is no name"))?
            }
            None => ServerName::from(ip),
        };
        Ok((config, name))
    }

    fn make(&self, word: &Token) -> Result<Arc<ClientConfig>, Problem> {
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
        let mut config = ClientConfig::clone(&config);
        config.alpn_protocols = vec![b"dot".to_vec()];
        Ok(Arc::new(config))
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
