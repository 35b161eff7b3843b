//! `twinstack cloud-controller-manager` as a program with the AWS of the tests: Services of every kind come, change and go.
#![allow(clippy::unwrap_used, reason = "a test may end where it fails")]

use e2e::{
    Kubectl, Process, Server,
    aws_strict::{Api, Element, Example, Made, Strict, excess},
    twinstack, wait_for,
};
use serde_json::{Value, json};
use std::{
    fmt::Write,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(120);
const RANGES: [&str; 2] = [
    "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112",
    "--service-cluster-ip-range=fd00:10:96::/112,10.96.0.0/16",
];
const PREFIX: &str = "service.beta.kubernetes.io/aws-load-balancer-";

/// An API server, AWS, and the manager between them. All of it stops with the handle.
struct Cloud {
    manager: Process,
    kubectl: Kubectl,
    aws: Strict,
    example: Example,
    /// What the account held before.
    empty: String,
    /// Of the manager, beside those that it always has.
    flags: &'static [&'static str],
    server: Server,
}

impl Cloud {
    /// With the cluster's first family and so many nodes; `None` when something is missing here.
    fn start(ranges: &str, nodes: usize) -> Option<Self> {
        let cloud = Self::without_nodes(|_| String::new(), &["--configure-cloud-routes=false"], ranges, nodes)?;
        for index in 0..nodes {
            cloud.create(&cloud.example.node(index));
        }
        Some(cloud)
    }

