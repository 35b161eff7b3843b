//! `twinstack ingress-operator` as a program, against Twinstack's API server and a real one when `KUBE_APISERVER` names it: the steps for the
//! PROXY protocol, and the dual-stack cases, each labelled [OCPFeatureGate:AWSDualStackInstall]. The test plays the cloud: it fills the status of
//! load balancer Services and Deployments. The operator has the rights that its manifests give, and no others.

use e2e::{Etcd, INGRESS_LISTS, KubeApiserver, Kubectl, Process, Server, account, definition, twinstack, wait_for};
use serde_json::{Value, json};
use std::{path::PathBuf, time::Duration};

const PATIENCE: Duration = Duration::from_secs(60);
const OPERATOR: &str = "openshift-ingress-operator";
const OPERAND: &str = "openshift-ingress";

/// An API server, the cluster's configuration, and the operator. All of it stops with the handle.
struct Cluster {
    name: &'static str,
    kubectl: Kubectl,
    operator: Process,
    _server: Server,
    _peer: Option<(KubeApiserver, Etcd)>,
}

/// The flag for Services, by what the cluster prefers.
fn ranges(family: &str) -> &'static str {
    match family {
        "DualStackIPv6Primary" => "--service-cluster-ip-range=fd00:10:96::/112,10.96.0.0/16",
        _ => "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112",
    }
}

impl Cluster {
    /// On Twinstack's API server, and on the real one if it is named.
    fn all(platform: &str, family: &str) -> Vec<Self> {
        Self::prepared(platform, family, |_| ())
    }

    /// The same; `prepare` is done before the operator starts.
    fn prepared(platform: &str, family: &str, prepare: impl Fn(&Kubectl)) -> Vec<Self> {
        let ours = || {
            let server = Server::start(&[ranges(family)]);
            let kubectl = server.kubectls().pop()?;
            let kubeconfig = server.kubeconfig();
            prepare(&kubectl);
            Some(Self::start("twinstack", server, kubectl, kubeconfig, None, platform, family))
        };
        [ours(), Self::real(platform, family, &prepare)].into_iter().flatten().collect()
    }

    fn real(platform: &str, family: &str, prepare: impl Fn(&Kubectl)) -> Option<Self> {
        KubeApiserver::program()?;
        // Only for its keys, and for a folder.
        let (server, etcd) = (Server::start(&[ranges(family)]), Etcd::start()?);
        let host = if family == "DualStackIPv6Primary" { "::1" } else { "127.0.0.1" };
        let peer = KubeApiserver::start(&server, &etcd, host, ranges(family))?;
        let (kubectl, kubeconfig) = (peer.kubectl.clone(), peer.kubeconfig.clone());
        prepare(&kubectl);
        Some(Self::start("kube-apiserver", server, kubectl, kubeconfig, Some((peer, etcd)), platform, family))
    }

    fn start(
        name: &'static str,
        server: Server,
        kubectl: Kubectl,
        kubeconfig: PathBuf,
        peer: Option<(KubeApiserver, Etcd)>,
        platform: &str,
        family: &str,
    ) -> Self {
        let kubeconfig = account::limited("ingress-operator", &kubectl, &kubeconfig);
        let words = [
            "ingress-operator",
            &format!("--kubeconfig={}", kubeconfig.display()),
            "--leader-elect=false",
            "--secure-port=0",
            "--dns-provider=lab",
        ];
        let operator = Process::start(twinstack(), &words, &server.folder().join("operator.log"));
        let cluster = Self { name, kubectl, operator, _server: server, _peer: peer };
        cluster.configure(platform, family);
        cluster
    }

