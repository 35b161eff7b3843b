//! `dns64`: addresses of IPv6 for names that have none, made from those of IPv4 (RFC 6147).
//!
//! Answers are looked at on their way up. Only one without an address waits, for the addresses of IPv4; all others pass at no
//! cost.

use super::{Plugin, Step, only};
use crate::{
    chain::Rest,
    compile::Building,
    corefile::{Directive, Problem, Token},
    query::Query,
    wire::{
        Message, Record, Reply, Section,
        code::{class, rcode, rtype},
    },
};
use futures::future::BoxFuture;
use net::Cidr;
use prometheus_client::metrics::counter::Counter;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The prefix that everybody knows (RFC 6052, section 2.1).
const WELL_KNOWN: Prefix = Prefix { network: Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), bytes: 12 };
/// The longest time of an answer where no SOA record says one (RFC 6147, section 5.1.7).
const LONGEST: u32 = 600;

struct Dns64 {
    prefix: Prefix,
    /// Also where there are addresses of IPv6.
    translate_all: bool,
    /// Also for clients that ask over IPv4.
    allow_ipv4: bool,
    translated: Counter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefix {
    network: Ipv6Addr,
    /// Its length.
    bytes: usize,
}

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    let server = building.observers.labels().iter().filter(|(name, _)| *name == "server").cloned().collect();
    let translated = building.lasting.counters.dns64.get_or_create(&server).clone();
    let mut plugin = Dns64 { prefix: WELL_KNOWN, translate_all: false, allow_ipv4: false, translated };
    match line.args.as_slice() {
        [] => {}
        [one] => plugin.prefix = prefix(one)?,
        [_, more, ..] => return Err(Problem::at(more, "one prefix is enough")),
    }
    for line in line.lines() {
        match line.name.text.as_str() {
            "prefix" => plugin.prefix = prefix(line.one()?)?,
            "translate_all" => {
                line.none()?;
                plugin.translate_all = true;
            }
            "allow_ipv4" => {
                line.none()?;
                plugin.allow_ipv4 = true;
            }
            _ => return Err(line.unknown(&["allow_ipv4", "prefix", "translate_all"])),
        }
    }
    building.plugins.push(Box::new(plugin));
    Ok(())
}

fn prefix(token: &Token) -> Result<Prefix, Problem> {
    let refused = || Problem::at(token, "accepted: a prefix of IPv6 with a length of 32, 40, 48, 56, 64 or 96");
    let cidr: Cidr = token.text.parse().map_err(|_| refused())?;
    match (cidr.network(), cidr.prefix()) {
        (IpAddr::V6(network), 32 | 40 | 48 | 56 | 64 | 96) => {
            Ok(Prefix { network, bytes: usize::from(cidr.prefix()) / 8 })
        }
        _ => Err(refused()),
    }
}

impl Prefix {
    /// The address behind the prefix (RFC 6052, section 2.2). The ninth byte is never used.
    fn with(self, address: Ipv4Addr) -> Ipv6Addr {
        let mut octets = self.network.octets();
        octets[self.bytes..].fill(0);
        let places = (self.bytes..16).filter(|place| *place != 8);
        for (place, octet) in places.zip(address.octets()) {
            octets[place] = octet;
        }
        octets.into()
    }
}

impl Dns64 {
    /// Whether an answer is one that lacks an address.
    fn concerns(&self, query: &Query, reply: &Reply) -> bool {
        let request = &query.request;
        let asked = request.rtype == rtype::AAAA && request.class == class::IN;
        let client = self.allow_ipv4 || query.source.ip().to_canonical().is_ipv6();
        // A name that does not exist has no addresses at all; and who failed altogether fails.
        let denied = reply.rcode == rcode::NXDOMAIN && reply.count(Section::Answer) == 0;
        let failed = reply.error.is_some() || reply.dropped;
        asked && client && !denied && !failed && (self.translate_all || !reply.answers_with(rtype::AAAA))
    }

    fn translate(&self, before: &Message, found: &Message) -> Message {
        let mut soa = before.authority().iter().filter(|record| record.rtype == rtype::SOA).map(|record| record.ttl);
        let longest = soa.next_back().unwrap_or(LONGEST);
        let translated = |record: &Record| match record.ip() {
            Some(IpAddr::V4(address)) => {
                Record::address(record.name, record.ttl.min(longest), self.prefix.with(address).into())
            }
            _ => record.clone(),
        };
        let [answer, authority, additional] = &found.sections;
        let sections = [answer.iter().map(translated).collect(), authority.clone(), additional.clone()];
        let question = before.question;
        Message { sections, tc: found.tc, ..Message::failure(before.id, found.rcode, question) }
    }
}

