use super::{
    cluster::{Cluster, Nodes},
    plan::choose,
    preempt,
    volumes::Volumes,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, from_value, json};
use std::{collections::HashMap, sync::Arc};

/// A node with room for four CPUs, eight gigabytes and ten pods.
fn node(name: &str, zone: &str, spec: Value) -> Node {
    from_value(json!({
        "metadata": {"name": name, "labels": {"zone": zone, "kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }))
    .unwrap()
}

fn pod(name: &str, app: &str, spec: Value) -> Arc<Pod> {
    let mut value = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    });
    for (field, given) in spec.as_object().unwrap() {
        value["spec"][field] = given.clone();
    }
    Arc::new(from_value(value).unwrap())
}

struct Lab {
    nodes: Vec<Node>,
    cluster: Cluster,
}

impl Lab {
    fn new(nodes: Vec<Node>) -> Self {
        Self { nodes, cluster: Cluster::default() }
    }

    fn two_zones() -> Self {
        Self::new(vec![node("a1", "a", json!({})), node("a2", "a", json!({})), node("b1", "b", json!({}))])
    }

    fn with(mut self, node: &str, pod: &Arc<Pod>) -> Self {
        self.cluster.place(pod, node);
        self
    }

    fn choose(&self, pod: &Pod) -> Result<String, String> {
        let nodes = self.nodes();
        choose(pod, &nodes, &self.cluster, &HashMap::new(), &Volumes::default())
            .map(str::to_owned)
            .map_err(|refusal| refusal.why)
    }

    fn nodes(&self) -> Nodes {
        self.nodes.iter().map(|node| (node.metadata.name.clone().unwrap(), Arc::new(node.clone()))).collect()
    }

    /// Who goes for this pod, and where.
    fn preempt(&mut self, pod: &Pod, budgets: &[Value]) -> Result<(String, Vec<String>), String> {
        let nodes = self.nodes();
        let refusal = choose(pod, &nodes, &self.cluster, &HashMap::new(), &Volumes::default()).unwrap_err();
        if let Some(why) = preempt::is_not_eligible(pod, &self.cluster) {
            return Err(why.to_owned());
        }
        let budgets: Vec<_> = budgets.iter().map(|budget| Arc::new(from_value(budget.clone()).unwrap())).collect();
        let found = preempt::choose(pod, &refusal.curable, &nodes, &mut self.cluster, &HashMap::new(), &budgets)?;
        Ok((found.node, found.victims.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect()))
    }

    fn fill(&mut self, count: usize, app: &str, spec: Value) -> Vec<String> {
        let place = |index| {
            let pod = pod(&format!("{app}{index}"), app, spec.clone());
            let node = self.choose(&pod).unwrap_or_else(|why| why);
            self.cluster.place(&pod, &node);
            node
        };
        (0..count).map(place).collect()
    }
}

#[test]
fn pods_go_where_the_load_is_least() {
    let mut lab = Lab::two_zones();
    assert_eq!(lab.fill(6, "web", json!({})), ["a1", "a2", "b1", "a1", "a2", "b1"]);
}

#[test]
fn the_reasons_are_counted() {
    let taint = json!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]});
    let big = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "5", "memory": "9Gi"}}}]});
    for (nodes, spec, expected) in [
        (vec![], json!({}), "no nodes available to schedule pods"),
        (
            vec![
                node("a", "a", json!({})),
                node("b", "a", taint.clone()),
                node("c", "a", json!({"unschedulable": true})),
            ],
            big,
            "0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 node(s) had untolerated taint(s), \
             1 node(s) were unschedulable.",
        ),
        (
            vec![node("a", "a", json!({})), node("b", "a", json!({}))],
            json!({"nodeSelector": {"zone": "x"}}),
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
        ),
    ] {
        assert_eq!(Lab::new(nodes).choose(&pod("p", "web", spec)), Err(expected.to_owned()));
    }
    let tolerant = json!({"tolerations": [{"key": "k", "operator": "Exists"}]});
    assert_eq!(Lab::new(vec![node("b", "a", taint)]).choose(&pod("p", "web", tolerant)), Ok("b".to_owned()));
}

