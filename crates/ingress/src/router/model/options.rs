//! What annotations and header rules ask for. Every value is checked here; what cannot be served is refused with its field.

use super::Refusal;
use crate::router::{
    log_format::{self, Place},
    settings::Forwarded,
    text,
};
use api::config::HeaderAction;
use net::Cidr;
use std::{cell::RefCell, collections::BTreeMap};

/// Annotations as metadata has them.
type Annotations = BTreeMap<String, String>;

/// What may differ from one claim to the next. The default is what a spare backend does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteOptions {
    /// How servers are chosen.
    pub balance: Option<Balance>,
    /// Who may come; `None` is everybody, an empty list is nobody.
    pub allow: Option<Vec<Cidr>>,
    /// For an answer.
    pub timeout: Option<String>,
    /// For an upgraded or passed-through connection.
    pub tunnel_timeout: Option<String>,
    /// No cookie, no stickiness.
    pub no_cookie: bool,
    pub cookie_name: Option<String>,
    /// Who may see the cookie.
    pub same_site: Option<SameSite>,
    /// Strict-Transport-Security.
    pub hsts: Option<String>,
    /// What the claim's path becomes.
    pub rewrite: Option<String>,
    /// X-Forwarded-* and Forwarded.
    pub forwarded: Option<Forwarded>,
    /// Time between health checks.
    pub check: Option<String>,
    /// Header names to the pod are spelled as ROUTER_H1_CASE_ADJUST has them.
    pub adjust_case: bool,
    /// How much one client may have at a time.
    pub limits: Limits,
    /// To the pod.
    pub request_headers: Vec<HeaderRule>,
    /// To the client.
    pub response_headers: Vec<HeaderRule>,
}

/// How servers are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    Random,
    /// In turns.
    RoundRobin,
    /// The least busy.
    LeastConn,
    /// By the client's address.
    Source,
}

impl Balance {
    /// HAProxy's word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::RoundRobin => "roundrobin",
            Self::LeastConn => "leastconn",
            Self::Source => "source",
        }
    }
}

/// Who may see the cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameSite {
    /// Requests from the site and links to it.
    Lax,
    /// Requests from the site.
    Strict,
    /// All requests.
    None,
}

impl SameSite {
    /// The cookie's word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Lax => "Lax",
            Self::Strict => "Strict",
            Self::None => "None",
        }
    }
}

/// How much one client, or all of them, may have at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Connections to one pod.
    pub per_pod: Option<u32>,
    /// Connections of one client.
    pub concurrent_tcp: Option<u32>,
    /// New connections of one client in three seconds.
    pub rate_tcp: Option<u32>,
    /// Requests of one client in ten seconds.
    pub rate_http: Option<u32>,
}

impl Limits {
    /// Whether anything is counted by client.
    pub fn by_client(&self) -> bool {
        self.concurrent_tcp.or(self.rate_tcp).or(self.rate_http).is_some()
    }
}

/// Set a header, or delete it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderRule {
    /// A token.
    pub name: String,
    /// In HAProxy's log format, already checked; `None` deletes.
    pub value: Option<String>,
}

const HAPROXY: &str = "haproxy.router.openshift.io";
const ROUTER: &str = "router.openshift.io";

struct Given<'a> {
    annotations: Option<&'a Annotations>,
    /// Mistakes that only make a claim less comfortable.
    ignored: RefCell<Vec<String>>,
    /// Mistakes without which more would be let in than was asked for.
    refused: RefCell<Vec<Refusal>>,
}

impl Given<'_> {
    /// The value under the first of these names that is there, read.
    fn read<T>(&self, names: &[&str], accepted: &str, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Refusal> {
        let found = names.iter().find_map(|name| Some((name, self.annotations?.get(*name)?)));
        let Some((name, value)) = found else { return Ok(None) };
        let field = format!("metadata.annotations[{name}]");
        read(value).map(Some).ok_or_else(|| Refusal::field(&field, value, accepted))
    }

    /// A value that cannot be read is as if it were not there.
    fn wish<T>(&self, names: &[&str], accepted: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let note = |mistake: Refusal| self.ignored.borrow_mut().push(mistake.message);
        self.read(names, accepted, read).map_err(note).ok().flatten()
    }

    /// A value that keeps somebody out: one that cannot be read keeps out all.
    fn guard<T>(&self, names: &[&str], accepted: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let note = |mistake| self.refused.borrow_mut().push(mistake);
        self.read(names, accepted, read).map_err(note).ok().flatten()
    }

    fn time(&self, name: &str) -> Option<String> {
        self.wish(&[name], "a time such as 30s or 500ms", text::haproxy_time)
    }

    fn limit(&self, name: &str) -> Option<u32> {
        self.guard(&[name], "a number", |value| value.parse().ok().filter(|number| *number <= 1_000_000_000))
    }
}

