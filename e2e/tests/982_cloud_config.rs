//! `twinstack cloud-config sync` as a program: ConfigMaps come, change, break and go, the process dies in between, and the
//! target is what `cloud-config transform` prints. The program has the rights that docs/guide/aws.md lists, and no others. What is written and watched is
//! also tried on a real kube-apiserver when `KUBE_APISERVER` names it.
#![allow(clippy::unwrap_used, reason = "a test may end where it fails")]

use e2e::{Etcd, KubeApiserver, Kubectl, Process, Server, free_port, run, twinstack, wait_for};
use serde_json::{Value, json};
use std::{path::PathBuf, time::Duration};

const PATIENCE: Duration = Duration::from_secs(60);
const TARGET: &str = "openshift-cloud-controller-manager";
const MANAGED: &str = "openshift-config-managed";
const NAMED: &str = "openshift-config";
const ACCOUNT: &str = "system:serviceaccount:openshift-cloud-controller-manager:cloud-config-sync";
const GATE: &str = "AWSServiceLBNetworkSecurityGroup";
/// Short enough that a test does not wait long for the lease of a process that was killed.
const LEASE: [&str; 3] =
    ["--leader-elect-lease-duration=2s", "--leader-elect-renew-deadline=1500ms", "--leader-elect-retry-period=100ms"];

/// What the program is allowed.
const RIGHTS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: cloud-config-sync}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [list, watch]}
- {apiGroups: [config.openshift.io], resources: [infrastructures, featuregates], verbs: [get]}
- {apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: cloud-config-sync, namespace: openshift-cloud-controller-manager}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [create, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: cloud-config-sync, namespace: kube-system}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: cloud-config-sync}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cloud-config-sync}
subjects: [{kind: ServiceAccount, name: cloud-config-sync, namespace: openshift-cloud-controller-manager}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: cloud-config-sync, namespace: openshift-cloud-controller-manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: cloud-config-sync}
subjects: [{kind: ServiceAccount, name: cloud-config-sync, namespace: openshift-cloud-controller-manager}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: cloud-config-sync, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: cloud-config-sync}
subjects: [{kind: ServiceAccount, name: cloud-config-sync, namespace: openshift-cloud-controller-manager}]
"#;

const RANGES: &str = "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112";

/// An API server and the administrator's kubectl. It stops with the handle.
struct Cluster {
    kubectl: Kubectl,
    kubeconfig: PathBuf,
    server: Server,
    _peer: Option<(KubeApiserver, Etcd)>,
}

impl Cluster {
    /// With OpenShift's definitions, its namespaces and the program's rights; `None` without kubectl.
    fn start() -> Option<Self> {
        let cluster = Self::without_namespaces()?;
        cluster.make_namespaces();
        Some(cluster)
    }

    /// The same on Twinstack's API server, and on the real one if it is named.
    fn all() -> Vec<Self> {
        let all: Vec<Self> = [Self::ours(), Self::real()].into_iter().flatten().collect();
        for cluster in &all {
            cluster.define();
            cluster.make_namespaces();
        }
        all
    }

    fn without_namespaces() -> Option<Self> {
        let cluster = Self::ours()?;
        cluster.define();
        Some(cluster)
    }

    fn ours() -> Option<Self> {
        let server = Server::start(&[RANGES]);
        Some(Self { kubectl: server.kubectls().pop()?, kubeconfig: server.kubeconfig(), server, _peer: None })
    }

    fn real() -> Option<Self> {
        KubeApiserver::program()?;
        // Only for its keys, and for a folder.
        let (server, etcd) = (Server::start(&[RANGES]), Etcd::start()?);
        let peer = KubeApiserver::start(&server, &etcd, "127.0.0.1", RANGES)?;
        let (kubectl, kubeconfig) = (peer.kubectl.clone(), peer.kubeconfig.clone());
        Some(Self { kubectl, kubeconfig, server, _peer: Some((peer, etcd)) })
    }

