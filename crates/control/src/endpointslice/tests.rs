//! Which slices there are, in every shape of cluster, and which writes a change takes.

use super::{
    draft::{HEADLESS, is_owned},
    plan::{Plan, Wanted, plan},
    plan_for,
    topology::Shares,
};
use k8s_openapi::api::{
    core::v1::{Node, Pod, Service},
    discovery::v1::EndpointSlice,
};
use net::{Families, Family};
use serde_json::{Value, json};
use std::{collections::HashMap, sync::Arc};

fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// A Service `s` with these families.
pub(crate) fn service(families: Families) -> Service {
    let list: Vec<String> = families.iter().map(|family| family.to_string()).collect();
    object(json!({
        "metadata": {"name": "s", "namespace": "ns", "uid": "s-uid", "labels": {"team": "a"}},
        "spec": {"ipFamilies": list, "clusterIP": "set", "selector": {"app": "x"},
                 "ports": [{"name": "a", "port": 80, "targetPort": "http"}]},
    }))
}

/// A ready Pod on node `n1` with an address of each of these families.
pub(crate) fn pod(number: usize, families: Families) -> Arc<Pod> {
    let ip = |family| match family {
        Family::V4 => format!("10.1.{}.{}", number / 256, number % 256),
        Family::V6 => format!("fd00:1::{number:x}"),
    };
    let ips: Vec<Value> = families.iter().map(|family| json!({"ip": ip(family)})).collect();
    let name = format!("p{number}");
    Arc::new(object(json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("{name}-uid"), "labels": {"app": "x"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 8000}]}]},
        "status": {"phase": "Running", "podIP": ips[0]["ip"], "podIPs": ips,
                   "conditions": [{"type": "Ready", "status": "True"}]},
    })))
}

