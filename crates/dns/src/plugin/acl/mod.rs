//! `acl`: who may ask what.

use super::{Plugin, Step};
use crate::{
    compile::Building,
    corefile::{Directive, Problem},
    metrics::{Counters, Labels},
    query::Query,
    text,
    wire::{
        Name, Reply,
        code::{rcode, rtype},
    },
};
use std::sync::Arc;

struct Acl {
    stanzas: Vec<Stanza>,
    counters: Arc<Counters>,
    labels: Labels,
}

/// One `acl` line with its block.
#[derive(Debug)]
struct Stanza {
    zones: Vec<Name>,
    policies: Vec<Policy>,
}

#[derive(Debug)]
struct Policy {
    action: Action,
    /// None is every type.
    types: Vec<u16>,
    /// None is every address.
    networks: Vec<net::Cidr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Allow,
    Block,
    Filter,
    Drop,
}

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let mut stanzas = Vec::new();
    for line in lines {
        let zones = text::zones_or(&line.args, &building.zones)?;
        let policies = line.lines().iter().map(policy).collect::<Result<_, _>>()?;
        stanzas.push(Stanza { zones, policies });
    }
    let counters = Arc::clone(&building.lasting.counters);
    let labels = building.observers.labels().clone();
    building.plugins.push(Box::new(Acl { stanzas, counters, labels }));
    Ok(())
}

fn policy(line: &Directive) -> Result<Policy, Problem> {
    let action = match line.name.text.as_str() {
        "allow" => Action::Allow,
        "block" => Action::Block,
        "filter" => Action::Filter,
        "drop" => Action::Drop,
        _ => return Err(line.unknown(&["allow", "block", "drop", "filter"])),
    };
    let mut policy = Policy { action, types: Vec::new(), networks: Vec::new() };
    let (mut every_type, mut every_network) = (false, false);
    let mut section = "";
    for word in &line.args {
        match (section, word.text.as_str()) {
            (_, next @ ("type" | "net")) => section = next,
            ("type", "*") => every_type = true,
            ("type", name) => policy
                .types
                .push(rtype::number(&name.to_uppercase()).ok_or_else(|| Problem::at(word, "is no record type"))?),
            ("net", "*") => every_network = true,
            ("net", text) => policy.networks.push(
                text::network(text)
                    .ok_or_else(|| Problem::at(word, "is no network; accepted: an address, a CIDR, or *"))?,
            ),
            _ => return Err(Problem::at(word, "accepted: type TYPE..., net NETWORK...")),
        }
    }
    if every_type {
        policy.types.clear();
    }
    if every_network {
        policy.networks.clear();
    }
    Ok(policy)
}

impl Stanza {
    fn decide(&self, query: &Query) -> Option<Action> {
        let source = query.source.ip().to_canonical();
        let fits = |policy: &&Policy| {
            let by_type = policy.types.is_empty() || policy.types.contains(&query.request.rtype);
            by_type && (policy.networks.is_empty() || policy.networks.iter().any(|network| network.contains(source)))
        };
        text::longest(&self.zones, &query.lower)?;
        self.policies.iter().find(fits).map(|policy| policy.action)
    }
}

impl Plugin for Acl {
    fn name(&self) -> &'static str {
        "acl"
    }

    fn before(&self, query: &mut Query, reply: &mut Reply) -> Step {
        let Some(action) = self.stanzas.iter().find_map(|stanza| stanza.decide(query)) else {
            return Step::Next;
        };
        self.counters.acl[action as usize].get_or_create(&self.labels).inc();
        match action {
            Action::Allow => return Step::Next,
            Action::Block => {
                reply.fail(rcode::REFUSED, None);
                reply.extended = Some((15, "Blocked".to_owned()));
            }
            Action::Filter => {
                reply.fail(rcode::NOERROR, None);
                reply.extended = Some((17, "Filtered".to_owned()));
            }
            Action::Drop => reply.dropped = true,
        }
        Step::Done
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Asked, refused};

    const CONF: &str = "example.org {
 acl a.example.org {
  allow net 192.0.2.0/24 2001:db8::/32
  block
 }
 acl {
  filter type AAAA net *
  drop type TXT
  block type ANY net 198.51.100.7
 }
 hosts {
  192.0.2.1 a.example.org b.example.org
  2001:db8::1 a.example.org b.example.org
 }
}";

    #[test]
    fn the_first_policy_that_fits_decides_in_both_families() {
        let asked = Asked::new(CONF);
        for (source, name, rtype, expected) in [
            ("192.0.2.9:1", "a.example.org.", "A", "NOERROR aa | a.example.org. 3600 IN A 192.0.2.1"),
            ("[2001:db8::9]:1", "a.example.org.", "AAAA", "NOERROR aa | a.example.org. 3600 IN AAAA 2001:db8::1"),
            ("203.0.113.1:1", "a.example.org.", "A", "REFUSED"),
            ("[2001:db9::1]:1", "a.example.org.", "A", "REFUSED"),
            ("203.0.113.1:1", "b.example.org.", "A", "NOERROR aa | b.example.org. 3600 IN A 192.0.2.1"),
            ("203.0.113.1:1", "b.example.org.", "AAAA", "NOERROR"),
            ("203.0.113.1:1", "b.example.org.", "TXT", "nothing"),
            ("198.51.100.7:1", "b.example.org.", "ANY", "REFUSED"),
        ] {
            assert_eq!(asked.ask_from(source, name, rtype), expected, "{source} {name} {rtype}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            (
                ". {\n acl {\n  permit\n }\n}",
                "\"permit\": plugin acl: unknown property; known: allow, block, drop, filter",
            ),
            (". {\n acl {\n  block type XX\n }\n}", "\"XX\": plugin acl: is no record type"),
            (
                ". {\n acl {\n  block net 1.2.3\n }\n}",
                "\"1.2.3\": plugin acl: is no network; accepted: an address, a CIDR, or *",
            ),
            (". {\n acl {\n  block all\n }\n}", "\"all\": plugin acl: accepted: type TYPE..., net NETWORK..."),
        ] {
            assert!(refused(text).ends_with(expected), "{}", refused(text));
        }
    }
}