    /// With more lines in the cloud-config, other flags, and instances that no Node tells of.
    fn without_nodes(
        lines: impl FnOnce(&Example) -> String,
        flags: &'static [&'static str],
        ranges: &str,
        nodes: usize,
    ) -> Option<Self> {
        let aws = Strict::start()?;
        let example = Example::build(&aws, nodes);
        let server = Server::start(&[ranges]);
        let kubectl = server.kubectls().pop()?;
        std::fs::write(server.folder().join("cloud.conf"), example.cloud_config() + &lines(&example)).unwrap();
        let manager = manage(&server, &aws, flags);
        let empty = aws.told();
        Some(Self { manager, kubectl, aws, example, empty, flags, server })
    }

    /// The process is killed and started again.
    fn restart(&mut self) {
        self.manager.kill();
        self.manager = manage(&self.server, &self.aws, self.flags);
    }

    fn create(&self, object: &Value) {
        self.kubectl.ok_with(&["create", "-f", "-"], &object.to_string());
    }

    fn apply(&self, object: &Value) {
        self.kubectl.ok_with(&["apply", "-f", "-"], &object.to_string());
    }

    fn service(&self, name: &str) -> Value {
        serde_json::from_str(&self.kubectl.ok(&["get", "service", name, "-o", "json"])).unwrap()
    }

    fn logs(&self) -> String {
        let text = self.manager.output();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// Waits until something is so.
    fn until<T>(&self, what: &str, ask: impl FnMut() -> Option<T>) -> T {
        let found = wait_for(PATIENCE, ask);
        let events = || self.kubectl.ok(&["get", "events"]);
        found.unwrap_or_else(|| {
            panic!("{what}: not within {PATIENCE:?}\n{}\n{}\n{}", self.aws.told(), events(), self.logs())
        })
    }

    /// The Service's host name, when it has one.
    fn host(&self, name: &str) -> String {
        self.until(&format!("{name} has a host name"), || {
            let service = self.service(name);
            service["status"]["loadBalancer"]["ingress"][0]["hostname"].as_str().map(str::to_owned)
        })
    }

    /// The first network load balancer with this host name.
    fn balancer(&self, host: &str) -> Element {
        let found = self.aws.look(Api::Elbv2, "DescribeLoadBalancers", &[]).unwrap();
        let all = found.all("DescribeLoadBalancersResult/LoadBalancers/member");
        let one = all.into_iter().find(|one| one.text("DNSName") == host).cloned();
        one.unwrap_or_else(|| panic!("there is no load balancer {host}"))
    }

    fn target_groups(&self, balancer: &Element) -> Vec<Element> {
        let of = [("LoadBalancerArn", balancer.text("LoadBalancerArn"))];
        let found = self.aws.look(Api::Elbv2, "DescribeTargetGroups", &of).unwrap();
        found.all("DescribeTargetGroupsResult/TargetGroups/member").into_iter().cloned().collect()
    }

    fn targets(&self, group: &Element) -> Vec<String> {
        let of = [("TargetGroupArn", group.text("TargetGroupArn"))];
        let found = self.aws.look(Api::Elbv2, "DescribeTargetHealth", &of).unwrap();
        found.texts("DescribeTargetHealthResult/TargetHealthDescriptions/member/Target/Id")
    }

    fn group(&self, id: &str) -> Option<Element> {
        let found = self.aws.look(Api::Ec2, "DescribeSecurityGroups", &[]).unwrap();
        found.all("securityGroupInfo/item").into_iter().find(|group| group.text("groupId") == id).cloned()
    }

    /// Until the manager has made no call for a while; the calls since the last time.
    fn quiet(&self) -> Vec<Made> {
        self.without(|_| true)
    }

    /// Until the manager has changed nothing for a while; the calls since the last time.
    fn settled(&self) -> Vec<Made> {
        self.without(|call| call.write)
    }

    /// Until there has been none of these calls for a while; all calls since the last time.
    fn without(&self, which: fn(&Made) -> bool) -> Vec<Made> {
        let mut calls = Vec::new();
        let mut last = Instant::now();
        self.until("it is quiet", || {
            let more = self.aws.take_calls();
            if more.iter().any(which) {
                last = Instant::now();
            }
            calls.extend(more);
            (last.elapsed() > Duration::from_secs(3)).then_some(())
        });
        calls
    }

    /// Deletes a Service, and what it had goes with it.
    fn delete(&self, name: &str) {
        self.kubectl.ok(&["delete", "service", name, "--wait=false"]);
        self.until(&format!("{name} is gone"), || (!self.kubectl.run(&["get", "service", name]).success).then_some(()));
    }

    /// Nothing of ours is left.
    fn is_empty(&self) {
        let found = wait_for(PATIENCE, || (self.aws.told() == self.empty).then_some(()));
        assert!(found.is_some(), "left:\n{}\nbefore:\n{}\n{}", self.aws.told(), self.empty, self.logs());
    }

    fn events(&self, name: &str) -> String {
        let field = format!("involvedObject.name={name}");
        self.kubectl.ok(&[
            "get",
            "events",
            "--field-selector",
            &field,
            "-o",
            "jsonpath={range .items[*]}{.reason}: {.message}{\"\\n\"}{end}",
        ])
    }
}

fn manage(server: &Server, aws: &Strict, flags: &[&str]) -> Process {
    let config = server.folder().join("cloud.conf");
    let environment = aws.environment().into_iter().map(|(name, value)| format!("{name}={value}"));
    let mut words: Vec<String> = environment.collect();
    words.push(twinstack().display().to_string());
    words.extend(["cloud-controller-manager", "--leader-elect=false", "--secure-port=0"].map(str::to_owned));
    words.extend(flags.iter().map(|flag| (*flag).to_owned()));
    words.push("--concurrent-service-syncs=4".to_owned());
    words.push(format!("--kubeconfig={}", server.kubeconfig().display()));
    words.push(format!("--cloud-config={}", config.display()));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // `env` becomes the program, so that it ends with the handle.
    Process::start("env", &words, &server.folder().join("manager.log"))
}

