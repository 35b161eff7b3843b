//! Everything in the spec but the templates.

use super::{
    Mistake, Notes,
    Reason::InvalidConfiguration,
    forwards::{self, Forward, Manner},
    zone,
};
use crate::wire::Name;
use api::config::{DnsCache, DnsServer, OperatorDnsSpec};
use std::{collections::HashMap, time::Duration};

/// What is rendered beside templates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Servers for zones of their own.
    pub servers: Vec<Server>,
    /// Who is asked about everything else.
    pub resolvers: Forward,
    /// Classes of `log`.
    pub log: &'static str,
    /// Seconds for which answers with records are kept.
    pub positive: u64,
    /// Seconds for which answers without are kept.
    pub negative: u64,
}

/// A server for zones of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// For a comment.
    pub name: String,
    /// Without final dots.
    pub zones: Vec<String>,
    /// Whom it asks.
    pub forward: Forward,
}

/// Seconds where the resource says nothing.
const POSITIVE: u64 = 900;
const NEGATIVE: u64 = 30;

/// The spec in a form that can be rendered, or all mistakes in it.
pub fn base(spec: &OperatorDnsSpec, domain: &Name) -> Result<Base, Vec<Mistake>> {
    let mut notes = Notes { found: Vec::new(), template: None };
    let mut taken = HashMap::new();
    let servers = spec.servers.iter().enumerate();
    let servers = servers.map(|(index, given)| server(given, index, domain, &mut taken, &mut notes)).collect();
    let resolvers = spec.upstream_resolvers.clone().unwrap_or_default();
    let manner = Manner {
        policy: &resolvers.policy,
        default_policy: "sequential",
        transport: &resolvers.transport_config,
        protocol: &resolvers.protocol_strategy,
    };
    let resolvers = forwards::of_resolvers(&resolvers.upstreams, &manner, "spec.upstreamResolvers", &mut notes);
    let log = match spec.log_level.as_str() {
        "" | "Normal" => "error",
        "Debug" => "denial error",
        "Trace" => "all",
        other => {
            notes.add(InvalidConfiguration, "spec.logLevel", other, "is not known; accepted: Normal, Debug, Trace");
            "error"
        }
    };
    let DnsCache { positive_ttl, negative_ttl } = spec.cache.clone().unwrap_or_default();
    let positive = seconds(&positive_ttl, "spec.cache.positiveTTL", POSITIVE, &mut notes);
    let negative = seconds(&negative_ttl, "spec.cache.negativeTTL", NEGATIVE, &mut notes);
    if notes.found.is_empty() { Ok(Base { servers, resolvers, log, positive, negative }) } else { Err(notes.found) }
}

fn server(
    given: &DnsServer,
    index: usize,
    domain: &Name,
    taken: &mut HashMap<Name, String>,
    notes: &mut Notes<'_>,
) -> Server {
    let path = format!("spec.servers[{index}]");
    // A name stands in a comment: what could end the comment must not be in it.
    if !is_service_name(&given.name) {
        let problem = "is no service name (RFC 6335); accepted are up to 63 letters, digits and, within, hyphens";
        notes.add(InvalidConfiguration, format!("{path}.name"), &given.name, problem);
    }
    if given.zones.is_empty() {
        notes.add(InvalidConfiguration, format!("{path}.zones"), "", "is empty; give at least one zone");
    }
    let mut zones = Vec::new();
    for (index, text) in given.zones.iter().enumerate() {
        let path = format!("{path}.zones[{index}]");
        let problem = match zone::read(text) {
            Err(problem) => problem,
            Ok(zone) if zone.is_root() => "is every name: that is what spec.upstreamResolvers is for".to_owned(),
            Ok(zone) if zone.is_within(domain) => {
                format!("is within the cluster domain {}, whose names only the cluster answers", zone::text(domain))
            }
            Ok(zone) => match taken.get(&zone) {
                Some(first) => format!("has a server already, at {first}"),
                None => {
                    zones.push(zone::text(&zone));
                    taken.insert(zone, path);
                    continue;
                }
            },
        };
        notes.add(InvalidConfiguration, path, text, problem);
    }
    let plugin = &given.forward_plugin;
    let manner = Manner {
        policy: &plugin.policy,
        default_policy: "random",
        transport: &plugin.transport_config,
        protocol: &plugin.protocol_strategy,
    };
    let forward = forwards::of_server(&plugin.upstreams, &manner, &format!("{path}.forwardPlugin"), notes);
    Server { name: given.name.clone(), zones, forward }
}

fn is_service_name(name: &str) -> bool {
    let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (1..=63).contains(&name.len()) && letters && !name.starts_with('-') && !name.ends_with('-')
}

/// Whole seconds, rounded half up; what rounds to nothing is the default.
fn seconds(text: &str, path: &str, default: u64, notes: &mut Notes<'_>) -> u64 {
    let length = if text.is_empty() { Some(Duration::ZERO) } else { api::go_duration::parse(text) };
    match length.map(|length| (length + Duration::from_millis(500)).as_secs()) {
        Some(0) => default,
        // As long as TTLs can be.
        Some(rounded) => rounded.min(i32::MAX as u64),
        None => {
            notes.add(InvalidConfiguration, path, text, "is no length of time; accepted are such as 90s, 1h30m, 500ms");
            default
        }
    }
}
