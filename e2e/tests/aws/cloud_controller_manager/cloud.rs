//! An API server, AWS and the manager between them, and questions to all three.

use e2e::{
    Kubectl, Process, Server, account,
    aws_strict::{Api, Element, Example, Made, Strict},
    free_port, twinstack, wait_for,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub(super) const PATIENCE: Duration = Duration::from_secs(120);
pub(super) const RANGES: [&str; 2] = [
    "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112",
    "--service-cluster-ip-range=fd00:10:96::/112,10.96.0.0/16",
];
/// Of the manager's manifests, which say what it may do.
const ACCOUNT: &str = "system:serviceaccount:kube-system:cloud-controller-manager";
const PREFIX: &str = "service.beta.kubernetes.io/aws-load-balancer-";

/// An API server, AWS, and the manager between them. All of it stops with the handle.
pub(super) struct Cloud {
    manager: Process,
    pub(super) kubectl: Kubectl,
    pub(super) aws: Strict,
    pub(super) example: Example,
    /// What the account held before.
    empty: String,
    /// Of the manager, beside those that it always has.
    flags: &'static [&'static str],
    /// Where the manager shows its health and metrics.
    port: u16,
    server: Server,
}

impl Cloud {
    /// With the cluster's first family and so many nodes; `None` when something is missing here.
    pub(super) fn start(ranges: &str, nodes: usize) -> Option<Self> {
        let cloud = Self::without_nodes(|_| String::new(), &["--configure-cloud-routes=false"], ranges, nodes)?;
        for index in 0..nodes {
            cloud.create(&cloud.example.node(index));
        }
        Some(cloud)
    }

    /// With more lines in the cloud-config, other flags, and instances that no Node tells of.
    pub(super) fn without_nodes(
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
        account::limited("cloud-controller-manager", &kubectl, &server.kubeconfig());
        let port = free_port();
        let manager = manage(&server, &aws, port, flags);
        let empty = aws.describe();
        Some(Self { manager, kubectl, aws, example, empty, flags, port, server })
    }

    /// The process is killed and started again.
    pub(super) fn restart(&mut self) {
        self.manager.kill();
        self.manager = manage(&self.server, &self.aws, self.port, self.flags);
    }

    /// What the manager counts.
    pub(super) fn metrics(&self) -> String {
        let server = format!("--server=https://127.0.0.1:{}", self.port);
        self.kubectl.ok(&[&server, "--insecure-skip-tls-verify", "get", "--raw", "/metrics"])
    }

    pub(super) fn create(&self, object: &Value) {
        self.kubectl.ok_with(&["create", "-f", "-"], &object.to_string());
    }

    pub(super) fn apply(&self, object: &Value) {
        self.kubectl.ok_with(&["apply", "-f", "-"], &object.to_string());
    }

    pub(super) fn service(&self, name: &str) -> Value {
        serde_json::from_str(&self.kubectl.ok(&["get", "service", name, "-o", "json"])).unwrap()
    }

