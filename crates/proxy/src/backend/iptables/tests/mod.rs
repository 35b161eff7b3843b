//! The text for iptables-restore, and what changes cost. The kernel is a fake that checks references.

mod own_ports;

use super::*;
use crate::{
    plan::{Affinity, Frontend, LocalPods, NodePortMatch, Pool, Route, Sources, To},
    track::Protocol,
};
use kernel::iptables::{Chains, FakeIptables, Operation};
use parking_lot::Mutex;
use std::net::{IpAddr, SocketAddr};

/// The fake, and the text of all that was committed.
#[derive(Default)]
struct Recorder {
    fake: FakeIptables,
    texts: Mutex<Vec<String>>,
}

impl Iptables for Recorder {
    fn commit(&self, transaction: &Transaction) -> Result<(), IptablesError> {
        self.texts.lock().push(transaction.text()?);
        self.fake.commit(transaction)
    }

    fn save(&self, family: Family, table: Table) -> Result<Chains, IptablesError> {
        self.fake.save(family, table)
    }

    fn rules(&self, family: Family, table: Table, chain: &str) -> Result<Option<Vec<String>>, IptablesError> {
        self.fake.rules(family, table, chain)
    }

    fn route_loopback(&self) -> Result<(), IptablesError> {
        self.fake.route_loopback()
    }
}

impl Recorder {
    fn last(&self) -> String {
        self.texts.lock().last().cloned().unwrap_or_default()
    }

    fn count(&self) -> usize {
        self.texts.lock().len()
    }
}

const OPTIONS: IptablesOptions = IptablesOptions { localhost_node_ports: true, drop_invalid: true };
const NODE_PORT: Frontend = Frontend::NodePort { protocol: Protocol::Udp, port: 30053 };

fn ip(family: Family, v4: &str, v6: &str) -> IpAddr {
    if family == Family::V4 { v4.parse().unwrap() } else { v6.parse().unwrap() }
}

fn fixed(family: Family) -> Fixed {
    let cidr = |v4: &str, v6: &str| if family == Family::V4 { v4.parse() } else { v6.parse() };
    Fixed {
        masquerade_mark: 0x4000,
        masquerade_all: false,
        local: LocalPods::Within(cidr("10.1.0.0/16", "fd01::/48").unwrap()),
        node_ports: NodePortMatch::In(vec![cidr("192.168.0.1/32", "fd09::1/128").unwrap()]),
        service_cidrs: Vec::new(),
    }
}

fn pool(family: Family, last: &[u8]) -> Pool {
    let endpoint = |last: &u8| SocketAddr::new(ip(family, &format!("10.1.0.{last}"), &format!("fd01::{last}")), 8080);
    Pool { endpoints: last.iter().map(endpoint).collect(), affinity: None }
}

fn sticky(pool: Pool) -> Pool {
    Pool { affinity: Some(Affinity { seconds: 60, protocol: Protocol::Tcp, id: 7 }), ..pool }
}

fn at(family: Family, last: u8, port: u16) -> Frontend {
    let ip = ip(family, &format!("10.0.0.{last}"), &format!("fd00::{last}"));
    Frontend::Address { ip, protocol: Protocol::Tcp, port }
}

fn route(frontend: Frontend, to: To) -> Route {
    Route { frontend, sources: Sources::Everyone, to, serving: Arc::default() }
}

fn service(family: Family, last: u8, routes: Vec<Route>) -> ServicePlan {
    let cluster_ips = vec![ip(family, &format!("10.0.0.{last}"), &format!("fd00::{last}"))];
    ServicePlan { cluster_ips, routes, ..ServicePlan::default() }
}

fn name(text: &str) -> Name {
    Name::new("a", text)
}

fn backend(family: Family) -> (IptablesBackend, Arc<Recorder>) {
    let iptables = Arc::new(Recorder::default());
    (IptablesBackend::new(family, iptables.clone(), OPTIONS), iptables)
}

/// One with a cluster IP and so many endpoints.
fn simple(family: Family, last: u8, endpoints: &[u8]) -> ServicePlan {
    let to = if endpoints.is_empty() { To::Reject } else { To::Inside(pool(family, endpoints)) };
    service(family, last, vec![route(at(family, last, 80), to)])
}