    /// What the installer would write. The definitions are the operator's.
    fn configure(&self, platform: &str, family: &str) {
        let served = |list: &&str| self.get(&format!("/apis/{list}")).is_some();
        let ready = wait_for(PATIENCE, || INGRESS_LISTS.iter().all(&served).then_some(()));
        assert!(ready.is_some(), "{}", self.operator.output());
        let aws = json!({"region": "eu-west-1", "ipFamily": family});
        let platform_status = match platform {
            "AWS" => json!({"type": "AWS", "aws": aws}),
            other => json!({"type": other}),
        };
        let cluster = |kind: &str, spec: Value| json!({"apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": {"name": "cluster"}, "spec": spec});
        let nlb = json!({"platform": {"type": "AWS", "aws": {"type": "NLB"}}});
        let networks = json!({"clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}, {"cidr": "fd01::/48", "hostPrefix": 64}]});
        let zones =
            json!({"baseDomain": "example.test", "publicZone": {"id": "Z1"}, "privateZone": {"tags": {"Name": "int"}}});
        for (object, status) in [
            (cluster("Network", networks.clone()), networks),
            (cluster("DNS", zones), Value::Null),
            (
                cluster("Infrastructure", json!({"platformSpec": {"type": platform}})),
                json!({"platform": platform, "platformStatus": platform_status, "controlPlaneTopology": "HighlyAvailable",
                    "infrastructureTopology": "HighlyAvailable", "infrastructureName": "x", "apiServerURL": "", "apiServerInternalURI": ""}),
            ),
            (cluster("Ingress", json!({"domain": "apps.example.test", "loadBalancer": nlb})), Value::Null),
        ] {
            self.kubectl.ok_with(&["create", "-f", "-"], &object.to_string());
            let plural = match object["kind"].as_str().expect("a kind") {
                "DNS" => "dnses",
                "Ingress" => "ingresses",
                "Network" => "networks",
                _ => "infrastructures",
            };
            if !status.is_null() {
                self.set_status(&format!("/apis/config.openshift.io/v1/{plural}/cluster"), &status);
            }
        }
    }

    fn get(&self, path: &str) -> Option<Value> {
        let output = self.kubectl.run(&["get", "--raw", path]);
        output.success.then(|| serde_json::from_str(&output.stdout).expect("JSON"))
    }

    fn set_status(&self, path: &str, status: &Value) {
        // Kinds without a status of their own have it in the object.
        let has_own = !path.ends_with("networks/cluster");
        let written = wait_for(PATIENCE, || {
            let mut object = self.get(path)?;
            object["status"] = status.clone();
            let to = if has_own { format!("{path}/status") } else { path.to_owned() };
            self.kubectl.run_with(&["replace", "--raw", &to, "-f", "-"], &object.to_string()).success.then_some(())
        });
        assert!(written.is_some(), "{}: the status of {path} cannot be written", self.name);
    }

    fn service(&self, name: &str) -> Option<Value> {
        self.get(&format!("/api/v1/namespaces/{OPERAND}/services/{name}"))
    }

    fn deployment(&self, name: &str) -> Option<Value> {
        self.get(&format!("/apis/apps/v1/namespaces/{OPERAND}/deployments/{name}"))
    }

    /// What the cloud controller and the Deployment controller would do now for an IngressController.
    fn play_cloud(&self, controller: &str) {
        let name = format!("router-{controller}");
        if let Some(service) =
            self.service(&name).filter(|service| service["status"]["loadBalancer"]["ingress"].is_null())
        {
            let nlb =
                !service["metadata"]["annotations"]["service.beta.kubernetes.io/aws-load-balancer-type"].is_null();
            let host = format!("{}.elb.eu-west-1.example.test", if nlb { "nlb" } else { "classic" });
            self.set_status(
                &format!("/api/v1/namespaces/{OPERAND}/services/{name}"),
                &json!({"loadBalancer": {"ingress": [{"hostname": host}]}}),
            );
        }
        let Some(deployment) = self.deployment(&name) else { return };
        let (count, seen) = (&deployment["spec"]["replicas"], &deployment["metadata"]["generation"]);
        if deployment["status"]["observedGeneration"] != *seen {
            let status = json!({"observedGeneration": seen, "replicas": count, "updatedReplicas": count, "readyReplicas": count,
                "availableReplicas": count, "conditions": [{"type": "Available", "status": "True"}]});
            self.set_status(&format!("/apis/apps/v1/namespaces/{OPERAND}/deployments/{name}"), &status);
        }
    }

    fn controller(&self, name: &str) -> Value {
        let path = format!("/apis/operator.openshift.io/v1/namespaces/{OPERATOR}/ingresscontrollers/{name}");
        self.get(&path).unwrap_or_default()
    }

    /// Waits, playing the cloud, until a condition of an IngressController has a status; its message.
    fn until(&self, controller: &str, kind: &str, status: &str) -> String {
        let find = || {
            let object = self.controller(controller);
            let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            all.into_iter().find(|one| one["type"] == kind)
        };
        let found = wait_for(PATIENCE, || {
            self.play_cloud(controller);
            find()
                .filter(|one| one["status"] == status)
                .map(|one| one["message"].as_str().unwrap_or_default().to_owned())
        });
        found.unwrap_or_else(|| {
            panic!("{}: {kind} of {controller} is {:?}, not {status}\n{}", self.name, find(), self.operator.output())
        })
    }

    /// Waits until an answer is the wanted one.
    fn becomes<T: PartialEq + std::fmt::Debug>(&self, what: &str, wanted: T, ask: impl Fn() -> T) {
        let done = wait_for(PATIENCE, || (ask() == wanted).then_some(()));
        assert!(done.is_some(), "{}: {what} is {:?}, not {wanted:?}\n{}", self.name, ask(), self.operator.output());
    }

    fn environment(&self, deployment: &str, name: &str) -> Option<String> {
        let object = self.deployment(deployment)?;
        let all = object["spec"]["template"]["spec"]["containers"][0]["env"].as_array().cloned().unwrap_or_default();
        let found = all.into_iter().find(|variable| variable["name"] == name)?;
        Some(found["value"].as_str().unwrap_or_default().to_owned())
    }

    fn families(&self) -> (Value, Value) {
        let service = self.service("router-default").unwrap_or_default();
        (service["spec"]["ipFamilyPolicy"].clone(), service["spec"]["ipFamilies"].clone())
    }

    fn patch(&self, controller: &str, patch: &Value) {
        self.kubectl.ok(&[
            "-n",
            OPERATOR,
            "patch",
            "ingresscontroller",
            controller,
            "--type=merge",
            "-p",
            &patch.to_string(),
        ]);
    }
}

fn to(kind: &str) -> Value {
    json!({"spec": {"endpointPublishingStrategy": {"type": "LoadBalancerService", "loadBalancer": {
        "scope": "External", "dnsManagementPolicy": "Managed", "providerParameters": {"type": "AWS", "aws": {"type": kind}},
    }}}})
}

/// The four steps: 1. a NodePortService without a protocol; 2. the routers do not have `ROUTER_USE_PROXY_PROTOCOL=true`; 3. `protocol: PROXY` is
/// set; 4. the routers have it.
#[test]
fn proxy_protocol_is_configured_on_a_node_port_service() {
    for cluster in Cluster::all("None", "IPv4") {
        cluster.kubectl.run(&["create", "namespace", OPERATOR]);
        let object = |protocol: Value| {
            json!({"apiVersion": "operator.openshift.io/v1", "kind": "IngressController", "metadata": {"name": "np", "namespace": OPERATOR},
                "spec": {"domain": "np.example.test", "replicas": 1, "endpointPublishingStrategy": {"type": "NodePortService", "nodePort": protocol}}})
        };
        let refused = cluster.kubectl.fails(&["create", "-f", "-"], &object(json!({"protocol": "UDP"})).to_string());
        assert!(refused.contains("spec.endpointPublishingStrategy.nodePort.protocol"), "{refused}");
        // 1.
        cluster.kubectl.ok_with(&["create", "-f", "-"], &object(Value::Null).to_string());
        cluster.until("np", "Available", "True");
        // 2.
        assert_eq!(cluster.environment("router-np", "ROUTER_USE_PROXY_PROTOCOL"), None);
        assert_eq!(cluster.environment("router-np", "ROUTER_IP_V4_V6_MODE").as_deref(), Some("v4v6"));
        assert_eq!(cluster.controller("np")["status"]["endpointPublishingStrategy"]["nodePort"]["protocol"], "TCP");
        let service = cluster.service("router-nodeport-np").expect("a Service");
        // 3.
        cluster.patch("np", &json!({"spec": {"endpointPublishingStrategy": {"nodePort": {"protocol": "PROXY"}}}}));
        // 4.
        cluster.becomes("the variable", Some("true".to_owned()), || {
            cluster.environment("router-np", "ROUTER_USE_PROXY_PROTOCOL")
        });
        cluster.becomes("the protocol", json!("PROXY"), || {
            cluster.controller("np")["status"]["endpointPublishingStrategy"]["nodePort"]["protocol"].clone()
        });
        let after = cluster.service("router-nodeport-np").expect("a Service");
        assert_eq!(
            after["metadata"]["resourceVersion"], service["metadata"]["resourceVersion"],
            "the Service is not touched"
        );
        // Anybody may claim any address now, which is told; with senders that are named nobody else may.
        let told = || cluster.kubectl.ok(&["-n", OPERATOR, "get", "events", "-o", "jsonpath={.items[*].reason}"]);
        cluster.becomes("the warning", true, || told().contains("ProxyProtocolFromEverybody"));
        let trusted = |senders: Option<&str>| {
            let annotation = json!({"twinstack.dev/proxy-protocol-trusted-cidrs": senders});
            cluster.patch("np", &json!({"metadata": {"annotations": annotation}}));
        };
        let senders = || cluster.environment("router-np", "ROUTER_PROXY_PROTOCOL_TRUSTED_CIDRS");
        trusted(Some("192.0.2.0/24,2001:db8::/32"));
        cluster.becomes("the senders", Some("192.0.2.0/24,2001:db8::/32".to_owned()), senders);
        // What no router would start with is refused by its field, and the routers stay as they are.
        trusted(Some("everybody"));
        let message = cluster.until("np", "Admitted", "False");
        assert!(
            message.contains("metadata.annotations[twinstack.dev/proxy-protocol-trusted-cidrs]: \"everybody\""),
            "{message}"
        );
        assert_eq!(senders().as_deref(), Some("192.0.2.0/24,2001:db8::/32"));
        trusted(None);
        cluster.until("np", "Admitted", "True");
        cluster.becomes("no senders", None, senders);
        // And back: absent, not "false".
        cluster.patch("np", &json!({"spec": {"endpointPublishingStrategy": {"nodePort": {"protocol": ""}}}}));
        cluster.becomes("the variable", None, || cluster.environment("router-np", "ROUTER_USE_PROXY_PROTOCOL"));
        account::nothing_was_forbidden(&cluster.operator.output());
    }
}

/// [OCPFeatureGate:AWSDualStackInstall] IngressControllers with NLB are automatically configured with dual-stack IP address type, and the load
/// balancer Service is provisioned with correct `ipFamilies` and `ipFamilyPolicy`.
#[test]
fn dual_stack_nlb_service_has_the_families_of_the_cluster() {
    for (family, families) in
        [("DualStackIPv4Primary", json!(["IPv4", "IPv6"])), ("DualStackIPv6Primary", json!(["IPv6", "IPv4"]))]
    {
        for cluster in Cluster::all("AWS", family) {
            cluster.until("default", "LoadBalancerReady", "True");
            assert_eq!(cluster.families(), (json!("RequireDualStack"), families.clone()), "{}", cluster.name);
            let message = cluster.until("default", "LoadBalancerDualStack", "True");
            assert!(message.contains("nlb.elb.eu-west-1.example.test has both families"), "{message}");
            // The third step of the support procedure looks for it.
            let (read, output) = ("the IP family of load balancers was read", cluster.operator.output());
            assert!(output.lines().any(|line| line.contains(read) && line.contains(family)), "{output}");
            let service = cluster.service("router-default").expect("there");
            assert_eq!(service["metadata"]["annotations"]["service.beta.kubernetes.io/aws-load-balancer-type"], "nlb");
        }
    }
}

/// [OCPFeatureGate:AWSDualStackInstall] AWS NLB hostname is populated in service status, and DNS records of the wildcard domain point to it.
#[test]
fn dual_stack_wildcard_record_leads_to_the_nlb() {
    for cluster in Cluster::all("AWS", "DualStackIPv4Primary") {
        cluster.until("default", "DNSReady", "True");
        let path = format!("/apis/ingress.operator.openshift.io/v1/namespaces/{OPERATOR}/dnsrecords/default-wildcard");
        let record = cluster.get(&path).expect("a record");
        assert_eq!(record["spec"]["dnsName"], "*.apps.example.test.");
        assert_eq!(record["spec"]["targets"], json!(["nlb.elb.eu-west-1.example.test"]));
        let zones = record["status"]["zones"].as_array().expect("zones");
        assert_eq!(zones.len(), 2);
        for zone in zones {
            let condition = &zone["conditions"][0];
            assert_eq!(
                (&condition["type"], &condition["status"], &condition["reason"]),
                (&json!("Published"), &json!("True"), &json!("ProviderSuccess"))
            );
        }
    }
}

/// [OCPFeatureGate:AWSDualStackInstall] IngressControllers with CLB type fall back to IPv4-only: Progressing with the message, the live NLB untouched, the
/// Service recreated by the administrator, and Progressing back to False.
#[test]
fn dual_stack_classic_load_balancer_falls_back_to_ipv4() {
    for family in ["DualStackIPv4Primary", "DualStackIPv6Primary"] {
        for cluster in Cluster::all("AWS", family) {
            cluster.until("default", "Available", "True");
            let before = cluster.service("router-default").expect("there");
            cluster.patch("default", &to("Classic"));
            let message = cluster.until("default", "LoadBalancerProgressing", "True");
            for words in ["does not support dual-stack", family, "oc -n openshift-ingress delete svc/router-default"] {
                assert!(message.contains(words), "{message}");
            }
            cluster.until("default", "Progressing", "True");
            cluster.until("default", "Available", "True");
            let pending = cluster.service("router-default").expect("there");
            assert_eq!(pending["spec"], before["spec"], "{}: the live Service stays as it is", cluster.name);
            cluster.kubectl.ok(&["-n", OPERAND, "delete", "service", "router-default"]);
            cluster.until("default", "LoadBalancerDualStack", "False");
            cluster.until("default", "Progressing", "False");
            assert_eq!(cluster.families(), (json!("SingleStack"), json!(["IPv4"])), "{}", cluster.name);
            cluster.becomes("the variable", Some("true".to_owned()), || {
                cluster.environment("router-default", "ROUTER_USE_PROXY_PROTOCOL")
            });
            account::nothing_was_forbidden(&cluster.operator.output());
        }
    }
}

/// [OCPFeatureGate:AWSDualStackInstall] A cluster that was not installed with dual-stack networking keeps single-stack Services.
#[test]
fn a_cluster_without_dual_stack_keeps_its_single_stack_services() {
    for cluster in Cluster::all("AWS", "IPv4") {
        cluster.until("default", "LoadBalancerReady", "True");
        assert_eq!(cluster.families(), (json!("SingleStack"), json!(["IPv4"])), "the API server's defaults");
        let conditions = cluster.controller("default")["status"]["conditions"].to_string();
        assert!(!conditions.contains("LoadBalancerDualStack"), "{conditions}");
        cluster.patch("default", &to("Classic"));
        let message = cluster.until("default", "LoadBalancerProgressing", "True");
        assert!(!message.contains("dual-stack"), "{message}");
    }
}

/// [OCPFeatureGate:AWSDualStackInstall] Routers listen on both families, whatever the load balancer's first one is.
#[test]
fn dual_stack_routers_listen_on_both_families() {
    for family in ["DualStackIPv4Primary", "DualStackIPv6Primary"] {
        for cluster in Cluster::all("AWS", family) {
            cluster.becomes("the mode", Some("v4v6".to_owned()), || {
                cluster.environment("router-default", "ROUTER_IP_V4_V6_MODE")
            });
        }
    }
}

/// A NLB that is given PROXY and back: annotation and variable go together.
#[test]
fn the_protocol_of_an_nlb() {
    for cluster in Cluster::all("AWS", "DualStackIPv4Primary") {
        cluster.until("default", "Available", "True");
        let attributes = || {
            let service = cluster.service("router-default").unwrap_or_default();
            let key = "service.beta.kubernetes.io/aws-load-balancer-target-group-attributes";
            (
                service["metadata"]["annotations"][key]
                    .as_str()
                    .unwrap_or_default()
                    .contains("proxy_protocol_v2.enabled=true"),
                cluster.environment("router-default", "ROUTER_USE_PROXY_PROTOCOL"),
            )
        };
        assert_eq!(attributes(), (false, None));
        for (protocol, expected) in [("PROXY", (true, Some("true".to_owned()))), ("TCP", (false, None))] {
            let mut patch = to("NLB");
            patch["spec"]["endpointPublishingStrategy"]["loadBalancer"]["providerParameters"]["aws"]["networkLoadBalancer"] =
                json!({"protocol": protocol});
            cluster.patch("default", &patch);
            cluster.becomes(protocol, expected, attributes);
        }
    }
}

/// Taken away: the record first, then the rest, and a domain that is in use is refused.
#[test]
fn an_ingress_controller_goes_with_all_that_belongs_to_it() {
    for cluster in Cluster::all("AWS", "DualStackIPv4Primary") {
        cluster.until("default", "Available", "True");
        let second = |domain: &str| {
            let mut object = json!({"apiVersion": "operator.openshift.io/v1", "kind": "IngressController", "metadata": {"name": "second", "namespace": OPERATOR}});
            object["spec"] = to("NLB")["spec"].clone();
            object["spec"]["domain"] = json!(domain);
            object.to_string()
        };
        cluster.kubectl.ok_with(&["create", "-f", "-"], &second("apps.example.test"));
        let message = cluster.until("second", "Admitted", "False");
        assert!(message.contains("apps.example.test"), "{message}");
        cluster.kubectl.ok_with(&["apply", "-f", "-"], &second("second.example.test"));
        cluster.until("second", "Available", "True");
        let class = cluster.kubectl.ok(&["get", "ingressclass", "openshift-second", "-o", "jsonpath={.spec}"]);
        for words in ["openshift.io/ingress-to-route", "IngressController", "second"] {
            assert!(class.contains(words), "{class}");
        }
        // What somebody else has made of our name stays.
        let foreign = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "openshift-third"},
            "spec": {"controller": "example.test/other"}});
        cluster.kubectl.ok_with(&["create", "-f", "-"], &foreign.to_string());
        cluster.kubectl.ok(&["-n", OPERATOR, "delete", "ingresscontroller", "second", "--timeout=60s"]);
        assert!(cluster.service("router-second").is_none() && cluster.deployment("router-second").is_none());
        let records = cluster.kubectl.ok(&["-n", OPERATOR, "get", "dnsrecords", "-o", "name"]);
        assert!(records.contains("default-wildcard") && !records.contains("second-wildcard"), "{records}");
        let classes = cluster.kubectl.ok(&["get", "ingressclasses", "-o", "name"]);
        assert!(classes.contains("openshift-default") && !classes.contains("openshift-second"), "{classes}");
        let mut third = serde_json::from_str::<Value>(&second("third.example.test")).expect("JSON");
        third["metadata"]["name"] = json!("third");
        cluster.kubectl.ok_with(&["create", "-f", "-"], &third.to_string());
        let message = cluster.until("third", "Reconciled", "False");
        assert!(message.contains("openshift-third"), "{message}");
        cluster.kubectl.ok(&["-n", OPERATOR, "delete", "ingresscontroller", "third", "--timeout=60s"]);
        let classes =
            cluster.kubectl.ok(&["get", "ingressclass", "openshift-third", "-o", "jsonpath={.spec.controller}"]);
        assert_eq!(classes, "example.test/other");
        account::nothing_was_forbidden(&cluster.operator.output());
    }
}

