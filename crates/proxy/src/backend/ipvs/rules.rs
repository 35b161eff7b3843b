//! The iptables rules that ask the sets. They do not depend on Services, only on flags and the Node.
//!
//! IPVS takes packets at the end of INPUT, and those of this machine in the middle of OUTPUT, before the filter. What must
//! not pass is therefore dropped earlier, in the table mangle; what must be masqueraded is marked in the table nat.

use super::sets::SetName;
use crate::{backend::Fixed, plan::LocalPods};
use kernel::iptables::{Chains, Iptables, IptablesError, Operation, Table, Transaction};
use net::Family;

pub(super) const GATE: &str = "TWINSTACK-IPVS-GATE";
pub(super) const SERVICES: &str = "TWINSTACK-IPVS-SERVICES";
const POSTROUTING: &str = "TWINSTACK-IPVS-POSTROUTING";
const INPUT: &str = "TWINSTACK-IPVS-INPUT";
const FORWARD: &str = "TWINSTACK-IPVS-FORWARD";

/// Table, the chain that the kernel calls, and ours.
const JUMPS: [(Table, &str, &str); 7] = [
    (Table::Mangle, "PREROUTING", GATE),
    (Table::Mangle, "OUTPUT", GATE),
    (Table::Filter, "INPUT", INPUT),
    (Table::Filter, "FORWARD", FORWARD),
    (Table::Nat, "PREROUTING", SERVICES),
    (Table::Nat, "OUTPUT", SERVICES),
    (Table::Nat, "POSTROUTING", POSTROUTING),
];

/// Our chains with their rules.
fn chains(family: Family, fixed: &Fixed) -> Vec<(Table, &'static str, Vec<String>)> {
    let set = |name: SetName| name.set(family).name;
    let to = |name: SetName| format!("-m set --match-set {} dst,dst", set(name));
    let mark = format!("-j MARK --set-xmark {0:#x}/{0:#x}", fixed.masquerade_mark);
    let not_new = "-m conntrack ! --ctstate NEW -j RETURN".to_owned();

    let mut gate = vec![
        not_new.clone(),
        format!("{} -j DROP", to(SetName::Dropped)),
        format!("{} -m set ! --match-set {} dst,dst,src -j DROP", to(SetName::Guarded), set(SetName::AllowedSources)),
        format!("{} -m addrtype --src-type LOCAL -j RETURN", to(SetName::OwnOnly)),
    ];
    gate.extend(a_pod(fixed, "").map(|pod| format!("{pod} {} -j RETURN", to(SetName::OwnOnly))));
    gate.push(format!("{} -j DROP", to(SetName::OwnOnly)));

    let not_a_pod = match fixed.masquerade_all {
        true => String::new(),
        // A program of this node that connects to a Service does so from the Service's own address.
        false => a_pod(fixed, "! ").unwrap_or_else(|| format!("-m set --match-set {} src", set(SetName::Addresses))),
    };
    let services = vec![
        format!("{not_a_pod} {} {mark}", to(SetName::ClusterIps)).trim_start().to_owned(),
        format!("{} {mark}", to(SetName::Outside)),
        format!("{} -m addrtype --src-type LOCAL {mark}", to(SetName::Local)),
        // Nobody else translates it after that.
        format!("{} -j ACCEPT", to(SetName::Servers)),
    ];
    let postrouting = vec![
        format!("-m set --match-set {} dst,dst,src -j MASQUERADE", set(SetName::Hairpins)),
        format!("-m mark ! --mark {0:#x}/{0:#x} -j RETURN", fixed.masquerade_mark),
        format!("-j MARK --set-xmark {:#x}/0x0", fixed.masquerade_mark),
        "-j MASQUERADE --random-fully".to_owned(),
    ];
    let unreachable = if family == Family::V4 { "icmp-port-unreachable" } else { "icmp6-port-unreachable" };
    let addresses = format!("-m set --match-set {} dst", set(SetName::Addresses));
    let input = vec![
        not_new,
        format!("{} -j RETURN", to(SetName::Servers)),
        // What the node itself listens on is not for clients of Services.
        format!("-p tcp {addresses} -j REJECT --reject-with tcp-reset"),
        format!("{addresses} -j REJECT --reject-with {unreachable}"),
    ];
    let forward = vec!["-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT".to_owned()];
    vec![
        (Table::Mangle, GATE, gate),
        (Table::Filter, INPUT, input),
        (Table::Filter, FORWARD, forward),
        (Table::Nat, SERVICES, services),
        (Table::Nat, POSTROUTING, postrouting),
    ]
}

