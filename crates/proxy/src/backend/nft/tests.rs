//! The table as text, and what changes cost. The kernel is a fake that checks references.

use super::*;
use crate::{
    plan::{Affinity, Frontend, LocalPods, NodePortMatch, Route, Sources, To},
    track::Protocol,
};
use kernel::nft::{Chain, FakeNft};
use parking_lot::Mutex;
use std::net::{IpAddr, SocketAddr};

/// The fake, and the text of all that was committed.
#[derive(Default)]
struct Recorder {
    fake: FakeNft,
    texts: Mutex<Vec<String>>,
    /// Commits that still are to fail.
    failures: Mutex<u32>,
}

impl Nft for Recorder {
    fn commit(&self, transaction: &Transaction) -> Result<(), NftError> {
        let mut failures = self.failures.lock();
        if *failures > 0 {
            *failures -= 1;
            return Err(NftError::Refused("told to fail".to_owned()));
        }
        self.fake.commit(transaction)?;
        self.texts.lock().push(transaction.text());
        Ok(())
    }

    fn chains(&self, family: Family, table: &str) -> Result<Option<Vec<Chain>>, NftError> {
        self.fake.chains(family, table)
    }
}

impl Recorder {
    fn last(&self) -> String {
        self.texts.lock().last().cloned().unwrap_or_default()
    }

    fn count(&self) -> usize {
        self.texts.lock().len()
    }

    fn listing(&self, family: Family) -> String {
        self.fake.listing(family, TABLE)
    }
}

fn fixed(family: Family) -> Fixed {
    let cidr = |v4: &str, v6: &str| if family == Family::V4 { v4.parse() } else { v6.parse() };
    Fixed {
        masquerade_mark: 0x4000,
        masquerade_all: false,
        local: LocalPods::Within(cidr("10.1.0.0/16", "fd01::/48").unwrap()),
        node_ports: NodePortMatch::In(vec![cidr("192.168.0.1/32", "fd09::1/128").unwrap()]),
        service_cidrs: vec![cidr("10.0.0.0/16", "fd00::/112").unwrap()],
    }
}

fn ip(family: Family, v4: &str, v6: &str) -> IpAddr {
    if family == Family::V4 { v4.parse().unwrap() } else { v6.parse().unwrap() }
}

fn pool(family: Family, last: &[u8]) -> Pool {
    let endpoint = |last: &u8| SocketAddr::new(ip(family, &format!("10.1.0.{last}"), &format!("fd01::{last}")), 8080);
    Pool { endpoints: last.iter().map(endpoint).collect(), affinity: None }
}

fn sticky(pool: Pool) -> Pool {
    Pool { affinity: Some(Affinity { seconds: 60, protocol: Protocol::Tcp, id: 7 }), ..pool }
}

fn address(family: Family, last: u8) -> Frontend {
    let ip = ip(family, &format!("10.0.0.{last}"), &format!("fd00::{last}"));
    Frontend::Address { ip, protocol: Protocol::Tcp, port: 80 }
}

const NODE_PORT: Frontend = Frontend::NodePort { protocol: Protocol::Udp, port: 30053 };

fn route(frontend: Frontend, to: To) -> Route {
    Route { frontend, sources: Sources::Everyone, to, serving: Arc::default() }
}

fn service(routes: Vec<Route>) -> ServicePlan {
    let cluster_ips = routes.iter().filter_map(|route| match (route.frontend, &route.to) {
        (Frontend::Address { ip, .. }, To::Inside(_)) => Some(ip),
        _ => None,
    });
    ServicePlan { cluster_ips: cluster_ips.collect(), routes, ..ServicePlan::default() }
}

fn name(text: &str) -> Name {
    Name::new("a", text)
}

fn backend(family: Family) -> (NftBackend, Arc<Recorder>) {
    let nft = Arc::new(Recorder::default());
    (NftBackend::new(family, nft.clone()), nft)
}