/// A Service with one TCP port for a network load balancer, `annotations` by their last words.
fn service(name: &str, annotations: &[(&str, &str)], spec: Value) -> Value {
    let mut all: serde_json::Map<String, Value> =
        annotations.iter().map(|(key, value)| (format!("{PREFIX}{key}"), json!(value))).collect();
    all.entry(format!("{PREFIX}type")).or_insert(json!("nlb"));
    let mut object = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "annotations": all},
        "spec": {"type": "LoadBalancer", "selector": {"app": name}, "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
    });
    for (key, value) in spec.as_object().cloned().unwrap_or_default() {
        object["spec"][key] = value;
    }
    object
}

fn families(policy: &str, list: &[&str]) -> Value {
    json!({"ipFamilyPolicy": policy, "ipFamilies": list})
}

/// `tcp 80-80 0.0.0.0/0` and so on, sorted.
fn rules(group: &Element) -> Vec<String> {
    let mut all = Vec::new();
    for one in group.all("ipPermissions/item") {
        let peers = ["ipRanges/item/cidrIp", "ipv6Ranges/item/cidrIpv6"].into_iter().flat_map(|path| one.texts(path));
        all.extend(
            peers.map(|peer| {
                format!("{} {}-{} {peer}", one.text("ipProtocol"), one.text("fromPort"), one.text("toPort"))
            }),
        );
    }
    all.sort();
    all
}

#[test]
fn services_of_each_family_come_change_and_go() {
    for (ranges, first) in RANGES.into_iter().zip(["IPv4", "IPv6"]) {
        let Some(mut cloud) = Cloud::start(ranges, 3) else { return };
        let second = if first == "IPv4" { "IPv6" } else { "IPv4" };
        cloud.create(&service("dual", &[], families("RequireDualStack", &[first, second])));
        cloud.create(&service("v4", &[], families("SingleStack", &["IPv4"])));
        cloud.create(&service("v6", &[], families("SingleStack", &["IPv6"])));

        let dual = cloud.balancer(&cloud.host("dual"));
        assert_eq!(
            (dual.text("Type"), dual.text("IpAddressType"), dual.text("Scheme")),
            ("network", "dualstack", "internet-facing")
        );
        let held = dual.texts("SecurityGroups/member");
        let managed = cloud.group(&held[0]).unwrap();
        assert_eq!(held.len(), 1);
        assert_eq!(rules(&managed), ["icmp 3-4 0.0.0.0/0", "icmpv6 2-0 ::/0", "tcp 80-80 0.0.0.0/0", "tcp 80-80 ::/0"]);
        let groups = cloud.target_groups(&dual);
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].text("IpAddressType"), first.to_lowercase(), "targets are of the first family");
        assert_eq!(cloud.targets(&groups[0]).len(), 3);
        for server in cloud.aws.dns() {
            let ask = |kind: &str| cloud.aws.resolve(server, dual.text("DNSName"), kind).unwrap().len();
            assert_eq!((ask("A"), ask("AAAA")), (3, 3));
        }

        let v4 = cloud.balancer(&cloud.host("v4"));
        assert_eq!(v4.text("IpAddressType"), "ipv4");
        let managed = cloud.group(&v4.texts("SecurityGroups/member")[0]).unwrap();
        assert_eq!(rules(&managed), ["icmp 3-4 0.0.0.0/0", "tcp 80-80 0.0.0.0/0"]);
        assert_eq!(cloud.aws.resolve(cloud.aws.dns()[0], v4.text("DNSName"), "AAAA"), Ok(vec![]));

        let why = cloud.until("v6 alone is refused", || {
            Some(cloud.events("v6")).filter(|events| events.contains("SyncLoadBalancerFailed"))
        });
        assert!(why.contains("IPv6"), "{why}");
        assert!(cloud.service("v6")["status"]["loadBalancer"]["ingress"].is_null());

        // A second port, ranges of both families, and the process killed in between.
        let ports = json!([{"name": "http", "port": 80}, {"name": "https", "port": 443}]);
        let mut spec = families("RequireDualStack", &[first, second]);
        spec["ports"] = ports;
        spec["loadBalancerSourceRanges"] = json!(["192.0.2.0/24", "2001:db8:1::/48"]);
        cloud.apply(&service("dual", &[], spec));
        cloud.restart();
        cloud.until("the second port is there", || {
            let managed = cloud.group(&held[0])?;
            let wanted = [
                "icmp 3-4 192.0.2.0/24",
                "icmpv6 2-0 2001:db8:1::/48",
                "tcp 443-443 192.0.2.0/24",
                "tcp 443-443 2001:db8:1::/48",
                "tcp 80-80 192.0.2.0/24",
                "tcp 80-80 2001:db8:1::/48",
            ];
            (rules(&managed) == wanted && cloud.target_groups(&dual).len() == 2).then_some(())
        });
        for name in ["dual", "v4", "v6"] {
            cloud.delete(name);
        }
        cloud.is_empty();
    }
}