/// Matches pods, or with `! ` all others; `None` when they cannot be told.
fn a_pod(fixed: &Fixed, not: &str) -> Option<String> {
    match &fixed.local {
        LocalPods::Unknown => None,
        LocalPods::Within(cidr) => Some(format!("{not}-s {cidr}")),
        LocalPods::Interface(name) => Some(format!("{not}-i {name}")),
        LocalPods::InterfacePrefix(prefix) => Some(format!("{not}-i {prefix}+")),
    }
}

/// Writes all rules; the sets are there already.
pub(super) fn write(iptables: &dyn Iptables, family: Family, fixed: &Fixed) -> Result<(), IptablesError> {
    iptables.commit(&transaction(family, fixed, |table| iptables.save(family, table))?)
}

/// What it takes to have all rules. `there` tells what a table has.
pub(super) fn transaction(
    family: Family,
    fixed: &Fixed,
    there: impl Fn(Table) -> Result<Chains, IptablesError>,
) -> Result<Transaction, IptablesError> {
    let chains = chains(family, fixed);
    let mut transaction = Transaction::new(family);
    for table in Table::ALL {
        let there = there(table)?;
        let mut steps = Vec::new();
        for (_, chain, rules) in chains.iter().filter(|(of, ..)| *of == table) {
            steps.push(Operation::Chain((*chain).to_owned()));
            steps.extend(rules.iter().map(|rule| Operation::Append((*chain).to_owned(), rule.clone())));
        }
        for (_, hook, chain) in JUMPS.iter().filter(|(of, ..)| *of == table) {
            let jump = jump(chain);
            if !there.get(*hook).is_some_and(|rules| rules.contains(&jump)) {
                steps.push(Operation::Insert((*hook).to_owned(), jump));
            }
        }
        transaction.push(table, steps);
    }
    Ok(transaction)
}

/// Whether every chain has as many rules as it was left with, and is called.
pub(super) fn intact(iptables: &dyn Iptables, family: Family, fixed: &Fixed) -> Result<bool, IptablesError> {
    let chains = chains(family, fixed);
    for table in Table::ALL {
        let there = iptables.save(family, table)?;
        let mut own = chains.iter().filter(|(of, ..)| *of == table);
        let mut jumps = JUMPS.iter().filter(|(of, ..)| *of == table);
        let as_left = own.all(|(_, chain, rules)| there.get(*chain).is_some_and(|now| now.len() == rules.len()));
        let called = jumps.all(|(_, hook, chain)| there.get(*hook).is_some_and(|rules| rules.contains(&jump(chain))));
        if !as_left || !called {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes our chains and the ways there; says whether there were any.
pub(super) fn remove(iptables: &dyn Iptables, family: Family) -> Result<bool, IptablesError> {
    let mut transaction = Transaction::new(family);
    for table in Table::ALL {
        let there = iptables.save(family, table)?;
        let mut steps = Vec::new();
        for (_, hook, chain) in JUMPS.iter().filter(|(of, ..)| *of == table) {
            let count = there.get(*hook).map_or(0, |rules| rules.iter().filter(|rule| **rule == jump(chain)).count());
            steps.extend(vec![Operation::Delete((*hook).to_owned(), jump(chain)); count]);
        }
        let own = [GATE, SERVICES, POSTROUTING, INPUT, FORWARD].into_iter().filter(|chain| there.contains_key(*chain));
        for chain in own {
            steps.push(Operation::Chain(chain.to_owned()));
            steps.push(Operation::DeleteChain(chain.to_owned()));
        }
        transaction.push(table, steps);
    }
    let found = !transaction.is_empty();
    if found {
        iptables.commit(&transaction)?;
    }
    Ok(found)
}

fn jump(chain: &str) -> String {
    format!("-j {chain}")
}
