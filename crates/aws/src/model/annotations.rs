//! The annotations of a Service, read once into types. All mistakes are found, not only the first.
//!
//! Mirrors upstream's annotations (`service.beta.kubernetes.io/aws-load-balancer-...`); what differs is in docs/guide/aws.md.

use crate::account::{Attributes, Tags};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    str::FromStr,
};

/// Begins every annotation that is read here.
pub const PREFIX: &str = "service.beta.kubernetes.io/";

/// Who may connect, where the Service's own field says nothing.
pub const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// Which kind of load balancer is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Anything but the others.
    #[default]
    Classic,
    /// `nlb`.
    Network,
    /// `external` or `nlb-ip`: another controller's.
    Elsewhere,
}

/// Which ports are meant: by name or number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ports {
    /// Every port.
    All,
    /// These.
    Some(BTreeSet<String>),
}

/// Who writes rules into the nodes' groups when groups are brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendRules {
    /// Rules for the clients' ranges, as without groups.
    #[default]
    Ranges,
    /// Rules that refer to the brought groups (`true`).
    Groups,
    /// None (`false`).
    Nobody,
}

/// How targets are to be checked, as far as the annotations say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthCheckWishes {
    /// `TCP`, `HTTP`, `HTTPS`; for classic also `SSL`.
    pub protocol: Option<String>,
    /// A number, or `traffic-port`.
    pub port: Option<String>,
    /// For HTTP and HTTPS.
    pub path: Option<String>,
    /// Seconds between checks.
    pub interval: Option<i32>,
    /// Seconds to wait.
    pub timeout: Option<i32>,
    /// Successes in a row.
    pub healthy: Option<i32>,
    /// Failures in a row.
    pub unhealthy: Option<i32>,
}

/// Where accesses are logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessLog {
    /// Whether they are.
    pub enabled: bool,
    /// Minutes between files.
    pub interval: Option<i32>,
    /// Bucket of the files.
    pub bucket: Option<String>,
    /// Prefix in the bucket.
    pub prefix: Option<String>,
}

/// Everything the annotations say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// `-type`.
    pub kind: Kind,
    /// `-internal`.
    pub internal: bool,
    /// `-subnets`: ids or names.
    pub subnets: Option<Vec<String>>,
    /// `-security-groups`.
    pub groups: Option<BTreeSet<String>>,
    /// `-extra-security-groups`.
    pub extra_groups: BTreeSet<String>,
    /// `-manage-backend-security-group-rules`.
    pub backend_rules: BackendRules,
    /// `-additional-resource-tags`.
    pub tags: Tags,
    /// `-target-node-labels`; an empty value stands for any.
    pub node_labels: BTreeMap<String, String>,
    /// `-target-group-attributes`.
    pub target_attributes: Attributes,
    /// `-ssl-cert`: the listeners' own one first, then those that are chosen by the name that a client asks for.
    pub certificates: Vec<String>,
    /// `-ssl-ports`.
    pub ssl_ports: Option<Ports>,
    /// `-ssl-negotiation-policy`.
    pub ssl_policy: Option<String>,
    /// `-backend-protocol`, lower case.
    pub backend_protocol: Option<String>,
    /// `-proxy-protocol`: classic only.
    pub proxy_protocol: bool,
    /// `-access-log-...`.
    pub access_log: AccessLog,
    /// `-connection-draining-...`: seconds, if it is on.
    pub draining: Option<i32>,
    /// `-connection-idle-timeout`.
    pub idle_timeout: Option<i32>,
    /// `-cross-zone-load-balancing-enabled`.
    pub cross_zone: bool,
    /// `-healthcheck-...`.
    pub health: HealthCheckWishes,
    /// `-eip-allocations`.
    pub allocations: Vec<String>,
    /// `-private-ipv4-addresses`.
    pub private_ipv4: Vec<String>,
    /// `load-balancer-source-ranges`.
    pub source_ranges: Option<String>,
}

struct Reader<'a> {
    annotations: &'a BTreeMap<String, String>,
    mistakes: &'a mut Vec<String>,
}

