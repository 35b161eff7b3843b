//! What the pools promise, for both families and all three spaces.

use super::*;
use crate::{
    Cidr, DualStack, Families, NodeBlocks, NodeMaskFlags, PortRange, ServiceRange, flags, node_blocks, parse_ip,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

fn service_ips(range: &str) -> ServiceIpPool {
    ServiceIpPool::new(range.parse().unwrap(), 1)
}

fn node_cidrs(cluster: &str, mask: u8) -> NodeCidrPool {
    NodeCidrPool::new(NodeBlocks::new(cluster.parse().unwrap(), mask).unwrap())
}

fn ip(text: &str) -> IpAddr {
    parse_ip(text).unwrap()
}

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

/// Two small ranges with a static band of 16: one per family.
const BANDED: [&str; 2] = ["10.0.0.0/26", "fd00::/122"];

#[test]
fn dynamic_addresses_leave_the_static_band_until_the_upper_band_is_full() {
    for range in BANDED {
        let pool = service_ips(range);
        let band = pool.space().static_band();
        let first_static = pool.space().first();
        let last_static = pool.space().cidr().nth(band.into()).unwrap();
        let upper = pool.free() - band;
        for _ in 0..upper {
            let address = pool.reserve_any().unwrap().commit();
            assert!(address > last_static, "{address}");
        }
        for _ in 0..band {
            let address = pool.reserve_any().unwrap().commit();
            assert!((first_static..=last_static).contains(&address), "{address}");
        }
        assert_eq!((pool.free(), pool.used()), (0, upper + band));
        let full = pool.reserve_any().unwrap_err().to_string();
        assert_eq!(full, format!("no address is free in range {first_static}-{}", pool.space().last()));
    }
}

#[test]
fn the_order_depends_on_the_seed_alone() {
    let range: ServiceRange = "fd00::/64".parse().unwrap();
    let draw = |seed| -> Vec<IpAddr> {
        let pool = ServiceIpPool::new(range, seed);
        (0..20).map(|_| pool.reserve_any().unwrap().commit()).collect()
    };
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
}

#[test]
fn explicit_addresses_are_refused_when_taken_or_outside() {
    for (range, taken, outside, bounds) in [
        ("10.0.0.0/24", "10.0.0.7", ["10.0.0.0", "10.0.0.255", "10.0.1.1", "fd00::7"], "10.0.0.1-10.0.0.254"),
        ("fd00::/120", "fd00::7", ["fd00::", "fd00::100", "fd01::1", "10.0.0.7"], "fd00::1-fd00::ff"),
    ] {
        let pool = service_ips(range);
        assert_eq!(pool.reserve(ip(taken)).unwrap().commit(), ip(taken));
        assert_eq!(pool.reserve(ip(taken)).unwrap_err().to_string(), format!("address {taken} is taken"));
        for address in outside {
            let message = format!("address {address} is outside range {bounds}");
            assert_eq!(pool.reserve(ip(address)).unwrap_err().to_string(), message);
            assert!(!pool.contains(ip(address)) && !pool.release(ip(address)));
        }
    }
    assert!(service_ips("fd00::/120").reserve(ip("fd00::ff")).is_ok(), "the last IPv6 address is usable");
}

#[test]
fn a_reservation_is_given_back_unless_committed() {
    for range in BANDED {
        let pool = service_ips(range);
        let address = {
            let reserved = pool.reserve_any().unwrap();
            assert!(pool.contains(*reserved));
            assert!(pool.reserve(*reserved).is_err());
            assert!(!pool.release(*reserved), "only its guard frees a reserved address");
            assert!(pool.snapshot().used.is_empty(), "a reservation may still be dropped");
            *reserved
        };
        assert!(!pool.contains(address));
        assert_eq!(pool.used(), 0);
        pool.reserve(address).unwrap().commit();
        assert!(pool.contains(address));
        assert!(pool.release(address) && !pool.release(address));
    }
}

#[test]
fn a_guard_frees_nothing_that_a_repair_gave_to_an_object() {
    for range in BANDED {
        let pool = service_ips(range);
        let reserved = pool.reserve_any().unwrap();
        let address = *reserved;
        assert!(pool.repair([address]).is_clean());
        drop(reserved);
        assert!(pool.contains(address));

        let stale = pool.reserve_any().unwrap();
        let contested = *stale;
        pool.occupy(contested).unwrap();
        assert!(pool.release(contested));
        let fresh = pool.reserve(contested).unwrap();
        drop(stale);
        assert!(pool.contains(*fresh), "an old guard does not free a newer reservation of the same address");
    }
}

#[test]
fn withheld_addresses_are_in_nobodys_hands() {
    for range in BANDED {
        let pool = service_ips(range);
        let size = pool.free();
        let first = pool.space().first();
        pool.withhold(first).unwrap();
        assert_eq!((pool.used(), pool.free(), pool.withheld()), (0, size - 1, 1));
        assert_eq!(
            pool.reserve(first).unwrap_err().to_string(),
            format!("address {first} is withheld from range {first}-{}", pool.space().last())
        );
        assert!(!pool.contains(first) && !pool.release(first));
        while let Ok(reserved) = pool.reserve_any() {
            assert_ne!(reserved.commit(), first);
        }
        assert_eq!(pool.repair([first]).withheld, [first]);
        assert_eq!((pool.used(), pool.free(), pool.withheld()), (0, size - 1, 1));
    }
}

#[test]
fn a_repair_names_and_mends_every_difference() {
    for (range, leaked, missing, good, outside) in [
        ("10.0.0.0/24", "10.0.0.5", "10.0.0.9", "10.0.0.7", "10.9.9.9"),
        ("fd00::/64", "fd00::5", "fd00::9", "fd00::7", "fd09::9"),
    ] {
        let pool = service_ips(range);
        pool.occupy(ip(leaked)).unwrap();
        pool.occupy(ip(good)).unwrap();
        let held = || [good, missing, good, outside].map(ip);
        let expected = Audit {
            leaked: vec![Span { first: ip(leaked), last: ip(leaked) }],
            missing: vec![ip(missing)],
            duplicate: vec![ip(good)],
            out_of_range: vec![ip(outside)],
            withheld: vec![],
        };
        assert_eq!(pool.audit(held()), expected);
        assert!(pool.contains(ip(leaked)), "an audit changes nothing");
        assert_eq!(pool.repair(held()), expected);
        assert!(!pool.contains(ip(leaked)) && pool.contains(ip(missing)));
        assert!(pool.audit([good, missing].map(ip)).is_clean());
    }
}

#[test]
fn a_snapshot_survives_json_and_fits_only_its_own_range() {
    let pool = service_ips("fd00::/64");
    for address in ["fd00::1", "fd00::2", "fd00::a"] {
        pool.occupy(ip(address)).unwrap();
    }
    let json = serde_json::to_string(&pool.snapshot()).unwrap();
    assert_eq!(
        json,
        r#"{"range":"fd00::/64","used":[{"first":"fd00::1","last":"fd00::2"},{"first":"fd00::a","last":"fd00::a"}]}"#
    );
    let copy = service_ips("fd00::/64");
    copy.restore(&serde_json::from_str(&json).unwrap()).unwrap();
    assert_eq!(copy.snapshot(), pool.snapshot());
    assert_eq!(copy.used(), 3);

    let other = service_ips("fd01::/112");
    assert_eq!(
        other.restore(&pool.snapshot()).unwrap_err().to_string(),
        "the snapshot is of fd00::/64, the pool is of fd01::/112\n\
         fd00::1-fd00::2 is outside range fd01::1-fd01::ffff\n\
         fd00::a is outside range fd01::1-fd01::ffff"
    );
    let used = [("fd00::9", "fd00::3"), ("fd00::1", "fd00::4"), ("fd00::4", "fd00::4")]
        .map(|(first, last)| Span { first: ip(first), last: ip(last) });
    assert_eq!(
        copy.restore(&Snapshot { range: "fd00::/64".into(), used: used.into() }).unwrap_err().to_string(),
        "fd00::9-fd00::3 ends before it begins\nfd00::4 is in the snapshot twice, wholly or in part"
    );
    assert_eq!(copy.used(), 3, "a refused snapshot changes nothing");
}

#[test]
fn node_ports_keep_the_low_band_for_explicit_picks() {
    for (range, band) in [
        ("30000-30015", 0),
        ("30000-30016", 16),
        ("30000-30511", 16),
        ("30000-32767", 86),
        ("30000-34095", 128),
        ("1-65535", 128),
    ] {
        assert_eq!(range.parse::<PortRange>().unwrap().static_band(), band, "{range}");
    }
    let pool = NodePortPool::new(PortRange::NODE_PORTS, 3);
    for _ in 0..2768 - 86 {
        assert!(pool.reserve_any().unwrap().commit() > 30085);
    }
    assert!(pool.reserve_any().unwrap().commit() <= 30085);
    assert_eq!(pool.reserve(32767).unwrap_err().to_string(), "node port 32767 is taken");
    assert_eq!(pool.reserve(80).unwrap_err().to_string(), "node port 80 is outside range 30000-32767");
}

#[test]
fn node_cidrs_go_round_before_a_released_one_comes_back() {
    for (cluster, mask, blocks) in [
        ("10.244.0.0/22", 24, ["10.244.0.0/24", "10.244.1.0/24", "10.244.2.0/24", "10.244.3.0/24"]),
        ("fd00::/62", 64, ["fd00::/64", "fd00:0:0:1::/64", "fd00:0:0:2::/64", "fd00:0:0:3::/64"]),
    ] {
        let [a, b, c, d] = blocks.map(cidr);
        let pool = node_cidrs(cluster, mask);
        let next = || pool.reserve_any().map(Reservation::commit);
        assert_eq!((next(), next()), (Ok(a), Ok(b)));
        assert!(pool.release(a));
        assert_eq!((next(), next(), next()), (Ok(c), Ok(d), Ok(a)));
        assert_eq!(next().unwrap_err().to_string(), format!("no node CIDR is free in range {a}-{d}"));
    }
}

#[test]
fn a_cidr_of_another_size_takes_every_block_that_it_overlaps() {
    for (cluster, mask, wide, narrow, around, outside) in [
        ("10.244.0.0/20", 24, "10.244.4.0/22", "10.244.8.128/25", "10.0.0.0/8", "10.245.0.0/24"),
        ("fd00::/60", 64, "fd00:0:0:4::/62", "fd00:0:0:8:8000::/65", "fd00::/8", "fd01::/64"),
    ] {
        let pool = node_cidrs(cluster, mask);
        assert_eq!(pool.occupy(cidr(wide)), Ok(4));
        assert_eq!(pool.occupy(cidr(narrow)), Ok(1));
        assert_eq!(pool.occupy(cidr(narrow)), Ok(0));
        assert_eq!((pool.used(), pool.free()), (5, 11));
        assert!(pool.reserve(cidr(around)).is_err());
        assert!(matches!(pool.reserve(cidr(outside)), Err(ReserveError::Outside { .. })));
        assert!(pool.release(cidr(wide)));
        assert_eq!(pool.used(), 1);
        assert_eq!(pool.occupy(cidr(around)), Ok(15));
        assert_eq!(pool.free(), 0);
    }
}

#[test]
fn a_committed_reservation_is_held_whatever_a_repair_found_meanwhile() {
    for (cluster, mask, wide, part) in [
        ("10.244.0.0/20", 24, "10.244.4.0/22", "10.244.5.0/24"),
        ("fd00::/60", 64, "fd00:0:0:4::/62", "fd00:0:0:5::/64"),
    ] {
        let pool = node_cidrs(cluster, mask);
        let reserved = pool.reserve(cidr(wide)).unwrap();
        assert!(pool.repair([cidr(part)]).is_clean());
        assert!(pool.contains(cidr(wide)));
        assert_eq!(reserved.commit(), cidr(wide));
        assert!(pool.contains(cidr(wide)));
        let lazily = [cidr(part)].into_iter().filter(|part| pool.contains(*part));
        assert_eq!(pool.repair(lazily).leaked.len(), 2);
        assert_eq!(pool.used(), 1);
    }
}

#[test]
fn a_node_gets_one_cidr_per_family_in_every_shape() {
    for shape in Families::ALL {
        let text = DualStack::build(shape, |family| match family {
            Family::V4 => "10.244.0.0/16",
            Family::V6 => "fd00::/48",
        });
        let clusters = flags::one_or_pair::<Cidr>("cluster-cidr", &text.to_string()).unwrap();
        let pools = node_blocks(&clusters, NodeMaskFlags::default()).unwrap().map(|_, cut| NodeCidrPool::new(cut));
        let reserved = pools.as_ref().map(|_, pool| pool.reserve_any().unwrap());
        assert_eq!(reserved.families(), shape);
        let kept = reserved.map(|_, reservation| reservation.commit());
        assert!(
            kept.entries().all(|(family, cidr)| cidr.family() == family && pools.get(family).unwrap().contains(*cidr))
        );
    }
}

#[test]
fn when_one_family_is_full_the_other_is_given_back() {
    for shape in [Families::both(Family::V4), Families::both(Family::V6)] {
        let pools = DualStack::build(shape, |family| match family {
            Family::V4 => service_ips("10.0.0.0/29"),
            Family::V6 => service_ips("fd00::/125"),
        });
        let secondary = pools.secondary().unwrap();
        while let Ok(reserved) = secondary.reserve_any() {
            reserved.commit();
        }
        assert!(pools.as_ref().try_map(|_, pool| pool.reserve_any()).is_err());
        assert_eq!(pools.primary().used(), 0);
    }
}

#[test]
fn threads_never_get_the_same_address() {
    for range in ["10.0.0.0/22", "fd00::/118"] {
        let pool = service_ips(range);
        let size = pool.free();
        let mut got: Vec<IpAddr> = Vec::new();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut mine = Vec::new();
                        while let Ok(reserved) = pool.reserve_any() {
                            if mine.len() % 3 == 0 {
                                drop(pool.reserve_any());
                            }
                            mine.push(reserved.commit());
                        }
                        mine
                    })
                })
                .collect();
            got.extend(threads.into_iter().flat_map(|thread| thread.join().unwrap()));
        });
        // A thread stops when it finds the pool full, which another's passing reservation may cause.
        while let Ok(reserved) = pool.reserve_any() {
            got.push(reserved.commit());
        }
        assert_eq!(got.len() as u64, size);
        assert_eq!(got.iter().collect::<BTreeSet<_>>().len() as u64, size);
    }
}

#[test]
fn a_panic_under_the_lock_leaves_the_pool_usable() {
    let pool = service_ips("10.0.0.0/24");
    let shared = pool.shared.clone();
    let panicked = std::thread::spawn(move || {
        let _guard = shared.lock();
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    assert_eq!(pool.reserve(ip("10.0.0.9")).unwrap().commit(), ip("10.0.0.9"));
}

#[test]
fn random_addresses_spread_over_the_range() {
    let pool = service_ips("fd00::/64");
    let mut sixteenths = BTreeMap::new();
    for _ in 0..1600 {
        let address = pool.reserve_any().unwrap().commit();
        let offset = pool.space().cidr().offset(address).unwrap();
        *sixteenths.entry(offset >> 60).or_insert(0) += 1;
    }
    assert_eq!(sixteenths.len(), 16);
    assert!(sixteenths.values().all(|count| (50..200).contains(count)), "{sixteenths:?}");
}