/// A Service with every kind of frontend.
fn everything(family: Family) -> ServicePlan {
    let range = if family == Family::V4 { "203.0.113.0/24" } else { "2001:db8:5::/48" };
    let own = pool(family, &[2, 3]);
    let mut plan = service(vec![
        route(address(family, 1), To::Inside(pool(family, &[2, 3]))),
        route(address(family, 2), To::Reject),
        route(address(family, 3), To::Drop),
        Route {
            frontend: address(family, 4),
            sources: Sources::Only(vec![range.parse().unwrap()]),
            to: To::Outside(pool(family, &[2, 3])),
            serving: Arc::default(),
        },
        route(NODE_PORT, To::OutsideLocal { own, others: pool(family, &[3]) }),
    ]);
    plan.hairpins = vec![ip(family, "10.1.0.3", "fd01::3")];
    plan
}

#[test]
fn the_table_of_each_family_is_this() {
    for (family, golden) in
        [(Family::V4, include_str!("golden/ipv4.txt")), (Family::V6, include_str!("golden/ipv6.txt"))]
    {
        let (mut backend, nft) = backend(family);
        assert_eq!(
            backend.sync(&fixed(family), &mut [(name("web"), everything(family))].into_iter()).unwrap(),
            Done::Full
        );
        if std::env::var_os("BLESS").is_some() {
            let file = if family == Family::V4 { "ipv4" } else { "ipv6" };
            let path = format!("{}/src/backend/nft/golden/{file}.txt", env!("CARGO_MANIFEST_DIR"));
            std::fs::write(path, nft.listing(family)).unwrap();
            continue;
        }
        assert_eq!(nft.listing(family), golden);
    }
}

#[test]
fn a_change_is_the_elements_that_changed() {
    let family = Family::V6;
    let (mut backend, nft) = backend(family);
    let many: Vec<_> = (0..200)
        .map(|n| {
            (name(&format!("s{n}")), service(vec![route(address(family, n), To::Inside(pool(family, &[1, 2, 3])))]))
        })
        .collect();
    backend.sync(&fixed(family), &mut many.into_iter()).unwrap();
    let mut change = |last: &[u8]| {
        let plan = service(vec![route(address(family, 7), To::Inside(pool(family, last)))]);
        backend.sync(&fixed(family), &mut [(name("s7"), plan)].into_iter()).unwrap()
    };
    assert_eq!(change(&[1, 2, 3]), Done::Nothing);
    assert_eq!(nft.count(), 1, "nothing to do costs no program");
    assert_eq!(change(&[1, 2, 4]), Done::Partial);
    assert_eq!(
        nft.last(),
        "delete element ip6 twinstack-proxy endpoints-tcp { fd00::7 . tcp . 80 . 2 }\n\
         add element ip6 twinstack-proxy endpoints-tcp { fd00::7 . tcp . 80 . 2 : fd01::4 . 8080 }\n"
    );
    change(&[2, 4]);
    assert_eq!(
        nft.last(),
        "add chain ip6 twinstack-proxy pick-2-tcp\n\
         flush chain ip6 twinstack-proxy pick-2-tcp\n\
         add rule ip6 twinstack-proxy pick-2-tcp meta l4proto tcp dnat ip6 to ip6 daddr . meta l4proto . th dport . numgen random mod 2 map @endpoints-tcp\n\
         delete element ip6 twinstack-proxy endpoints-tcp { fd00::7 . tcp . 80 . 0, fd00::7 . tcp . 80 . 2 }\n\
         delete element ip6 twinstack-proxy services { fd00::7 . tcp . 80 }\n\
         add element ip6 twinstack-proxy endpoints-tcp { fd00::7 . tcp . 80 . 0 : fd01::4 . 8080 }\n\
         add element ip6 twinstack-proxy services { fd00::7 . tcp . 80 : goto pick-2-tcp }\n"
    );
    change(&[]);
    backend.sync(&fixed(family), &mut [(name("s7"), ServicePlan::default())].into_iter()).unwrap();
    assert!(!nft.listing(family).contains("fd00::7 "), "{}", nft.listing(family));
}

