//! The behaviour matrix of `twinstack proxy`: every type of Service, both policies, both families in every combination, endpoints
//! here and elsewhere, asked from a pod, from the endpoint itself, from the node and from outside. Real connections; what counts
//! is who answers and which address it saw.
//!
//! All Services are there at once, so the whole matrix is one start of the proxy per mode. `KUBE_APISERVER` names another API
//! server to run it with; `PROXY_CHURN_SECONDS` makes the stream of connections longer.

use e2e::{
    proxy_lab::{self, Answer, CLIENT, GATES, Lab, NODE, NODES_OF_PODS, PATIENCE, PODS, ask_here, ip},
    wait_for,
};
use kernel::netns::Namespace;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::ErrorKind,
    net::{IpAddr, SocketAddr},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// The pod on the node that is an endpoint, the one that is only a client, and the endpoint elsewhere.
const HERE: usize = 0;
const BYSTANDER: usize = 1;
const ELSEWHERE: usize = 2;
/// Clients at a time, per source.
const CLIENTS: usize = 6;
/// More than enough to see every one of two endpoints.
const TRIES: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    /// With external addresses.
    ClusterIp,
    NodePort,
    LoadBalancer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Cluster,
    Local,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frontend {
    ClusterIp,
    ExternalIp,
    LoadBalancerIp,
    NodePort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// A pod of the node that is no endpoint.
    Pod,
    /// The endpoint on the node.
    Itself,
    Node,
    Outside,
}

/// One Service of the matrix.
#[derive(Clone, Copy, Debug)]
struct Case {
    number: usize,
    kind: Type,
    internal: Policy,
    external: Policy,
    /// In order of preference; 0 is IPv4.
    families: &'static [usize],
    endpoints: &'static [usize],
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Expected {
    /// Each of these pods, and each sees this address.
    Answers(BTreeMap<usize, IpAddr>),
    Refused,
    Dropped,
}

fn cases() -> Vec<Case> {
    let mut list = Vec::new();
    for kind in [Type::ClusterIp, Type::NodePort, Type::LoadBalancer] {
        for internal in [Policy::Cluster, Policy::Local] {
            for external in [Policy::Cluster, Policy::Local] {
                for families in [&[0][..], &[1], &[0, 1], &[1, 0]] {
                    for endpoints in [&[][..], &[HERE], &[ELSEWHERE], &[HERE, ELSEWHERE]] {
                        list.push(Case { number: list.len(), kind, internal, external, families, endpoints });
                    }
                }
            }
        }
    }
    list
}

impl Case {
    fn name(&self) -> String {
        format!("case-{}", self.number)
    }

    fn frontends(&self) -> &'static [Frontend] {
        match self.kind {
            Type::ClusterIp => &[Frontend::ClusterIp, Frontend::ExternalIp],
            Type::NodePort => &[Frontend::ClusterIp, Frontend::NodePort],
            Type::LoadBalancer => &[Frontend::ClusterIp, Frontend::NodePort, Frontend::LoadBalancerIp],
        }
    }

    fn address(&self, frontend: Frontend, family: usize) -> SocketAddr {
        let (high, low) = (self.number / 200 + 1, self.number % 200 + 1);
        let virtual_ip = match (frontend, family) {
            (Frontend::ClusterIp, 0) => format!("10.96.{high}.{low}"),
            (Frontend::ClusterIp, _) => format!("fd00:10:96::{high}{low:03}"),
            (Frontend::ExternalIp, 0) => format!("198.18.{high}.{low}"),
            (Frontend::ExternalIp, _) => format!("2001:db8:18::{high}{low:03}"),
            (Frontend::LoadBalancerIp, 0) => format!("198.19.{high}.{low}"),
            (Frontend::LoadBalancerIp, _) => format!("2001:db8:19::{high}{low:03}"),
            (Frontend::NodePort, _) => NODE[family].to_owned(),
        };
        let port = if frontend == Frontend::NodePort { self.node_port() } else { 80 };
        SocketAddr::new(ip(&virtual_ip), port)
    }