impl Plugin for Dns64 {
    fn name(&self) -> &'static str {
        "dns64"
    }

    fn after(&self, query: &mut Query, reply: &mut Reply) {
        reply.waits = self.concerns(query, reply);
    }

    fn later<'a>(&'a self, query: &'a mut Query, reply: &'a mut Reply, rest: Rest<'a>) -> BoxFuture<'a, Step> {
        Box::pin(async move {
            let Some(before) = reply.message() else { return Step::Done };
            match rest.lookup(query, query.request.name, rtype::A).await {
                Some(found) => {
                    self.translated.inc();
                    reply.set_message(&self.translate(&before, &found));
                    reply.by = self.name();
                }
                None => reply.fail(rcode::SERVFAIL, Some("plugin/dns64: no addresses of IPv4 to be had".to_owned())),
            }
            Step::Done
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Asked, refused};

    const CLIENT: &str = "[2001:db8::1]:4000";
    const ZONE: &str = "template IN A v4.test {
  answer \"{{ .Name }} 300 IN A 192.0.2.33\"
 }
 template IN AAAA v4.test {
  authority \"test. 120 IN SOA ns.test. h.test. 1 2 3 4 120\"
 }
 template IN ANY none.test {
  rcode NXDOMAIN
 }
 template IN A both.test {
  answer \"{{ .Name }} 900 IN CNAME v4.test.\"
 }
 template IN AAAA both.test {
  answer \"{{ .Name }} 60 IN AAAA 2001:db8::7\"
 }
 template IN A bare.test {
  answer \"{{ .Name }} 900 IN A 192.0.2.1\"
 }
 template IN AAAA bare.test {
 }";

    fn asked(line: &str) -> Asked {
        Asked::new(&format!(". {{\n {line}\n {ZONE}\n}}"))
    }

    #[test]
    fn names_without_ipv6_get_addresses_behind_the_prefix() {
        let plain = asked("dns64");
        for (name, sort, expected) in [
            ("v4.test.", "AAAA", "NOERROR | v4.test. 120 IN AAAA 64:ff9b::c000:221"),
            ("v4.test.", "A", "NOERROR aa | v4.test. 300 IN A 192.0.2.33"),
            // Nobody says for how long: ten minutes.
            ("bare.test.", "AAAA", "NOERROR | bare.test. 600 IN AAAA 64:ff9b::c000:201"),
            ("both.test.", "AAAA", "NOERROR aa | both.test. 60 IN AAAA 2001:db8::7"),
            ("none.test.", "AAAA", "NXDOMAIN aa"),
            ("elsewhere.example.", "AAAA", "SERVFAIL"),
        ] {
            assert_eq!(plain.ask_from(CLIENT, name, sort), expected, "{name} {sort}");
        }
        // Who asks over IPv4 has IPv4.
        assert_eq!(plain.ask("v4.test.", "AAAA"), "NOERROR aa | | test. 120 IN SOA ns.test. h.test. 1 2 3 4 120");
        let all = asked("dns64 {\n translate_all\n allow_ipv4\n prefix 2001:db8:64::/48\n }");
        assert_eq!(all.ask("v4.test.", "AAAA"), "NOERROR | v4.test. 120 IN AAAA 2001:db8:64:c000:2:2100::");
        assert_eq!(
            all.ask("both.test.", "AAAA"),
            "NOERROR | both.test. 900 IN CNAME v4.test., v4.test. 300 IN AAAA 2001:db8:64:c000:2:2100::"
        );
    }

    #[test]
    fn prefixes_of_every_length_take_an_address() {
        for (text, expected) in [
            ("2001:db8::/32", "2001:db8:c000:221::"),
            ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
            ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100:0"),
            ("2001:db8:122:344::/96", "2001:db8:122:344::c000:221"),
        ] {
            let cidr: Cidr = text.parse().unwrap();
            let IpAddr::V6(network) = cidr.network() else { panic!("{text}") };
            let prefix = Prefix { network, bytes: usize::from(cidr.prefix()) / 8 };
            assert_eq!(prefix.with("192.0.2.33".parse().unwrap()).to_string(), expected, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let accepted = "plugin dns64: accepted: a prefix of IPv6 with a length of 32, 40, 48, 56, 64 or 96";
        for (line, expected) in [
            ("dns64 64:ff9b::/97", accepted),
            ("dns64 192.0.2.0/24", accepted),
            ("dns64 {\n prefix nowhere\n }", accepted),
            ("dns64 a b", "\"b\": plugin dns64: one prefix is enough"),
            (
                "dns64 {\n translate\n }",
                "unknown property; did you mean translate_all?; known: allow_ipv4, prefix, translate_all",
            ),
        ] {
            let problem = refused(&format!(". {{\n {line}\n}}"));
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
