//! What server blocks consist of: one folder per plugin, with its manual, how it is read and what it does.
//!
//! The order in which plugins run is that of [`ORDER`], whatever the order of the lines: it is the order in which
//! CoreDNS is compiled; `dnsrecords`, which it does not have, comes after `kubernetes`.

pub mod acl;
pub mod any;
pub mod autopath;
pub mod bind;
pub mod bufsize;
pub mod cache;
pub mod chaos;
pub mod debug;
pub mod dns64;
pub mod dnsrecords;
pub mod erratic;
pub mod errors;
pub mod forward;
pub mod header;
pub mod health;
pub mod hosts;
pub mod k8s_external;
pub mod kubernetes;
pub mod loadbalance;
pub mod local;
pub mod log;
#[path = "loop/mod.rs"]
pub mod loop_;
pub mod minimal;
pub mod multisocket;
pub mod nsid;
pub mod prometheus;
pub mod ready;
pub mod reload;
pub mod rewrite;
pub mod root;
pub mod template;
pub mod timeouts;
pub mod tls;
pub mod view;
pub mod whoami;

#[cfg(test)]
mod recorded;

use crate::{
    chain::Rest,
    compile::Building,
    corefile::{Directive, Problem},
    query::Query,
    wire::Reply,
};
use futures::future::BoxFuture;

/// What a plugin made of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Not its business, or only on the way back.
    Next,
    /// The reply is made.
    Done,
    /// It must wait for something: [`Plugin::later`].
    Later,
}

/// One behaviour of a server block.
pub trait Plugin: Send + Sync {
    /// As Corefiles call it.
    fn name(&self) -> &'static str;

    /// On the way down. Never waits, never allocates when it has the answer at hand.
    fn before(&self, _query: &mut Query, _reply: &mut Reply) -> Step {
        Step::Next
    }

    /// Called after [`Step::Later`].
    fn later<'a>(&'a self, _query: &'a mut Query, _reply: &'a mut Reply, _rest: Rest<'a>) -> BoxFuture<'a, Step> {
        Box::pin(std::future::ready(Step::Next))
    }

    /// On the way up, when a plugin further down has answered.
    fn after(&self, _query: &mut Query, _reply: &mut Reply) {}
}

/// Reads all lines of one plugin in a server block.
pub(crate) type Setup = fn(&[&Directive], &mut Building<'_>) -> Result<(), Problem>;

/// Every plugin, in the order in which they run.
pub(crate) const ORDER: &[(&str, Setup)] = &[
    ("view", view::setup),
    ("root", root::setup),
    ("tls", tls::setup),
    ("timeouts", timeouts::setup),
    ("multisocket", multisocket::setup),
    ("reload", reload::setup),
    ("nsid", nsid::setup),
    ("bufsize", bufsize::setup),
    ("bind", bind::setup),
    ("debug", debug::setup),
    ("ready", ready::setup),
    ("health", health::setup),
    ("prometheus", prometheus::setup),
    ("errors", errors::setup),
    ("log", log::setup),
    ("local", local::setup),
    ("dns64", dns64::setup),
    ("acl", acl::setup),
    ("any", any::setup),
    ("chaos", chaos::setup),
    ("loadbalance", loadbalance::setup),
    ("cache", cache::setup),
    ("rewrite", rewrite::setup),
    ("autopath", autopath::setup),
    ("header", header::setup),
    ("minimal", minimal::setup),
    ("template", template::setup),
    ("hosts", hosts::setup),
    ("k8s_external", k8s_external::setup),
    ("kubernetes", kubernetes::setup),
    ("dnsrecords", dnsrecords::setup),
    ("loop", loop_::setup),
    ("forward", forward::setup),
    ("erratic", erratic::setup),
    ("whoami", whoami::setup),
];

/// Plugins of CoreDNS that are not here, with the reason; docs/guide/dns.md has the same table.
const ABSENT: &[(&str, &str)] = &[
    ("auto", "zone files are another server's business; use template, hosts or a forward to who has the zone"),
    ("azure", "a cloud's zones are answered by the cloud; use forward"),
    ("cancel", "waiting has its own limits (forward: read_timeout)"),
    ("clouddns", "a cloud's zones are answered by the cloud; use forward"),
    ("dnssec", "answers are not signed; who needs signatures asks a signing server by forward"),
    ("dnstap", "queries are told by log and metrics"),
    ("dynupdate", "zones are not kept here"),
    ("etcd", "records of SkyDNS in etcd are not read; use dnsrecords or a forward"),
    ("file", "zone files are another server's business; use template, hosts or a forward to who has the zone"),
    ("geoip", "there is no database of places"),
    ("grpc", "upstreams are asked by forward"),
    ("grpc_server", "DNS over gRPC is not served"),
    ("https", "`https://` blocks have no settings but those of `tls`"),
    ("https3", "HTTP/3 is not spoken; DNS over HTTPS is served over HTTP/2 and HTTP/1.1"),
    ("metadata", "no plugin publishes metadata"),
    ("nomad", "only Kubernetes is watched"),
    ("on", "programs are started by nothing in here"),
    ("pprof", "it is the profiler of Go programs; take perf for this one"),
    ("proxyproto", "the PROXY protocol is not read"),
    ("quic", "DNS over QUIC is not served"),
    ("route53", "a cloud's zones are answered by the cloud; use forward"),
    ("secondary", "zones are not transferred"),
    ("shed", "queries that wait have limits of their own"),
    ("sign", "zones are not signed"),
    ("siit", "addresses are translated by dns64 alone"),
    ("trace", "queries are told by log and metrics"),
    ("transfer", "zones are not transferred"),
    ("tsig", "messages are not signed"),
];

/// Why a plugin of CoreDNS is not here.
pub(crate) fn absent(name: &str) -> Option<&'static str> {
    ABSENT.iter().find(|(known, _)| *known == name).map(|(_, why)| *why)
}

