//! Reading `forward` lines.

use super::{
    secure::Tls,
    servers::{Reader, Server, address},
};
use crate::{
    corefile::{Directive, Problem, zones},
    text,
    wire::{Name, code::rcode},
};
use http::Method;
use std::{net::IpAddr, path::Path, time::Duration};

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
