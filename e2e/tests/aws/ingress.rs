//! `twinstack ingress-operator` and `twinstack cloud-controller-manager` together, with the AWS of the tests: a dual-stack cluster's default
//! IngressController ends with a dual-stack NLB that has a managed group, and alias records of both families in Route 53.

use e2e::{
    INGRESS_LISTS, Kubectl, Process, Server, account,
    aws_strict::{Api, Element, Example, Strict, Through},
    twinstack, wait_for,
};
use serde_json::{Value, json};
use std::{path::Path, process::Command, time::Duration};

const PATIENCE: Duration = Duration::from_secs(150);
const OPERATOR: &str = "openshift-ingress-operator";
const OPERAND: &str = "openshift-ingress";
const SCRIPT: &str = include_str!("../../src/aws_strict/support.sh");

/// An API server, AWS with two hosted zones, the operator and the cloud controller. All of it stops with the handle.
struct Cluster {
    operator: Process,
    manager: Process,
    kubectl: Kubectl,
    aws: Strict,
    /// What the account held before.
    empty: String,
    /// Ids of the public and the private zone.
    zones: [String; 2],
    server: Server,
}

fn ranges(family: &str) -> &'static str {
    match family {
        "DualStackIPv6Primary" => "--service-cluster-ip-range=fd00:10:96::/112,10.96.0.0/16",
        _ => "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112",
    }
}

/// A hosted zone for example.test; its id.
fn zone(aws: &Strict, reference: &str, vpc: Option<&str>) -> String {
    let private = vpc.map(|vpc| {
        format!(
            "<VPC><VPCRegion>us-east-1</VPCRegion><VPCId>{vpc}</VPCId></VPC><HostedZoneConfig><PrivateZone>true</PrivateZone></HostedZoneConfig>"
        )
    });
    let body = format!(
        "<CreateHostedZoneRequest xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\"><Name>example.test</Name>\
         <CallerReference>{reference}</CallerReference>{}</CreateHostedZoneRequest>",
        private.unwrap_or_default()
    );
    let made = aws.route53(Through::Strict, "/2013-04-01/hostedzone", &body).unwrap();
    made.text("HostedZone/Id").trim_start_matches("/hostedzone/").to_owned()
}

fn start(words: &[String], aws: &Strict, log: &Path) -> Process {
    let environment = aws.environment().into_iter().map(|(name, value)| format!("{name}={value}"));
    let program = twinstack().display().to_string();
    let all: Vec<String> = environment.chain([program]).chain(words.iter().cloned()).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    // `env` becomes the program, so that it ends with the handle.
    Process::start("env", &all, log)
}

impl Cluster {
    fn start(family: &str) -> Option<Self> {
        let aws = Strict::start()?;
        let example = Example::build(&aws, 2);
        let zones = [zone(&aws, "public", None), zone(&aws, "private", Some(&example.vpc))];
        let tag = "<ChangeTagsForResourceRequest xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\"><AddTags><Tag><Key>Name</Key><Value>int</Value></Tag></AddTags></ChangeTagsForResourceRequest>";
        aws.route53(Through::Strict, &format!("/2013-04-01/tags/hostedzone/{}", zones[1]), tag).unwrap();
        let server = Server::start(&[ranges(family)]);
        let kubectl = server.kubectls().pop()?;
        let config = server.folder().join("cloud.conf");
        std::fs::write(&config, example.cloud_config()).unwrap();
        let common = |command: &str| {
            let kubeconfig = account::limited(command, &kubectl, &server.kubeconfig());
            let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
            vec![command.to_owned(), kubeconfig, "--leader-elect=false".to_owned(), "--secure-port=0".to_owned()]
        };
        let mut words = common("ingress-operator");
        words.push("--dns-provider=aws".to_owned());
        let operator = start(&words, &aws, &server.folder().join("operator.log"));
        let mut words = common("cloud-controller-manager");
        words.extend([format!("--cloud-config={}", config.display()), "--configure-cloud-routes=false".to_owned()]);
        let manager = start(&words, &aws, &server.folder().join("manager.log"));
        let empty = aws.describe();
        let cluster = Self { operator, manager, kubectl, aws, empty, zones, server };
        for index in 0..2 {
            cluster.kubectl.ok_with(&["create", "-f", "-"], &example.node(index).to_string());
        }
        cluster.configure(family);
        Some(cluster)
    }