/// Services with every kind of frontend.
fn everything(family: Family) -> Vec<(Name, ServicePlan)> {
    let range = if family == Family::V4 { "203.0.113.0/24" } else { "2001:db8:5::/48" };
    let own = || sticky(pool(family, &[2, 3]));
    let web = service(
        family,
        1,
        vec![
            route(at(family, 1, 80), To::Inside(pool(family, &[2, 3]))),
            Route {
                frontend: at(family, 4, 80),
                sources: Sources::Only(vec![range.parse().unwrap()]),
                to: To::Outside(pool(family, &[2, 3])),
                serving: Arc::default(),
            },
            route(Frontend::NodePort { protocol: Protocol::Tcp, port: 30080 }, To::Outside(pool(family, &[2, 3]))),
        ],
    );
    let mut near = service(
        family,
        2,
        vec![
            route(at(family, 2, 80), To::Inside(own())),
            route(at(family, 5, 80), To::OutsideLocal { own: own(), others: sticky(pool(family, &[3])) }),
            route(at(family, 2, 443), To::Inside(pool(family, &[3]))),
            route(at(family, 5, 443), To::OutsideLocal { own: pool(family, &[2]), others: pool(family, &[]) }),
        ],
    );
    near.health_check_port = Some(30999);
    let closed = service(
        family,
        3,
        vec![route(at(family, 3, 80), To::Reject), route(at(family, 6, 80), To::Drop), route(NODE_PORT, To::Reject)],
    );
    let phone = match at(family, 7, 36412) {
        Frontend::Address { ip, port, .. } => Frontend::Address { ip, port, protocol: Protocol::Sctp },
        node_port => node_port,
    };
    let phone = service(family, 7, vec![route(phone, To::Inside(pool(family, &[2])))]);
    vec![(name("web"), web), (name("near"), near), (name("closed"), closed), (name("phone"), phone)]
}

fn sync(backend: &mut IptablesBackend, plans: Vec<(Name, ServicePlan)>) -> Done {
    let fixed = fixed(backend.family);
    backend.sync(&fixed, &mut plans.into_iter()).unwrap()
}

#[test]
fn the_text_for_each_family_is_this() {
    for (family, file, golden) in [
        (Family::V4, "ipv4", include_str!("../golden/ipv4.txt")),
        (Family::V6, "ipv6", include_str!("../golden/ipv6.txt")),
    ] {
        let (mut backend, iptables) = backend(family);
        assert_eq!(sync(&mut backend, everything(family)), Done::Full);
        if std::env::var_os("BLESS").is_some() {
            let path = format!("{}/src/backend/iptables/golden/{file}.txt", env!("CARGO_MANIFEST_DIR"));
            std::fs::write(path, iptables.last()).unwrap();
            continue;
        }
        assert_eq!(iptables.last(), golden);
        assert!(!iptables.fake.routes_loopback(), "no node port at a loopback address was asked for");
    }
}

#[test]
fn a_change_is_the_chains_that_changed() {
    for (family, from, to, kept, gone, new) in [
        (Family::V4, "10.1.0.4", "10.1.0.4:8080", KEPT[0], GONE[0], NEW[0]),
        (Family::V6, "fd01::4", "[fd01::4]:8080", KEPT[1], GONE[1], NEW[1]),
    ] {
        let (mut backend, iptables) = backend(family);
        let many: Vec<_> = (0..200).map(|n| (name(&format!("s{n}")), simple(family, n, &[1, 2]))).collect();
        sync(&mut backend, many);
        assert_eq!(sync(&mut backend, vec![(name("s7"), simple(family, 7, &[1, 2]))]), Done::Nothing);
        assert_eq!(iptables.count(), 1, "nothing to do costs no program");

        assert_eq!(sync(&mut backend, vec![(name("s7"), simple(family, 7, &[1, 4]))]), Done::Partial);
        let (bits, pods, ip) = match family {
            Family::V4 => (32, "10.1.0.0/16", "10.0.0.7"),
            Family::V6 => (128, "fd01::/48", "fd00::7"),
        };
        let mut chains = [
            format!(
                "-A {new} -s {from}/{bits} -j KUBE-MARK-MASQ\n-A {new} -p tcp -m tcp -j DNAT --to-destination {to}\n"
            ),
            format!(
                "-A {SVC} ! -s {pods} -d {ip}/{bits} -p tcp -m tcp --dport 80 -j KUBE-MARK-MASQ\n\
                 -A {SVC} -m statistic --mode random --probability 0.50000000000 -j {kept}\n-A {SVC} -j {new}\n"
            ),
        ];
        chains.sort_unstable();
        let expected =
            format!("*nat\n:{new} - [0:0]\n:{SVC} - [0:0]\n:{gone} - [0:0]\n{}-X {gone}\nCOMMIT\n", chains.concat());
        assert_eq!(iptables.last(), expected, "no other Service and no shared chain is written");

        sync(&mut backend, vec![(name("s7"), simple(family, 7, &[]))]);
        let last = iptables.last();
        assert!(last.contains("*filter\n:KUBE-SERVICES - [0:0]\n") && last.contains(&format!("-X {SVC}\n")), "{last}");
        assert!(last.contains("has no endpoints\" -j REJECT --reject-with tcp-reset\n"), "{last}");
        assert!(!last.contains(":KUBE-NODEPORTS "), "{last}");
    }
}

