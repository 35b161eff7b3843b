//! The text of one backend and of one server. The same words go into the file and through the socket.

use super::{
    Layout,
    spare::{cookie_path, own_path},
};
use crate::router::{
    model::{Backend, Balance, Claim, HeaderRule, Host, Insecure, PathKind, SameSite, Server, Termination},
    settings::{Forwarded, Settings},
    text::{self, quoted},
};
use std::fmt::Write;

/// The cookie that brings a client back to its pod. Claims for a path limit it to that path.
const COOKIE: &str = "router-server";

/// How a backend's name begins, as upstream has it.
pub(crate) fn name(claim: &Claim) -> String {
    let prefix = match claim.termination {
        Termination::Plain => "be_http",
        Termination::Edge => "be_edge_http",
        Termination::Reencrypt => "be_secure",
        Termination::Passthrough => "be_tcp",
    };
    format!("{prefix}:{}", claim.id)
}

/// From which section of defaults a backend inherits.
pub(crate) fn defaults(claim: &Claim, settings: &Settings) -> &'static str {
    match claim.termination {
        Termination::Passthrough => "tcp",
        _ => forwarded_defaults(claim.options.forwarded.unwrap_or(settings.http.forwarded)),
    }
}

/// The section for a way to tell pods who asks.
pub(super) fn forwarded_defaults(forwarded: Forwarded) -> &'static str {
    match forwarded {
        Forwarded::Append => "web-append",
        Forwarded::Replace => "web-replace",
        Forwarded::IfNone => "web-if-none",
        Forwarded::Never => "web-never",
    }
}

/// How servers are chosen.
pub(super) fn balance(balance: &str) -> String {
    let hash = if balance == "source" { "  hash-type consistent\n" } else { "" };
    format!("  balance {balance}\n{hash}")
}

/// The cookie's name.
pub(super) fn cookie<'a>(settings: &'a Settings, own: Option<&'a str>) -> &'a str {
    own.or(settings.http.cookie_name.as_deref()).unwrap_or(COOKIE)
}

/// Brings clients back to their pod.
pub(super) fn stickiness(settings: &Settings, name: Option<&str>, secure: bool, same_site: Option<SameSite>) -> String {
    let name = cookie(settings, name);
    let secure = match secure {
        true => format!(" secure attr SameSite={}", same_site.unwrap_or(SameSite::None).word()),
        false => same_site.map(|site| format!(" attr SameSite={}", site.word())).unwrap_or_default(),
    };
    format!(
        "  cookie {name} insert indirect nocache httponly dynamic{secure}\n  dynamic-cookie-key {}\n",
        text::fingerprint(name)
    )
}

/// Everything of a backend but its name and servers.
pub(crate) fn body(claim: &Claim, settings: &Settings) -> String {
    let options = &claim.options;
    // Whatever their shares are now, so that a share can change while HAProxy runs.
    let several = claim.targets.len() > 1;
    let passes = claim.termination == Termination::Passthrough;
    let usual = if passes { &settings.resources.tcp_balance } else { &settings.resources.balance };
    let mut body = balance(match options.balance {
        Some(balance) => balance.word(),
        None if several => Balance::RoundRobin.word(),
        None => usual,
    });
    if !passes && !options.no_cookie {
        let secure = claim.on_tls() && claim.insecure != Insecure::Allow;
        body += &stickiness(settings, options.cookie_name.as_deref(), secure, options.same_site);
        // A percent sign would begin an expression; paths have it only in escapes.
        let path = own_path(claim).map(|path| path.replace('%', "%%"));
        let name = cookie(settings, options.cookie_name.as_deref());
        body += &path.map(|path| cookie_path(name, &path)).unwrap_or_default();
    }
    for (word, time) in [("server", &options.timeout), ("tunnel", &options.tunnel_timeout)] {
        // Writing to a text does not fail.
        let _ = time.as_ref().map(|time| writeln!(body, "  timeout {word} {time}"));
    }
    body += &allow_list(claim);
    body += &limits(claim);
    if !passes {
        let adjusts = options.adjust_case && !settings.http.case_adjust.is_empty();
        body += if adjusts { "  option h1-case-adjust-bogus-server\n" } else { "" };
        body += &rewrite(claim);
        let hsts = options.hsts.as_ref().filter(|_| claim.on_tls());
        let _ =
            hsts.map(|hsts| writeln!(body, "  http-response set-header Strict-Transport-Security {}", quoted(hsts)));
        body += &headers("http-request", &options.request_headers);
        body += &headers("http-response", &options.response_headers);
    }
    body
}

/// An empty list lets nobody in.
fn allow_list(claim: &Claim) -> String {
    let Some(blocks) = &claim.options.allow else { return String::new() };
    let mut text = String::new();
    for line in blocks.chunks(32) {
        let words: Vec<String> = line.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "  acl allowed src {}", words.join(" "));
    }
    let unless = if blocks.is_empty() { "" } else { " unless allowed" };
    match claim.termination {
        Termination::Passthrough => text + "  tcp-request content reject" + unless + "\n",
        _ => text + "  http-request deny deny_status 403" + unless + "\n",
    }
}

