//! Which addresses the old object shows, in every shape of cluster.

use super::plan::{CAPACITY, OVER_CAPACITY, Plan, plan};
use crate::endpointslice::tests::{pod, service};
use k8s_openapi::api::core::v1::{Endpoints, Pod};
use net::Families;
use std::sync::Arc;

fn planned(plan: Plan) -> Endpoints {
    match plan {
        Plan::Create(endpoints) | Plan::Update(endpoints) => endpoints,
        Plan::Keep => panic!("nothing to write"),
    }
}

fn counts(endpoints: &Endpoints) -> Vec<(usize, usize)> {
    let subsets = endpoints.subsets.iter().flatten();
    let count = |list: &Option<Vec<_>>| list.as_ref().map_or(0, Vec::len);
    subsets.map(|subset| (count(&subset.addresses), count(&subset.not_ready_addresses))).collect()
}

#[test]
fn only_the_primary_family_is_there() {
    for families in Families::ALL {
        let service = service(families);
        let pods =
            [pod(1, Families::both(families.primary().other())), pod(2, Families::one(families.primary().other()))];
        let made = planned(plan(&service, &pods, None));
        let subsets = made.subsets.clone().unwrap();
        assert_eq!(counts(&made), [(1, 0)], "{families}");
        let ip: std::net::IpAddr = subsets[0].addresses.as_ref().unwrap()[0].ip.parse().unwrap();
        assert_eq!(net::HasFamily::family(&ip), families.primary());
        assert_eq!(plan(&service, &pods, Some(&made)), Plan::Keep);
    }
}

#[test]
fn what_another_controller_wrote_in_its_own_order_stays() {
    let families = Families::both(net::Family::V4);
    let service = service(families);
    let pods: Vec<Arc<Pod>> = (1..5).map(|number| pod(number, families)).collect();
    let mut made = planned(plan(&service, &pods, None));
    for subset in made.subsets.iter_mut().flatten() {
        subset.addresses.as_mut().unwrap().reverse();
    }
    assert_eq!(plan(&service, &pods, Some(&made)), Plan::Keep);
}

#[test]
fn a_thousand_addresses_are_enough_and_those_not_ready_go_first() {
    let families = Families::both(net::Family::V6);
    let service = service(families);
    for (ready, not_ready, expected) in
        [(1000, 0, (1000, 0)), (900, 101, (900, 100)), (1200, 5, (1000, 0)), (0, 1001, (0, 1000))]
    {
        let unready = (ready..ready + not_ready).map(|number| {
            let mut pod = Arc::unwrap_or_clone(pod(number, families));
            pod.status.as_mut().unwrap().conditions = None;
            Arc::new(pod)
        });
        let pods: Vec<Arc<Pod>> = (0..ready).map(|number| pod(number, families)).chain(unready).collect();
        let made = planned(plan(&service, &pods, None));
        assert_eq!(counts(&made), [expected]);
        let marked = made.metadata.annotations.is_some_and(|all| all.contains_key(OVER_CAPACITY));
        assert_eq!(marked, ready + not_ready > CAPACITY);
    }
}