/// Chains of the Service a/s7, port 80, for the endpoints 1, 2 and 4 of each family.
const SVC: &str = "KUBE-SVC-2FWFQ7OMX5MW3MMM";
const KEPT: [&str; 2] = ["KUBE-SEP-3NDIBSUEWNQKXYMS", "KUBE-SEP-75I4CUQRIBWWXSRV"];
const GONE: [&str; 2] = ["KUBE-SEP-5OZ5RGMQSO4UBA33", "KUBE-SEP-RUN63MVVXFCR6IVV"];
const NEW: [&str; 2] = ["KUBE-SEP-EJVMDPQJS6OYREEP", "KUBE-SEP-GTAE7ET7YEDHSKMZ"];

#[test]
fn whatever_the_way_the_rules_end_up_the_same() {
    for family in Family::BOTH {
        let (mut direct, straight) = backend(family);
        sync(&mut direct, everything(family));
        let (mut winding, curved) = backend(family);
        sync(&mut winding, vec![(name("web"), simple(family, 9, &[1])), (name("gone"), simple(family, 8, &[2]))]);
        for (name, plan) in everything(family) {
            sync(&mut winding, vec![(name.clone(), simple(family, 1, &[5]))]);
            sync(&mut winding, vec![(name, plan)]);
        }
        sync(&mut winding, vec![(name("gone"), ServicePlan::default())]);
        assert_eq!(curved.fake.listing(family), straight.fake.listing(family));
        assert!(winding.check().unwrap());
    }
}

#[test]
fn a_frontend_changes_hands_in_one_change_whoever_is_named_first() {
    for (family, reverse) in Family::BOTH.into_iter().flat_map(|family| [(family, false), (family, true)]) {
        let (mut backend, iptables) = backend(family);
        let with = service(family, 1, vec![route(NODE_PORT, To::Outside(pool(family, &[1])))]);
        let without = service(family, 1, vec![]);
        let closed = service(family, 2, vec![route(NODE_PORT, To::Reject)]);
        let chains = |table| iptables.save(family, table).unwrap()["KUBE-NODEPORTS"].join("\n");
        let mut turn = |a: &ServicePlan, b: &ServicePlan| {
            let mut plans = vec![(name("a"), a.clone()), (name("b"), b.clone())];
            if reverse {
                plans.reverse();
            }
            sync(&mut backend, plans);
        };
        for _ in 0..2 {
            turn(&with, &ServicePlan::default());
            assert!(chains(Table::Nat).contains("a/a node port") && !chains(Table::Filter).contains("30053"));
            turn(&without, &closed);
            assert!(!chains(Table::Nat).contains("30053") && chains(Table::Filter).contains("a/b has no endpoints"));
        }
    }
}