    /// OpenShift's definitions.
    fn define(&self) {
        for definition in [
            include_str!("../../crates/api/src/config/crds/infrastructures.yaml"),
            include_str!("../../crates/api/src/config/crds/featuregates.yaml"),
        ] {
            self.kubectl.ok_with(&["create", "-f", "-"], definition);
        }
        for kind in ["infrastructures", "featuregates"] {
            let served = wait_for(PATIENCE, || self.kubectl.run(&["get", kind]).success.then_some(()));
            assert!(served.is_some(), "{kind} are not served");
        }
    }

    fn make_namespaces(&self) {
        for namespace in [TARGET, MANAGED, NAMED] {
            self.kubectl.ok(&["create", "namespace", namespace]);
        }
        self.kubectl.ok_with(&["apply", "-f", "-"], RIGHTS);
    }

    /// Starts the program as its account.
    fn sync(&self, name: &str, flags: &[&str]) -> Process {
        let mut text = std::fs::read_to_string(&self.kubeconfig).unwrap();
        for (credential, between) in [("client-certificate-data:", "\n    "), ("token:", ", ")] {
            text = text.replacen(credential, &format!("as: '{ACCOUNT}'{between}{credential}"), 1);
        }
        assert_eq!(text.matches(ACCOUNT).count(), 1, "there is one user");
        let kubeconfig = self.server.folder().join("sync.kubeconfig");
        std::fs::write(&kubeconfig, text).unwrap();
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let words: Vec<&str> = ["cloud-config", "sync", &kubeconfig].into_iter().chain(flags.iter().copied()).collect();
        Process::start(twinstack(), &words, &self.server.folder().join(format!("{name}.log")))
    }

    /// Starts the program alone, without a lease and a port.
    fn sync_alone(&self, flags: &[&str]) -> Process {
        let words: Vec<&str> =
            ["--leader-elect=false", "--secure-port=0"].into_iter().chain(flags.iter().copied()).collect();
        self.sync("sync", &words)
    }