#[test]
fn a_live_load_balancer_gets_the_second_family_and_loses_it() {
    let Some(cloud) = Cloud::start(RANGES[0], 2) else { return };
    cloud.create(&service("web", &[], families("SingleStack", &["IPv4"])));
    let host = cloud.host("web");
    let kind = || cloud.balancer(&host).text("IpAddressType").to_owned();
    assert_eq!(kind(), "ipv4");
    let group = cloud.balancer(&host).texts("SecurityGroups/member").remove(0);
    let single = rules(&cloud.group(&group).unwrap());
    cloud.apply(&service("web", &[], families("RequireDualStack", &["IPv4", "IPv6"])));
    cloud
        .until("it is dual-stack", || (kind() == "dualstack" && rules(&cloud.group(&group)?).len() == 4).then_some(()));
    assert_eq!(cloud.aws.resolve(cloud.aws.dns()[1], &host, "AAAA").unwrap().len(), 3);
    cloud.apply(&service("web", &[], families("SingleStack", &["IPv4"])));
    cloud.until("it is single-stack", || (kind() == "ipv4" && rules(&cloud.group(&group)?) == single).then_some(()));
    assert_eq!(cloud.host("web"), host, "the same load balancer all the time");
    cloud.delete("web");
    cloud.is_empty();
}

#[test]
fn groups_are_managed_brought_and_managed_again() {
    let Some(cloud) = Cloud::start(RANGES[0], 2) else { return };
    let dual = || families("RequireDualStack", &["IPv4", "IPv6"]);
    let brought = [("security-groups", cloud.example.brought_group.as_str())];
    cloud.create(&service("web", &[], dual()));
    let host = cloud.host("web");
    let held = || cloud.balancer(&host).texts("SecurityGroups/member");
    let managed = held();
    cloud.apply(&service("web", &brought, dual()));
    cloud.until("the brought group alone", || (held() == [cloud.example.brought_group.as_str()]).then_some(()));
    cloud.until("the managed one is gone", || cloud.group(&managed[0]).is_none().then_some(()));
    assert_eq!(rules(&cloud.group(&cloud.example.brought_group).unwrap()), Vec::<String>::new(), "never touched");
    cloud.apply(&service("web", &[], dual()));
    let again = cloud
        .until("a managed one again", || Some(held()).filter(|held| *held != [cloud.example.brought_group.as_str()]));
    assert_eq!(again.len(), 1);
    assert!(cloud.group(&cloud.example.brought_group).is_some());
    cloud.create(&service("other", &brought, families("SingleStack", &["IPv4"])));
    let other = cloud.host("other");
    assert_eq!(cloud.balancer(&other).texts("SecurityGroups/member"), [cloud.example.brought_group.as_str()]);
    cloud.delete("web");
    cloud.delete("other");
    cloud.is_empty();
}