#[test]
fn a_packet_finds_a_refusal_or_a_translation_at_every_moment() {
    for family in Family::BOTH {
        let (mut backend, iptables) = backend(family);
        let tables = |iptables: &Recorder| -> Vec<(String, bool)> {
            let last = iptables.last();
            let parts = last.split_terminator("COMMIT\n").map(|part| {
                let name = part.lines().next().unwrap_or_default().to_owned();
                (name, part.contains("has no endpoints"))
            });
            parts.collect()
        };
        let part = |name: &str, refuses| (format!("*{name}"), refuses);
        sync(&mut backend, vec![(name("a"), simple(family, 1, &[1])), (name("b"), simple(family, 2, &[]))]);
        sync(&mut backend, vec![(name("a"), simple(family, 1, &[]))]);
        assert_eq!(tables(&iptables), [part("filter", true), part("nat", false)], "closes");
        sync(&mut backend, vec![(name("a"), simple(family, 1, &[2])), (name("b"), simple(family, 2, &[1]))]);
        assert_eq!(tables(&iptables), [part("nat", false), part("filter", false)], "opens");
        sync(&mut backend, vec![(name("a"), simple(family, 1, &[]))]);
        sync(&mut backend, vec![(name("a"), simple(family, 1, &[2])), (name("b"), simple(family, 2, &[]))]);
        assert_eq!(tables(&iptables), [part("filter", true), part("nat", false), part("filter", true)], "both");
        let closed = iptables.save(family, Table::Filter).unwrap()["KUBE-SERVICES"].join("\n");
        assert!(closed.contains("a/b has no endpoints") && !closed.contains("a/a"), "{closed}");
    }
}

#[test]
fn a_new_process_takes_over_in_one_step_also_from_kube_proxy() {
    for family in Family::BOTH {
        let (mut fresh, reference) = backend(family);
        sync(&mut fresh, everything(family));

        let (mut old, iptables) = backend(family);
        sync(&mut old, everything(family));
        sync(&mut old, vec![(name("gone"), simple(family, 9, &[1]))]);
        let chain = |name: &str| Operation::Chain(name.to_owned());
        let append = |chain: &str, rule: &str| Operation::Append(chain.to_owned(), rule.to_owned());
        let mut others = Transaction::new(family);
        others.push(
            Table::Nat,
            vec![
                chain("KUBE-SVC-OLD"),
                chain("KUBE-SVC-USED"),
                chain("CNI-X"),
                append("CNI-X", "-j KUBE-SVC-USED"),
                append("KUBE-SVC-OLD", "-j KUBE-SVC-USED"),
                append("PREROUTING", "-m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES"),
                append("PREROUTING", "-j KUBE-SERVICES"),
                append("PREROUTING", "-j CNI-X"),
            ],
        );
        iptables.commit(&others).unwrap();
        let before = iptables.count();
        let mut new = IptablesBackend::new(family, iptables.clone(), OPTIONS);
        assert_eq!(sync(&mut new, everything(family)), Done::Full);
        assert_eq!(iptables.count(), before + 1);
        let nat = iptables.save(family, Table::Nat).unwrap();
        assert_eq!(nat["PREROUTING"], ["-j KUBE-SERVICES", "-j CNI-X"]);
        assert_eq!(nat["KUBE-SVC-USED"], Vec::<String>::new(), "somebody else leads there");

        let mut others = Transaction::new(family);
        let gone = ["CNI-X", "KUBE-SVC-USED"].map(|chain| Operation::DeleteChain(chain.to_owned()));
        let mut operations = vec![Operation::Delete("PREROUTING".to_owned(), "-j CNI-X".to_owned()), chain("CNI-X")];
        operations.extend(gone);
        others.push(Table::Nat, operations);
        iptables.commit(&others).unwrap();
        assert_eq!(iptables.fake.listing(family), reference.fake.listing(family));

        // The one after it finds everything as it should be.
        let before = iptables.count();
        let mut newer = IptablesBackend::new(family, iptables.clone(), OPTIONS);
        assert_eq!(sync(&mut newer, everything(family)), Done::Full);
        assert_eq!(iptables.count(), before);
        assert!(!newer.wants_everything(&fixed(family)));
    }
}