    /// Makes or replaces a ConfigMap as an administrator would.
    fn put(&self, namespace: &str, name: &str, data: &Value) {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data});
        if !self.kubectl.run_with(&["replace", "-f", "-"], &map.to_string()).success {
            self.kubectl.ok_with(&["create", "-f", "-"], &map.to_string());
        }
    }

    /// The text of the managed source.
    fn source(&self, text: &str) {
        self.put(MANAGED, "kube-cloud-config", &json!({"cloud.conf": text}));
    }

    fn target(&self) -> Option<Value> {
        let output = self.kubectl.run(&["-n", TARGET, "get", "configmap", "cloud-conf", "-o", "json"]);
        output.success.then(|| serde_json::from_str(&output.stdout).unwrap())
    }

    /// Until the target is as wanted.
    fn until(&self, sync: &Process, what: &str, mut wanted: impl FnMut(&Value) -> bool) -> Value {
        let found = wait_for(PATIENCE, || self.target().filter(|target| wanted(target)));
        found.unwrap_or_else(|| panic!("{what}: never\n{:#}\n{}", self.target().unwrap_or_default(), sync.output()))
    }

    /// Until the target is one file with exactly this text.
    fn until_text(&self, sync: &Process, text: &str) -> Value {
        self.until(sync, text, |target| target["data"] == json!({"cloud.conf": text}))
    }

    /// Until an event with this reason says this of an object.
    fn until_told(&self, sync: &Process, namespace: &str, object: &str, part: &str) {
        let field = format!("involvedObject.name={object},reason=CloudConfigInvalid");
        let words =
            ["-n", namespace, "get", "events", "--field-selector", &field, "-o", "jsonpath={.items[*].message}"];
        let told = wait_for(PATIENCE, || self.kubectl.ok(&words).contains(part).then_some(()));
        assert!(told.is_some(), "{part:?} is not told of {object}: {}\n{}", self.kubectl.ok(&words), sync.output());
    }

    /// An object `cluster` of config.openshift.io with this spec and status.
    fn cluster(&self, kind: &str, plural: &str, spec: &Value, status: &Value) {
        let path = format!("/apis/config.openshift.io/v1/{plural}");
        let mut object = json!({"apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": {"name": "cluster"}, "spec": spec});
        self.kubectl.ok_with(&["apply", "-f", "-"], &object.to_string());
        let stored: Value =
            serde_json::from_str(&self.kubectl.ok(&["get", "--raw", &format!("{path}/cluster")])).unwrap();
        (object["metadata"], object["status"]) = (stored["metadata"].clone(), status.clone());
        self.kubectl.ok_with(&["replace", "--raw", &format!("{path}/cluster/status"), "-f", "-"], &object.to_string());
    }

    /// The versions for which the gate is open, and those for which it is closed.
    fn gates(&self, open: &[&str], closed: &[&str]) {
        let gates = |version: &&str, open: bool| {
            let (named, none) = (json!([{"name": GATE}]), json!([]));
            let (enabled, disabled) = if open { (named, none) } else { (none, named) };
            json!({"version": version, "enabled": enabled, "disabled": disabled})
        };
        let all: Vec<Value> = open
            .iter()
            .map(|version| gates(version, true))
            .chain(closed.iter().map(|version| gates(version, false)))
            .collect();
        self.cluster("FeatureGate", "featuregates", &json!({}), &json!({"featureGates": all}));
    }

    fn infrastructure(&self, platform: &str, name: &str, key: &str) {
        let spec = json!({"platformSpec": {"type": platform}, "cloudConfig": {"name": name, "key": key}});
        let status = json!({"platform": platform, "platformStatus": {"type": platform}, "controlPlaneTopology": "HighlyAvailable",
            "infrastructureTopology": "HighlyAvailable", "infrastructureName": "x", "apiServerURL": "", "apiServerInternalURI": ""});
        self.cluster("Infrastructure", "infrastructures", &spec, &status);
    }

    /// Nothing that is missing in the rights.
    fn nothing_was_forbidden(sync: &Process) {
        assert!(!sync.output().contains("orbidden"), "{}", sync.output());
    }
}

