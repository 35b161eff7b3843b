//! An API server with OpenShift's kinds, the program, and what an administrator does.

use e2e::{Etcd, KubeApiserver, Kubectl, Process, Server, account, twinstack, wait_for};
use serde_json::{Value, json};
use std::{path::PathBuf, time::Duration};

pub(super) const PATIENCE: Duration = Duration::from_secs(60);
pub(super) const TARGET: &str = "openshift-cloud-controller-manager";
pub(super) const MANAGED: &str = "openshift-config-managed";
pub(super) const NAMED: &str = "openshift-config";
const ACCOUNT: &str = "system:serviceaccount:kube-system:cloud-config-sync";
pub(super) const GATE: &str = "AWSServiceLBNetworkSecurityGroup";
/// Short enough that a test does not wait long for the lease of a process that was killed.
pub(super) const LEASE: [&str; 3] =
    ["--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=5s", "--leader-elect-retry-period=200ms"];

const RANGES: &str = "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112";

/// An API server and the administrator's kubectl. It stops with the handle.
pub(super) struct Cluster {
    pub(super) kubectl: Kubectl,
    kubeconfig: PathBuf,
    pub(super) server: Server,
    _peer: Option<(KubeApiserver, Etcd)>,
}

impl Cluster {
    /// With OpenShift's definitions, its namespaces and the program's rights; `None` without kubectl.
    pub(super) fn start() -> Option<Self> {
        let cluster = Self::without_namespaces()?;
        cluster.make_namespaces();
        Some(cluster)
    }

    /// The same on Twinstack's API server, and on the real one if it is named.
    pub(super) fn all() -> Vec<Self> {
        let all = Self::all_without_kinds();
        all.iter().for_each(Self::define);
        all
    }

    /// The same without OpenShift's definitions.
    pub(super) fn all_without_kinds() -> Vec<Self> {
        let all: Vec<Self> = [Self::ours(), Self::real()].into_iter().flatten().collect();
        all.iter().for_each(Self::make_namespaces);
        all
    }

    pub(super) fn without_namespaces() -> Option<Self> {
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
    pub(super) fn define(&self) {
        for definition in [
            include_str!("../../../../crates/api/src/config/crds/infrastructures.yaml"),
            include_str!("../../../../crates/api/src/config/crds/featuregates.yaml"),
        ] {
            self.kubectl.ok_with(&["create", "-f", "-"], definition);
        }
        for kind in ["infrastructures", "featuregates"] {
            let served = wait_for(PATIENCE, || self.kubectl.run(&["get", kind]).success.then_some(()));
            assert!(served.is_some(), "{kind} are not served");
        }
    }

    pub(super) fn make_namespaces(&self) {
        // The target's namespace is one of the manifests.
        for namespace in [MANAGED, NAMED] {
            self.kubectl.ok(&["create", "namespace", namespace]);
        }
        account::limited("cloud-config-sync", &self.kubectl, &self.kubeconfig);
    }

    /// Starts the program as its account.
    pub(super) fn sync(&self, name: &str, flags: &[&str]) -> Process {
        let kubeconfig = account::acting_as(ACCOUNT, "sync", &self.kubeconfig);
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let words: Vec<&str> = ["cloud-config", "sync", &kubeconfig].into_iter().chain(flags.iter().copied()).collect();
        Process::start(twinstack(), &words, &self.server.folder().join(format!("{name}.log")))
    }

    /// Starts the program alone, without a lease and a port.
    pub(super) fn sync_alone(&self, flags: &[&str]) -> Process {
        let words: Vec<&str> =
            ["--leader-elect=false", "--secure-port=0"].into_iter().chain(flags.iter().copied()).collect();
        self.sync("sync", &words)
    }

    /// Makes or replaces a ConfigMap as an administrator would.
    pub(super) fn put(&self, namespace: &str, name: &str, data: &Value) {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data});
        if !self.kubectl.run_with(&["replace", "-f", "-"], &map.to_string()).success {
            self.kubectl.ok_with(&["create", "-f", "-"], &map.to_string());
        }
    }

    /// The text of the managed source.
    pub(super) fn source(&self, text: &str) {
        self.put(MANAGED, "kube-cloud-config", &json!({"cloud.conf": text}));
    }

    pub(super) fn target(&self) -> Option<Value> {
        let output = self.kubectl.run(&["-n", TARGET, "get", "configmap", "cloud-conf", "-o", "json"]);
        output.success.then(|| serde_json::from_str(&output.stdout).unwrap())
    }

    /// Until the target is as wanted.
    pub(super) fn until(&self, sync: &Process, what: &str, mut wanted: impl FnMut(&Value) -> bool) -> Value {
        let found = wait_for(PATIENCE, || self.target().filter(|target| wanted(target)));
        found.unwrap_or_else(|| panic!("{what}: never\n{:#}\n{}", self.target().unwrap_or_default(), sync.output()))
    }

    /// Until the target is one file with exactly this text.
    pub(super) fn until_text(&self, sync: &Process, text: &str) -> Value {
        self.until(sync, text, |target| target["data"] == json!({"cloud.conf": text}))
    }

    /// Until an event with this reason says this of an object.
    pub(super) fn until_told(&self, sync: &Process, namespace: &str, object: &str, part: &str) {
        let field = format!("involvedObject.name={object},reason=CloudConfigInvalid");
        let words =
            ["-n", namespace, "get", "events", "--field-selector", &field, "-o", "jsonpath={.items[*].message}"];
        let reported = wait_for(PATIENCE, || self.kubectl.ok(&words).contains(part).then_some(()));
        assert!(reported.is_some(), "{part:?} is not told of {object}: {}\n{}", self.kubectl.ok(&words), sync.output());
    }

    /// An object `cluster` of config.openshift.io with this spec and status.
    pub(super) fn cluster(&self, kind: &str, plural: &str, spec: &Value, status: &Value) {
        let path = format!("/apis/config.openshift.io/v1/{plural}");
        let mut object = json!({"apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": {"name": "cluster"}, "spec": spec});
        self.kubectl.ok_with(&["apply", "-f", "-"], &object.to_string());
        let stored: Value =
            serde_json::from_str(&self.kubectl.ok(&["get", "--raw", &format!("{path}/cluster")])).unwrap();
        (object["metadata"], object["status"]) = (stored["metadata"].clone(), status.clone());
        self.kubectl.ok_with(&["replace", "--raw", &format!("{path}/cluster/status"), "-f", "-"], &object.to_string());
    }

    /// The versions for which the gate is open, and those for which it is closed.
    pub(super) fn gates(&self, open: &[&str], closed: &[&str]) {
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

    pub(super) fn infrastructure(&self, platform: &str, name: &str, key: &str) {
        let spec = json!({"platformSpec": {"type": platform}, "cloudConfig": {"name": name, "key": key}});
        let status = json!({"platform": platform, "platformStatus": {"type": platform}, "controlPlaneTopology": "HighlyAvailable",
            "infrastructureTopology": "HighlyAvailable", "infrastructureName": "x", "apiServerURL": "", "apiServerInternalURI": ""});
        self.cluster("Infrastructure", "infrastructures", &spec, &status);
    }
}