    fn node_port(&self) -> u16 {
        30_100 + u16::try_from(self.number).expect("few Services")
    }

    fn service(&self) -> Value {
        let ips = |frontend| -> Vec<String> {
            self.families.iter().map(|family| self.address(frontend, *family).ip().to_string()).collect()
        };
        let policy = if self.families.len() == 2 { "RequireDualStack" } else { "SingleStack" };
        let families: Vec<&str> = self.families.iter().map(|family| ["IPv4", "IPv6"][*family]).collect();
        let cluster_ips = ips(Frontend::ClusterIp);
        let mut port = json!({"name": "http", "port": 80, "protocol": "TCP"});
        let mut spec = json!({
            "type": match self.kind { Type::ClusterIp => "ClusterIP", Type::NodePort => "NodePort", Type::LoadBalancer => "LoadBalancer" },
            "ipFamilyPolicy": policy, "ipFamilies": families, "clusterIP": cluster_ips[0], "clusterIPs": cluster_ips,
            "internalTrafficPolicy": format!("{:?}", self.internal), "externalTrafficPolicy": format!("{:?}", self.external),
        });
        match self.kind {
            Type::ClusterIp => spec["externalIPs"] = json!(ips(Frontend::ExternalIp)),
            Type::NodePort | Type::LoadBalancer => port["nodePort"] = json!(self.node_port()),
        }
        if (self.kind, self.external) == (Type::LoadBalancer, Policy::Local) {
            // One that the API server chooses could be the node port of a later Service.
            spec["healthCheckNodePort"] = json!(self.node_port() + 1000);
        }
        spec["ports"] = json!([port]);
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": self.name(), "namespace": "default"}, "spec": spec})
    }

    fn make(&self, lab: &Lab) {
        lab.apply(&self.service());
        for family in self.families {
            lab.apply(&slice(&self.name(), *family, self.endpoints));
        }
        if self.kind == Type::LoadBalancer {
            let ips = self.families.iter().map(|family| self.address(Frontend::LoadBalancerIp, *family).ip());
            let ingress: Vec<Value> = ips.map(|ip| json!({"ip": ip})).collect();
            let path = format!("/api/v1/namespaces/default/services/{}", self.name());
            lab.set_status(&path, &json!({"loadBalancer": {"ingress": ingress}}));
        }
    }

    /// What must happen, in the words of the Service API.
    fn expected(&self, frontend: Frontend, source: Source, family: usize) -> Expected {
        if !self.families.contains(&family) {
            // Nothing listens at the node's address.
            return Expected::Refused;
        }
        let from_the_cluster = matches!(source, Source::Pod | Source::Itself);
        let only_here = match (frontend, source) {
            (Frontend::ClusterIp, _) => self.internal == Policy::Local,
            (_, Source::Outside) => self.external == Policy::Local,
            _ => false,
        };
        let masqueraded = match frontend {
            Frontend::ClusterIp => !from_the_cluster,
            _ => self.external == Policy::Cluster || source == Source::Node,
        };
        let usable: Vec<usize> = self.endpoints.iter().copied().filter(|pod| !only_here || *pod == HERE).collect();
        match (self.endpoints.is_empty(), usable.is_empty()) {
            (true, _) => return Expected::Refused,
            (false, true) => return Expected::Dropped,
            (false, false) => {}
        }
        let seen = |pod: usize| match source {
            _ if masqueraded => GATES[pod][family],
            Source::Itself if pod == HERE => GATES[pod][family],
            Source::Itself => PODS[HERE][family],
            Source::Pod => PODS[BYSTANDER][family],
            Source::Node => GATES[pod][family],
            Source::Outside => CLIENT[family],
        };
        Expected::Answers(usable.into_iter().map(|pod| (pod, ip(seen(pod)))).collect())
    }
}