#[test]
fn a_node_has_room_for_so_many() {
    let mut lab = Lab::new(vec![node("a", "a", json!({}))]);
    let small = json!({"containers": [{"name": "c"}]});
    let placed = lab.fill(11, "web", small);
    assert_eq!(placed[9], "a");
    assert_eq!(placed[10], "0/1 nodes are available: 1 Too many pods.");
    let gone = pod("web0", "web", json!({}));
    lab.cluster.forget(&gone);
    assert_eq!(lab.choose(&pod("late", "web", json!({"containers": [{"name": "c"}]}))), Ok("a".to_owned()));
}

#[test]
fn host_ports_are_taken_once_per_node() {
    let mut lab = Lab::two_zones();
    let spec = json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}]}]});
    let placed = lab.fill(4, "edge", spec);
    assert_eq!(placed[..3], ["a1", "a2", "b1"]);
    assert_eq!(placed[3], "0/3 nodes are available: 3 node(s) didn't have free ports for the requested pod ports.");
}

fn terms(kind: &str, key: &str, app: &str) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]}}})
}

#[test]
fn affinity_follows_and_anti_affinity_avoids() {
    let web = pod("web0", "web", json!({}));
    let lab = Lab::two_zones().with("b1", &web);
    assert_eq!(lab.choose(&pod("near", "x", terms("podAffinity", "zone", "web"))), Ok("b1".to_owned()));
    assert_eq!(lab.choose(&pod("far", "x", terms("podAntiAffinity", "zone", "web"))), Ok("a1".to_owned()));
    assert_eq!(
        lab.choose(&pod("near", "x", terms("podAffinity", "zone", "nobody"))),
        Err("0/3 nodes are available: 3 node(s) didn't match pod affinity rules.".to_owned()),
    );
    assert!(lab.choose(&pod("first", "y", terms("podAffinity", "zone", "y"))).is_ok(), "the first of its kind");
}

#[test]
fn one_per_node_and_nobody_beside_who_wants_to_be_alone() {
    let mut lab = Lab::two_zones();
    let placed = lab.fill(4, "db", terms("podAntiAffinity", "kubernetes.io/hostname", "db"));
    assert_eq!(placed[..3], ["a1", "a2", "b1"]);
    assert_eq!(placed[3], "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.");
    // This one asks for nothing, but those that are there do not want it.
    assert_eq!(
        lab.choose(&pod("plain", "db", json!({}))),
        Err("0/3 nodes are available: 3 node(s) didn't satisfy existing pods anti-affinity rules.".to_owned()),
    );
}

#[test]
fn spread_keeps_places_even() {
    let spread = |when: &str| {
        json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
        "whenUnsatisfiable": when, "labelSelector": {"matchLabels": {"app": "web"}}}]})
    };
    let mut lab = Lab::two_zones();
    let zones: Vec<char> =
        lab.fill(4, "web", spread("DoNotSchedule")).iter().map(|node| node.chars().next().unwrap()).collect();
    assert_eq!(zones, ['a', 'b', 'a', 'b']);
    let busy = pod("busy", "other", json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}));
    let lab = Lab::new(vec![node("a1", "a", json!({})), node("b1", "b", json!({}))])
        .with("a1", &pod("web0", "web", json!({})))
        .with("b1", &busy)
        .with("b1", &pod("more", "other", json!({})));
    assert_eq!(
        lab.choose(&pod("web1", "web", spread("DoNotSchedule"))),
        Err("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints."
            .to_owned()),
    );
    assert_eq!(lab.choose(&pod("web1", "web", spread("ScheduleAnyway"))), Ok("a1".to_owned()));
}

#[test]
fn wishes_come_before_balance() {
    let lab = Lab::two_zones().with("b1", &pod("web0", "web", json!({})));
    let wish = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 5, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}}]}}});
    assert_eq!(lab.choose(&pod("p", "x", wish)), Ok("b1".to_owned()));
    let avoid = json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 5, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}}]}}});
    assert_eq!(lab.choose(&pod("p", "x", avoid)), Ok("a1".to_owned()));
}