impl Annotations {
    /// Reads the annotations of a Service.
    pub fn read(annotations: &BTreeMap<String, String>, mistakes: &mut Vec<String>) -> Self {
        let mut reader = Reader { annotations, mistakes };
        let kind = match reader.text("type") {
            Some("nlb") => Kind::Network,
            Some("external" | "nlb-ip") => Kind::Elsewhere,
            _ => Kind::Classic,
        };
        if kind == Kind::Elsewhere {
            return Self { kind, ..Self::default() };
        }
        let read = Self {
            kind,
            internal: reader.text("internal").is_some_and(|value| !value.is_empty() && value != "false"),
            subnets: reader.subnets(),
            groups: reader.text("security-groups").map(list_set).filter(|groups| !groups.is_empty()),
            extra_groups: reader.text("extra-security-groups").map(list_set).unwrap_or_default(),
            backend_rules: match reader.parse::<bool>("manage-backend-security-group-rules", "true, false") {
                None => BackendRules::Ranges,
                Some(true) => BackendRules::Groups,
                Some(false) => BackendRules::Nobody,
            },
            tags: reader.pairs("additional-resource-tags"),
            node_labels: reader.pairs("target-node-labels"),
            target_attributes: reader.target_attributes(kind),
            certificates: reader.certificates(kind),
            ssl_ports: reader.text("ssl-ports").map(|value| match value {
                "" | "*" => Ports::All,
                list => Ports::Some(list_set(&list.to_lowercase())),
            }),
            ssl_policy: reader.filled("ssl-negotiation-policy"),
            backend_protocol: reader.backend_protocol(),
            proxy_protocol: reader.proxy_protocol(kind),
            access_log: AccessLog {
                enabled: reader.parse::<bool>("access-log-enabled", "true, false").unwrap_or_default(),
                interval: reader.emit_interval(),
                bucket: reader.filled("access-log-s3-bucket-name"),
                prefix: reader.filled("access-log-s3-bucket-prefix"),
            },
            draining: reader.draining(),
            idle_timeout: reader.number("connection-idle-timeout", 1, 4000),
            cross_zone: reader.parse::<bool>("cross-zone-load-balancing-enabled", "true, false").unwrap_or_default(),
            health: reader.health(kind),
            allocations: reader.text("eip-allocations").map(list).unwrap_or_default(),
            private_ipv4: reader.text("private-ipv4-addresses").map(list).unwrap_or_default(),
            source_ranges: annotations.get(SOURCE_RANGES).cloned(),
        };
        read.check(&mut reader);
        read
    }

    fn check(&self, reader: &mut Reader<'_>) {
        let mistakes = &mut *reader.mistakes;
        if self.kind == Kind::Network {
            if reader.annotations.contains_key(&name("extra-security-groups")) {
                mistakes.push(format!(
                    "{}: BYO extra security group annotation is not supported by NLB; list every group in {}",
                    name("extra-security-groups"),
                    name("security-groups")
                ));
            }
            for address in self.private_ipv4.iter().filter(|address| Ipv4Addr::from_str(address).is_err()) {
                mistakes.push(format!("{}: {address:?} is no IPv4 address", name("private-ipv4-addresses")));
            }
            if self.internal && !self.allocations.is_empty() {
                mistakes
                    .push(format!("{}: an internal load balancer has no elastic addresses", name("eip-allocations")));
            }
            if !self.internal && !self.private_ipv4.is_empty() {
                mistakes.push(format!(
                    "{}: only an internal load balancer can be given private addresses",
                    name("private-ipv4-addresses")
                ));
            }
        }
        for id in self.groups.iter().flatten().chain(&self.extra_groups).filter(|id| !id.starts_with("sg-")) {
            mistakes
                .push(format!("{}: {id:?} is no security group id, which begins with sg-", name("security-groups")));
        }
        // Extra ones stand beside one that is made, or the one of all classic load balancers.
        let own = usize::from(!self.extra_groups.is_empty());
        let groups = self.groups.as_ref().map_or(own, BTreeSet::len) + self.extra_groups.len();
        if groups > 5 {
            mistakes.push(format!("{}: {groups} groups; a load balancer takes up to 5", name("security-groups")));
        }
        if self.tags.len() > 45 {
            let count = self.tags.len();
            mistakes.push(format!("{}: {count} tags; up to 45 are accepted", name("additional-resource-tags")));
        }
        if let Some(key) = self.tags.keys().find(|key| key.starts_with("aws:")) {
            mistakes
                .push(format!("{}: {key:?} begins with aws:, which is AWS's own", name("additional-resource-tags")));
        }
        if self.access_log.enabled && self.access_log.bucket.is_none() {
            mistakes.push(format!("{}: needs {}", name("access-log-enabled"), name("access-log-s3-bucket-name")));
        }
    }
}

