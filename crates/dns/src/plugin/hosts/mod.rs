//! `hosts`: addresses from a file such as `/etc/hosts` and from the Corefile itself.

mod table;

use super::{Plugin, Step, only};
use crate::{
    compile::Building,
    corefile::{Directive, Problem},
    follow,
    query::Query,
    text::{self, Fallthrough},
    wire::{
        Name, Record, Reply, Section,
        code::{rcode, rtype},
        from_reverse,
    },
};
use arc_swap::ArcSwap;
use std::{net::IpAddr, path::PathBuf, sync::Arc, time::Duration};
use table::Table;

struct Hosts {
    zones: Vec<Name>,
    ttl: u32,
    reverse: bool,
    fall: Fallthrough,
    table: Arc<ArcSwap<Table>>,
}

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    let (path, zones) = match line.args.split_first() {
        Some((path, zones)) => (building.folder.join(&path.text), text::zones_or(zones, &building.zones)?),
        None => (PathBuf::from("/etc/hosts"), building.zones.clone()),
    };
    let (mut ttl, mut reverse, mut every) = (3600, true, Duration::from_secs(5));
    let mut fall = Fallthrough::default();
    let mut inline = Table::default();
    for line in line.lines() {
        match line.name.text.as_str() {
            "fallthrough" => fall = Fallthrough::parse(&line.args)?,
            "no_reverse" => reverse = false,
            "ttl" => ttl = text::number(line.one()?, 1..=65_535, "a number from 1 to 65535")?,
            "reload" => every = text::duration(line.one()?)?,
            address => {
                let Ok(address) = address.parse::<IpAddr>() else {
                    return Err(line.unknown(&["ADDRESS NAME...", "fallthrough", "no_reverse", "reload", "ttl"]));
                };
                for name in &line.args {
                    let parsed = Name::parse(&name.text).map_err(|error| Problem::at(name, error.to_string()))?;
                    inline.add(address, &parsed.lower());
                }
            }
        }
    }
    let found = read(&path, &inline);
    if let Err(error) = &found {
        tracing::warn!(path = %path.display(), %error, "hosts file cannot be read; only the Corefile's own entries count");
    }
    let table = Arc::new(ArcSwap::from_pointee(found.unwrap_or_else(|_| inline.clone())));
    if !every.is_zero() {
        let kept = Arc::clone(&table);
        building.whole.jobs.push(follow::file("dns-hosts", path, every, move |path| {
            kept.store(Arc::new(read(path, &inline)?));
            Ok(())
        }));
    }
    building.plugins.push(Box::new(Hosts { zones, ttl, reverse, fall, table }));
    Ok(())
}

/// A hosts file with the entries of the Corefile.
fn read(path: &std::path::Path, inline: &Table) -> std::io::Result<Table> {
    let mut table = inline.clone();
    table.read(&std::fs::read_to_string(path)?);
    Ok(table)
}

impl Plugin for Hosts {
    fn name(&self) -> &'static str {
        "hosts"
    }

    fn before(&self, query: &mut Query, reply: &mut Reply) -> Step {
        let request = &query.request;
        let table = self.table.load();
        let name = &query.lower;
        if request.rtype == rtype::PTR {
            let names = from_reverse(name).filter(|_| self.reverse).map(|address| table.names(address));
            let Some(names) = names.filter(|names| !names.is_empty()) else { return Step::Next };
            reply.aa = true;
            for target in names {
                reply.add(Section::Answer, &Record::pointer(request.name, rtype::PTR, self.ttl, target));
            }
            return Step::Done;
        }
        if !self.zones.iter().any(|zone| name.is_within(zone)) {
            return Step::Next;
        }
        let Some(addresses) = table.addresses(name) else {
            if self.fall.covers(name) {
                return Step::Next;
            }
            // A file has no SOA, and without one a denial would be kept nowhere: a failure it is.
            reply.fail(rcode::SERVFAIL, None);
            return Step::Done;
        };
        reply.aa = true;
        for address in addresses {
            if request.rtype == if address.is_ipv4() { rtype::A } else { rtype::AAAA } {
                reply.add_address(Section::Answer, &request.name, self.ttl, *address);
            }
        }
        Step::Done
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Asked, refused};

    #[test]
    fn names_and_addresses_of_both_families_are_answered() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hosts");
        std::fs::write(&file, "192.0.2.7 filed.test # x\n2001:db8::7\tfiled.test alias\nbroken line\n").unwrap();
        let asked = Asked::new(&format!(
            "test 2.0.192.in-addr.arpa {{\n hosts {} {{\n 192.0.2.1 a.test B.test\n 2001:db8::1 a.test\n ttl 60\n fallthrough up.test\n }}\n}}",
            file.display()
        ));
        for (name, rtype, expected) in [
            ("a.test.", "A", "NOERROR aa | a.test. 60 IN A 192.0.2.1"),
            ("A.test.", "AAAA", "NOERROR aa | A.test. 60 IN AAAA 2001:db8::1"),
            ("b.test.", "AAAA", "NOERROR aa"),
            ("b.test.", "MX", "NOERROR aa"),
            ("c.test.", "A", "SERVFAIL"),
            ("filed.test.", "A", "NOERROR aa | filed.test. 60 IN A 192.0.2.7"),
            ("filed.test.", "AAAA", "NOERROR aa | filed.test. 60 IN AAAA 2001:db8::7"),
            (
                "1.2.0.192.in-addr.arpa.",
                "PTR",
                "NOERROR aa | 1.2.0.192.in-addr.arpa. 60 IN PTR a.test., 1.2.0.192.in-addr.arpa. 60 IN PTR b.test.",
            ),
            ("9.2.0.192.in-addr.arpa.", "PTR", "SERVFAIL"),
        ] {
            assert_eq!(asked.ask(name, rtype), expected, "{name} {rtype}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let problem = refused(". {\n hosts {\n  ttl 0\n }\n}");
        assert!(problem.ends_with("\"0\": plugin hosts: accepted: a number from 1 to 65535"), "{problem}");
        let problem = refused(". {\n hosts {\n  1.2.3 x\n }\n}");
        assert!(problem.contains("\"1.2.3\": plugin hosts: unknown property"), "{problem}");
    }
}