/// A release that did not know `spec.httpCompression` was here before: the operator brings its definition up to date when it starts,
/// and what was made under the older one stays.
#[test]
fn an_older_definition_is_brought_up_to_date() {
    const CONTROLLERS: &str = "ingresscontrollers.operator.openshift.io";
    let compression = json!({"mimeTypes": ["text/html"]});
    let object = [CONTROLLERS, "older", "-n", OPERATOR];
    let older = |kubectl: &Kubectl| {
        let today = api::config::definitions_named(&[CONTROLLERS]).pop().expect("a definition");
        definition::make_older(kubectl, today, "twinstack-ingress-operator", "httpCompression");
        kubectl.ok(&["create", "namespace", OPERATOR]);
        let older = json!({"apiVersion": "operator.openshift.io/v1", "kind": "IngressController",
            "metadata": {"name": "older", "namespace": OPERATOR}, "spec": {"domain": "older.example.test", "replicas": 1}});
        kubectl.ok_with(&["create", "-f", "-"], &older.to_string());
        let known = definition::is_known(kubectl, &object, "httpCompression", &compression);
        assert!(!known, "the older definition does not have it");
    };
    for cluster in Cluster::prepared("None", "", older) {
        let is_known = || definition::is_known(&cluster.kubectl, &object, "httpCompression", &compression);
        assert!(wait_for(PATIENCE, || is_known().then_some(())).is_some(), "{}", cluster.operator.output());
        assert_eq!(cluster.controller("older")["spec"]["domain"], "older.example.test");
        account::nothing_was_forbidden(&cluster.operator.output());
    }
}