fn slice(service: &str, family: usize, pods: &[usize]) -> Value {
    let endpoint = |pod: &usize| json!({"addresses": [PODS[*pod][family]], "nodeName": NODES_OF_PODS[*pod], "conditions": {"ready": true}});
    let endpoints: Vec<Value> = pods.iter().map(endpoint).collect();
    let kind = ["IPv4", "IPv6"][family];
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": format!("{service}-{}", ["v4", "v6"][family]), "namespace": "default",
            "labels": {"kubernetes.io/service-name": service}},
        "addressType": kind, "endpoints": endpoints,
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })
}

/// Asks until it is clear whether what happens is what was expected; the answer is what was seen otherwise.
fn check(to: SocketAddr, expected: &Expected) -> Result<(), String> {
    // Whoever is to be dropped is not waited for long; whoever is to answer may be slow.
    let patience = Duration::from_millis(if *expected == Expected::Dropped { 300 } else { 5000 });
    let mut left: BTreeSet<usize> = match expected {
        Expected::Answers(pods) => pods.keys().copied().collect(),
        Expected::Refused | Expected::Dropped => BTreeSet::new(),
    };
    for _ in 0..TRIES {
        match (ask_here(to, patience), expected) {
            (Ok((pod, seen)), Expected::Answers(pods)) if pods.get(&pod) == Some(&seen) => drop(left.remove(&pod)),
            (Err(ErrorKind::ConnectionRefused), Expected::Refused) => {}
            (Err(ErrorKind::TimedOut), Expected::Dropped) => {}
            (other, _) => return Err(format!("{other:?}")),
        }
        if left.is_empty() {
            return Ok(());
        }
    }
    Err(format!("pods {left:?} never answered"))
}

fn matrix(mode: &str) {
    if let Some(how) = proxy_lab::missing() {
        e2e::skip("the behaviour matrix of the proxy", how);
        return;
    }
    let lab = Lab::new();
    let cases = cases();
    cases.iter().for_each(|case| case.make(&lab));
    let proxy = lab.proxy(mode, "proxy.log");
    lab.wait_in_place(&proxy);

    let failures = Mutex::new(Vec::new());
    let checked = AtomicU32::new(0);
    thread::scope(|scope| {
        for (source, space) in [
            (Source::Pod, &*lab.pods[BYSTANDER]),
            (Source::Itself, &*lab.pods[HERE]),
            (Source::Node, &lab.node),
            (Source::Outside, &lab.client),
        ] {
            for client in 0..CLIENTS {
                let mine = cases.iter().skip(client).step_by(CLIENTS);
                let (failures, checked) = (&failures, &checked);
                scope.spawn(move || {
                    let walk = || mine.for_each(|case| walk(case, source, failures, checked));
                    space.within(walk).expect("entered");
                });
            }
        }
    });
    let failures = failures.into_inner().expect("no thread has failed");
    let checked = checked.load(Ordering::Relaxed);
    let some: Vec<&String> = failures.iter().take(20).collect();
    assert!(failures.is_empty(), "{} of {checked} wrong:\n{some:#?}\n{}", failures.len(), proxy.output());
    // 3 types, 4 policies, 4 endpoints, 6 families of 4 shapes, 4 sources; 7 frontends of 3 types; and node ports of families
    // that the Service does not have.
    assert_eq!(checked, 4 * 4 * 6 * 4 * 7 + 2 * 4 * 4 * 2 * 4, "a check that was left out is no check");
}

/// All that one Service is asked from one source.
fn walk(case: &Case, source: Source, failures: &Mutex<Vec<String>>, checked: &AtomicU32) {
    for family in [0, 1] {
        for frontend in case.frontends() {
            if !case.families.contains(&family) && *frontend != Frontend::NodePort {
                continue;
            }
            let expected = case.expected(*frontend, source, family);
            let to = case.address(*frontend, family);
            checked.fetch_add(1, Ordering::Relaxed);
            if let Err(seen) = check(to, &expected) {
                let failure = format!("{source:?} -> {frontend:?} {to}: {seen}, expected {expected:?}; {case:?}");
                failures.lock().expect("no thread has failed").push(failure);
            }
        }
    }
}