    /// What the installer would write. The definitions are the operator's.
    fn configure(&self, family: &str) {
        let served = |list: &&str| self.get(&format!("/apis/{list}")).is_some();
        self.until("the operator's kinds are served", || INGRESS_LISTS.iter().all(&served).then_some(()));
        let cluster = |kind: &str, spec: Value| json!({"apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": {"name": "cluster"}, "spec": spec});
        let networks = json!({"clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}, {"cidr": "fd01::/48", "hostPrefix": 64}]});
        let zones = json!({"baseDomain": "example.test", "publicZone": {"id": self.zones[0]}, "privateZone": {"tags": {"Name": "int"}}});
        let platform = json!({"type": "AWS", "aws": {"region": "us-east-1", "ipFamily": family}});
        let status = json!({"platform": "AWS", "platformStatus": platform, "controlPlaneTopology": "HighlyAvailable",
            "infrastructureTopology": "HighlyAvailable", "infrastructureName": "x", "apiServerURL": "", "apiServerInternalURI": ""});
        let nlb = json!({"platform": {"type": "AWS", "aws": {"type": "NLB"}}});
        for (object, plural, status) in [
            (cluster("Network", networks.clone()), "networks", networks),
            (cluster("DNS", zones), "dnses", Value::Null),
            (cluster("Infrastructure", json!({"platformSpec": {"type": "AWS"}})), "infrastructures", status),
            (cluster("Ingress", json!({"domain": "apps.example.test", "loadBalancer": nlb})), "ingresses", Value::Null),
        ] {
            self.kubectl.ok_with(&["create", "-f", "-"], &object.to_string());
            if !status.is_null() {
                self.set_status(&format!("/apis/config.openshift.io/v1/{plural}/cluster"), &status);
            }
        }
    }

    fn get(&self, path: &str) -> Option<Value> {
        let output = self.kubectl.run(&["get", "--raw", path]);
        output.success.then(|| serde_json::from_str(&output.stdout).unwrap())
    }

    fn set_status(&self, path: &str, status: &Value) {
        let to = if path.ends_with("networks/cluster") { path.to_owned() } else { format!("{path}/status") };
        self.until(&format!("the status of {path} is written"), || {
            let mut object = self.get(path)?;
            object["status"] = status.clone();
            self.kubectl.run_with(&["replace", "--raw", &to, "-f", "-"], &object.to_string()).success.then_some(())
        });
    }

    fn until<T>(&self, what: &str, ask: impl FnMut() -> Option<T>) -> T {
        let last = |process: &Process| {
            let text = process.output();
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(30)..].join("\n")
        };
        let found = wait_for(PATIENCE, ask);
        found.unwrap_or_else(|| {
            panic!(
                "{what}: not within {PATIENCE:?}\noperator:\n{}\nmanager:\n{}",
                last(&self.operator),
                last(&self.manager)
            )
        })
    }

    /// There is nobody here who runs routers.
    fn play_deployment(&self) {
        let path = format!("/apis/apps/v1/namespaces/{OPERAND}/deployments/router-default");
        let Some(deployment) = self.get(&path) else { return };
        let (count, seen) = (&deployment["spec"]["replicas"], &deployment["metadata"]["generation"]);
        if deployment["status"]["observedGeneration"] != *seen {
            let status = json!({"observedGeneration": seen, "replicas": count, "updatedReplicas": count, "readyReplicas": count,
                "availableReplicas": count, "conditions": [{"type": "Available", "status": "True"}]});
            self.set_status(&path, &status);
        }
    }

    /// Waits until a condition of the default IngressController has a status; its message.
    fn condition(&self, kind: &str, status: &str) -> String {
        self.until(&format!("{kind} is {status}"), || {
            self.play_deployment();
            let object =
                self.get(&format!("/apis/operator.openshift.io/v1/namespaces/{OPERATOR}/ingresscontrollers/default"))?;
            let one = object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)?.clone();
            (one["status"] == status).then(|| one["message"].as_str().unwrap_or_default().to_owned())
        })
    }

