//! `loadbalance`: addresses in a new order every time.

use super::{Plugin, only};
use crate::{
    compile::Building,
    corefile::{Directive, Problem},
    query::Query,
    random,
    wire::{Record, Reply, Section, code::rtype},
};

struct Loadbalance;

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    line.no_block()?;
    match line.args.as_slice() {
        [] => {}
        [policy] if policy.text == "round_robin" => {}
        [policy, ..] => return Err(Problem::at(policy, "accepted: round_robin, or nothing")),
    }
    building.plugins.push(Box::new(Loadbalance));
    Ok(())
}

impl Plugin for Loadbalance {
    fn name(&self) -> &'static str {
        "loadbalance"
    }

    fn after(&self, _: &mut Query, reply: &mut Reply) {
        if reply.count(Section::Answer) < 2 || reply.shuffle_addresses(random::below) {
            return;
        }
        if let Some(mut message) = reply.message() {
            message.sections[Section::Answer as usize] = ordered(message.answer());
            reply.set_message(&message);
        }
    }
}

/// CNAMEs first, since they lead to the rest; then whatever else; then addresses and mail servers, shuffled.
fn ordered(records: &[Record]) -> Vec<Record> {
    let of = |wanted: fn(u16) -> bool| -> Vec<Record> {
        records.iter().filter(|record| wanted(record.rtype)).cloned().collect()
    };
    let address = |rtype| rtype == rtype::A || rtype == rtype::AAAA;
    let mut addresses = of(address);
    let mut mail = of(|rtype| rtype == rtype::MX);
    shuffle(&mut addresses);
    shuffle(&mut mail);
    let others = |rtype: u16| ![rtype::CNAME, rtype::A, rtype::AAAA, rtype::MX].contains(&rtype);
    [of(|rtype| rtype == rtype::CNAME), of(others), addresses, mail].concat()
}

fn shuffle(records: &mut [Record]) {
    for last in (1..records.len()).rev() {
        records.swap(last, random::below(last + 1));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Asked;
    use std::collections::BTreeSet;

    #[test]
    fn every_order_is_seen_and_none_is_lost() {
        let asked = Asked::new(
            ". {\n loadbalance\n hosts {\n  192.0.2.1 a.test\n  192.0.2.2 a.test\n  192.0.2.3 a.test\n }\n}",
        );
        let seen: BTreeSet<String> = (0..500).map(|_| asked.ask("a.test.", "A")).collect();
        assert_eq!(seen.len(), 6, "{seen:?}");
    }

    #[test]
    fn other_policies_are_refused() {
        let problem = crate::testing::refused(". {\n loadbalance weighted x\n}");
        assert_eq!(problem, "Corefile:2:14: \"weighted\": plugin loadbalance: accepted: round_robin, or nothing");
    }
}