fn flag(value: &str) -> Option<bool> {
    match value {
        "true" | "TRUE" | "True" | "1" => Some(true),
        "false" | "FALSE" | "False" | "0" | "" => Some(false),
        _ => None,
    }
}

/// What annotations come to.
pub(super) struct FromAnnotations {
    pub(super) options: RouteOptions,
    /// Wishes that cannot be read.
    pub(super) ignored: Vec<String>,
    /// Guards that cannot be read.
    pub(super) refused: Vec<Refusal>,
}

/// What the annotations ask for.
pub(super) fn from_annotations(annotations: Option<&Annotations>) -> FromAnnotations {
    let given = Given { annotations, ignored: RefCell::default(), refused: RefCell::default() };
    let name = |prefix: &str, rest: &str| format!("{prefix}/{rest}");
    let haproxy = |rest: &str| name(HAPROXY, rest);
    let balance = |value: &str| {
        [Balance::Random, Balance::RoundRobin, Balance::LeastConn, Balance::Source]
            .into_iter()
            .find(|b| b.word() == value)
    };
    let same_site = |value: &str| {
        [SameSite::Lax, SameSite::Strict, SameSite::None]
            .into_iter()
            .find(|site| site.word().eq_ignore_ascii_case(value))
    };
    let token = |value: &str| text::is_token(value).then(|| value.to_owned());
    let path = |value: &str| text::is_path(value).then(|| value.to_owned());
    let lists = [haproxy("ip_allowlist"), haproxy("ip_whitelist")];
    let options = RouteOptions {
        balance: given.wish(&[&haproxy("balance")], "random, roundrobin, leastconn, source", balance),
        allow: given.guard(&[&lists[0], &lists[1]], "addresses and CIDRs between spaces", allow_list),
        timeout: given.time(&haproxy("timeout")),
        tunnel_timeout: given.time(&haproxy("timeout-tunnel")),
        no_cookie: given.wish(&[&haproxy("disable_cookies")], FLAG, flag).unwrap_or(false),
        cookie_name: given.wish(
            &[&name(ROUTER, "cookie_name")],
            "letters, digits, dashes, dots and underscores",
            token,
        ),
        same_site: given.wish(&[&name(ROUTER, "cookie-same-site")], "Lax, Strict, None", same_site),
        hsts: given.wish(&[&haproxy("hsts_header")], "max-age=SECONDS, then ;includeSubDomains and ;preload", hsts),
        rewrite: given.wish(&[&haproxy("rewrite-target")], "a path", path),
        forwarded: given.wish(
            &[&haproxy("set-forwarded-headers")],
            "append, replace, if-none, never",
            Forwarded::named,
        ),
        check: given.time(&name(ROUTER, "haproxy.health.check.interval")),
        adjust_case: given.wish(&[&haproxy("h1-adjust-case")], FLAG, flag).unwrap_or(false),
        limits: limits(&given),
        request_headers: Vec::new(),
        response_headers: Vec::new(),
    };
    FromAnnotations { options, ignored: given.ignored.into_inner(), refused: given.refused.into_inner() }
}

const FLAG: &str = "true, false";

fn limits(given: &Given<'_>) -> Limits {
    let name = |rest: &str| format!("{HAPROXY}/{rest}");
    let by_client = given.guard(&[&name("rate-limit-connections")], FLAG, flag).unwrap_or(false);
    let number = |rest: &str| given.limit(&name(&format!("rate-limit-connections.{rest}")));
    let (concurrent_tcp, rate_tcp, rate_http) = (number("concurrent-tcp"), number("rate-tcp"), number("rate-http"));
    let asked = |limit: Option<u32>| limit.filter(|_| by_client);
    Limits {
        per_pod: given.limit(&name("pod-concurrent-connections")).filter(|limit| *limit > 0),
        concurrent_tcp: asked(concurrent_tcp),
        rate_tcp: asked(rate_tcp),
        rate_http: asked(rate_http),
    }
}

/// Entries that are no address are left out; a list of which nothing is left lets nobody in. Text that could not be meant
/// as a list is refused.
fn allow_list(text: &str) -> Option<Vec<Cidr>> {
    let meant = |c: char| c.is_ascii_alphanumeric() || ".:/-_ \t,".contains(c);
    if !text.chars().all(meant) {
        return None;
    }
    let block = |word: &str| {
        let (address, prefix) = word.split_once('/').map_or((word, None), |(address, prefix)| (address, Some(prefix)));
        let ip = net::parse_ip(address).ok()?;
        match prefix {
            None => Cidr::host(ip),
            // Host bits are forgiven, as HAProxy does.
            Some(prefix) => Cidr::containing(ip, prefix.parse().ok()?),
        }
    };
    let mut blocks: Vec<Cidr> =
        text.split([' ', '\t', ',']).filter(|word| !word.is_empty()).filter_map(block).collect();
    blocks.sort();
    blocks.dedup();
    Some(blocks)
}