/// What `cloud-config transform` prints for a text.
fn transformed(cluster: &Cluster, text: &str, gate: bool) -> String {
    let file = cluster.server.folder().join("source.conf");
    std::fs::write(&file, text).unwrap();
    let output = run(&[
        "cloud-config",
        "transform",
        &format!("--cloud-config={}", file.display()),
        &format!("--feature-gates={GATE}={gate}"),
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What the cloud controller manager would do for a Service with this text as its file.
fn plan(cluster: &Cluster, text: &str, families: &[&str]) -> String {
    let policy = if families.len() == 2 { "RequireDualStack" } else { "SingleStack" };
    let service = json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "00000000-1111-2222-3333-444455556666",
            "annotations": {"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"}},
        "spec": {"type": "LoadBalancer", "ipFamilies": families, "ipFamilyPolicy": policy,
            "ports": [{"name": "http", "port": 80, "nodePort": 30080, "protocol": "TCP"}]},
    });
    let account = json!({
        "subnets": [{"id": "subnet-1", "vpc": "vpc-1", "zone": "eu-west-1a", "ipv4": "10.0.0.0/24", "ipv6": ["2001:db8::/64"],
            "free_ipv4": 200, "tags": {"kubernetes.io/cluster/lab": "owned"}}],
        "route_tables": [{"id": "rtb-1", "vpc": "vpc-1", "main": true, "routes": [
            {"to": "0.0.0.0/0", "via": {"gateway": "igw-1"}}, {"to": "::/0", "via": {"gateway": "igw-1"}}]}],
        "zones": [{"name": "eu-west-1a", "kind": "availability-zone"}],
        "instances": {},
    });
    let folder = cluster.server.folder();
    let files =
        [("service.json", service.to_string()), ("account.json", account.to_string()), ("cloud.conf", text.to_owned())];
    let [service, account, config] = files.map(|(name, text)| {
        std::fs::write(folder.join(name), text).unwrap();
        folder.join(name).display().to_string()
    });
    let output =
        run(&["cloud-controller-manager", "plan", "-f", &service, "--observed", &account, "--cloud-config", &config]);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const DEFAULTS: &str = "[Global]\n\
    DisableSecurityGroupIngress                     = false\n\
    ClusterServiceLoadBalancerHealthProbeMode       = Shared\n\
    ClusterServiceSharedLoadBalancerHealthProbePort = 0\n";
const MANAGED_LINE: &str = "NLBSecurityGroupMode                            = Managed\n";

/// What the administrator writes, and what the target is with the gate closed; open, the mode stands after the known keys of Global.
const TEXTS: &[(&str, &str)] = &[
    ("", DEFAULTS),
    ("[Global]\n", DEFAULTS),
    (
        "[Global]\nDisableSecurityGroupIngress = true\nZone                        = us-west-2a\n",
        "[Global]\n\
         Zone                                            = us-west-2a\n\
         DisableSecurityGroupIngress                     = true\n\
         ClusterServiceLoadBalancerHealthProbeMode       = Shared\n\
         ClusterServiceSharedLoadBalancerHealthProbePort = 0\n",
    ),
    (
        "[Global]\nZone = us-west-2a\n\
         [ServiceOverride \"2\"]\nService = s3\nRegion = us-west-1\nURL = https://[2001:db8::1]\nSigningRegion = r\n\
         [ServiceOverride \"1\"]\nService = ec2\nRegion = us-west-2\nURL = https://192.0.2.1\nSigningRegion = r\n",
        "[Global]\n\
         Zone                                            = us-west-2a\n\
         DisableSecurityGroupIngress                     = false\n\
         ClusterServiceLoadBalancerHealthProbeMode       = Shared\n\
         ClusterServiceSharedLoadBalancerHealthProbePort = 0\n\n\
         [ServiceOverride \"1\"]\n\
         Service       = ec2\nRegion        = us-west-2\nURL           = https://192.0.2.1\nSigningRegion = r\n\n\
         [ServiceOverride \"2\"]\n\
         Service       = s3\nRegion        = us-west-1\nURL           = https://[2001:db8::1]\nSigningRegion = r\n",
    ),
    (
        "[Global]\nClusterServiceLoadBalancerHealthProbeMode = ServiceNodePort\nVPC = vpc-1\n",
        "[Global]\n\
         VPC                                             = vpc-1\n\
         DisableSecurityGroupIngress                     = false\n\
         ClusterServiceLoadBalancerHealthProbeMode       = ServiceNodePort\n\
         ClusterServiceSharedLoadBalancerHealthProbePort = 0\n",
    ),
    (
        "[Global]\nNodeIPFamilies = ipv4\n",
        "[Global]\n\
         DisableSecurityGroupIngress                     = false\n\
         NodeIPFamilies                                  = ipv4\n\
         ClusterServiceLoadBalancerHealthProbeMode       = Shared\n\
         ClusterServiceSharedLoadBalancerHealthProbePort = 0\n",
    ),
    (
        "[Global]\nNodeIPFamilies = ipv6\n",
        "[Global]\n\
         DisableSecurityGroupIngress                     = false\n\
         NodeIPFamilies                                  = ipv6\n\
         ClusterServiceLoadBalancerHealthProbeMode       = Shared\n\
         ClusterServiceSharedLoadBalancerHealthProbePort = 0\n",
    ),
    (
        "[Global]\nNodeIPFamilies = ipv4\nNodeIPFamilies = ipv6\n",
        "[Global]\n\
         DisableSecurityGroupIngress                     = false\n\
         NodeIPFamilies                                  = ipv4\n\
         NodeIPFamilies                                  = ipv6\n\
         ClusterServiceLoadBalancerHealthProbeMode       = Shared\n\
         ClusterServiceSharedLoadBalancerHealthProbePort = 0\n",
    ),
    (
        "global:\n  nodeIPFamilies: [ipv6, ipv4]\n",
        "[Global]\n\
         DisableSecurityGroupIngress                     = false\n\
         NodeIPFamilies                                  = ipv6\n\
         NodeIPFamilies                                  = ipv4\n\
         ClusterServiceLoadBalancerHealthProbeMode       = Shared\n\
         ClusterServiceSharedLoadBalancerHealthProbePort = 0\n",
    ),
    (
        "[Global]\nMystery = a;b\nVPC = vpc-1 ; here\n[Riddle \"x\"]\nAnswer = 42\n",
        "[Global]\n\
         VPC                                             = vpc-1\n\
         DisableSecurityGroupIngress                     = false\n\
         ClusterServiceLoadBalancerHealthProbeMode       = Shared\n\
         ClusterServiceSharedLoadBalancerHealthProbePort = 0\n\
         Mystery                                         = a\n\n\
         [Riddle \"x\"]\n\
         Answer = 42\n",
    ),
];

/// The same text with the gate open.
fn with_gate(text: &str) -> String {
    let last = "ClusterServiceSharedLoadBalancerHealthProbePort = 0\n";
    text.replacen(last, &format!("{last}{MANAGED_LINE}"), 1)
}

#[test]
fn every_text_becomes_what_the_transformer_prints_and_the_manager_reads() {
    let Some(cluster) = Cluster::start() else { return };
    let sync = cluster.sync_alone(&[]);
    // Nothing is there at all: the defaults.
    cluster.until_text(&sync, DEFAULTS);
    for gate in [false, true] {
        let (open, closed) = (["4.20"], ["4.20"]);
        cluster.gates(&open[..usize::from(gate)], &closed[..usize::from(!gate)]);
        for (text, closed) in TEXTS {
            let expected = if gate { with_gate(closed) } else { (*closed).to_owned() };
            cluster.source(text);
            // A target of before may have the same text: it has to be made anew, from the source of now.
            let uid = cluster.target().map(|target| target["metadata"]["uid"].clone());
            cluster.kubectl.ok(&["-n", TARGET, "delete", "configmap", "cloud-conf", "--ignore-not-found"]);
            cluster.until(&sync, &expected, |target| {
                Some(&target["metadata"]["uid"]) != uid.as_ref() && target["data"] == json!({"cloud.conf": expected})
            });
            assert_eq!(transformed(&cluster, text, gate), expected, "{text}");
            assert_eq!(transformed(&cluster, &expected, gate), expected, "once more changes nothing");
            for families in [&["IPv4"][..], &["IPv4", "IPv6"], &["IPv6", "IPv4"]] {
                let steps = plan(&cluster, &expected, families);
                assert_eq!(steps.contains("create security group"), gate, "{expected}\n{steps}");
            }
        }
    }
    let unknown = sync.output().matches("[Global] Mystery is not known and does nothing").count();
    assert!((1..=4).contains(&unknown), "told when it comes, and not again and again: {unknown}\n{}", sync.output());
    Cluster::nothing_was_forbidden(&sync);
}

#[test]
fn what_others_do_to_the_target_is_put_right() {
    for cluster in Cluster::all() {
        cluster.source("[Global]\nVPC = vpc-1\n");
        let text =
            DEFAULTS.replacen("[Global]\n", "[Global]\nVPC                                             = vpc-1\n", 1);
        let sync = cluster.sync_alone(&[]);
        let made = cluster.until_text(&sync, &text);
        let patch = |patch: Value| {
            cluster.kubectl.ok(&[
                "-n",
                TARGET,
                "patch",
                "configmap",
                "cloud-conf",
                "--type=merge",
                "-p",
                &patch.to_string(),
            ])
        };
        for change in [
            json!({"data": {"cloud.conf": "[Global]\n"}}),
            json!({"data": {"cloud.conf": null}}),
            json!({"data": {"more": "x"}, "metadata": {"labels": {"mine": "yes"}}}),
            json!({"data": null}),
            json!({"binaryData": {"bytes": "/w=="}}),
        ] {
            patch(change);
            let target = cluster.until(&sync, "put right", |target| {
                target["data"] == json!({"cloud.conf": text}) && target["binaryData"].is_null()
            });
            assert_eq!(target["metadata"]["uid"], made["metadata"]["uid"]);
        }
        assert_eq!(
            cluster.target().unwrap()["metadata"]["labels"],
            json!({"mine": "yes"}),
            "what is not its own is left"
        );
        // One that cannot be changed any more is made anew, as is one that is gone.
        patch(json!({"immutable": true, "data": {"cloud.conf": "[Global]\n"}}));
        let anew = cluster.until_text(&sync, &text);
        assert_ne!(anew["metadata"]["uid"], made["metadata"]["uid"]);
        assert!(anew["immutable"].is_null());
        cluster.kubectl.ok(&["-n", TARGET, "delete", "configmap", "cloud-conf"]);
        cluster.until_text(&sync, &text);
    }
}

#[test]
fn it_waits_for_its_rights_and_its_namespaces() {
    let Some(cluster) = Cluster::without_namespaces() else { return };
    let mut sync = cluster.sync_alone(&[]);
    let refused = wait_for(PATIENCE, || sync.output().contains("orbidden").then_some(()));
    assert!(refused.is_some(), "{}", sync.output());
    cluster.make_namespaces();
    cluster.until_text(&sync, DEFAULTS);
    assert!(sync.terminate(PATIENCE).unwrap().success(), "{}", sync.output());
}

#[test]
fn a_broken_source_leaves_the_target_and_says_why() {
    for cluster in Cluster::all() {
        cluster.source("[Global]\nNodeIPFamilies = ipv6\nNodeIPFamilies = ipv4\n");
        let sync = cluster.sync_alone(&[]);
        let good =
            cluster.until(&sync, "made", |target| target["data"]["cloud.conf"].as_str().unwrap().contains("= ipv6"));
        for (text, why) in [
            (
                "[Global]\nVPC = \"vpc-2\n",
                "cloud.conf is not accepted: line 2: a quote is not closed; cloud-conf is left as it is",
            ),
            ("VPC = vpc-2\n", "line 1: \"VPC = vpc-2\" stands before any section"),
            (
                "[Global]\nNLBSecurityGroupMode = managed\n",
                "NLBSecurityGroupMode: \"managed\" is not accepted; did you mean \"Managed\"?",
            ),
            ("[Global]\nNodeIPFamilies = ipv4,ipv6\n", "NodeIPFamilies: \"ipv4,ipv6\" is no family"),
            ("[Global]\nNodeIPFamilies = ipv6\nNodeIPFamilies = ipv6\n", "NodeIPFamilies: \"ipv6\" is given twice"),
        ] {
            cluster.source(text);
            cluster.until_told(&sync, MANAGED, "kube-cloud-config", why);
            assert_eq!(cluster.target().unwrap(), good, "{text}");
        }
        // Bytes are no text.
        cluster.kubectl.ok(&["-n", MANAGED, "delete", "configmap", "kube-cloud-config"]);
        let bytes = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-cloud-config", "namespace": MANAGED},
        "binaryData": {"cloud.conf": "/w=="}});
        cluster.kubectl.ok_with(&["create", "-f", "-"], &bytes.to_string());
        cluster.until_told(
            &sync,
            MANAGED,
            "kube-cloud-config",
            "has cloud.conf in binaryData; it has to be text, in data",
        );
        cluster.source("[Global]\nVPC = vpc-3\n");
        cluster.until(&sync, "mended", |target| target["data"]["cloud.conf"].as_str().unwrap().contains("vpc-3"));
        // With a broken source it starts, and leaves what is there.
        cluster.source("[Global\n");
        cluster.until_told(&sync, MANAGED, "kube-cloud-config", "the section has no closing bracket");
        drop(sync);
        let before = cluster.target().unwrap();
        let sync = cluster.sync_alone(&[]);
        let seen = wait_for(PATIENCE, || sync.output().contains("no closing bracket").then_some(()));
        assert!(seen.is_some(), "{}", sync.output());
        assert_eq!(cluster.target().unwrap(), before);
        Cluster::nothing_was_forbidden(&sync);
    }
}