fn weighs(priority: i32, cpu: &str) -> Value {
    json!({"priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]})
}

#[test]
fn who_matters_least_goes_and_nobody_in_vain() {
    let low = |name: &str, priority, cpu: &str| pod(name, "low", weighs(priority, cpu));
    let full = || {
        Lab::new(vec![node("a", "a", json!({})), node("b", "b", json!({}))])
            .with("a", &low("a-one", 10, "2"))
            .with("a", &low("a-two", 5, "2"))
            .with("b", &low("b-one", 7, "3"))
            .with("b", &low("b-two", 1, "1"))
    };
    for (cpu, expected) in [
        ("1", Ok(("b", vec!["b-two"]))),
        ("2", Ok(("a", vec!["a-two"]))),
        ("4", Ok(("b", vec!["b-one", "b-two"]))),
        ("5", Err("0/2 nodes are available: 2 No preemption victims found for incoming pod.")),
    ] {
        let found = full().preempt(&pod("high", "high", weighs(1000, cpu)), &[]);
        let expected = expected.map(|(node, pods)| (node.to_owned(), pods.into_iter().map(str::to_owned).collect()));
        assert_eq!(found, expected.map_err(str::to_owned), "{cpu}");
    }
    let equal = full().preempt(&pod("equal", "x", weighs(1, "1")), &[]);
    assert_eq!(equal, Err("0/2 nodes are available: 2 No preemption victims found for incoming pod.".to_owned()));
    let mut never = weighs(1000, "1");
    never["preemptionPolicy"] = "Never".into();
    assert_eq!(
        full().preempt(&pod("meek", "x", never), &[]),
        Err("not eligible due to preemptionPolicy=Never.".to_owned())
    );
    let mut elsewhere = weighs(1000, "1");
    elsewhere["nodeSelector"] = json!({"zone": "a"});
    assert_eq!(full().preempt(&pod("picky", "x", elsewhere), &[]).unwrap().0, "a");
}

#[test]
fn budgets_are_respected_where_there_is_a_choice() {
    let mut lab = Lab::new(vec![node("a", "a", json!({})), node("b", "b", json!({}))])
        .with("a", &pod("kept", "kept", weighs(0, "4")))
        .with("b", &pod("free", "free", weighs(5, "4")));
    let budget = json!({"metadata": {"name": "b", "namespace": "default"}, "spec": {"selector": {"matchLabels": {"app": "kept"}}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}});
    let high = pod("high", "high", weighs(1000, "4"));
    assert_eq!(lab.preempt(&high, &[]).unwrap().0, "a", "the lower priority goes");
    assert_eq!(lab.preempt(&high, std::slice::from_ref(&budget)).unwrap().0, "b", "the one that no budget keeps");
}

#[test]
fn room_that_was_made_is_kept() {
    let mut lab = Lab::new(vec![node("a", "a", json!({}))]);
    let mut high = (*pod("high", "high", weighs(1000, "3"))).clone();
    high.status = from_value(json!({"nominatedNodeName": "a"})).unwrap();
    lab.cluster.see(&Arc::new(high.clone()));
    assert!(lab.choose(&pod("low", "low", weighs(0, "2"))).is_err(), "it is not for those that matter less");
    assert_eq!(lab.choose(&pod("low", "low", weighs(0, "1"))), Ok("a".to_owned()));
    assert_eq!(lab.choose(&pod("higher", "x", weighs(2000, "2"))), Ok("a".to_owned()));
    assert_eq!(lab.choose(&high), Ok("a".to_owned()));
    let leaving = {
        let mut leaving = (*pod("leaving", "low", weighs(0, "4"))).clone();
        leaving.metadata.deletion_timestamp = from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        Arc::new(leaving)
    };
    lab.cluster.place(&leaving, "a");
    assert_eq!(lab.preempt(&high, &[]), Err("not eligible due to a terminating pod on the nominated node.".to_owned()));
}
