//! The file /etc/resolv.conf of a Pod, by its `dnsPolicy` and `dnsConfig`.

use crate::cri::proto::DnsConfig;
use k8s_openapi::api::core::v1::Pod;
use std::net::IpAddr;

/// As many as resolvers take.
const MOST_SERVERS: usize = 3;
const MOST_SEARCHES: usize = 32;
const LONGEST_SEARCH: usize = 253;
const LONGEST_SEARCHES: usize = 2048;

/// What a node knows of name servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsSettings {
    /// Of either family, in the order in which Pods ask them.
    pub cluster_dns: Vec<IpAddr>,
    pub cluster_domain: String,
    /// Text of the host's resolv.conf.
    pub host: String,
}

/// The settings of a Pod, and what to say about them: reason and text of an event each.
#[must_use]
pub fn dns(pod: &Pod, settings: &DnsSettings) -> (DnsConfig, Vec<(&'static str, String)>) {
    let spec = pod.spec.as_ref();
    let on_host = spec.and_then(|spec| spec.host_network) == Some(true);
    let policy = spec.and_then(|spec| spec.dns_policy.as_deref()).unwrap_or("ClusterFirst");
    let host = read(&settings.host);
    let mut notes = Vec::new();
    let mut config = match policy {
        "None" => DnsConfig::default(),
        "Default" => host,
        "ClusterFirst" if on_host => host,
        _ if settings.cluster_dns.is_empty() => {
            let text = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" policy. Falling back to \"Default\" policy.";
            notes.push(("MissingClusterDNS", text.to_owned()));
            host
        }
        _ => cluster(pod, settings, host),
    };
    if let Some(own) = spec.and_then(|spec| spec.dns_config.as_ref()) {
        config.servers.extend(own.nameservers.iter().flatten().cloned());
        config.searches.extend(own.searches.iter().flatten().cloned());
        for option in own.options.iter().flatten() {
            let name = option.name.as_deref().unwrap_or_default();
            let value = option.value.as_deref().filter(|value| !value.is_empty());
            let text = value.map_or_else(|| name.to_owned(), |value| format!("{name}:{value}"));
            set(&mut config.options, text);
        }
    }
    once(&mut config.servers);
    once(&mut config.searches);
    limit(&mut config, &mut notes);
    (config, notes)
}

fn cluster(pod: &Pod, settings: &DnsSettings, host: DnsConfig) -> DnsConfig {
    let domain = &settings.cluster_domain;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let own = match domain.is_empty() {
        true => Vec::new(),
        false => vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()],
    };
    DnsConfig {
        servers: settings.cluster_dns.iter().map(IpAddr::to_string).collect(),
        searches: own.into_iter().chain(host.searches).collect(),
        options: vec!["ndots:5".to_owned()],
    }
}

/// A resolv.conf: servers add up, the last search line counts, options replace each other by name.
fn read(text: &str) -> DnsConfig {
    let mut config = DnsConfig::default();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => config.servers.extend(words.next().map(str::to_owned)),
            Some("search") => {
                let names = words.filter(|name| *name != ".").map(|name| name.strip_suffix('.').unwrap_or(name));
                config.searches = names.map(str::to_owned).collect();
            }
            Some("options") => words.for_each(|option| set(&mut config.options, option.to_owned())),
            _ => {}
        }
    }
    config
}

fn set(options: &mut Vec<String>, option: String) {
    let name = |option: &str| option.split(':').next().unwrap_or_default().to_owned();
    match options.iter_mut().find(|known| name(known) == name(&option)) {
        Some(known) => *known = option,
        None => options.push(option),
    }
}

fn once(words: &mut Vec<String>) {
    let mut seen = std::collections::BTreeSet::new();
    words.retain(|word| seen.insert(word.clone()));
}

fn limit(config: &mut DnsConfig, notes: &mut Vec<(&'static str, String)>) {
    if config.servers.len() > MOST_SERVERS {
        config.servers.truncate(MOST_SERVERS);
        let line = config.servers.join(" ");
        let text = format!(
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {line}"
        );
        notes.push(("DNSConfigForming", text));
    }
    let before = config.searches.len();
    config.searches.truncate(MOST_SEARCHES);
    config.searches.retain(|search| search.len() <= LONGEST_SEARCH);
    while config.searches.join(" ").len() > LONGEST_SEARCHES {
        config.searches.pop();
    }
    if config.searches.len() < before {
        let line = config.searches.join(" ");
        let text = format!(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {line}"
        );
        notes.push(("DNSConfigForming", text));
    }
}