/// The whole name of an annotation.
pub fn name(suffix: &str) -> String {
    format!("{PREFIX}aws-load-balancer-{suffix}")
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

fn list_set(text: &str) -> BTreeSet<String> {
    list(text).into_iter().collect()
}

impl<'a> Reader<'a> {
    fn text(&self, suffix: &str) -> Option<&'a str> {
        self.annotations.get(&name(suffix)).map(String::as_str)
    }

    fn filled(&self, suffix: &str) -> Option<String> {
        self.text(suffix).map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    fn parse<T: FromStr>(&mut self, suffix: &str, accepted: &str) -> Option<T> {
        let text = self.text(suffix)?;
        let parsed = text.trim().to_lowercase().parse().ok();
        if parsed.is_none() {
            self.mistakes.push(format!("{}: {text:?} is not accepted; accepted: {accepted}", name(suffix)));
        }
        parsed
    }

    fn number(&mut self, suffix: &str, least: i32, most: i32) -> Option<i32> {
        let accepted = format!("a number from {least} to {most}");
        let number = self.parse::<i32>(suffix, &accepted)?;
        if (least..=most).contains(&number) {
            return Some(number);
        }
        self.mistakes.push(format!("{}: {number} is not accepted; accepted: {accepted}", name(suffix)));
        None
    }

    fn emit_interval(&mut self) -> Option<i32> {
        let interval = self.number("access-log-emit-interval", 5, 60)?;
        if interval != 5 && interval != 60 {
            let annotation = name("access-log-emit-interval");
            self.mistakes.push(format!("{annotation}: {interval} is not accepted; accepted: 5, 60"));
        }
        Some(interval)
    }

    fn pairs(&mut self, suffix: &str) -> BTreeMap<String, String> {
        let items = self.text(suffix).map(list).unwrap_or_default();
        let pair = |item: String| match item.split_once('=') {
            Some((key, value)) => (key.trim().to_owned(), value.trim().to_owned()),
            None => (item, String::new()),
        };
        items.into_iter().map(pair).filter(|(key, _)| !key.is_empty()).collect()
    }

    fn subnets(&mut self) -> Option<Vec<String>> {
        let subnets = list(self.text("subnets")?);
        if subnets.is_empty() {
            self.mistakes.push(format!("{}: is empty; give ids or names of subnets", name("subnets")));
        }
        Some(subnets)
    }

    fn target_attributes(&mut self, kind: Kind) -> Attributes {
        let annotation = name("target-group-attributes");
        let Some(text) = self.text("target-group-attributes") else { return Attributes::new() };
        if kind == Kind::Classic {
            self.mistakes.push(format!("{annotation}: a Classic Load Balancer has no target groups"));
            return Attributes::new();
        }
        let attributes = self.pairs("target-group-attributes");
        if attributes.is_empty() {
            self.mistakes.push(format!("{annotation}: {text:?} holds no key=value"));
        }
        for (key, value) in &attributes {
            let known = ["preserve_client_ip.enabled", "proxy_protocol_v2.enabled"];
            if !known.contains(&key.as_str()) {
                self.mistakes.push(format!("{annotation}: {key:?} is not known; accepted are {}", known.join(" and ")));
            } else if value != "true" && value != "false" {
                self.mistakes.push(format!("{annotation}: {key} is {value:?}; accepted are true and false"));
            }
        }
        attributes
    }

    fn certificates(&mut self, kind: Kind) -> Vec<String> {
        let mut certificates: Vec<String> = Vec::new();
        for arn in self.text("ssl-cert").map(list).unwrap_or_default() {
            if !certificates.contains(&arn) {
                certificates.push(arn);
            }
        }
        let most = if kind == Kind::Classic { 1 } else { 26 };
        if certificates.len() > most {
            let (annotation, count) = (name("ssl-cert"), certificates.len());
            self.mistakes.push(format!("{annotation}: {count} certificates; up to {most} are accepted here"));
        }
        certificates
    }

    fn backend_protocol(&mut self) -> Option<String> {
        let protocol = self.filled("backend-protocol")?.to_lowercase();
        if !["tcp", "ssl", "http", "https"].contains(&protocol.as_str()) {
            let message =
                format!("{}: {protocol:?} is not accepted; accepted: tcp, ssl, http, https", name("backend-protocol"));
            self.mistakes.push(message);
        }
        Some(protocol)
    }

    fn proxy_protocol(&mut self, kind: Kind) -> bool {
        match self.text("proxy-protocol") {
            Some("*") => kind == Kind::Classic,
            Some(other) if kind == Kind::Classic => {
                let annotation = name("proxy-protocol");
                self.mistakes.push(format!("{annotation}: {other:?} is given, but the only value supported is '*'"));
                false
            }
            _ => false,
        }
    }

    fn draining(&mut self) -> Option<i32> {
        let on = self.parse::<bool>("connection-draining-enabled", "true, false").unwrap_or_default();
        let seconds = self.number("connection-draining-timeout", 1, 3600);
        on.then(|| seconds.unwrap_or(300))
    }

    fn health(&mut self, kind: Kind) -> HealthCheckWishes {
        let protocol = self.filled("healthcheck-protocol").map(|text| text.to_uppercase());
        let accepted: &[&str] =
            if kind == Kind::Network { &["TCP", "HTTP", "HTTPS"] } else { &["TCP", "HTTP", "HTTPS", "SSL"] };
        if let Some(given) = protocol.as_deref().filter(|given| !accepted.contains(given)) {
            let annotation = name("healthcheck-protocol");
            self.mistakes.push(format!(
                "{annotation}: Unsupported health check protocol {given:?}; accepted: {}",
                accepted.join(", ")
            ));
        }
        let port = self.filled("healthcheck-port");
        let fits = |text: &str| text == "traffic-port" || text.parse::<u16>().is_ok_and(|port| port > 0);
        if let Some(given) = port.as_deref().filter(|given| !fits(given)) {
            let annotation = name("healthcheck-port");
            self.mistakes.push(format!(
                "{annotation}: Invalid health check port '{given}'; accepted: traffic-port, or a number from 1 to 65535"
            ));
        }
        HealthCheckWishes {
            protocol,
            port,
            path: self.filled("healthcheck-path"),
            interval: self.number("healthcheck-interval", 5, 300),
            timeout: self.number("healthcheck-timeout", 2, 120),
            healthy: self.number("healthcheck-healthy-threshold", 2, 10),
            unhealthy: self.number("healthcheck-unhealthy-threshold", 2, 10),
        }
    }
}
