//! Every pool against a plain set: random steps, the same answers.

use net::{NodeBlocks, NodeCidrPool, NodePortPool, Pool, Reservation, ReserveError, ServiceIpPool, Space, Span};
use proptest::prelude::*;
use std::{collections::BTreeSet, fmt::Debug};

/// One step; numbers are taken modulo what there is to choose from.
#[derive(Clone, Debug)]
enum Step {
    ReserveAny,
    Reserve(u64),
    Commit(usize),
    Drop(usize),
    Release(u64),
    Occupy(u64),
    Withhold(u64),
    SnapshotAndRestore,
    Repair(Vec<u64>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::ReserveAny),
        6 => any::<u64>().prop_map(Step::Reserve),
        6 => any::<usize>().prop_map(Step::Commit),
        4 => any::<usize>().prop_map(Step::Drop),
        6 => any::<u64>().prop_map(Step::Release),
        3 => any::<u64>().prop_map(Step::Occupy),
        1 => any::<u64>().prop_map(Step::Withhold),
        1 => Just(Step::SnapshotAndRestore),
        1 => prop::collection::vec(any::<u64>(), 0..12).prop_map(Step::Repair),
    ]
}

/// What a pool should know, written down in the plainest way.
#[derive(Default)]
struct Model {
    kept: BTreeSet<u64>,
    withheld: BTreeSet<u64>,
}

/// Runs the steps on the pool and on the model. `window` bounds the places that steps name, so that they meet.
fn agree<S: Space>(pool: &Pool<S>, window: u64, steps: Vec<Step>) -> Result<(), TestCaseError>
where
    S::Item: Debug + Ord,
{
    let space = pool.space();
    let size = space.last_index() + 1;
    let window = window.min(size);
    let place_of = |item| space.span(item).expect("the pool gave it").first;
    let mut model = Model::default();
    let mut guards: Vec<(u64, Reservation<S::Item>)> = Vec::new();
    for step in steps {
        let reserved = |guards: &[(u64, _)], index| guards.iter().any(|(p, _): &(u64, _)| *p == index);
        match step {
            Step::ReserveAny => {
                let busy: BTreeSet<u64> =
                    model.kept.iter().chain(&model.withheld).copied().chain(guards.iter().map(|g| g.0)).collect();
                match pool.reserve_any() {
                    Ok(guard) => {
                        let index = place_of(*guard);
                        prop_assert!(!busy.contains(&index));
                        let upper_full = (space.static_band()..size).take(busy.len() + 1).all(|p| busy.contains(&p));
                        prop_assert_eq!(index < space.static_band(), upper_full);
                        guards.push((index, guard));
                    }
                    Err(error) => {
                        let full = matches!(error, ReserveError::Full { .. });
                        prop_assert!(full);
                        prop_assert_eq!(busy.len() as u64, size);
                    }
                }
            }
            Step::Reserve(n) => {
                let index = n % window;
                match pool.reserve(space.item(index)) {
                    Ok(guard) => {
                        let busy = model.kept.contains(&index) || model.withheld.contains(&index);
                        prop_assert!(!busy && !reserved(&guards, index));
                        guards.push((index, guard));
                    }
                    Err(ReserveError::Withheld { .. }) => prop_assert!(model.withheld.contains(&index)),
                    Err(ReserveError::Taken { .. }) => {
                        prop_assert!(model.kept.contains(&index) || reserved(&guards, index));
                    }
                    Err(error) => prop_assert!(false, "{}", error),
                }
            }
            Step::Commit(n) if !guards.is_empty() => {
                let (index, guard) = guards.swap_remove(n % guards.len());
                prop_assert_eq!(place_of(guard.commit()), index);
                if !model.withheld.contains(&index) {
                    model.kept.insert(index);
                }
            }
            Step::Drop(n) if !guards.is_empty() => {
                drop(guards.swap_remove(n % guards.len()));
            }
            Step::Release(n) => {
                let index = n % window;
                prop_assert_eq!(pool.release(space.item(index)), model.kept.remove(&index));
            }
            Step::Occupy(n) => {
                // A guard of the same place would be cancelled, which has its own test.
                let index = n % window;
                if !reserved(&guards, index) {
                    let new = !model.withheld.contains(&index) && model.kept.insert(index);
                    prop_assert_eq!(pool.occupy(space.item(index)), Ok(u64::from(new)));
                }
            }
            Step::Withhold(n) => {
                let index = n % window;
                prop_assert_eq!(pool.withhold(space.item(index)), Ok(()));
                model.withheld.insert(index);
                model.kept.remove(&index);
            }
            Step::SnapshotAndRestore => {
                let snapshot = pool.snapshot();
                prop_assert_eq!(pool.restore(&snapshot), Ok(()));
                prop_assert_eq!(pool.snapshot(), snapshot);
            }
            Step::Repair(span) => {
                let span: Vec<u64> = span.into_iter().map(|n| n % window).collect();
                if span.iter().any(|index| reserved(&guards, *index)) {
                    continue;
                }
                let listed: BTreeSet<u64> = span.iter().copied().collect();
                let audit = pool.repair(span.iter().map(|index| space.item(*index)));
                let leaked: BTreeSet<u64> =
                    audit.leaked.iter().flat_map(|span| place_of(span.first)..=place_of(span.last)).collect();
                prop_assert_eq!(leaked, &model.kept - &listed);
                let missing: BTreeSet<u64> = audit.missing.iter().map(|item| place_of(*item)).collect();
                prop_assert_eq!(missing, &(&listed - &model.kept) - &model.withheld);
                prop_assert_eq!(audit.duplicate.len(), span.len() - listed.len());
                prop_assert_eq!(audit.withheld.len(), (&listed & &model.withheld).len());
                prop_assert!(audit.out_of_range.is_empty());
                model.kept = &listed - &model.withheld;
            }
            Step::Commit(_) | Step::Drop(_) => {}
        }
        let reserved_only = guards.iter().filter(|(index, _)| !model.withheld.contains(index)).count();
        let used = (model.kept.len() + reserved_only) as u64;
        prop_assert_eq!(pool.used(), used);
        prop_assert_eq!(pool.withheld(), model.withheld.len() as u64);
        prop_assert_eq!(pool.free(), size - used - model.withheld.len() as u64);
        for index in (0..window).step_by(3) {
            let held = (model.kept.contains(&index) || reserved(&guards, index)) && !model.withheld.contains(&index);
            prop_assert_eq!(pool.contains(space.item(index)), held);
        }
    }
    let kept: BTreeSet<u64> =
        pool.snapshot().used.into_iter().flat_map(|Span { first, last }| place_of(first)..=place_of(last)).collect();
    prop_assert_eq!(kept, model.kept);
    drop(guards);
    Ok(())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 0..120)
}