/// The order for a block. A name that `rewrite` changes is the one that `acl` decides on, as in CoreDNS since 1.14; the cache
/// must then be behind both. Elsewhere it stays in front, where a hit costs least.
pub(crate) fn order(lines: &[Directive]) -> impl Iterator<Item = &'static (&'static str, Setup)> {
    let has = |name: &str| lines.iter().any(|line| line.name.text == name);
    let (rewriting, rest): (Vec<_>, Vec<_>) = match has("acl") && has("rewrite") {
        true => ORDER.iter().partition(|(name, _)| ["rewrite", "autopath"].contains(name)),
        false => (Vec::new(), ORDER.iter().collect()),
    };
    let at = rest.iter().position(|(name, _)| *name == "acl").unwrap_or(0);
    let (before, after) = (rest[..at].to_vec(), rest[at..].to_vec());
    before.into_iter().chain(rewriting).chain(after)
}

/// The names of all plugins.
pub fn names() -> impl Iterator<Item = &'static str> {
    ORDER.iter().map(|(name, _)| *name)
}

/// The one line of a plugin that may stand only once in a block.
pub(crate) fn only<'a>(lines: &[&'a Directive]) -> Result<&'a Directive, Problem> {
    match lines {
        [only] => Ok(only),
        [_, second, ..] => Err(Problem::at(&second.name, "may stand only once in a server block")),
        [] => unreachable!("a plugin is set up when it has a line"),
    }
}

#[cfg(test)]
mod tests {
    use super::names;
    use crate::testing;
    use std::path::Path;

    #[test]
    fn what_is_not_built_is_refused_with_the_reason_that_the_guide_gives() {
        let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/dns.md");
        let guide = std::fs::read_to_string(guide).unwrap();
        for (name, why) in super::ABSENT {
            let problem = testing::refused(&format!(". {{\n {name}\n}}"));
            assert_eq!(problem, format!("Corefile:2:2: {name:?}: this plugin of CoreDNS is not built here: {why}"));
            assert!(guide.contains(&format!("| `{name}` | {why} |")), "{name} is not in the guide");
            assert!(!names().any(|built| built == *name), "{name}");
        }
    }

    #[test]
    fn a_rewritten_name_is_the_one_that_acl_decides_on() {
        let rules = "rewrite name exact alias.test secret.test\n acl secret.test {\n block\n }";
        let asked = testing::Asked::new(&format!(". {{\n {rules}\n cache\n hosts {{\n 192.0.2.1 secret.test\n }}\n}}"));
        assert_eq!(asked.ask("alias.test.", "A"), "REFUSED");
    }

    #[test]
    fn every_plugin_has_a_manual_whose_examples_work() {
        for name in names() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/plugin").join(name).join("README.md");
            let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"));
            for part in ["## Name", "## Description", "## Syntax", "## Examples"] {
                assert!(text.contains(part), "{name}: {part}");
            }
            let examples: Vec<&str> =
                text.split("```corefile\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
            assert!(!examples.is_empty(), "{name}");
            for example in examples {
                assert!(example.contains(name), "{name}");
                testing::build(example).unwrap_or_else(|problem| panic!("{name}: {problem}\n{example}"));
            }
        }
    }
}