    fn service(&self) -> Option<Value> {
        self.get(&format!("/api/v1/namespaces/{OPERAND}/services/router-default"))
    }

    fn host(&self) -> String {
        self.until("the router's Service has a host name", || {
            Some(self.service()?["status"]["loadBalancer"]["ingress"][0]["hostname"].as_str()?.to_owned())
        })
    }

    /// Name, type and alias of the records in a zone that the operator made.
    fn records(&self, zone: &str) -> Vec<(String, String, String)> {
        let listed = self.aws.route53(Through::Strict, &format!("/2013-04-01/hostedzone/{zone}/rrset"), "").unwrap();
        let sets = listed.all("ResourceRecordSets/ResourceRecordSet");
        let mut found: Vec<_> = sets
            .iter()
            .filter(|set| !["NS", "SOA"].contains(&set.text("Type")))
            .map(|set| {
                (
                    set.text("Name").to_owned(),
                    set.text("Type").to_owned(),
                    set.text("AliasTarget/DNSName").trim_end_matches('.').to_owned(),
                )
            })
            .collect();
        found.sort();
        found
    }

    /// The wildcard's alias records in both zones are of these types and lead there.
    fn has_records(&self, kinds: &[&str], host: &str) {
        let wanted: Vec<_> = kinds
            .iter()
            .map(|kind| ("\\052.apps.example.test.".to_owned(), (*kind).to_owned(), host.to_owned()))
            .collect();
        for zone in &self.zones {
            let found = wait_for(PATIENCE, || (self.records(zone) == wanted).then_some(()));
            assert!(found.is_some(), "{zone}: {:?}, not {wanted:?}\n{}", self.records(zone), self.operator.output());
        }
    }

    fn network(&self, host: &str) -> Option<Element> {
        let found = self.aws.look(Api::Elbv2, "DescribeLoadBalancers", &[]).unwrap();
        let all = found.all("DescribeLoadBalancersResult/LoadBalancers/member");
        all.into_iter().find(|one| one.text("DNSName") == host).cloned()
    }

    fn publish(&self, kind: &str) {
        let patch = json!({"spec": {"endpointPublishingStrategy": {"type": "LoadBalancerService", "loadBalancer": {
            "scope": "External", "dnsManagementPolicy": "Managed", "providerParameters": {"type": "AWS", "aws": {"type": kind}},
        }}}});
        self.kubectl.ok(&[
            "-n",
            OPERATOR,
            "patch",
            "ingresscontroller",
            "default",
            "--type=merge",
            "-p",
            &patch.to_string(),
        ]);
    }

    /// The script of the support steps; DNS is asked with dig where there is one.
    fn support(&self, server: std::net::SocketAddr) -> (bool, String) {
        let file = self.server.folder().join("support.sh");
        std::fs::write(&file, SCRIPT).unwrap();
        let config = self.server.kubeconfig().display().to_string();
        let program = self.kubectl.program().display();
        let mut command = Command::new("bash");
        command.arg(&file).arg("default").env("KUBECTL", format!("{program} --kubeconfig={config}"));
        if Command::new("dig").arg("-v").output().is_ok() {
            let (address, port) = (format!("@{}", server.ip()), server.port().to_string());
            command.args(["dig", "-p", &port, &address]);
        }
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }
}

