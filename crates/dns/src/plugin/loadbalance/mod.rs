//! `loadbalance`: addresses in a new order every time, evenly or by weight, and those of preferred networks first.

mod weights;

use super::{Plugin, only};
use crate::{
    compile::Building,
    corefile::{Directive, Problem, Token},
    follow,
    query::Query,
    random, text,
    wire::{
        Record, Reply, Section,
        code::{rcode, rtype},
    },
};
use arc_swap::ArcSwap;
use std::{io, sync::Arc, time::Duration};
use weights::Weights;

struct Loadbalance {
    policy: Policy,
    /// Addresses in these come first, in this order.
    prefer: Vec<net::Cidr>,
}

enum Policy {
    RoundRobin,
    Weighted(Arc<ArcSwap<Weights>>),
}

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    let file = match line.args.as_slice() {
        [] => None,
        [policy] if policy.text == "round_robin" => None,
        [policy, file] if policy.text == "weighted" => Some(file),
        [policy, ..] => return Err(Problem::at(policy, "accepted: round_robin, weighted FILE, or nothing")),
    };
    let (mut prefer, mut every) = (Vec::new(), Duration::from_secs(30));
    for line in line.lines() {
        match line.name.text.as_str() {
            "prefer" if line.args.is_empty() => return Err(Problem::at(&line.name, "needs at least one network")),
            "prefer" => {
                for word in &line.args {
                    let wrong = || Problem::at(word, "is no network; accepted: an address or a CIDR of either family");
                    prefer.push(text::network(&word.text).ok_or_else(wrong)?);
                }
            }
            "reload" if file.is_some() => every = text::duration(line.one()?)?,
            "reload" => {
                return Err(Problem::at(&line.name, "is for the file of weights; accepted with: weighted FILE"));
            }
            _ => return Err(line.unknown(&["prefer", "reload"])),
        }
    }
    let policy = match file {
        Some(file) => Policy::Weighted(weighted(file, every, building)?),
        None => Policy::RoundRobin,
    };
    building.plugins.push(Box::new(Loadbalance { policy, prefer }));
    Ok(())
}

/// The weights of a file, read again when it changes. A file that is not there yet may come.
fn weighted(file: &Token, every: Duration, building: &mut Building<'_>) -> Result<Arc<ArcSwap<Weights>>, Problem> {
    let path = building.folder.join(&file.text);
    let first = match Weights::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !every.is_zero() => {
            tracing::warn!(path = %path.display(), %error, "weights cannot be read; all addresses weigh the same");
            Weights::default()
        }
        read => read.map_err(|error| Problem::at(file, error.to_string()))?,
    };
    let weights = Arc::new(ArcSwap::from_pointee(first));
    if !every.is_zero() {
        let kept = Arc::clone(&weights);
        building.whole.jobs.push(follow::file("dns-loadbalance", path, every, move |path| {
            let read = Weights::read(path);
            if let Err(error) = &read {
                tracing::error!(path = %path.display(), %error, "weights cannot be read; those from before stay");
            }
            kept.store(Arc::new(read?));
            Ok(())
        }));
    }
    Ok(weights)
}

impl Plugin for Loadbalance {
    fn name(&self) -> &'static str {
        "loadbalance"
    }

    fn after(&self, query: &mut Query, reply: &mut Reply) {
        let even = matches!(self.policy, Policy::RoundRobin) && self.prefer.is_empty();
        if even && (reply.count(Section::Answer) < 2 || reply.shuffle_addresses(random::below)) {
            return;
        }
        if reply.rcode != rcode::NOERROR {
            return;
        }
        if let Some(mut message) = reply.message() {
            for section in [Section::Answer, Section::Additional] {
                let records = &mut message.sections[section as usize];
                if records.len() > 1 {
                    *records = self.ordered(records, query.request.rtype);
                }
            }
            reply.set_message(&message);
        }
    }
}

impl Loadbalance {
    /// CNAMEs first, since they lead to the rest; then whatever else; then addresses and mail servers.
    fn ordered(&self, records: &[Record], asked: u16) -> Vec<Record> {
        let of = |wanted: fn(u16) -> bool| -> Vec<Record> {
            records.iter().filter(|record| wanted(record.rtype)).cloned().collect()
        };
        let address = |rtype| rtype == rtype::A || rtype == rtype::AAAA;
        let mut addresses = of(address);
        let mut mail = of(|rtype| rtype == rtype::MX);
        match &self.policy {
            Policy::RoundRobin => {
                shuffle(&mut addresses);
                shuffle(&mut mail);
            }
            // Only who comes first is decided by weight, and only for who looks for addresses.
            Policy::Weighted(weights) if !addresses.is_empty() && (address(asked) || asked == rtype::SRV) => {
                let first = weights.load().first(&addresses, random::below);
                addresses.swap(0, first);
            }
            Policy::Weighted(_) => {}
        }
        let rank = |record: &Record| {
            let within = |network: &net::Cidr| record.ip().is_some_and(|address| network.contains(address));
            self.prefer.iter().position(within).unwrap_or(self.prefer.len())
        };
        addresses.sort_by_key(rank);
        let others = |rtype: u16| ![rtype::CNAME, rtype::A, rtype::AAAA, rtype::MX].contains(&rtype);
        [of(|rtype| rtype == rtype::CNAME), of(others), addresses, mail].concat()
    }
}