/// Endpoints come and go under a stream of connections. All pods answer all the time, as pods do that end gracefully: whatever
/// the kernel has at any moment, no connection may fail.
fn churn(mode: &str) {
    if let Some(how) = proxy_lab::missing() {
        e2e::skip("the proxy under churn of endpoints", how);
        return;
    }
    let seconds = std::env::var("PROXY_CHURN_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let lab = Lab::new();
    let case = Case {
        number: 0,
        kind: Type::NodePort,
        internal: Policy::Cluster,
        external: Policy::Cluster,
        families: &[0, 1],
        endpoints: &[0, 1, 2],
    };
    case.make(&lab);
    let proxy = lab.proxy(mode, "proxy.log");
    lab.wait_in_place(&proxy);
    let (done, good) = (AtomicBool::new(false), AtomicU32::new(0));
    let failures: Mutex<Vec<(SocketAddr, ErrorKind)>> = Mutex::new(Vec::new());
    let stream = |space: &Namespace, frontend: Frontend, family: usize| {
        let to = case.address(frontend, family);
        while !done.load(Ordering::Relaxed) {
            match space.within(|| (0..50).find_map(|_| ask_here(to, Duration::from_secs(5)).err())).expect("entered") {
                Some(error) => failures.lock().expect("no thread has failed").push((to, error)),
                None => drop(good.fetch_add(50, Ordering::Relaxed)),
            }
        }
    };
    let mut changes = 0;
    let mut never = None;
    thread::scope(|scope| {
        for family in [0, 1] {
            for (space, frontend) in [
                (&lab.client, Frontend::ClusterIp),
                (&lab.client, Frontend::NodePort),
                (&lab.pods[BYSTANDER], Frontend::ClusterIp),
            ] {
                scope.spawn(move || stream(space, frontend, family));
            }
        }
        let end = Instant::now() + Duration::from_secs(seconds);
        let sets: [&[usize]; 6] = [&[0], &[1, 2], &[2], &[0, 1, 2], &[1], &[0, 2]];
        for set in sets.iter().cycle() {
            // However slow the machine is, there is more than one change, and there are connections meanwhile.
            let enough = changes > 1 && good.load(Ordering::Relaxed) > 100;
            if never.is_some() || Instant::now() > end && enough || Instant::now() > end + PATIENCE {
                break;
            }
            [0, 1].into_iter().for_each(|family| lab.apply(&slice(&case.name(), family, set)));
            changes += 1;
            let settled =
                [0, 1].into_iter().all(|family| settles(&lab.client, case.address(Frontend::ClusterIp, family), set));
            never = (!settled).then_some(*set);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(never.is_none(), "the change to {never:?} never arrives: {}", proxy.output());
    let good = good.load(Ordering::Relaxed);
    let failures = failures.into_inner().expect("no thread has failed");
    assert!(
        failures.is_empty(),
        "{} failed in {changes} changes, {good} did not: {failures:?}\n{}",
        failures.len(),
        proxy.output()
    );
    assert!(!proxy.output().contains("ERROR"), "{}", proxy.output());
    assert!(changes > 1 && good > 100, "{changes} changes, {good} connections");
}

/// Whether connections end up at these pods alone, sooner or later.
fn settles(from: &Namespace, to: SocketAddr, pods: &[usize]) -> bool {
    let within = |answer: Answer| matches!(answer, Ok((pod, _)) if pods.contains(&pod));
    let twenty = || (0..20).all(|_| within(ask_here(to, Duration::from_secs(5))));
    wait_for(PATIENCE, || from.within(twenty).expect("entered").then_some(())).is_some()
}

#[test]
fn every_way_to_a_service_in_nftables_mode() {
    matrix("nftables");
}

#[test]
fn no_connection_fails_while_endpoints_come_and_go_in_nftables_mode() {
    churn("nftables");
}

#[test]
fn every_way_to_a_service_in_iptables_mode() {
    matrix("iptables");
}

#[test]
fn no_connection_fails_while_endpoints_come_and_go_in_iptables_mode() {
    churn("iptables");
}