fn limits(claim: &Claim) -> String {
    let limits = claim.options.limits;
    if !limits.by_client() {
        return String::new();
    }
    // The type for IPv6 holds IPv4 as well.
    let mut text = "  stick-table type ipv6 size 100k expire 30s store conn_cur,conn_rate(3s),http_req_rate(10s)\n  \
                    tcp-request content track-sc2 src\n"
        .to_owned();
    for (fetch, limit) in [("sc2_conn_cur", limits.concurrent_tcp), ("sc2_conn_rate", limits.rate_tcp)] {
        let _ = limit.map(|limit| writeln!(text, "  tcp-request content reject if {{ {fetch} gt {limit} }}"));
    }
    if claim.termination != Termination::Passthrough {
        let rule = |limit| writeln!(text, "  http-request deny deny_status 429 if {{ sc2_http_req_rate gt {limit} }}");
        let _ = limits.rate_http.map(rule);
    }
    text
}

fn rewrite(claim: &Claim) -> String {
    let Some(target) = &claim.options.rewrite else { return String::new() };
    let path = match claim.path.kind {
        PathKind::Prefix if claim.path.text.len() > 1 => claim.path.text.trim_end_matches('/'),
        _ => &claim.path.text,
    };
    let rest = match (target.as_str(), path) {
        (_, "/") => "/?(.*)$",
        ("/", _) => "/?(.*)$",
        _ => "(.*)$",
    };
    let path = if path == "/" { "" } else { path };
    let slash = if path.is_empty() && !target.ends_with('/') { "/" } else { "" };
    let pattern = format!("^{}{rest}", text::regex_literal(path));
    // A percent sign would begin an expression; paths have it only in escapes.
    let target = format!("{}{slash}\\1", target.replace('%', "%%"));
    format!("  http-request replace-path {} {}\n", quoted(&pattern), quoted(&target))
}

/// Rules that set or delete headers.
pub(crate) fn headers(rule: &str, rules: &[HeaderRule]) -> String {
    let line = |header: &HeaderRule| match &header.value {
        Some(value) => format!("  {rule} set-header {} {}\n", quoted(&header.name), quoted(value)),
        None => format!("  {rule} del-header {}\n", quoted(&header.name)),
    };
    rules.iter().map(line).collect()
}

/// How often the servers of a backend are checked. One alone is used in any case.
pub(crate) fn check_interval<'a>(backend: &'a Backend, settings: &'a Settings) -> Option<&'a str> {
    (backend.servers.len() > 1)
        .then(|| backend.claim.options.check.as_deref().unwrap_or(settings.timeouts.check.as_str()))
}

/// A server's words after its address.
pub(crate) fn server_words(
    backend: &Backend,
    server: &Server,
    check: Option<&str>,
    settings: &Settings,
    layout: &Layout,
) -> String {
    let claim = &backend.claim;
    let mut words = format!("weight {}", server.weight);
    let _ = claim.options.limits.per_pod.map(|limit| write!(words, " maxconn {limit}"));
    let _ = check.map(|interval| write!(words, " check inter {interval}"));
    if claim.termination == Termination::Reencrypt {
        words += " ssl";
        let own = claim.destination_ca.as_ref().map(|pem| layout.authority(pem));
        let service_ca = settings.tls.destination_ca.as_ref().map(|_| layout.service_ca());
        match (own, service_ca) {
            (Some(file), _) => {
                let _ = write!(words, " verify required ca-file {}", file.display());
            }
            (None, Some(file)) => {
                let host = format!("{}.{}.svc", server.service, claim.id.key.namespace);
                let _ = write!(words, " verify required ca-file {} verifyhost {host}", file.display());
            }
            (None, None) => words += " verify none",
        }
        if settings.tls.http2 {
            words += " alpn h2,http/1.1";
        }
    } else if server.h2c && claim.termination != Termination::Passthrough {
        words += " proto h2";
    }
    words
}

/// Defaults and body.
pub(crate) fn core(claim: &Claim, settings: &Settings) -> String {
    format!("{}\n{}", defaults(claim, settings), body(claim, settings))
}

/// The part of servers' words that no command changes.
pub(crate) fn server_shape(claim: &Claim) -> String {
    let limit = claim.options.limits.per_pod.map(|limit| format!("maxconn {limit}\n")).unwrap_or_default();
    let check = claim.options.check.as_ref().map(|time| format!("inter {time}\n")).unwrap_or_default();
    let tls = match claim.termination {
        Termination::Reencrypt => {
            format!("reencrypt {}\n", text::digest(claim.destination_ca.as_deref().unwrap_or_default()))
        }
        _ => String::new(),
    };
    format!("{limit}{check}{tls}")
}

/// Which names a certificate is for, in a list of certificates.
pub(crate) fn certificate_name(host: &Host) -> Option<String> {
    match host {
        Host::Exact(host) => Some(host.clone()),
        Host::Below(domain) => Some(format!("*.{domain}")),
        Host::Any => None,
    }
}
