//! `twinstack controller-manager` on hollow nodes: endpoints of both families follow, pod CIDRs, load balancers, leadership, and
//! a manager that is killed at any moment. On Twinstack's API server, and on a real one when `KUBE_APISERVER` names it.

use e2e::{Etcd, KubeApiserver, Kubectl, Process, Server, run, twinstack, wait_for};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(60);
const RANGES: &str = "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112";

/// An API server to work against. What it consists of stops with the handle.
struct Cluster {
    name: &'static str,
    kubeconfig: PathBuf,
    kubectl: Kubectl,
    server: Server,
    _peer: Option<(KubeApiserver, Etcd)>,
}

impl Cluster {
    /// Twinstack's, and the real one if it is named.
    fn all() -> Vec<Self> {
        [Self::twinstack(), Self::real()].into_iter().flatten().collect()
    }

    fn twinstack() -> Option<Self> {
        let server = Server::start(&[RANGES]);
        let kubectl = server.kubectls().pop()?;
        Some(Self { name: "twinstack", kubeconfig: server.kubeconfig(), kubectl, server, _peer: None })
    }

    fn real() -> Option<Self> {
        KubeApiserver::program()?;
        // Only for its keys, and for a folder.
        let (server, etcd) = (Server::start(&[RANGES]), Etcd::start()?);
        let peer = KubeApiserver::start(&server, &etcd, "127.0.0.1", RANGES)?;
        let (kubectl, kubeconfig) = (peer.kubectl.clone(), peer.kubeconfig.clone());
        Some(Self { name: "kube-apiserver", kubeconfig, kubectl, server, _peer: Some((peer, etcd)) })
    }

    /// Starts a controller manager with hollow nodes; `name` is for its log.
    fn manager(&self, name: &str, more: &[&str]) -> Process {
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig.display());
        let mut words = vec![
            "controller-manager",
            &kubeconfig,
            RANGES,
            "--allocate-node-cidrs",
            "--cluster-cidr=10.244.0.0/16,fd00:10:244::/56",
            "--hollow-nodes=3",
            "--cloud-provider=lab",
            "--load-balancer-ip-range=192.0.2.0/24,2001:db8::/120",
            "--secure-port=0",
            // Short, but long enough for a machine that is busy with other tests.
            "--leader-elect-lease-duration=6s",
            "--leader-elect-renew-deadline=5s",
            "--leader-elect-retry-period=200ms",
        ];
        words.extend(more);
        Process::start(twinstack(), &words, &self.log(name))
    }

    fn log(&self, name: &str) -> PathBuf {
        self.server.folder().join(format!("{name}.log"))
    }

    /// The last words of all managers.
    fn logs(&self) -> String {
        let files = std::fs::read_dir(self.server.folder()).into_iter().flatten().flatten().map(|entry| entry.path());
        let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
        let last = |path: PathBuf| {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            format!("{}:\n{}\n", path.display(), lines[lines.len().saturating_sub(15)..].join("\n"))
        };
        logs.map(last).collect()
    }

    /// Endpoints that are ready, and slices, of each family of a Service.
    fn slices(&self, service: &str) -> BTreeMap<String, (usize, usize)> {
        let selector = format!("kubernetes.io/service-name={service}");
        let text = self.kubectl.ok(&["get", "endpointslices", "-l", &selector, "-o", "json"]);
        let list: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let mut found: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for slice in list["items"].as_array().expect("a list") {
            let family = slice["addressType"].as_str().expect("a family").to_owned();
            let endpoints = slice["endpoints"].as_array().into_iter().flatten();
            let entry = found.entry(family).or_default();
            entry.0 += endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true).count();
            entry.1 += 1;
        }
        found
    }

    fn becomes(&self, what: &str, wanted: &[(&str, usize)]) {
        let wanted: BTreeMap<String, (usize, usize)> =
            wanted.iter().map(|(family, ready)| ((*family).to_owned(), (*ready, 1))).collect();
        let done = wait_for(PATIENCE, || (self.slices("web") == wanted).then_some(()));
        let have = self.slices("web");
        assert!(done.is_some(), "{}, {what}: wanted {wanted:?}, have {have:?}\n{}", self.name, self.logs());
    }

    fn wait_for_output(&self, words: &[&str], expected: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let found = wait_for(PATIENCE, || {
            last = self.kubectl.run(words).stdout;
            expected(last.trim()).then(|| last.trim().to_owned())
        });
        found.unwrap_or_else(|| panic!("{}: kubectl {words:?} says {last:?}", self.name))
    }
}

