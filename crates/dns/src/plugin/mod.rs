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
pub mod dnsrecords;
pub mod errors;
pub mod forward;
pub mod health;
pub mod hosts;
pub mod kubernetes;
pub mod loadbalance;
pub mod log;
#[path = "loop/mod.rs"]
pub mod loop_;
pub mod nsid;
pub mod prometheus;
pub mod ready;
pub mod reload;
pub mod rewrite;
pub mod template;

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
    ("reload", reload::setup),
    ("nsid", nsid::setup),
    ("bufsize", bufsize::setup),
    ("bind", bind::setup),
    ("ready", ready::setup),
    ("health", health::setup),
    ("prometheus", prometheus::setup),
    ("errors", errors::setup),
    ("log", log::setup),
    ("acl", acl::setup),
    ("any", any::setup),
    ("chaos", chaos::setup),
    ("loadbalance", loadbalance::setup),
    ("cache", cache::setup),
    ("rewrite", rewrite::setup),
    ("autopath", autopath::setup),
    ("template", template::setup),
    ("hosts", hosts::setup),
    ("kubernetes", kubernetes::setup),
    ("dnsrecords", dnsrecords::setup),
    ("loop", loop_::setup),
    ("forward", forward::setup),
];

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