#[test]
fn whatever_the_way_the_table_ends_up_the_same() {
    for family in Family::BOTH {
        let steps = |backend: &mut NftBackend, plans: Vec<ServicePlan>| {
            for plan in plans {
                backend.sync(&fixed(family), &mut [(name("web"), plan)].into_iter()).unwrap();
            }
        };
        let local = |last: &[u8]| {
            let own = pool(family, &[2, 3]);
            service(vec![route(NODE_PORT, To::OutsideLocal { own: sticky(own), others: pool(family, last) })])
        };
        let (mut direct, straight) = backend(family);
        steps(&mut direct, vec![everything(family)]);
        let (mut winding, curved) = backend(family);
        let detour = vec![ServicePlan::default(), local(&[1]), local(&[]), everything(family)];
        steps(&mut winding, detour);
        winding.tidy().unwrap();
        let elements = |nft: &Recorder| -> String {
            let listing = nft.listing(family);
            listing.split_once("  chain ").map(|(elements, _)| elements.to_owned()).unwrap_or_default()
        };
        assert_eq!(elements(&straight), elements(&curved));
        assert!(!curved.listing(family).contains("chain sticky"), "chains of affinity go with their Service");
    }
}

#[test]
fn clients_with_affinity_have_a_chain_that_remembers_them() {
    let family = Family::V4;
    let (mut backend, nft) = backend(family);
    let plan = |last: &[u8]| {
        let pool = sticky(pool(family, last));
        service(vec![route(address(family, 1), To::Inside(pool.clone())), route(NODE_PORT, To::Outside(pool))])
    };
    backend.sync(&fixed(family), &mut [(name("web"), plan(&[2, 3]))].into_iter()).unwrap();
    let listing = nft.listing(family);
    let (first, second) = {
        let affinity = Affinity { seconds: 60, protocol: Protocol::Tcp, id: 7 };
        let id = |text: &str| affinity.endpoint_id(text.parse().unwrap());
        (id("10.1.0.2:8080"), id("10.1.0.3:8080"))
    };
    let key = |id: u32| format!("ip saddr . numgen inc mod 1 offset {id}");
    let note = |id: u32, last: u8| {
        format!("update @affinity {{ {} timeout 60s }} meta l4proto tcp dnat to 10.1.0.{last}:8080", key(id))
    };
    let expected = format!(
        "  chain sticky-0000000000000007\n    {} @affinity {}\n    {} @affinity {}\n    numgen random mod 2 0 {}\n    {}\n",
        key(first),
        note(first, 2),
        key(second),
        note(second, 3),
        note(first, 2),
        note(second, 3)
    );
    assert!(listing.contains(&expected), "{listing}\nexpected\n{expected}");
    assert!(listing.contains("  services: 10.0.0.1 . tcp . 80 : goto sticky-0000000000000007\n"), "{listing}");
    assert!(listing.contains("  node-ports: udp . 30053 : goto masquerade-sticky-0000000000000007\n"), "{listing}");
    backend.sync(&fixed(family), &mut [(name("web"), plan(&[3]))].into_iter()).unwrap();
    assert!(nft.last().contains("flush chain ip twinstack-proxy sticky-0000000000000007\n"), "{}", nft.last());
    backend.sync(&fixed(family), &mut [(name("web"), ServicePlan::default())].into_iter()).unwrap();
    backend.tidy().unwrap();
    assert!(!nft.listing(family).contains("sticky"), "{}", nft.listing(family));
    assert!(backend.check().unwrap());
}

#[test]
fn a_frontend_changes_hands_in_one_change_whoever_is_named_first() {
    let family = Family::V4;
    for reverse in [false, true] {
        let (mut backend, nft) = backend(family);
        let (open, closed) = (To::Outside(pool(family, &[1])), To::Reject);
        let mut turns = |first: To, second: Option<To>| {
            let plan = |to: Option<To>| to.map(|to| service(vec![route(NODE_PORT, to)])).unwrap_or_default();
            let (a, b) = if second.is_some() { (plan(None), plan(second)) } else { (plan(Some(first)), plan(None)) };
            let mut plans = [(name("a"), a), (name("b"), b)];
            if reverse {
                plans.reverse();
            }
            backend.sync(&fixed(family), &mut plans.into_iter()).unwrap();
            nft.listing(family)
        };
        let listing = turns(open.clone(), None);
        assert!(listing.contains("node-ports: udp . 30053 : goto node-port-masquerade-pick-1-udp"), "{listing}");
        assert!(!listing.contains("node-port-gates:"), "{listing}");
        let listing = turns(open.clone(), Some(closed));
        assert!(listing.contains("node-port-gates: udp . 30053 : goto node-port-refuse"), "{listing}");
        assert!(!listing.contains("node-ports:"), "{listing}");
        assert!(turns(open, None).contains("node-ports: udp . 30053 : goto"));
    }
}

