//! What the kernel holds, and what changes cost. The kernel is fakes that refuse what it would refuse.

use super::*;
use crate::{
    plan::{Affinity, Frontend, LocalPods, NodePortMatch, Pool, Route, Sources, To},
    track::Protocol,
};
use kernel::{
    dummy::FakeLinks,
    ipset::FakeIpset,
    iptables::{FakeIptables, Table},
    ipvs::{FakeIpvs, Protocol as Transport, Server},
};
use std::net::SocketAddr;

/// A machine with the addresses 192.168.0.1, 192.168.0.2 and fd09::1, fd09::2.
struct Machine {
    ipvs: Arc<FakeIpvs>,
    ipset: Arc<FakeIpset>,
    links: Arc<FakeLinks>,
    iptables: Arc<FakeIptables>,
}

impl Machine {
    fn new() -> Self {
        let ips = ["127.0.0.1", "192.168.0.1", "192.168.0.2", "::1", "fe80::1", "fd09::1", "fd09::2"];
        Self {
            ipvs: Arc::default(),
            ipset: Arc::default(),
            links: Arc::new(FakeLinks::with("eth0", ips.map(|ip| ip.parse().unwrap()))),
            iptables: Arc::default(),
        }
    }

    fn parts(&self) -> Parts {
        Parts {
            ipvs: self.ipvs.clone(),
            ipset: self.ipset.clone(),
            links: self.links.clone(),
            iptables: self.iptables.clone(),
        }
    }

    fn backend(&self, family: Family) -> IpvsBackend {
        let settings = Settings { scheduler: "rr".to_owned(), excluded: Vec::new() };
        IpvsBackend::new(family, settings, self.parts())
    }

    fn addresses(&self, family: Family) -> Vec<String> {
        let found = self.links.addresses(INTERFACE, family).unwrap();
        found.here.iter().map(ToString::to_string).collect()
    }