#[test]
fn the_source_is_chosen_as_upstream_chooses_it_and_all_of_it_goes_along() {
    for cluster in Cluster::all() {
        cluster.infrastructure("AWS", "mine", "config");
        let sync = cluster.sync_alone(&[]);
        let holds = |part: &'static str| {
            move |target: &Value| target["data"]["cloud.conf"].as_str().is_some_and(|text| text.contains(part))
        };
        // What is named is not there: nothing is made, and the Infrastructure has an event.
        cluster.until_told(
            &sync,
            "default",
            "cluster",
            "ConfigMap mine that the Infrastructure names is not in openshift-config",
        );
        assert_eq!(cluster.target(), None);
        cluster.put(NAMED, "mine", &json!({"other": "x"}));
        cluster.until_told(
            &sync,
            NAMED,
            "mine",
            "ConfigMap mine has no key config, which the Infrastructure names, and no cloud.conf",
        );
        assert_eq!(cluster.target(), None);
        cluster.put(NAMED, "mine", &json!({"config": "[Global]\nVPC = vpc-1\n", "ca-bundle.pem": "one"}));
        let target = cluster.until(&sync, "the named one", holds("vpc-1"));
        let keys: Vec<&String> = target["data"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["ca-bundle.pem", "cloud.conf"]);
        assert_eq!(target["data"]["ca-bundle.pem"], "one");
        cluster.put(
            NAMED,
            "mine",
            &json!({"config": "[Global]\nVPC = vpc-1\n", "cloud.conf": "[Global]\nVPC = vpc-2\n"}),
        );
        let target = cluster.until(&sync, "cloud.conf wins", holds("vpc-2"));
        assert!(target["data"]["ca-bundle.pem"].is_null(), "{target:#}");
        cluster.put(
            MANAGED,
            "kube-cloud-config",
            &json!({"cloud.conf": "[Global]\nVPC = vpc-3\n", "ca-bundle.pem": "two"}),
        );
        let target = cluster.until(&sync, "the managed one wins", holds("vpc-3"));
        assert_eq!(target["data"]["ca-bundle.pem"], "two");
        // Sources go, one after the other; what is left of them counts.
        cluster.kubectl.ok(&["-n", MANAGED, "delete", "configmap", "kube-cloud-config"]);
        let before = cluster.until(&sync, "the named one again", holds("vpc-2"));
        cluster.kubectl.ok(&["-n", NAMED, "delete", "configmap", "mine"]);
        let told =
            wait_for(PATIENCE, || (sync.output().matches("is not in openshift-config").count() > 1).then_some(()));
        assert!(told.is_some(), "{}", sync.output());
        assert_eq!(cluster.target().unwrap(), before, "one that is named and gone leaves the target");
        // On another platform the target is somebody else's.
        cluster.infrastructure("Azure", "", "");
        cluster.source("[Global]\nVPC = vpc-9\n");
        let told = wait_for(PATIENCE, || sync.output().contains("the platform is Azure and not AWS").then_some(()));
        assert!(told.is_some(), "{}", sync.output());
        assert_eq!(cluster.target().unwrap(), before);
        Cluster::nothing_was_forbidden(&sync);
    }
}