#[test]
fn failures_and_strangers_are_mended_with_everything() {
    for family in Family::BOTH {
        let (mut backend, iptables) = backend(family);
        sync(&mut backend, everything(family));
        let good = iptables.fake.listing(family);
        assert!(backend.check().unwrap());
        for table in Table::ALL {
            iptables.fake.lose(family, table);
            assert!(!backend.check().unwrap() && backend.wants_everything(&fixed(family)), "{table} was replaced");
            sync(&mut backend, everything(family));
            assert_eq!(iptables.fake.listing(family), good);
        }
        for table in [Table::Filter, Table::Nat] {
            iptables.fake.lose_rules(family, table);
            assert!(!backend.check().unwrap(), "{table} was emptied");
            sync(&mut backend, everything(family));
            assert_eq!(iptables.fake.listing(family), good);
        }

        // A change that fails between two tables: everything follows, and it is right.
        iptables.fake.fail_at(Table::Nat);
        let closed = vec![(name("web"), simple(family, 1, &[]))];
        backend.sync(&fixed(family), &mut closed.into_iter()).unwrap_err();
        assert_ne!(iptables.fake.listing(family), good, "the table filter was changed already");
        assert!(backend.wants_everything(&fixed(family)));
        assert_eq!(sync(&mut backend, everything(family)), Done::Full);
        assert_eq!(iptables.fake.listing(family), good);

        // Other rules for all: everything, in place.
        let other = Fixed { masquerade_all: true, ..fixed(family) };
        assert!(backend.wants_everything(&other));
        assert_eq!(backend.sync(&other, &mut everything(family).into_iter()).unwrap(), Done::Full);
        assert!(!iptables.last().contains("! -s "), "{}", iptables.last());
    }
}

#[test]
fn node_ports_are_open_where_they_should_be() {
    let all = |family| Fixed { node_ports: NodePortMatch::All, ..fixed(family) };
    let nowhere = |family| Fixed { node_ports: NodePortMatch::In(vec![]), ..fixed(family) };
    let off = IptablesOptions { localhost_node_ports: false, ..OPTIONS };
    let block =
        |family, text: &str| Fixed { node_ports: NodePortMatch::In(vec![text.parse().unwrap()]), ..fixed(family) };
    let (v4, v6) = (Some("-d 127.0.0.0/8 -j RETURN"), Some("-d ::1/128 -j RETURN"));
    for (family, fixed, options, at, guard, loopback) in [
        (Family::V4, all(Family::V4), OPTIONS, Some(""), None, true),
        (Family::V4, all(Family::V4), off, Some(""), v4, false),
        (Family::V6, all(Family::V6), OPTIONS, Some(""), v6, false),
        (Family::V4, block(Family::V4, "192.168.0.0/16"), OPTIONS, Some("-d 192.168.0.0/16 "), v4, false),
        (Family::V6, block(Family::V6, "fd09::/64"), OPTIONS, Some("-d fd09::/64 "), v6, false),
        (Family::V4, block(Family::V4, "0.0.0.0/0"), off, Some(""), v4, false),
        (Family::V6, block(Family::V6, "::/0"), OPTIONS, Some(""), v6, false),
        (Family::V4, nowhere(Family::V4), OPTIONS, None, v4, false),
        (Family::V6, nowhere(Family::V6), OPTIONS, None, v6, false),
    ] {
        let nat = at.map(|at| format!("{at}-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS"));
        let filter = at.map(|at| format!("{at}-j KUBE-NODEPORTS"));
        let iptables = Arc::new(FakeIptables::default());
        let mut backend = IptablesBackend::new(family, iptables.clone(), options);
        backend.sync(&fixed, &mut std::iter::empty()).unwrap();
        assert_eq!(iptables.routes_loopback(), loopback);
        let rules = |table, chain| iptables.rules(family, table, chain).unwrap().unwrap();
        let leading = |rules: Vec<String>| Vec::from_iter(rules.into_iter().filter(|rule| rule.ends_with("NODEPORTS")));
        assert_eq!(leading(rules(Table::Nat, "KUBE-SERVICES")), Vec::from_iter(nat));
        assert_eq!(leading(rules(Table::Filter, "INPUT")), Vec::from_iter(filter));
        for table in [Table::Nat, Table::Filter] {
            assert_eq!(rules(table, "KUBE-NODEPORTS"), guard.into_iter().map(str::to_owned).collect::<Vec<_>>());
        }
        let strangers = iptables.rules(family, Table::Filter, "TWINSTACK-PROXY").unwrap().unwrap();
        assert_eq!(strangers.len(), usize::from(loopback), "{strangers:?}");
        assert!(backend.check().unwrap());
    }
}