fn both(count: usize) -> [(&'static str, usize); 2] {
    [("IPv4", count), ("IPv6", count)]
}

#[test]
fn slices_of_both_families_follow_though_the_manager_is_killed_again_and_again() {
    for cluster in Cluster::all() {
        let kubectl = &cluster.kubectl;
        let mut manager = cluster.manager("first", &["--leader-elect=false"]);
        kubectl.ok(&["create", "deployment", "web", "--image=example.com/web:1"]);
        kubectl.ok(&["expose", "deployment", "web", "--port=80"]);
        cluster.becomes("exposed", &[("IPv4", 1)]);
        kubectl.ok(&["patch", "service", "web", "-p", r#"{"spec":{"ipFamilyPolicy":"RequireDualStack"}}"#]);
        cluster.becomes("dual", &both(1));
        for (round, replicas) in [50, 3, 20, 0, 7].into_iter().enumerate() {
            kubectl.ok(&["scale", "deployment/web", &format!("--replicas={replicas}")]);
            // In the middle of it: a little later each time.
            let _ = wait_for(Duration::from_millis(40 * round as u64), || None::<()>);
            manager.kill();
            manager = cluster.manager(&format!("after-{round}"), &["--leader-elect=false"]);
            cluster.becomes(&format!("{replicas} replicas"), &both(replicas));
        }
        let old = cluster
            .wait_for_output(&["get", "endpoints", "web", "-o", "jsonpath={.subsets[*].addresses[*].ip}"], |ips| {
                ips.split(' ').count() == 7
            });
        assert!(!old.contains(':'), "the old object has the first family only: {old}");
        kubectl.ok(&["patch", "service", "web", "-p", r#"{"spec":{"ipFamilyPolicy":"SingleStack"}}"#]);
        cluster.becomes("single again", &[("IPv4", 7)]);
        kubectl.ok(&["delete", "service", "web"]);
        cluster.becomes("deleted", &[]);
        assert!(manager.terminate(PATIENCE).is_some_and(|status| status.success()), "{}", manager.output());
    }
}

#[test]
fn nodes_have_pod_cidrs_and_services_load_balancers_of_both_families() {
    for cluster in Cluster::all() {
        let _manager = cluster.manager("manager", &["--leader-elect=false"]);
        let kubectl = &cluster.kubectl;
        let cidrs = "jsonpath={range .items[*]}{.spec.podCIDRs}{\"\\n\"}{end}";
        let cidrs = cluster.wait_for_output(&["get", "nodes", "-o", cidrs], |text| text.matches("::/64").count() == 3);
        let distinct: std::collections::BTreeSet<&str> = cidrs.lines().collect();
        assert_eq!(distinct.len(), 3, "{cidrs}");
        assert!(cidrs.lines().all(|line| line.starts_with(r#"["10.244."#)), "in the flag's order: {cidrs}");

        let balanced = "apiVersion: v1\nkind: Service\nmetadata: {name: front}\n\
                        spec: {type: LoadBalancer, ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6, IPv4], ports: [{port: 80}]}\n";
        kubectl.ok_with(&["create", "-f", "-"], balanced);
        let ingress = ["get", "service", "front", "-o", "jsonpath={.status.loadBalancer.ingress[*].ip}"];
        assert_eq!(cluster.wait_for_output(&ingress, |ips| !ips.is_empty()), "2001:db8::1 192.0.2.1");
        let foreign = balanced
            .replace("front", "foreign")
            .replace("LoadBalancer,", "LoadBalancer, loadBalancerClass: example.com/x,");
        kubectl.ok_with(&["create", "-f", "-"], &foreign);
        kubectl.ok(&["delete", "service", "front", "--timeout=60s"]);
        let finalizers =
            ["get", "service", "foreign", "-o", "jsonpath={.metadata.finalizers}{.status.loadBalancer.ingress}"];
        assert_eq!(kubectl.ok(&finalizers), "", "another's class is another's business");

        let by_hand = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n---\n\
                       apiVersion: v1\nkind: Endpoints\nmetadata: {name: web}\n\
                       subsets: [{addresses: [{ip: 10.9.0.1}, {ip: 'fd00:9::1'}], ports: [{port: 80}]}]\n";
        kubectl.ok_with(&["create", "-f", "-"], by_hand);
        cluster.becomes("mirrored", &both(1));
    }
}

#[test]
fn a_second_family_reaches_nodes_that_are_there_or_an_event_says_why_not() {
    for cluster in Cluster::all() {
        let cidrs = ["get", "nodes", "-o", "jsonpath={range .items[*]}{.spec.podCIDRs}{\"\\n\"}{end}"];
        let mut manager = cluster.manager("single", &["--leader-elect=false", "--cluster-cidr=10.244.0.0/16"]);
        let single = cluster.wait_for_output(&cidrs, |text| text.matches("10.244.").count() == 3);
        manager.kill();
        let _manager = cluster.manager("dual", &["--leader-elect=false"]);
        match cluster.name {
            "twinstack" => {
                let dual = cluster.wait_for_output(&cidrs, |text| text.matches("::/64").count() == 3);
                for (before, after) in single.lines().zip(dual.lines()) {
                    assert!(after.starts_with(before.trim_end_matches(']')), "the first stays the first: {dual}");
                }
            }
            _ => {
                let reasons = ["get", "events", "-A", "-o", "jsonpath={.items[*].reason}"];
                cluster.wait_for_output(&reasons, |text| text.matches("SecondPodCIDRRefused").count() == 3);
                assert_eq!(cluster.kubectl.ok(&cidrs).trim(), single, "and nothing else changes");
            }
        }
    }
}

#[test]
fn one_of_two_managers_works_and_the_other_takes_over() {
    for cluster in Cluster::all() {
        let holder =
            ["get", "lease", "kube-controller-manager", "-n", "kube-system", "-o", "jsonpath={.spec.holderIdentity}"];
        let mut first = cluster.manager("first", &[]);
        let one = cluster.wait_for_output(&holder, |identity| !identity.is_empty());
        let second = cluster.manager("second", &[]);
        first.kill();
        let two = cluster.wait_for_output(&holder, |identity| !identity.is_empty() && identity != one);
        assert_ne!(one, two);
        cluster.kubectl.ok(&["create", "service", "clusterip", "web", "--tcp=80"]);
        cluster.becomes("the second works", &[("IPv4", 0)]);
        assert!(second.output().contains("leads"), "{}", second.output());
    }
}

#[test]
fn mistakes_are_told_all_at_once() {
    let output = run(&[
        "controller-manager",
        "--kubeconfig=/nowhere",
        "--controllers=*,-endpointslice-controler",
        "--allocate-node-cidrs",
        "--cluster-cidr=10.0.0.0/16,10.1.0.0/16",
        "--max-endpoints-per-slice=0",
        "--cloud-provider=lab",
        "--leader-elect-renew-deadline=1m",
    ]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{message}");
    for word in [
        "did you mean endpointslice-controller?",
        "are both IPv4",
        "from 1 to 1000",
        "needs --load-balancer-ip-range",
        "--leader-elect-renew-deadline",
    ] {
        assert!(message.contains(word), "{word} is missing in:\n{message}");
    }
    let output = run(&["controller-manager", "--kubeconfig=/nowhere/at/all", "--secure-port=0"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && message.contains("/nowhere/at/all"), "{message}");
    assert!(Path::new("/nowhere").metadata().is_err());
}