#[test]
fn a_dual_stack_cluster_gets_its_load_balancer_and_records() {
    for (family, first) in [("DualStackIPv4Primary", "ipv4"), ("DualStackIPv6Primary", "ipv6")] {
        let Some(mut cluster) = Cluster::start(family) else { return };
        cluster.condition("LoadBalancerReady", "True");
        let host = cluster.host();
        let one = cluster.network(&host).expect("a network load balancer");
        assert_eq!((one.text("IpAddressType"), one.texts("SecurityGroups/member").len()), ("dualstack", 2));
        let of = [("LoadBalancerArn", one.text("LoadBalancerArn"))];
        let groups = cluster.aws.look(Api::Elbv2, "DescribeTargetGroups", &of).unwrap();
        let kinds = groups.texts("DescribeTargetGroupsResult/TargetGroups/member/IpAddressType");
        assert_eq!(kinds, [first, first], "HTTP and HTTPS");
        cluster.condition("DNSReady", "True");
        cluster.has_records(&["A", "AAAA"], &host);
        for server in cluster.aws.dns() {
            for kind in ["A", "AAAA"] {
                let direct = cluster.aws.resolve(server, &host, kind).unwrap();
                assert_eq!(direct.len(), 3, "one of each zone");
                assert_eq!(cluster.aws.resolve(server, "console.apps.example.test", kind).unwrap(), direct);
            }
            cluster.condition("LoadBalancerDualStack", "True");
            let (content, message) = cluster.support(server);
            assert!(content, "{message}");
        }

        // To a classic load balancer: told first, done when the administrator deletes the Service; and back.
        cluster.publish("Classic");
        let message = cluster.condition("LoadBalancerProgressing", "True");
        assert!(message.contains("does not support dual-stack"), "{message}");
        assert_eq!(cluster.host(), host, "the live one stays");
        cluster.kubectl.ok(&["-n", OPERAND, "delete", "service", "router-default", "--timeout=120s"]);
        cluster.condition("LoadBalancerDualStack", "False");
        let classic = cluster.host();
        assert!(cluster.network(&classic).is_none() && cluster.network(&host).is_none(), "{classic}");
        // Records follow the cluster's families; the classic one has nothing to say for AAAA.
        cluster.has_records(&["A", "AAAA"], &classic);
        let ask = |kind: &str| cluster.aws.resolve(cluster.aws.dns()[1], "console.apps.example.test", kind);
        assert_eq!((ask("A").unwrap().len(), ask("AAAA")), (3, Ok(vec![])));
        let (content, message) = cluster.support(cluster.aws.dns()[0]);
        assert!(!content && message.contains("WRONG"), "{message}");

        cluster.publish("NLB");
        cluster.condition("LoadBalancerProgressing", "True");
        cluster.kubectl.ok(&["-n", OPERAND, "delete", "service", "router-default", "--timeout=120s"]);
        cluster.condition("LoadBalancerDualStack", "True");
        let again = cluster.host();
        cluster.has_records(&["A", "AAAA"], &again);

        // Without the operator nobody makes another one: the account is as it was before.
        cluster.operator.kill();
        cluster.kubectl.ok(&["-n", OPERAND, "delete", "service", "router-default", "--timeout=120s"]);
        cluster.until("nothing is left", || (cluster.aws.describe() == cluster.empty).then_some(()));
        // Both had the rights of their manifests, and no others.
        account::nothing_was_forbidden(&cluster.operator.output());
        account::nothing_was_forbidden(&cluster.manager.output());
    }
}

#[test]
fn a_cluster_of_one_family_gets_a_alone() {
    let Some(cluster) = Cluster::start("IPv4") else { return };
    cluster.condition("DNSReady", "True");
    let host = cluster.host();
    assert_eq!(cluster.network(&host).expect("a network load balancer").text("IpAddressType"), "ipv4");
    cluster.has_records(&["A"], &host);
    assert_eq!(cluster.aws.resolve(cluster.aws.dns()[0], "console.apps.example.test", "AAAA"), Ok(vec![]));
}