fn shuffle(records: &mut [Record]) {
    for last in (1..records.len()).rev() {
        records.swap(last, random::below(last + 1));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Asked, refused};
    use std::collections::BTreeSet;

    const HOSTS: &str = "hosts {\n  192.0.2.1 a.test\n  192.0.2.2 a.test\n  192.0.2.3 a.test\n  2001:db8:1::1 a.test\n  2001:db8:2::1 a.test\n }";

    /// The last bytes of the addresses that came first.
    fn firsts(line: &str, rtype: &str) -> BTreeSet<String> {
        let asked = Asked::new(&format!(". {{\n {line}\n {HOSTS}\n}}"));
        let first = |answer: String| answer.split(", ").next().unwrap().rsplit(' ').next().unwrap().to_owned();
        (0..300).map(|_| first(asked.ask("a.test.", rtype))).collect()
    }

    #[test]
    fn every_order_is_seen_and_none_is_lost() {
        let asked = Asked::new(&format!(". {{\n loadbalance\n {HOSTS}\n}}"));
        let seen: BTreeSet<String> = (0..500).map(|_| asked.ask("a.test.", "A")).collect();
        assert_eq!(seen.len(), 6, "{seen:?}");
    }

    #[test]
    fn preferred_networks_come_first_in_both_families() {
        for line in [
            "loadbalance {\n prefer 192.0.2.2/31 2001:db8:2::/48\n }",
            "loadbalance round_robin {\n prefer 192.0.2.3/31 2001:db8:2::7/48\n }",
        ] {
            assert_eq!(firsts(line, "A"), ["192.0.2.2", "192.0.2.3"].map(str::to_owned).into());
            assert_eq!(firsts(line, "AAAA"), ["2001:db8:2::1".to_owned()].into());
        }
        // The first network that is named is the first in the answer.
        let line = "loadbalance {\n prefer 192.0.2.3 192.0.2.2/32\n }";
        let asked = Asked::new(&format!(". {{\n {line}\n {HOSTS}\n}}"));
        let answer =
            "NOERROR aa | a.test. 3600 IN A 192.0.2.3, a.test. 3600 IN A 192.0.2.2, a.test. 3600 IN A 192.0.2.1";
        assert_eq!(asked.ask("a.test.", "A"), answer);
    }

    #[test]
    fn weights_decide_who_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weights");
        std::fs::write(&file, "a.test\n192.0.2.2 255\n2001:db8:2::1 255\n").unwrap();
        let asked = Asked::new(&format!(". {{\n loadbalance weighted {}\n {HOSTS}\n}}", file.display()));
        for (rtype, heavy, others) in [("A", "192.0.2.2", 2.0), ("AAAA", "2001:db8:2::1", 1.0)] {
            let first = |answer: String| answer.split(", ").next().unwrap().ends_with(heavy);
            let share = (0..2000).filter(|_| first(asked.ask("a.test.", rtype))).count() as f64 / 2000.0;
            let expected = 255.0 / (255.0 + others);
            assert!((share - expected).abs() < 0.05, "{rtype} {share}");
        }
        let count = asked.ask("a.test.", "A").split(", ").count();
        assert_eq!(count, 3);
    }

    #[test]
    fn mistakes_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weights");
        std::fs::write(&file, "192.0.2.1 1\na.test\n192.0.2.1 300\n").unwrap();
        let file = file.display();
        for (line, expected) in [
            (
                "loadbalance fair".to_owned(),
                "\"fair\": plugin loadbalance: accepted: round_robin, weighted FILE, or nothing",
            ),
            (
                "loadbalance weighted".to_owned(),
                "\"weighted\": plugin loadbalance: accepted: round_robin, weighted FILE, or nothing",
            ),
            ("loadbalance {\n reload 5s\n }".to_owned(), "\"reload\": plugin loadbalance: is for the file of weights"),
            ("loadbalance {\n prefer 192.0.2\n }".to_owned(), "\"192.0.2\": plugin loadbalance: is no network"),
            ("loadbalance {\n prefer ::/129\n }".to_owned(), "\"::/129\": plugin loadbalance: is no network"),
            ("loadbalance {\n prefer\n }".to_owned(), "\"prefer\": plugin loadbalance: needs at least one network"),
            ("loadbalance {\n prefr\n }".to_owned(), "did you mean prefer?"),
            (
                format!("loadbalance weighted {file}"),
                "line 1: 192.0.2.1 stands before any name; line 3: \"300\" is no weight",
            ),
            ("loadbalance weighted no-such-file {\n reload 0s\n }".to_owned(), "No such file"),
        ] {
            let problem = refused(&format!(". {{\n {line}\n}}"));
            assert!(problem.contains(expected), "{problem}");
        }
        // It may come later.
        assert!(crate::testing::build(". {\n loadbalance weighted no-such-file\n}").is_ok());
    }
}