    pub(super) fn logs(&self) -> String {
        let text = self.manager.output();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// Waits until something is so.
    pub(super) fn until<T>(&self, what: &str, ask: impl FnMut() -> Option<T>) -> T {
        let found = wait_for(PATIENCE, ask);
        let events = || self.kubectl.ok(&["get", "events"]);
        found.unwrap_or_else(|| {
            panic!("{what}: not within {PATIENCE:?}\n{}\n{}\n{}", self.aws.describe(), events(), self.logs())
        })
    }

    /// The Service's host name, when it has one.
    pub(super) fn host(&self, name: &str) -> String {
        self.until(&format!("{name} has a host name"), || {
            let service = self.service(name);
            service["status"]["loadBalancer"]["ingress"][0]["hostname"].as_str().map(str::to_owned)
        })
    }

    /// The first network load balancer with this host name.
    pub(super) fn balancer(&self, host: &str) -> Element {
        let found = self.aws.look(Api::Elbv2, "DescribeLoadBalancers", &[]).unwrap();
        let all = found.all("DescribeLoadBalancersResult/LoadBalancers/member");
        let one = all.into_iter().find(|one| one.text("DNSName") == host).cloned();
        one.unwrap_or_else(|| panic!("there is no load balancer {host}"))
    }

    pub(super) fn target_groups(&self, balancer: &Element) -> Vec<Element> {
        let of = [("LoadBalancerArn", balancer.text("LoadBalancerArn"))];
        let found = self.aws.look(Api::Elbv2, "DescribeTargetGroups", &of).unwrap();
        found.all("DescribeTargetGroupsResult/TargetGroups/member").into_iter().cloned().collect()
    }

    pub(super) fn targets(&self, group: &Element) -> Vec<String> {
        let of = [("TargetGroupArn", group.text("TargetGroupArn"))];
        let found = self.aws.look(Api::Elbv2, "DescribeTargetHealth", &of).unwrap();
        found.texts("DescribeTargetHealthResult/TargetHealthDescriptions/member/Target/Id")
    }

    /// The group that a load balancer has for itself, beside the one that all share.
    pub(super) fn managed(&self, balancer: &Element) -> Element {
        let held: Vec<Element> =
            balancer.texts("SecurityGroups/member").iter().filter_map(|id| self.group(id)).collect();
        assert_eq!(held.len(), 2, "its own, and the one that load balancers share");
        let own = held.into_iter().find(|group| !group.text("groupName").starts_with("k8s-backend-"));
        own.expect("a group of its own")
    }

    pub(super) fn group(&self, id: &str) -> Option<Element> {
        let found = self.aws.look(Api::Ec2, "DescribeSecurityGroups", &[]).unwrap();
        found.all("securityGroupInfo/item").into_iter().find(|group| group.text("groupId") == id).cloned()
    }

    /// Until the manager has made no call for a while; the calls since the last time.
    pub(super) fn quiet(&self) -> Vec<Made> {
        self.without(|_| true)
    }

    /// As [`Self::quiet`], but not before it has made a call.
    pub(super) fn reacts(&self) -> Vec<Made> {
        let mut first = Vec::new();
        self.until("it reacts", || {
            first = self.aws.take_calls();
            (!first.is_empty()).then_some(())
        });
        first.extend(self.quiet());
        first
    }

    /// Until the manager has changed nothing for a while; the calls since the last time.
    pub(super) fn settled(&self) -> Vec<Made> {
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
    pub(super) fn delete(&self, name: &str) {
        self.kubectl.ok(&["delete", "service", name, "--wait=false"]);
        self.until(&format!("{name} is gone"), || (!self.kubectl.run(&["get", "service", name]).success).then_some(()));
    }

    /// Nothing of ours is left.
    pub(super) fn is_empty(&self) {
        let found = wait_for(PATIENCE, || (self.aws.describe() == self.empty).then_some(()));
        assert!(found.is_some(), "left:\n{}\nbefore:\n{}\n{}", self.aws.describe(), self.empty, self.logs());
        account::nothing_was_forbidden(&self.manager.output());
    }

    pub(super) fn events(&self, name: &str) -> String {
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

fn manage(server: &Server, aws: &Strict, port: u16, flags: &[&str]) -> Process {
    let config = server.folder().join("cloud.conf");
    let environment = aws.environment().into_iter().map(|(name, value)| format!("{name}={value}"));
    let mut words: Vec<String> = environment.collect();
    words.push(twinstack().display().to_string());
    words.extend(["cloud-controller-manager", "--leader-elect=false"].map(str::to_owned));
    words.push(format!("--secure-port={port}"));
    words.extend(flags.iter().map(|flag| (*flag).to_owned()));
    words.push("--concurrent-service-syncs=4".to_owned());
    let kubeconfig = account::acting_as(ACCOUNT, "manager", &server.kubeconfig());
    words.push(format!("--kubeconfig={}", kubeconfig.display()));
    words.push(format!("--cloud-config={}", config.display()));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // `env` becomes the program, so that it ends with the handle.
    Process::start("env", &words, &server.folder().join("manager.log"))
}

/// A Service with one TCP port for a network load balancer, `annotations` by their last words.
pub(super) fn service(name: &str, annotations: &[(&str, &str)], spec: Value) -> Value {
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

pub(super) fn families(policy: &str, list: &[&str]) -> Value {
    json!({"ipFamilyPolicy": policy, "ipFamilies": list})
}
