//! Ports that the node itself answers at, and how rules are counted.

use super::*;

/// What is told is what the kernel has, whichever way it came about; the jumps from the kernel's own chains are not counted.
#[test]
fn rules_are_counted_as_they_are() {
    for family in Family::BOTH {
        let (mut backend, iptables) = backend(family);
        let held = |backend: &IptablesBackend| Vec::from_iter(backend.rules().iter().map(|count| count.held));
        let there = || {
            [Table::Filter, Table::Nat].map(|table| {
                let chains = iptables.save(family, table).unwrap();
                let ours = chains.iter().filter(|(chain, _)| names::is_ours(chain));
                ours.map(|(_, rules)| rules.len()).sum::<usize>()
            })
        };
        assert_eq!(backend.rules(), []);
        sync(&mut backend, everything(family));
        assert_eq!(held(&backend), there());
        assert!(backend.rules().iter().all(|count| count.written == count.held), "{:?}", backend.rules());
        let closed = service(family, 2, vec![route(at(family, 2, 80), To::Reject)]);
        for (text, plan) in [("near", closed), ("new", simple(family, 9, &[1, 2, 3])), ("web", ServicePlan::default())]
        {
            sync(&mut backend, vec![(name(text), plan)]);
            assert_eq!(held(&backend), there(), "after {text}");
        }
        assert_eq!(
            backend.rules()[1].written,
            there_of(&iptables, family, "KUBE-SERVICES") + there_of(&iptables, family, "KUBE-NODEPORTS")
        );
        sync(&mut backend, vec![(name("new"), simple(family, 9, &[1, 2, 3]))]);
        assert!(backend.rules().iter().all(|count| count.written == 0), "{:?}", backend.rules());
        let mut next = IptablesBackend::new(family, iptables.clone(), OPTIONS);
        sync(&mut next, everything(family));
        assert_eq!(held(&next), there());
    }
}

fn there_of(iptables: &Recorder, family: Family, chain: &str) -> usize {
    iptables.rules(family, Table::Nat, chain).unwrap().unwrap().len()
}

#[test]
fn a_health_check_is_let_in_whether_or_not_there_are_endpoints() {
    for family in Family::BOTH {
        let (mut backend, iptables) = backend(family);
        let line = "-p tcp -m tcp --dport 30999 -m comment --comment \"a/web health check\" -j ACCEPT";
        let heard = || iptables.rules(family, Table::Filter, "KUBE-NODEPORTS").unwrap().unwrap();
        for endpoints in [&[1][..], &[]] {
            let plan = ServicePlan { health_check_port: Some(30999), ..simple(family, 1, endpoints) };
            sync(&mut backend, vec![(name("web"), plan)]);
            assert!(heard().iter().any(|rule| rule == line), "{:?}", heard());
        }
        sync(&mut backend, vec![(name("web"), simple(family, 1, &[1]))]);
        assert!(!heard().iter().any(|rule| rule == line), "{:?}", heard());
    }
}