#[test]
fn a_classic_load_balancer_comes_and_goes() {
    let Some(cloud) = Cloud::start(RANGES[0], 2) else { return };
    let words = [("type", "classic"), ("proxy-protocol", "*"), ("connection-idle-timeout", "120")];
    cloud.create(&service("web", &words, families("SingleStack", &["IPv4"])));
    cloud.create(&service("six", &[("type", "classic")], families("SingleStack", &["IPv6"])));
    let host = cloud.host("web");
    let classic = || {
        let found = cloud.aws.look(Api::Elb, "DescribeLoadBalancers", &[]).unwrap();
        let all = found.all("DescribeLoadBalancersResult/LoadBalancerDescriptions/member");
        all.into_iter().find(|one| one.text("DNSName") == host).unwrap().clone()
    };
    assert_eq!(classic().texts("Instances/member/InstanceId").len(), 2);
    assert!(!classic().texts("BackendServerDescriptions/member/PolicyNames/member").is_empty(), "{:?}", classic());
    let why = cloud.until("IPv6 is refused", || {
        Some(cloud.events("six")).filter(|events| events.contains("SyncLoadBalancerFailed"))
    });
    assert!(why.contains("IPv6"), "{why}");
    cloud.kubectl.ok(&["delete", "node", "node-1"]);
    cloud.until("one instance", || (classic().texts("Instances/member/InstanceId").len() == 1).then_some(()));
    cloud.delete("web");
    cloud.delete("six");
    cloud.is_empty();
}

/// Addresses of a node's pods.
fn pods(index: usize) -> [String; 2] {
    let number = index + 1;
    [format!("10.244.{number}.0/24"), format!("fd00:10:244:{number}::/64")]
}

/// What an instance is like for a kubelet that knows nothing of AWS.
fn bare_node(cloud: &Cloud, index: usize) -> Value {
    let mut node = cloud.example.node(index);
    node["status"] = json!({});
    node["spec"] = json!({
        "providerID": node["spec"]["providerID"],
        "podCIDRs": pods(index), "podCIDR": pods(index)[0],
        "taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}],
    });
    node
}

/// Destinations of the routes that lead to an instance.
fn routes_to(cloud: &Cloud, instance: &str) -> Vec<String> {
    let found = cloud.aws.look(Api::Ec2, "DescribeRouteTables", &[("RouteTableId.1", &cloud.example.route_table)]);
    let found = found.unwrap();
    let all = found.all("routeTableSet/item/routeSet/item").into_iter();
    let to = all.filter(|route| route.text("instanceId") == instance);
    let to = to.map(|route| route.text("destinationCidrBlock").to_owned() + route.text("destinationIpv6CidrBlock"));
    let mut to: Vec<String> = to.collect();
    to.sort();
    to
}

