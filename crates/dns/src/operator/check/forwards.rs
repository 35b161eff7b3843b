//! Whom a server asks: `forwardPlugin` and `upstreamResolvers`.

use super::{Notes, Reason::InvalidConfiguration};
use api::config::{TransportConfig, Upstream};
use std::net::{IpAddr, SocketAddr};

/// A `forward` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Addresses, with or without a port, or files with resolvers.
    pub upstreams: Vec<String>,
    /// As the plugin calls it.
    pub policy: &'static str,
    pub tls: Option<Tls>,
    /// Never over UDP.
    pub tcp: bool,
}

/// TLS towards upstreams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The name in their certificates.
    pub server_name: String,
    /// ConfigMap with the authorities.
    pub bundle: Option<String>,
}

/// The resolvers of the machine that a server runs on.
const SYSTEM: &str = "/etc/resolv.conf";

/// What the fields next to the upstreams say.
pub(super) struct Manner<'a> {
    pub(super) policy: &'a str,
    pub(super) default_policy: &'static str,
    pub(super) transport: &'a TransportConfig,
    pub(super) protocol: &'a str,
}

/// The line of a server of its own.
pub(super) fn of_server(given: &[String], manner: &Manner<'_>, path: &str, notes: &mut Notes<'_>) -> Forward {
    let mut upstreams = Vec::new();
    if given.is_empty() || given.len() > 15 {
        let problem = "upstreams; accepted are 1 to 15";
        notes.add(InvalidConfiguration, format!("{path}.upstreams"), &given.len().to_string(), problem);
    }
    for (index, text) in given.iter().enumerate() {
        let plain = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        let address = plain.parse::<IpAddr>().map(|address| address.to_string());
        let address = address.or_else(|_| text.parse::<SocketAddr>().map(|address| address.to_string()));
        match address {
            Ok(address) if !upstreams.contains(&address) => upstreams.push(address),
            Ok(_) => {}
            Err(_) => {
                let problem =
                    "is no address; accepted are such as 192.0.2.1, 192.0.2.1:53, 2001:db8::1, [2001:db8::1]:53";
                notes.add(InvalidConfiguration, format!("{path}.upstreams[{index}]"), text, problem);
            }
        }
    }
    finish(upstreams, manner, path, notes)
}

/// The line of the default server.
pub(super) fn of_resolvers(given: &[Upstream], manner: &Manner<'_>, path: &str, notes: &mut Notes<'_>) -> Forward {
    let mut upstreams: Vec<String> = Vec::new();
    let mut system = given.is_empty();
    if given.len() > 15 {
        let problem = "upstreams; accepted are 15 at most";
        notes.add(InvalidConfiguration, format!("{path}.upstreams"), &given.len().to_string(), problem);
    }
    for (index, upstream) in given.iter().enumerate() {
        let path = format!("{path}.upstreams[{index}]");
        let text = match upstream.kind.as_str() {
            "Network" => match network(upstream, manner.transport.transport == "TLS") {
                Ok(text) => text,
                Err(problem) => {
                    notes.add(InvalidConfiguration, format!("{path}.address"), &upstream.address, problem);
                    continue;
                }
            },
            "" | "SystemResolvConf" => {
                system = true;
                SYSTEM.to_owned()
            }
            other => {
                let problem = "is not known; accepted: SystemResolvConf, Network";
                notes.add(InvalidConfiguration, format!("{path}.type"), other, problem);
                continue;
            }
        };
        if !upstreams.contains(&text) {
            upstreams.push(text);
        }
    }
    if given.is_empty() {
        upstreams.push(SYSTEM.to_owned());
    }
    let forward = finish(upstreams, manner, path, notes);
    if forward.tls.is_some() && system {
        let problem = "needs upstreams of type Network alone: the node's resolvers are not asked over TLS";
        notes.add(InvalidConfiguration, format!("{path}.transportConfig.transport"), "TLS", problem);
    }
    forward
}

/// Without TLS the usual port need not be said; with TLS it is not the usual one.
fn network(upstream: &Upstream, encrypted: bool) -> Result<String, &'static str> {
    let address: IpAddr = match upstream.address.as_str() {
        "" => return Err("is empty; type Network needs an address"),
        text => text.parse().map_err(|_| "is no address; accepted are such as 192.0.2.1, 2001:db8::1")?,
    };
    match upstream.port {
        None | Some(0) => Ok(address.to_string()),
        Some(53) if !encrypted => Ok(address.to_string()),
        Some(port) => {
            let port = u16::try_from(port).map_err(|_| "has a port that is greater than 65535")?;
            Ok(SocketAddr::new(address, port).to_string())
        }
    }
}

fn finish(mut upstreams: Vec<String>, manner: &Manner<'_>, path: &str, notes: &mut Notes<'_>) -> Forward {
    let policy = match manner.policy {
        "" => manner.default_policy,
        "Random" => "random",
        "RoundRobin" => "round_robin",
        "Sequential" => "sequential",
        other => {
            let problem = "is not known; accepted: Random, RoundRobin, Sequential";
            notes.add(InvalidConfiguration, format!("{path}.policy"), other, problem);
            manner.default_policy
        }
    };
    if !matches!(manner.protocol, "" | "TCP") {
        let problem = "is not known; accepted: TCP, or nothing";
        notes.add(InvalidConfiguration, format!("{path}.protocolStrategy"), manner.protocol, problem);
    }
    let tls = tls(manner.transport, path, notes);
    if tls.is_some() {
        upstreams.iter_mut().for_each(|upstream| upstream.insert_str(0, "tls://"));
    }
    Forward { upstreams, policy, tls, tcp: manner.protocol == "TCP" }
}

/// A server name without TLS means nothing and is passed over, as upstream does.
fn tls(given: &TransportConfig, path: &str, notes: &mut Notes<'_>) -> Option<Tls> {
    let path = format!("{path}.transportConfig");
    match given.transport.as_str() {
        "TLS" => {}
        "" | "Cleartext" => return None,
        other => {
            notes.add(
                InvalidConfiguration,
                format!("{path}.transport"),
                other,
                "is not known; accepted: TLS, Cleartext",
            );
            return None;
        }
    }
    let name = given.tls.as_ref().map_or("", |tls| tls.server_name.as_str());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    if name.is_empty() || name.len() > 253 || !name.bytes().all(plain) {
        let problem = "is no server name; TLS needs the name in the certificates of the upstreams";
        notes.add(InvalidConfiguration, format!("{path}.tls.serverName"), name, problem);
    }
    let bundle = given.tls.as_ref().and_then(|tls| tls.ca_bundle.as_ref()).map(|bundle| bundle.name.clone());
    if let Some(bundle) = bundle.as_ref().filter(|name| name.is_empty() || name.len() > 253 || !name.bytes().all(plain))
    {
        notes.add(InvalidConfiguration, format!("{path}.tls.caBundle.name"), bundle, "is no name of a ConfigMap");
    }
    Some(Tls { server_name: name.to_owned(), bundle })
}