    fn listing(&self, family: Family) -> String {
        let addresses = self.addresses(family).join(" ");
        format!(
            "{INTERFACE}: {addresses}\n{}{}{}",
            self.ipvs.listing(),
            self.ipset.listing(),
            self.iptables.listing(family)
        )
    }
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

fn ip(family: Family, v4: &str, v6: &str) -> IpAddr {
    if family == Family::V4 { v4.parse().unwrap() } else { v6.parse().unwrap() }
}

fn endpoint(family: Family, last: u8) -> SocketAddr {
    SocketAddr::new(ip(family, &format!("10.1.0.{last}"), &format!("fd01::{last}")), 8080)
}

fn pool(family: Family, last: &[u8]) -> Pool {
    Pool { endpoints: last.iter().map(|last| endpoint(family, *last)).collect(), affinity: None }
}

fn address(family: Family, last: u8, protocol: Protocol) -> Frontend {
    let ip = ip(family, &format!("10.0.0.{last}"), &format!("fd00::{last}"));
    Frontend::Address { ip, protocol, port: 80 }
}

fn tcp(family: Family, last: u8) -> Frontend {
    address(family, last, Protocol::Tcp)
}

fn key(family: Family, last: u8) -> ServerKey {
    let ip = ip(family, &format!("10.0.0.{last}"), &format!("fd00::{last}"));
    ServerKey { protocol: Transport::Tcp, at: SocketAddr::new(ip, 80) }
}

const NODE_PORT: Frontend = Frontend::NodePort { protocol: Protocol::Udp, port: 30053 };

fn route(frontend: Frontend, to: To) -> Route {
    Route { frontend, sources: Sources::Everyone, to, serving: Arc::default() }
}

fn service(routes: Vec<Route>) -> ServicePlan {
    ServicePlan { routes, ..ServicePlan::default() }
}

/// A cluster IP with these endpoints.
fn plain(family: Family, last: u8, endpoints: &[u8]) -> ServicePlan {
    service(vec![route(tcp(family, last), To::Inside(pool(family, endpoints)))])
}

fn name(text: &str) -> Name {
    Name::new("a", text)
}

fn sync(backend: &mut IpvsBackend, plans: impl IntoIterator<Item = (&'static str, ServicePlan)>) -> Done {
    let fixed = fixed(backend.family());
    backend.sync(&fixed, &mut plans.into_iter().map(|(text, plan)| (name(text), plan))).unwrap()
}

/// A Service with every kind of frontend.
fn everything(family: Family) -> ServicePlan {
    let range = if family == Family::V4 { "203.0.113.0/24" } else { "2001:db8:5::/48" };
    let mut sticky = pool(family, &[2, 3]);
    sticky.affinity = Some(Affinity { seconds: 60, protocol: Protocol::Tcp, id: 7 });
    let mut plan = service(vec![
        route(tcp(family, 1), To::Inside(sticky)),
        route(tcp(family, 2), To::Reject),
        route(tcp(family, 3), To::Drop),
        Route {
            frontend: tcp(family, 4),
            sources: Sources::Only(vec![range.parse().unwrap()]),
            to: To::Outside(pool(family, &[2, 3])),
            serving: Arc::default(),
        },
        route(tcp(family, 5), To::OutsideLocal { own: pool(family, &[2, 3]), others: pool(family, &[]) }),
        route(NODE_PORT, To::OutsideLocal { own: pool(family, &[2, 3]), others: pool(family, &[3]) }),
    ]);
    plan.cluster_ips = vec![ip(family, "10.0.0.1", "fd00::1")];
    plan.hairpins = vec![ip(family, "10.1.0.3", "fd01::3")];
    plan
}

#[test]
fn the_kernel_of_each_family_holds_this() {
    for (family, golden) in
        [(Family::V4, include_str!("golden/ipv4.txt")), (Family::V6, include_str!("golden/ipv6.txt"))]
    {
        let machine = Machine::new();
        let mut backend = machine.backend(family);
        assert_eq!(sync(&mut backend, [("web", everything(family))]), Done::Full);
        if std::env::var_os("BLESS").is_some() {
            let file = if family == Family::V4 { "ipv4" } else { "ipv6" };
            let path = format!("{}/src/backend/ipvs/golden/{file}.txt", env!("CARGO_MANIFEST_DIR"));
            std::fs::write(path, machine.listing(family)).unwrap();
            continue;
        }
        assert_eq!(machine.listing(family), golden);
        assert!(backend.check().unwrap());
    }
}

#[test]
fn the_text_for_other_programs_says_the_same() {
    for (family, file, golden) in [
        (Family::V4, "text4", include_str!("golden/text4.txt")),
        (Family::V6, "text6", include_str!("golden/text6.txt")),
    ] {
        let machine = Machine::new();
        let mut backend = machine.backend(family);
        assert_eq!(backend.text().unwrap(), "", "nothing is known yet");
        sync(&mut backend, [("web", everything(family))]);
        let text = backend.text().unwrap();
        if std::env::var_os("BLESS").is_some() {
            let path = format!("{}/src/backend/ipvs/golden/{file}.txt", env!("CARGO_MANIFEST_DIR"));
            std::fs::write(path, text).unwrap();
            continue;
        }
        assert_eq!(text, golden);
        for (lines, listed) in [
            (text.lines().filter(|line| line.starts_with("-A -")).count(), machine.ipvs.servers(family).unwrap().len()),
            (text.lines().filter(|line| line.starts_with("address add ")).count(), machine.addresses(family).len()),
        ] {
            assert_eq!(lines, listed);
        }
    }
}

#[test]
fn a_change_touches_only_what_changed() {
    for family in Family::BOTH {
        let machine = Machine::new();
        let mut backend = machine.backend(family);
        sync(&mut backend, [("a", plain(family, 1, &[1, 2])), ("b", plain(family, 2, &[3]))]);
        machine.ipvs.take_log();
        machine.ipset.take_log();
        assert_eq!(sync(&mut backend, [("a", plain(family, 1, &[1, 2]))]), Done::Nothing);
        assert_eq!(sync(&mut backend, [("a", plain(family, 1, &[1, 2, 4]))]), Done::Partial);
        let put = Change::PutDestination { server: key(family, 1), at: endpoint(family, 4), weight: 1 };
        assert_eq!(machine.ipvs.take_log(), [put]);
        assert_eq!(machine.ipset.take_log(), []);
        assert_eq!(sync(&mut backend, [("b", ServicePlan::default())]), Done::Partial);
        assert_eq!(machine.ipvs.take_log(), [Change::RemoveServer(key(family, 2))]);
        assert_eq!(machine.addresses(family), [ip(family, "10.0.0.1", "fd00::1").to_string()]);
        assert!(backend.check().unwrap());
    }
}

#[test]
fn a_tcp_endpoint_goes_when_its_last_connection_has_ended() {
    for family in Family::BOTH {
        let machine = Machine::new();
        let mut backend = machine.backend(family);
        sync(&mut backend, [("a", plain(family, 1, &[1, 2, 3]))]);
        machine.ipvs.connect(&key(family, 1), endpoint(family, 2), 1);
        sync(&mut backend, [("a", plain(family, 1, &[1]))]);
        let weights = |machine: &Machine| {
            let list = machine.ipvs.destinations(&key(family, 1)).unwrap();
            list.iter().map(|destination| destination.weight).collect::<Vec<_>>()
        };
        // The third had no connection.
        assert_eq!(weights(&machine), [1, 0]);
        backend.tidy().unwrap();
        assert_eq!(weights(&machine), [1, 0]);
        // It comes back.
        sync(&mut backend, [("a", plain(family, 1, &[1, 2]))]);
        machine.ipvs.connect(&key(family, 1), endpoint(family, 2), 0);
        backend.tidy().unwrap();
        assert_eq!(weights(&machine), [1, 1]);
        // It goes again, and another process takes over before its last connection ends.
        machine.ipvs.connect(&key(family, 1), endpoint(family, 2), 1);
        sync(&mut backend, [("a", plain(family, 1, &[1]))]);
        let mut next = machine.backend(family);
        sync(&mut next, [("a", plain(family, 1, &[1]))]);
        assert_eq!(weights(&machine), [1, 0]);
        machine.ipvs.connect(&key(family, 1), endpoint(family, 2), 0);
        next.tidy().unwrap();
        assert_eq!(weights(&machine), [1]);
    }
}

#[test]
fn a_udp_endpoint_keeps_its_flows_while_it_serves_and_then_goes_at_once() {
    for family in Family::BOTH {
        let machine = Machine::new();
        let mut backend = machine.backend(family);
        let frontend = address(family, 1, Protocol::Udp);
        let plan = |last: &[u8], serving: &[u8]| {
            let serving = pool(family, serving).endpoints;
            service(vec![Route { serving, ..route(frontend, To::Inside(pool(family, last))) }])
        };
        let server = ServerKey { protocol: Transport::Udp, ..key(family, 1) };
        let weights = |machine: &Machine| -> Vec<(SocketAddr, u32)> {
            let there = machine.ipvs.destinations(&server).unwrap();
            there.iter().map(|destination| (destination.at, destination.weight)).collect()
        };
        let of = |list: &[(u8, u32)]| -> Vec<(SocketAddr, u32)> {
            list.iter().map(|(last, weight)| (endpoint(family, *last), *weight)).collect()
        };
        sync(&mut backend, [("dns", plan(&[1, 2], &[1, 2]))]);
        assert_eq!(weights(&machine), of(&[(1, 1), (2, 1)]));
        sync(&mut backend, [("dns", plan(&[1], &[1, 2]))]);
        assert_eq!(weights(&machine), of(&[(1, 1), (2, 0)]));
        assert!(backend.check().unwrap());
        machine.ipvs.take_log();
        let mut next = machine.backend(family);
        sync(&mut next, [("dns", plan(&[1], &[1, 2]))]);
        assert_eq!(machine.ipvs.take_log(), [], "the next process finds it as it should be");
        sync(&mut next, [("dns", plan(&[1, 2], &[1, 2]))]);
        assert_eq!(weights(&machine), of(&[(1, 1), (2, 1)]), "it may come back");
        sync(&mut next, [("dns", plan(&[1], &[1, 2]))]);
        sync(&mut next, [("dns", plan(&[1], &[1]))]);
        assert_eq!(weights(&machine), of(&[(1, 1)]));
    }
}

#[test]
fn the_next_process_finds_nothing_to_do() {
    for family in Family::BOTH {
        let machine = Machine::new();
        sync(&mut machine.backend(family), [("web", everything(family))]);
        let before = machine.listing(family);
        machine.ipvs.take_log();
        machine.ipset.take_log();
        let mut next = machine.backend(family);
        assert_eq!(sync(&mut next, [("web", everything(family))]), Done::Full);
        assert_eq!(machine.listing(family), before);
        assert_eq!(machine.ipvs.take_log(), []);
        assert_eq!(machine.ipset.take_log(), []);
    }
}

#[test]
fn what_was_left_by_a_process_that_was_cut_off_is_put_right() {
    for family in Family::BOTH {
        let whole = Machine::new();
        sync(&mut whole.backend(family), [("web", everything(family))]);
        let expected = whole.listing(family);
        let machine = Machine::new();
        sync(&mut machine.backend(family), [("old", plain(family, 9, &[1])), ("web", everything(family))]);
        // Half of a removal, half of an addition, an address that nobody knows, another scheduler and persistence.
        machine.ipvs.change(&[Change::RemoveServer(key(family, 4))]).unwrap();
        for last in [1, 9] {
            let other = Server { key: key(family, last), scheduler: "lc".to_owned(), persistence: 5 };
            machine.ipvs.change(&[Change::PutServer(other)]).unwrap();
        }
        machine.links.add(INTERFACE, &[ip(family, "10.0.0.99", "fd00::99")]).unwrap();
        machine.links.remove(INTERFACE, &[ip(family, "10.0.0.2", "fd00::2")]).unwrap();
        sync(&mut machine.backend(family), [("web", everything(family))]);
        assert_eq!(machine.listing(family), expected);
    }
}

#[test]
fn a_loss_is_noticed_and_repaired() {
    for family in Family::BOTH {
        let machine = Machine::new();
        let mut backend = machine.backend(family);
        sync(&mut backend, [("web", everything(family))]);
        let before = machine.listing(family);
        let lose: [&dyn Fn(); 5] = [
            &|| machine.ipvs.lose(),
            &|| machine.iptables.lose_rules(family, Table::Nat),
            &|| machine.iptables.lose(family, Table::Mangle),
            &|| machine.links.remove(INTERFACE, &[ip(family, "10.0.0.1", "fd00::1")]).unwrap(),
            &|| SetName::ALL.iter().try_for_each(|name| machine.ipset.destroy(&name.set(family))).unwrap(),
        ];
        for (at, lose) in lose.iter().enumerate() {
            assert!(backend.check().unwrap(), "{at}");
            lose();
            assert!(!backend.check().unwrap(), "{at}");
            assert!(backend.wants_everything(&fixed(family)));
            assert_eq!(sync(&mut backend, [("web", everything(family))]), Done::Full);
            assert_eq!(machine.listing(family), before, "{at}");
        }
    }
}

#[test]
fn a_failure_is_followed_by_everything() {
    for family in Family::BOTH {
        let machine = Machine::new();
        let mut backend = machine.backend(family);
        machine.iptables.fail_at(Table::Nat);
        let mut plans = [(name("web"), everything(family))].into_iter();
        assert!(backend.sync(&fixed(family), &mut plans).is_err());
        assert!(backend.wants_everything(&fixed(family)));
        assert_eq!(sync(&mut backend, [("web", everything(family))]), Done::Full);
        assert!(backend.check().unwrap());
    }
}

#[test]
fn node_ports_follow_the_addresses_of_the_machine() {
    let open = |node_ports: NodePortMatch, family: Family| {
        let machine = Machine::new();
        let mut backend = machine.backend(family);
        let fixed = Fixed { node_ports, ..fixed(family) };
        let plan = service(vec![route(NODE_PORT, To::Outside(pool(family, &[1])))]);
        backend.sync(&fixed, &mut [(name("np"), plan)].into_iter()).unwrap();
        let before: Vec<String> =
            machine.ipvs.servers(family).unwrap().iter().map(|server| server.key.at.ip().to_string()).collect();
        // Nothing of a node port is at the interface of Services.
        assert_eq!(machine.addresses(family), Vec::<String>::new());
        machine.links.make("veth0").unwrap();
        machine.links.add("veth0", &["fe80::99".parse().unwrap()]).unwrap();
        assert!(backend.check().unwrap());
        machine.links.add("eth0", &[ip(family, "192.168.0.3", "fd09::3")]).unwrap();
        assert!(!backend.check().unwrap());
        before
    };
    assert_eq!(open(NodePortMatch::All, Family::V4), ["192.168.0.1", "192.168.0.2"]);
    assert_eq!(open(NodePortMatch::All, Family::V6), ["fd09::1", "fd09::2"]);
    assert_eq!(open(NodePortMatch::In(vec!["192.168.0.2/32".parse().unwrap()]), Family::V4), ["192.168.0.2"]);
    assert_eq!(open(NodePortMatch::In(vec![]), Family::V6), Vec::<String>::new());
}

#[test]
fn an_address_that_the_node_has_anyway_keeps_its_other_ports() {
    for (family, node) in [(Family::V4, "192.168.0.1"), (Family::V6, "fd09::1")] {
        let machine = Machine::new();
        let frontend = Frontend::Address { ip: node.parse().unwrap(), protocol: Protocol::Tcp, port: 80 };
        let plan = service(vec![route(frontend, To::Outside(pool(family, &[1])))]);
        sync(&mut machine.backend(family), [("ext", plan)]);
        assert_eq!(machine.ipvs.servers(family).unwrap().len(), 1);
        assert_eq!(machine.addresses(family), Vec::<String>::new());
        let guarded = machine.ipset.entries(&SetName::Addresses.set(family)).unwrap().unwrap();
        assert_eq!(guarded, []);
    }
}

#[test]
fn a_frontend_changes_hands_in_one_change_whoever_is_named_first() {
    for (family, reverse) in Family::BOTH.into_iter().flat_map(|family| [(family, false), (family, true)]) {
        let machine = Machine::new();
        let mut backend = machine.backend(family);
        let mut turn = |a: ServicePlan, b: ServicePlan| {
            let mut plans = [("a", a), ("b", b)];
            if reverse {
                plans.reverse();
            }
            sync(&mut backend, plans);
            let there = machine.ipvs.destinations(&key(family, 1)).unwrap_or_default();
            there.iter().map(|destination| destination.at).collect::<Vec<SocketAddr>>()
        };
        let none = ServicePlan::default;
        assert_eq!(turn(plain(family, 1, &[1]), none()), [endpoint(family, 1)]);
        assert_eq!(turn(none(), plain(family, 1, &[2])), [endpoint(family, 2)]);
        assert_eq!(turn(plain(family, 1, &[1]), none()), [endpoint(family, 1)]);
        turn(none(), none());
        assert_eq!(machine.ipvs.listing(), "");
    }
}

#[test]
fn what_belongs_to_others_is_left_alone() {
    for family in Family::BOTH {
        let machine = Machine::new();
        let foreign = Server { key: key(family, 77), scheduler: "wlc".to_owned(), persistence: 0 };
        machine.ipvs.change(&[Change::PutServer(foreign.clone())]).unwrap();
        let mut backend = machine.backend(family);
        backend.settings.excluded = vec![Cidr::host(ip(family, "10.0.0.5", "fd00::5")).unwrap()];
        sync(&mut backend, [("web", everything(family)), ("b", plain(family, 6, &[1]))]);
        let at = |last| machine.ipvs.servers(family).unwrap().iter().any(|server| server.key == key(family, last));
        assert!(at(77) && at(6) && !at(5));
        assert!(backend.check().unwrap());
        assert_eq!(remove(&machine.parts()).unwrap(), [family]);
        assert_eq!(machine.ipvs.servers(family).unwrap(), [foreign]);
        assert_eq!(machine.ipset.listing(), "");
        assert!(!machine.iptables.listing(family).contains("TWINSTACK"));
        assert_eq!(machine.addresses(family), Vec::<String>::new());
        assert_eq!(remove(&machine.parts()).unwrap(), []);
    }
}