fn node(name: &str, zone: &str, cpu: &str) -> Arc<Node> {
    Arc::new(object(json!({
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
        "status": {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": "True"}]},
    })))
}

fn pods(numbers: impl IntoIterator<Item = usize>) -> Vec<Arc<Pod>> {
    numbers.into_iter().map(|number| pod(number, Families::both(Family::V4))).collect()
}

/// A cluster that keeps what plans write.
struct Lab {
    service: Service,
    nodes: Vec<Arc<Node>>,
    slices: Vec<Arc<EndpointSlice>>,
    names: usize,
}

impl Lab {
    fn new(families: Families) -> Self {
        Self { service: service(families), nodes: vec![node("n1", "z1", "4")], slices: Vec::new(), names: 0 }
    }

    fn plan(&self, pods: &[Arc<Pod>]) -> Plan {
        plan_for(&self.service, pods, &self.nodes, &self.slices)
    }

    /// Writes the plan; what it took: creates, updates, deletes.
    fn follow(&mut self, pods: &[Arc<Pod>]) -> (usize, usize, usize) {
        let plan = self.plan(pods);
        let writes = (plan.create.len(), plan.update.len(), plan.delete.len());
        for gone in &plan.delete {
            self.slices.retain(|slice| slice.metadata.name != gone.metadata.name);
        }
        for slice in plan.update {
            let place = self.slices.iter_mut().find(|known| known.metadata.name == slice.metadata.name).unwrap();
            *place = Arc::new(slice);
        }
        for mut slice in plan.create {
            self.names += 1;
            slice.metadata.name = Some(format!("s-{}", self.names));
            self.slices.push(Arc::new(slice));
        }
        assert_eq!(self.plan(pods).writes(), 0, "what was planned is what is wanted");
        writes
    }

    fn sizes(&self, family: Family) -> Vec<usize> {
        let of = self.slices.iter().filter(|slice| slice.address_type == family.to_string());
        let mut sizes: Vec<usize> = of.map(|slice| slice.endpoints.as_ref().map_or(0, Vec::len)).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes
    }
}

#[test]
fn every_family_of_the_service_has_its_slices_and_no_other() {
    for families in Families::ALL {
        let mut lab = Lab::new(families);
        lab.follow(&pods([]));
        for family in Family::BOTH {
            assert_eq!(lab.sizes(family).len(), usize::from(families.contains(family)), "a placeholder, {families}");
        }
        // The placeholder becomes the first slice.
        assert_eq!(lab.follow(&pods(1..=3)), (0, families.iter().count(), 0), "{families}");
        // A Pod that lacks a family is only in the slices of the other.
        let single = [pod(1, Families::one(Family::V4)), pod(2, Families::one(Family::V6))];
        lab.follow(&single);
        for family in Family::BOTH {
            let expected = if families.contains(family) { vec![1] } else { vec![] };
            assert_eq!(lab.sizes(family), expected, "{families}");
        }
        assert!(lab.slices.iter().all(|slice| is_owned(slice, &lab.service)));
    }
}

#[test]
fn a_single_stack_service_becomes_dual_and_back() {
    for primary in Family::BOTH {
        let mut lab = Lab::new(Families::one(primary));
        assert_eq!(lab.follow(&pods(1..=3)), (1, 0, 0));
        lab.service = service(Families::both(primary));
        assert_eq!(lab.follow(&pods(1..=3)), (1, 0, 0), "the first family is not touched");
        lab.service = service(Families::one(primary));
        assert_eq!(lab.follow(&pods(1..=3)), (0, 0, 1));
        assert_eq!(lab.sizes(primary), [3]);
    }
}

#[test]
fn conditions_follow_the_pod() {
    for publish in [false, true] {
        for (ready, deleting) in [(true, false), (false, false), (true, true), (false, true)] {
            for families in Families::ALL {
                let mut lab = Lab::new(families);
                lab.service.spec.as_mut().unwrap().publish_not_ready_addresses = Some(publish);
                let mut one = Arc::unwrap_or_clone(pod(1, families));
                if !ready {
                    one.status.as_mut().unwrap().conditions = None;
                }
                if deleting {
                    one.metadata.deletion_timestamp = Some(object(json!("2026-01-01T00:00:00Z")));
                }
                lab.follow(&[Arc::new(one)]);
                for slice in &lab.slices {
                    let conditions = slice.endpoints.as_ref().unwrap()[0].conditions.clone().unwrap();
                    assert_eq!(conditions.serving, Some(ready));
                    assert_eq!(conditions.terminating, Some(deleting));
                    assert_eq!(conditions.ready, Some(publish || (ready && !deleting)));
                }
            }
        }
    }
}

#[test]
fn a_hundred_fit_and_only_the_slices_that_change_are_written() {
    let mut lab = Lab::new(Families::both(Family::V6));
    assert_eq!(lab.follow(&pods(0..250)), (6, 0, 0));
    assert_eq!((lab.sizes(Family::V4), lab.sizes(Family::V6)), (vec![100, 100, 50], vec![100, 100, 50]));
    // One more goes where there is room; one less leaves one slice of each family.
    assert_eq!(lab.follow(&pods(0..251)), (0, 2, 0));
    assert_eq!(lab.follow(&pods(1..251)), (0, 2, 0));
    // One replaced by another: the slice that loses one gains one.
    assert_eq!(lab.follow(&pods(2..252)), (0, 2, 0));
    assert_eq!(lab.sizes(Family::V4), [100, 99, 51]);
    // Half of them gone: nothing is moved together.
    let left: Vec<usize> = (2..252).filter(|number| number % 2 == 0).collect();
    assert_eq!(lab.follow(&pods(left)).0, 0);
    assert_eq!(lab.sizes(Family::V4).iter().sum::<usize>(), 125);
    // All gone: placeholders take the place of the last ones.
    let (created, updated, deleted) = lab.follow(&pods([]));
    assert_eq!((created, updated, deleted), (0, 2, 4));
}

#[test]
fn named_ports_that_differ_have_slices_of_their_own() {
    let mut lab = Lab::new(Families::both(Family::V4));
    let mut other = Arc::unwrap_or_clone(pod(2, Families::both(Family::V4)));
    other.spec.as_mut().unwrap().containers[0].ports.as_mut().unwrap()[0].container_port = 9000;
    assert_eq!(lab.follow(&[pod(1, Families::both(Family::V4)), Arc::new(other)]), (4, 0, 0));
    assert_eq!(lab.sizes(Family::V6), [1, 1]);
}

#[test]
fn labels_of_the_service_are_copied_and_reserved_ones_are_ours() {
    let mut lab = Lab::new(Families::one(Family::V6));
    lab.follow(&pods([1]));
    let labels = lab.service.metadata.labels.as_mut().unwrap();
    labels.insert("team".to_owned(), "b".to_owned());
    labels.insert(super::MANAGED_BY.to_owned(), "me".to_owned());
    labels.insert(HEADLESS.to_owned(), "yes".to_owned());
    assert_eq!(lab.follow(&pods([1])), (0, 1, 0));
    let labels = lab.slices[0].metadata.labels.clone().unwrap();
    assert_eq!(labels["team"], "b");
    assert_eq!(labels[super::MANAGED_BY], super::CONTROLLER);
    assert!(!labels.contains_key(HEADLESS));
    lab.service.spec.as_mut().unwrap().cluster_ip = Some("None".to_owned());
    lab.follow(&pods([1]));
    assert_eq!(lab.slices[0].metadata.labels.as_ref().unwrap()[HEADLESS], "");
}

#[test]
fn slices_of_a_former_service_are_cleared_away_not_taken_over() {
    let mut lab = Lab::new(Families::both(Family::V4));
    lab.follow(&pods([1]));
    lab.service.metadata.uid = Some("another".to_owned());
    assert_eq!(lab.follow(&pods([1])), (2, 0, 2));
    lab.service.metadata.deletion_timestamp = Some(object(json!("2026-01-01T00:00:00Z")));
    lab.slices.clear();
    assert_eq!(lab.plan(&pods([1])).writes(), 0, "one on its way out gets nothing new");
}

#[test]
fn a_pod_of_an_unknown_node_waits_unless_all_are_to_be_published() {
    let mut lab = Lab::new(Families::both(Family::V4));
    lab.nodes.clear();
    lab.follow(&pods([1]));
    assert_eq!(lab.sizes(Family::V4), [0]);
    lab.service.spec.as_mut().unwrap().publish_not_ready_addresses = Some(true);
    lab.follow(&pods([1]));
    assert_eq!(lab.sizes(Family::V4), [1]);
}

#[test]
fn traffic_distribution_gives_hints_and_takes_them_back() {
    let mut lab = Lab::new(Families::both(Family::V4));
    for (given, zones, nodes) in [
        (Some("PreferClose"), true, false),
        (Some("PreferSameZone"), true, false),
        (Some("PreferSameNode"), true, true),
        (None, false, false),
    ] {
        lab.service.spec.as_mut().unwrap().traffic_distribution = given.map(str::to_owned);
        lab.follow(&pods([1]));
        for slice in &lab.slices {
            let hints = slice.endpoints.as_ref().unwrap()[0].hints.clone();
            let zone = hints.as_ref().and_then(|hints| hints.for_zones.as_ref()).map(|zones| zones[0].name.clone());
            let node = hints.as_ref().and_then(|hints| hints.for_nodes.as_ref()).map(|nodes| nodes[0].name.clone());
            assert_eq!(zone, zones.then(|| "z1".to_owned()), "{given:?}");
            assert_eq!(node, nodes.then(|| "n1".to_owned()), "{given:?}");
        }
    }
}

#[test]
fn topology_mode_auto_shares_endpoints_out_as_processors_are() {
    let mut lab = Lab::new(Families::both(Family::V4));
    lab.service.metadata.annotations =
        Some([("service.kubernetes.io/topology-mode".to_owned(), "Auto".to_owned())].into());
    let outcome = |plan: &Plan| plan.topology[&Family::V6].clone();
    assert!(outcome(&lab.plan(&pods(1..=9))).unwrap_err().contains("fewer than two zones"));
    lab.nodes = vec![node("n1", "z1", "4"), node("n2", "z2", "4000m"), node("n3", "z3", "4")];
    assert!(outcome(&lab.plan(&pods(1..=2))).unwrap_err().contains("too few endpoints"));
    assert!(outcome(&lab.plan(&pods(1..=4))).unwrap_err().contains("overloaded"));
    assert_eq!(outcome(&lab.plan(&pods(1..=9))), Ok(()));
    lab.follow(&pods(1..=9));
    for slice in &lab.slices {
        let mut zones: HashMap<String, usize> = HashMap::new();
        for endpoint in slice.endpoints.as_ref().unwrap() {
            *zones.entry(endpoint.hints.as_ref().unwrap().for_zones.as_ref().unwrap()[0].name.clone()).or_default() +=
                1;
        }
        assert_eq!(zones, HashMap::from(["z1", "z2", "z3"].map(|zone| (zone.to_owned(), 3))));
    }
    // Only nodes of one zone left: the hints go.
    lab.nodes.truncate(1);
    lab.follow(&pods(1..=9));
    assert!(
        lab.slices.iter().flat_map(|slice| slice.endpoints.as_ref().unwrap()).all(|endpoint| endpoint.hints.is_none())
    );
}

#[test]
fn slices_may_be_smaller() {
    let service = service(Families::one(Family::V4));
    let nodes = HashMap::from([("n1".to_owned(), node("n1", "z1", "4"))]);
    let pods = pods(0..25);
    let wanted = Wanted { service: &service, pods: &pods, nodes: &nodes, shares: &Shares::default(), most: 10 };
    let sizes: Vec<usize> =
        plan(wanted, &[]).create.iter().map(|slice| slice.endpoints.as_ref().unwrap().len()).collect();
    assert_eq!(sizes, [10, 10, 5]);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(40))]

    /// Whatever comes and goes: every slice set holds exactly the Pods that are there, once, and none is over-full.
    #[test]
    fn slices_hold_exactly_what_is_there(
        steps in proptest::collection::vec(proptest::collection::btree_set(0_usize..260, 0..240), 1..6),
        shape in 0_usize..4,
    ) {
        let families = Families::ALL[shape];
        let mut lab = Lab::new(families);
        for numbers in steps {
            let there: Vec<Arc<Pod>> = numbers.iter().map(|number| pod(*number, Families::both(Family::V4))).collect();
            lab.follow(&there);
            for family in families.iter() {
                proptest::prop_assert!(lab.sizes(family).iter().all(|size| *size <= 100));
                let slices = lab.slices.iter().filter(|slice| slice.address_type == family.to_string());
                let targets = slices.flat_map(|slice| slice.endpoints.iter().flatten()).map(|endpoint| {
                    endpoint.target_ref.as_ref().and_then(|target| target.name.clone()).unwrap()
                });
                let mut found: Vec<String> = targets.collect();
                found.sort();
                let mut wanted: Vec<String> = numbers.iter().map(|number| format!("p{number}")).collect();
                wanted.sort();
                proptest::prop_assert_eq!(found, wanted);
            }
        }
    }
}