#[test]
fn nodes_are_described_their_pods_get_routes_and_they_go_with_their_instances() {
    for families in [&["ipv4"][..], &["ipv4", "ipv6"], &["ipv6", "ipv4"]] {
        let lines = |example: &Example| {
            let families: String = families.iter().map(|family| format!("NodeIPFamilies = {family}\n")).collect();
            format!("{families}RouteTableID = {}\n", example.route_table)
        };
        let flags = &["--cluster-cidr=10.244.0.0/16,fd00:10:244::/48", "--route-reconciliation-period=1s"];
        let Some(cloud) = Cloud::without_nodes(lines, flags, RANGES[0], 2) else { return };
        (0..2).for_each(|index| cloud.create(&bare_node(&cloud, index)));
        // Somebody's own hardware, of which AWS knows nothing: it is left alone.
        let stranger = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "stranger"},
            "spec": {"providerID": "eks-hybrid:///us-east-1/example/mi-0123"}});
        cloud.create(&stranger);
        let node = |index: usize| -> Value {
            let text = cloud.kubectl.ok(&["get", "node", &format!("node-{index}"), "-o", "json"]);
            serde_json::from_str(&text).unwrap()
        };
        for index in 0..2 {
            let described = cloud.until("the node is described", || {
                Some(node(index)).filter(|node| node["spec"]["taints"].as_array().is_none_or(Vec::is_empty))
            });
            let labels = &described["metadata"]["labels"];
            let (id, zone) = &cloud.example.instances[index];
            assert_eq!(labels["topology.kubernetes.io/zone"], *zone);
            assert_eq!(labels["topology.kubernetes.io/region"], "us-east-1");
            assert_eq!(labels["node.kubernetes.io/instance-type"], "m6i.large");
            let internal = cloud.until("it has addresses", || {
                let all = node(index)["status"]["addresses"].as_array()?.clone();
                let internal = all.iter().filter(|address| address["type"] == "InternalIP");
                let text = |address: &Value| address["address"].as_str().unwrap_or_default().to_owned();
                Some(internal.map(text).collect::<Vec<_>>())
            });
            let kinds: Vec<&str> =
                internal.iter().map(|address| if address.contains(':') { "ipv6" } else { "ipv4" }).collect();
            assert_eq!(kinds, families, "{internal:?}");
            cloud.until("its pods have routes", || (routes_to(&cloud, id) == pods(index)).then_some(()));
        }
        if families[0] == "ipv4" {
            continue;
        }
        // Not ready, its instance stopped and started, then gone for good. It takes half a minute, and is the same for all.
        let (id, _) = &cloud.example.instances[1];
        let down = "{.spec.taints[?(@.key=='node.cloudprovider.kubernetes.io/shutdown')].effect}";
        let taint = || cloud.kubectl.ok(&["get", "node", "node-1", "-o", &format!("jsonpath={down}")]);
        cloud.aws.look(Api::Ec2, "StopInstances", &[("InstanceId.1", id)]).unwrap();
        cloud.until("a stopped one is tainted", || (taint() == "NoSchedule").then_some(()));
        cloud.aws.look(Api::Ec2, "StartInstances", &[("InstanceId.1", id)]).unwrap();
        cloud.until("a started one is not", || taint().is_empty().then_some(()));
        cloud.aws.look(Api::Ec2, "TerminateInstances", &[("InstanceId.1", id)]).unwrap();
        let there = || cloud.kubectl.ok(&["get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"]);
        cloud.until("a node without instance goes", || (there() == "node-0 stranger").then_some(()));
        cloud.until("its routes go with it", || routes_to(&cloud, id).is_empty().then_some(()));
        assert_eq!(routes_to(&cloud, &cloud.example.instances[0].0).len(), 2, "the others stay");
        assert!(cloud.events("node-1").contains("DeletingNode"), "{}", cloud.events("node-1"));
    }
}

/// The calls, one in a line, for messages.
fn listed(calls: &[Made]) -> String {
    calls.iter().fold(String::new(), |mut text, call| {
        let _ = writeln!(text, "{}", call.name());
        text
    })
}

#[test]
fn few_calls_are_made() {
    let Some(mut cloud) = Cloud::start(RANGES[1], 2) else { return };
    cloud.create(&service("web", &[], families("RequireDualStack", &["IPv6", "IPv4"])));
    let host = cloud.host("web");
    cloud.quiet();

    cloud.kubectl.ok(&["annotate", "service", "web", "example.test/note=1"]);
    let calls = cloud.quiet();
    assert!(
        !calls.is_empty() && calls.len() <= 4 && calls.iter().all(|call| !call.write),
        "nothing to do:\n{}",
        listed(&calls)
    );

    cloud.example.add_node(&cloud.aws);
    cloud.quiet();
    cloud.create(&cloud.example.node(2));
    let group = cloud.target_groups(&cloud.balancer(&host)).remove(0);
    cloud.until("three targets", || (cloud.targets(&group).len() == 3).then_some(()));
    let calls = cloud.quiet();
    let writes: Vec<Made> = calls.into_iter().filter(|call| call.write).collect();
    assert!(
        !writes.is_empty() && writes.iter().all(|call| call.action == "RegisterTargets"),
        "a node more:\n{}",
        listed(&writes)
    );
    cloud.kubectl.ok(&["delete", "node", "node-0"]);
    cloud.until("two targets", || (cloud.targets(&group).len() == 2).then_some(()));
    let writes: Vec<Made> = cloud.quiet().into_iter().filter(|call| call.write).collect();
    assert!(
        !writes.is_empty() && writes.iter().all(|call| call.action == "DeregisterTargets"),
        "a node less:\n{}",
        listed(&writes)
    );
    cloud.delete("web");
    cloud.is_empty();
}