#[test]
fn a_new_process_takes_the_table_over_in_one_step() {
    for family in Family::BOTH {
        let (mut old, nft) = backend(family);
        let pool = sticky(pool(family, &[1]));
        let gone = service(vec![route(address(family, 9), To::Inside(pool))]);
        old.sync(&fixed(family), &mut [(name("web"), everything(family)), (name("gone"), gone)].into_iter()).unwrap();
        let before = nft.count();
        let mut new = NftBackend::new(family, nft.clone());
        assert_eq!(new.sync(&fixed(family), &mut [(name("web"), everything(family))].into_iter()).unwrap(), Done::Full);
        assert_eq!(nft.count(), before + 1);
        assert!(!nft.last().contains("delete table"), "{}", nft.last());
        assert!(!nft.last().contains("set affinity\n"), "who is with which endpoint is kept");
        let (mut fresh, reference) = backend(family);
        fresh.sync(&fixed(family), &mut [(name("web"), everything(family))].into_iter()).unwrap();
        assert_eq!(nft.listing(family), reference.listing(family));
    }
}

#[test]
fn failures_and_strangers_are_mended_with_everything() {
    let family = Family::V6;
    let (mut backend, nft) = backend(family);
    let all = || [(name("web"), everything(family))];
    backend.sync(&fixed(family), &mut all().into_iter()).unwrap();
    let good = nft.listing(family);
    assert!(backend.check().unwrap());

    nft.fake.lose(family, TABLE);
    assert!(!backend.check().unwrap() && backend.wants_everything(&fixed(family)));
    backend.sync(&fixed(family), &mut all().into_iter()).unwrap();
    assert_eq!(nft.listing(family), good);

    nft.fake.lose_rules(family, TABLE);
    assert!(!backend.check().unwrap());
    backend.sync(&fixed(family), &mut all().into_iter()).unwrap();
    assert_eq!(nft.listing(family), good);

    // The table is lost between two changes: the change fails, everything follows.
    nft.fake.lose(family, TABLE);
    let change = service(vec![route(address(family, 1), To::Reject)]);
    backend.sync(&fixed(family), &mut [(name("web"), change)].into_iter()).unwrap_err();
    assert!(backend.wants_everything(&fixed(family)));
    backend.sync(&fixed(family), &mut all().into_iter()).unwrap();
    assert_eq!(nft.listing(family), good);

    // A table that cannot be taken over is replaced.
    backend.forget();
    *nft.failures.lock() = 1;
    backend.sync(&fixed(family), &mut all().into_iter()).unwrap();
    assert!(nft.last().starts_with("add table ip6 twinstack-proxy\ndelete table ip6 twinstack-proxy\n"));
    assert_eq!(nft.listing(family), good);

    // Other rules for all: everything, in place.
    let other = Fixed { masquerade_all: true, ..fixed(family) };
    assert!(backend.wants_everything(&other));
    assert_eq!(backend.sync(&other, &mut all().into_iter()).unwrap(), Done::Full);
    assert!(nft.listing(family).contains("\n    ip6 daddr @cluster-ips meta mark set meta mark or 0x4000\n"));
}

#[test]
fn removing_leaves_nothing_of_ours() {
    let nft = Arc::new(FakeNft::default());
    for family in Family::BOTH {
        NftBackend::new(family, nft.clone())
            .sync(&fixed(family), &mut [(name("web"), everything(family))].into_iter())
            .unwrap();
    }
    assert_eq!(remove(&*nft).unwrap(), Family::BOTH);
    assert_eq!(remove(&*nft).unwrap(), []);
    assert_eq!(nft.listing(Family::V4, TABLE), "");
}