#[test]
fn the_gate_of_the_right_version_counts() {
    let Some(cluster) = Cluster::start() else { return };
    let managed = with_gate(DEFAULTS);
    cluster.gates(&["4.21"], &["4.20"]);
    for (release, expected) in
        [("4.20", DEFAULTS), ("4.21", &managed), ("4.22", DEFAULTS), ("4.21", &managed), ("", DEFAULTS)]
    {
        let flag = format!("--release-version={release}");
        let flags = [flag.as_str()];
        let sync = cluster.sync_alone(if release.is_empty() { &[] } else { &flags });
        cluster.until_text(&sync, expected);
    }
    // Without a restart and without a change of the source it is looked at every minute.
    let sync = cluster.sync_alone(&[]);
    cluster.until_text(&sync, DEFAULTS);
    cluster.gates(&["4.20", "4.21"], &[]);
    let taken = wait_for(PATIENCE * 2, || cluster.target().filter(|target| target["data"]["cloud.conf"] == managed));
    assert!(taken.is_some(), "{}", sync.output());
}

#[test]
fn it_is_killed_and_another_goes_on_and_health_is_told() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.source("[Global]\nVPC = vpc-1\n");
    let ports = [free_port(), free_port()];
    let start = |name: &str, port: u16| {
        let port = format!("--secure-port={port}");
        let flags: Vec<&str> = LEASE.into_iter().chain([port.as_str()]).collect();
        cluster.sync(name, &flags)
    };
    let holds = |part: &'static str| {
        move |target: &Value| target["data"]["cloud.conf"].as_str().is_some_and(|text| text.contains(part))
    };
    let mut first = start("first", ports[0]);
    cluster.until(&first, "made", holds("vpc-1"));
    let mut second = start("second", ports[1]);
    for host in ["127.0.0.1", "[::1]"] {
        for port in ports {
            for (path, part) in [("/healthz", "ok"), ("/livez", "ok"), ("/readyz", "ok"), ("/metrics", "# TYPE")] {
                let server = format!("--server=https://{host}:{port}");
                let words = [server.as_str(), "--insecure-skip-tls-verify", "get", "--raw", path];
                let answer = wait_for(PATIENCE, || Some(cluster.kubectl.run(&words)).filter(|answer| answer.success));
                let answer = answer.unwrap_or_else(|| panic!("{server}{path}: {}", cluster.kubectl.run(&words).stderr));
                assert!(answer.stdout.contains(part), "{server}{path}: {}", answer.stdout);
            }
        }
    }
    assert!(!second.output().contains("leads"), "one of them works: {}", second.output());
    // Killed with a change that nobody has seen; the other has it when it leads.
    first.kill();
    cluster.source("[Global]\nVPC = vpc-2\n");
    cluster.until(&second, "the second goes on", holds("vpc-2"));
    // Nobody runs: everything changes.
    assert!(second.terminate(PATIENCE).unwrap().success(), "{}", second.output());
    cluster.source("[Global]\nVPC = vpc-3\n");
    cluster.kubectl.ok(&["-n", TARGET, "delete", "configmap", "cloud-conf"]);
    let third = start("third", ports[0]);
    let made = cluster.until(&third, "the third goes on", holds("vpc-3"));
    // Nothing to do is nothing done.
    drop(third);
    let fourth = start("fourth", ports[0]);
    let leads = wait_for(PATIENCE, || fourth.output().contains("leads").then_some(()));
    assert!(leads.is_some(), "{}", fourth.output());
    cluster.put(NAMED, "unrelated", &json!({"a": "b"}));
    cluster.source("[Global]\nVPC = vpc-3 ; the same\n");
    cluster.put(MANAGED, "marker", &json!({"a": "b"}));
    cluster.source("[Global]\nVPC = vpc-4\n");
    let after = cluster.until(&fourth, "the fourth goes on", holds("vpc-4"));
    assert_eq!(fourth.output().matches("cloud-config written").count(), 1, "{}", fourth.output());
    assert_eq!(after["metadata"]["uid"], made["metadata"]["uid"]);
    for sync in [&first, &second, &fourth] {
        Cluster::nothing_was_forbidden(sync);
    }
}