#[test]
fn pods_may_be_told_by_their_interface() {
    for family in Family::BOTH {
        for (local, not, is) in [
            (LocalPods::Unknown, "", ""),
            (LocalPods::Interface("br0".to_owned()), " ! -i br0 -p tcp", "-i br0 -j KUBE-SVC-"),
            (LocalPods::InterfacePrefix("veth".to_owned()), " ! -i veth+ -p tcp", "-i veth+ -j KUBE-SVC-"),
        ] {
            let (mut backend, iptables) = backend(family);
            let known = local != LocalPods::Unknown;
            let fixed = Fixed { local, ..fixed(family) };
            backend.sync(&fixed, &mut everything(family).into_iter()).unwrap();
            let text = iptables.last();
            assert!(text.contains(not) && text.contains(is), "{text}");
            assert_eq!(text.contains("! -i "), known, "{text}");
        }
    }
}

#[test]
fn a_name_that_is_none_does_not_reach_the_rules() {
    for family in Family::BOTH {
        let (mut backend, iptables) = backend(family);
        let bad = Name::new("a", "x\" -j ACCEPT\n-F");
        sync(&mut backend, vec![(bad, simple(family, 1, &[1])), (name("web"), simple(family, 2, &[]))]);
        assert!(!iptables.last().contains("ACCEPT\n-F") && iptables.last().contains("a/web has no endpoints"));
    }
}

#[test]
fn removing_leaves_nothing_of_ours_and_all_of_others() {
    for family in Family::BOTH {
        let (mut backend, iptables) = backend(family);
        let chain = |name: &str| Operation::Chain(name.to_owned());
        let append = |chain: &str, rule: &str| Operation::Append(chain.to_owned(), rule.to_owned());
        let mut others = Transaction::new(family);
        others.push(Table::Mangle, vec![chain("KUBE-KUBELET-CANARY")]);
        others.push(
            Table::Filter,
            vec![chain("KUBE-FIREWALL"), append("INPUT", "-j KUBE-FIREWALL"), append("INPUT", "-p tcp -j ACCEPT")],
        );
        others.push(Table::Nat, vec![chain("KUBE-MARK-MASQ"), chain("CNI-X"), append("CNI-X", "-j KUBE-MARK-MASQ")]);
        iptables.commit(&others).unwrap();
        let foreign = iptables.fake.listing(family);
        assert_eq!(remove(&*iptables).unwrap(), [], "kube-proxy may have made these chains");
        sync(&mut backend, everything(family));
        assert_eq!(remove(&*iptables).unwrap(), [family]);
        let mark = "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n";
        assert_eq!(iptables.fake.listing(family).replace(mark, ""), foreign, "what others lead to still works");
        assert_eq!(remove(&*iptables).unwrap(), []);
    }
}

#[test]
fn a_node_port_belongs_to_the_port_before_it_unless_it_leads_elsewhere() {
    for family in Family::BOTH {
        let node_port = |port, to| route(Frontend::NodePort { protocol: Protocol::Tcp, port }, to);
        let outside = |last: &[u8]| To::Outside(pool(family, last));
        let chain = |port, number| match port {
            Some(number) => names::PortName::new(&name("web"), Protocol::Tcp, number).external(),
            None => names::PortName::node_port(&name("web"), Protocol::Tcp, number).external(),
        };
        for (routes, expected) in [
            (vec![route(at(family, 1, 80), To::Inside(pool(family, &[1]))), node_port(30001, outside(&[1]))], Some(80)),
            (vec![route(at(family, 1, 80), To::Drop), node_port(30001, outside(&[1]))], Some(80)),
            (vec![node_port(30001, outside(&[1]))], None),
            (
                vec![
                    route(at(family, 1, 80), To::Inside(pool(family, &[1]))),
                    route(at(family, 2, 80), outside(&[1])),
                    node_port(30001, outside(&[2])),
                ],
                None,
            ),
            (
                vec![
                    route(at(family, 1, 80), To::Inside(pool(family, &[3]))),
                    node_port(30001, To::OutsideLocal { own: pool(family, &[1]), others: pool(family, &[2]) }),
                ],
                None,
            ),
        ] {
            let (mut backend, iptables) = backend(family);
            sync(&mut backend, vec![(name("web"), service(family, 1, routes.clone()))]);
            let nat = iptables.save(family, Table::Nat).unwrap();
            let line = nat["KUBE-NODEPORTS"].last().unwrap();
            assert_eq!(target(line), Some(&*chain(expected, 30001)), "{routes:?}");
        }
    }
}
