//! `local`: names and addresses of the machine itself, which nobody else should be asked for (RFC 6303, RFC 6761).

use super::{Plugin, Step, only};
use crate::{
    compile::Building,
    corefile::{Directive, Problem},
    query::Query,
    text,
    wire::{
        Name, Record, Reply, Section,
        code::{rcode, rtype},
    },
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const TTL: u32 = 604_800;

struct Local {
    /// `localhost`, and the reverse zones of what is no address of anybody.
    zones: Vec<Name>,
    localhost: Name,
    root: Name,
    /// The name of 127.0.0.1.
    loopback: Name,
    /// Whether `localhost.example.org` is one as well.
    prefix: bool,
}

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    line.none()?;
    let mut prefix = true;
    for line in line.lines() {
        match line.name.text.as_str() {
            "disable_localhost_prefix" => {
                line.none()?;
                prefix = false;
            }
            _ => return Err(line.unknown(&["disable_localhost_prefix"])),
        }
    }
    let name = |text: &str| Name::parse(text).map_err(|error| Problem::at(&line.name, error.to_string()));
    let zones = ["localhost", "0.in-addr.arpa", "127.in-addr.arpa", "255.in-addr.arpa"];
    building.plugins.push(Box::new(Local {
        zones: zones.into_iter().map(name).collect::<Result<_, _>>()?,
        localhost: name("localhost")?,
        root: name("root.localhost")?,
        loopback: name("1.0.0.127.in-addr.arpa")?,
        prefix,
    }));
    Ok(())
}

impl Local {
    fn soa(&self, section: Section, owner: &Name, reply: &mut Reply) {
        reply.add_soa(section, owner, TTL, [&self.localhost, &self.root], [1, 0, 0, 0, TTL]);
    }

    /// An address of the machine for a name that stands for it.
    fn addresses(&self, query: &Query, reply: &mut Reply) -> bool {
        let address: IpAddr = match query.request.rtype {
            rtype::A => Ipv4Addr::LOCALHOST.into(),
            rtype::AAAA => Ipv6Addr::LOCALHOST.into(),
            _ => return false,
        };
        reply.add_address(Section::Answer, &query.request.name, TTL, address);
        true
    }

    /// Whether a name below or before others stands for the machine.
    fn is_localhost(&self, lower: &Name) -> bool {
        let first = || lower.labels().next() == Some(&b"localhost"[..]) && lower.label_count() > 1;
        (lower.is_within(&self.localhost) && *lower != self.localhost) || (self.prefix && first())
    }
}

impl Plugin for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn before(&self, query: &mut Query, reply: &mut Reply) -> Step {
        let asked = query.request.name;
        if self.is_localhost(&query.lower) {
            if !self.addresses(query, reply) {
                self.soa(Section::Authority, &asked, reply);
            }
            return Step::Done;
        }
        let Some(zone) = text::longest(&self.zones, &query.lower) else { return Step::Next };
        if query.lower == *zone {
            match query.request.rtype {
                rtype::A | rtype::AAAA if *zone == self.localhost => _ = self.addresses(query, reply),
                rtype::SOA => self.soa(Section::Answer, &asked, reply),
                rtype::NS => {
                    reply.add(Section::Answer, &Record::pointer(asked, rtype::NS, TTL, &self.localhost));
                }
                _ => self.soa(Section::Authority, &asked, reply),
            }
        } else if query.lower == self.loopback && query.request.rtype == rtype::PTR {
            reply.add(Section::Answer, &Record::pointer(asked, rtype::PTR, TTL, &self.localhost));
        } else {
            self.soa(Section::Authority, zone, reply);
            if query.lower != self.loopback {
                reply.rcode = rcode::NXDOMAIN;
            }
        }
        Step::Done
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Asked;

    #[test]
    fn names_of_the_machine_stay_on_it() {
        let soa = |zone: &str| format!("{zone}. 604800 IN SOA localhost. root.localhost. 1 0 0 0 604800");
        let asked = Asked::new(". {\n local\n}");
        for (name, sort, expected) in [
            ("localhost.", "A", "NOERROR | localhost. 604800 IN A 127.0.0.1".to_owned()),
            ("localhost.", "AAAA", "NOERROR | localhost. 604800 IN AAAA ::1".to_owned()),
            ("localhost.", "NS", "NOERROR | localhost. 604800 IN NS localhost.".to_owned()),
            ("localhost.", "SOA", format!("NOERROR | {}", soa("localhost"))),
            ("localhost.", "MX", format!("NOERROR | | {}", soa("localhost"))),
            ("a.localhost.", "A", "NOERROR | a.localhost. 604800 IN A 127.0.0.1".to_owned()),
            ("a.localhost.", "MX", format!("NOERROR | | {}", soa("a.localhost"))),
            ("localhost.example.org.", "AAAA", "NOERROR | localhost.example.org. 604800 IN AAAA ::1".to_owned()),
            ("127.in-addr.arpa.", "A", format!("NOERROR | | {}", soa("127.in-addr.arpa"))),
            ("1.0.0.127.in-addr.arpa.", "PTR", "NOERROR | 1.0.0.127.in-addr.arpa. 604800 IN PTR localhost.".to_owned()),
            ("1.0.0.127.in-addr.arpa.", "A", format!("NOERROR | | {}", soa("127.in-addr.arpa"))),
            ("2.0.0.127.in-addr.arpa.", "PTR", format!("NXDOMAIN | | {}", soa("127.in-addr.arpa"))),
            ("example.org.", "A", "SERVFAIL".to_owned()),
        ] {
            assert_eq!(asked.ask(name, sort), expected, "{name} {sort}");
        }
        let asked = Asked::new(". {\n local {\n disable_localhost_prefix\n }\n}");
        assert_eq!(asked.ask("localhost.example.org.", "A"), "SERVFAIL");
        assert_eq!(asked.ask("a.localhost.", "A"), "NOERROR | a.localhost. 604800 IN A 127.0.0.1");
    }
}