/// A name, which calls, how many at once, how many a second.
type Bucket = (&'static str, fn(&Made) -> bool, u32, f64);

/// AWS's buckets for an account in a region.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/userguide/elb-api-throttling.html> and
/// <https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html>; for changes of load balancers the figures that
/// aws-load-balancer-controller keeps to.
const BUCKETS: &[Bucket] = &[
    ("reads of load balancers", |call| call.api == Api::Elbv2 && !call.write, 40, 10.0),
    ("targets", |call| call.api == Api::Elbv2 && call.write && call.action.ends_with("Targets"), 20, 4.0),
    (
        "changes of load balancers",
        |call| call.api == Api::Elbv2 && call.write && !call.action.ends_with("Targets"),
        20,
        3.0,
    ),
    ("reads of EC2", |call| call.api == Api::Ec2 && !call.write, 100, 20.0),
    ("changes of EC2", |call| call.api == Api::Ec2 && call.write, 50, 5.0),
];

#[test]
fn many_services_and_a_node_change_stay_within_the_limits() {
    let count = if std::env::var("TWINSTACK_FAULTS").is_ok_and(|value| value == "all") { 500 } else { 10 };
    // The nodes' group has room for the rules of thirty.
    let lines = if count > 30 { "DisableSecurityGroupIngress = true\n" } else { "" };
    let started = Cloud::without_nodes(|_| lines.to_owned(), &["--configure-cloud-routes=false"], RANGES[0], 2);
    let Some(mut cloud) = started else { return };
    (0..2).for_each(|index| cloud.create(&cloud.example.node(index)));
    cloud.quiet();
    let names: Vec<String> = (0..count).map(|number| format!("web-{number}")).collect();
    let all: Vec<Value> =
        names.iter().map(|name| service(name, &[], families("RequireDualStack", &["IPv4", "IPv6"]))).collect();
    cloud.create(&json!({"apiVersion": "v1", "kind": "List", "items": all}));
    let all_have = |cloud: &Cloud, wanted: usize| {
        let found = cloud.aws.look(Api::Elbv2, "DescribeTargetGroups", &[]).unwrap();
        let groups = found.all("DescribeTargetGroupsResult/TargetGroups/member");
        groups.len() == count && groups.iter().all(|group| cloud.targets(group).len() == wanted)
    };
    // So many calls at AWS's pace take this long.
    let patience = PATIENCE + Duration::from_secs(10) * u32::try_from(count).unwrap();
    assert!(wait_for(patience, || all_have(&cloud, 2).then_some(())).is_some(), "{}", cloud.logs());
    // Each Service is looked at from time to time, so that with many there is never a moment without a read.
    let made = cloud.settled();
    cloud.example.add_node(&cloud.aws);
    cloud.aws.take_calls();
    cloud.create(&cloud.example.node(2));
    assert!(wait_for(patience, || all_have(&cloud, 3).then_some(())).is_some(), "{}", cloud.logs());
    let changed = cloud.settled();
    for (when, calls) in [("made", &made), ("a node more", &changed)] {
        for (what, belongs, burst, per_second) in BUCKETS {
            let excess = excess(calls.iter().filter(|call| belongs(call)), *burst, *per_second);
            assert_eq!(excess, 0, "{when}: {what} beyond {burst} and {per_second} a second");
        }
    }
    let writes = changed.iter().filter(|call| call.write);
    assert!(
        writes.clone().all(|call| call.action == "RegisterTargets") && writes.count() == count,
        "{}",
        listed(&changed)
    );
}