proptest! {
    #[test]
    fn service_addresses_agree_with_a_plain_set(
        range in prop::sample::select(vec![
            "10.0.0.0/29", "10.0.0.0/27", "10.0.0.0/8", "fd00::/125", "fd00::/123", "fd00::/112", "fd00::/64",
        ]),
        seed: u64,
        steps in steps(),
    ) {
        agree(&ServiceIpPool::new(range.parse().unwrap(), seed), 40, steps)?;
    }

    #[test]
    fn node_ports_agree_with_a_plain_set(
        range in prop::sample::select(vec!["30000", "30000-30009", "30000-30039", "30000-32767", "1-65535"]),
        seed: u64,
        steps in steps(),
    ) {
        agree(&NodePortPool::new(range.parse().unwrap(), seed), 40, steps)?;
    }

    #[test]
    fn node_cidrs_agree_with_a_plain_set(
        (cluster, mask) in prop::sample::select(vec![
            ("10.244.0.0/24", 24), ("10.244.0.0/20", 24), ("10.0.0.0/8", 32), ("fd00::/60", 64), ("fd00::/48", 64),
        ]),
        steps in steps(),
    ) {
        agree(&NodeCidrPool::new(NodeBlocks::new(cluster.parse().unwrap(), mask).unwrap()), 40, steps)?;
    }

    #[test]
    fn a_place_and_its_item_are_the_same_thing(n: u64) {
        fn check<S: Space>(space: &S, n: u64) -> Result<(), TestCaseError> {
            let index = n % (space.last_index() + 1);
            prop_assert_eq!(space.span(space.item(index)), Some(Span { first: index, last: index }));
            Ok(())
        }
        for range in ["10.0.0.0/29", "0.0.0.0/0", "fd00::/125", "fd00::/64"] {
            check(&range.parse::<net::ServiceRange>().unwrap(), n)?;
        }
        check(&net::PortRange::NODE_PORTS, n)?;
        for (cluster, mask) in [("10.244.0.0/16", 24), ("0.0.0.0/0", 32), ("fd00::/48", 64), ("8000::/1", 17)] {
            check(&NodeBlocks::new(cluster.parse().unwrap(), mask).unwrap(), n)?;
        }
    }
}