fn hsts(text: &str) -> Option<String> {
    let mut parts = text.split(';').map(str::trim);
    let seconds = parts.next()?.strip_prefix("max-age=")?.trim_matches('"');
    let known = |part: &str| {
        part.is_empty() || part.eq_ignore_ascii_case("includeSubDomains") || part.eq_ignore_ascii_case("preload")
    };
    (!seconds.is_empty() && seconds.bytes().all(|byte| byte.is_ascii_digit()) && parts.all(known))
        .then(|| text.trim().replace('"', ""))
}

/// Which way a header goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Request,
    Response,
}

impl Direction {
    pub(crate) fn place(self) -> Place {
        match self {
            Self::Request => Place::Request,
            Self::Response => Place::Response,
        }
    }
}

const UNTOUCHABLE: [&str; 4] = ["strict-transport-security", "proxy", "cookie", "set-cookie"];

/// A rule of the router's own, for all Routes.
pub(crate) fn header_rule(name: &str, value: Option<&str>, direction: Direction) -> Option<HeaderRule> {
    let lower = name.to_ascii_lowercase();
    if !text::is_token(name) || UNTOUCHABLE.contains(&lower.as_str()) || lower == "host" {
        return None;
    }
    let value = match value {
        Some(value) => Some(header_value(value, direction)?),
        None => None,
    };
    Some(HeaderRule { name: name.to_owned(), value })
}

/// Header rules; `at` is the field for messages.
pub(super) fn header_rules(at: &str, rules: &[HeaderAction], direction: Direction) -> Result<Vec<HeaderRule>, Refusal> {
    let rule = |(number, rule): (usize, &HeaderAction)| {
        let at = format!("{at}[{number}]");
        if !text::is_token(&rule.name) || UNTOUCHABLE.contains(&rule.name.to_ascii_lowercase().as_str()) {
            let accepted = "a header's name, but not strict-transport-security, proxy, cookie, set-cookie";
            return Err(Refusal::field(&format!("{at}.name"), &rule.name, accepted));
        }
        let value = match (rule.action.kind.as_str(), &rule.action.set) {
            ("Delete", _) => None,
            ("Set", Some(set)) => {
                let accepted = direction.place().accepted();
                let refuse = || Refusal::field(&format!("{at}.action.set.value"), &set.value, accepted);
                Some(header_value(&set.value, direction).ok_or_else(refuse)?)
            }
            (kind, _) => return Err(Refusal::field(&format!("{at}.action.type"), kind, "Set with a value, Delete")),
        };
        Ok(HeaderRule { name: rule.name.clone(), value })
    };
    rules.iter().enumerate().map(rule).collect()
}

/// A value in HAProxy's log format, if every expression in it is one of the harmless ones.
fn header_value(value: &str, direction: Direction) -> Option<String> {
    let sound = !value.is_empty() && value.len() <= 16_384 && log_format::is_usable(value, direction.place());
    sound.then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allow_lists_fail_closed() {
        let list = |text: &str| allow_list(text).map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>());
        for (text, expected) in [
            ("192.0.2.1", Some(vec!["192.0.2.1/32"])),
            ("192.0.2.7/24 2001:db8::1/64", Some(vec!["192.0.2.0/24", "2001:db8::/64"])),
            ("2001:db8::1,192.0.2.1", Some(vec!["192.0.2.1/32", "2001:db8::1/128"])),
            ("nonsense 192.0.2.1", Some(vec!["192.0.2.1/32"])),
            ("nonsense", Some(vec![])),
            ("", Some(vec![])),
            ("192.0.2.1/33", Some(vec![])),
            ("192.0.2.1 { src 0.0.0.0/0 }", None),
            ("192.0.2.1\n  use_backend x", None),
        ] {
            let expected = expected.map(|list: Vec<&str>| list.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(list(text), expected, "{text:?}");
        }
    }

    #[test]
    fn hsts_headers() {
        for (text, good) in [
            ("max-age=31536000", true),
            ("max-age=1;includeSubDomains;preload", true),
            ("max-age=\"1\"; includeSubDomains", true),
            ("includeSubDomains", false),
            ("max-age=x", false),
            ("max-age=1;evil", false),
            ("max-age=1\nx", false),
        ] {
            assert_eq!(hsts(text).is_some(), good, "{text:?}");
        }
    }
}
