//! Quotas, limit ranges, preemption, taints, autoscalers and what hollow nodes say, on `twinstack up` with every kubectl there is,
//! through a kill of everything.

use e2e::{Kubectl, Process, free_port, twinstack, wait_for};
use std::{path::PathBuf, time::Duration};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(120);

/// `twinstack up` with two hollow nodes at a port that stays; it stops and its folder goes with the handle.
struct Cluster {
    process: Process,
    folder: TempDir,
    port: u16,
}

impl Cluster {
    fn up() -> Self {
        let (folder, port) = (tempfile::tempdir().expect("a folder can be made"), free_port());
        let process = Self::launch(&folder, port);
        let cluster = Self { process, folder, port };
        cluster.wait_ready();
        cluster
    }

    fn launch(folder: &TempDir, port: u16) -> Process {
        let data = format!("--data-dir={}", folder.path().join("data").display());
        let port = format!("--secure-port={port}");
        let config = folder.path().join("up.yaml");
        std::fs::write(&config, "horizontal-pod-autoscaler-sync-period: 1s\n").expect("a file can be written");
        let config = format!("--config={}", config.display());
        let words = ["up", &config, "--bind-address=127.0.0.1,::1", &port, "--dns-port=0", "--hollow-nodes=2", &data];
        Process::start(twinstack(), &words, &folder.path().join("up.log"))
    }

    fn wait_ready(&self) {
        let ready = wait_for(PATIENCE, || {
            self.process.output().contains("Twinstack is up").then_some(()).filter(|()| self.kubeconfig().exists())
        });
        assert!(ready.is_some(), "it did not come up:\n{}", self.process.output());
    }

    /// API server and controllers at once.
    fn kill_and_start(&mut self) {
        self.process.kill();
        self.process = Self::launch(&self.folder, self.port);
        self.wait_ready();
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("data/admin.kubeconfig")
    }
}

fn becomes(kubectl: &Kubectl, words: &[&str], expected: impl Fn(&str) -> bool) -> String {
    let mut last = String::new();
    let found = wait_for(PATIENCE, || {
        last = kubectl.run(words).stdout;
        expected(last.trim()).then_some(())
    });
    assert!(found.is_some(), "kubectl {} {words:?} never says so, but {last:?}", kubectl.version);
    last
}

fn apply(kubectl: &Kubectl, object: &str) {
    kubectl.ok_with(&["apply", "-f", "-"], object);
}

const USED: &str = "jsonpath={.status.used.pods}/{.status.hard.pods}";

fn a_quota_holds_through_a_crash(cluster: &mut Cluster, kubectl: &Kubectl) {
    kubectl.ok(&["create", "namespace", "team"]);
    kubectl.ok(&["create", "quota", "team", "--hard=pods=2", "-n", "team"]);
    becomes(kubectl, &["get", "quota", "team", "-n", "team", "-o", USED], |text| text == "0/2");
    kubectl.ok(&["create", "deployment", "web", "--image=example.com/web", "-n", "team"]);
    kubectl.ok(&["scale", "deployment/web", "--replicas=4", "-n", "team"]);
    becomes(kubectl, &["get", "quota", "team", "-n", "team", "-o", USED], |text| text == "2/2");
    let refusal = becomes(kubectl, &["get", "events", "-n", "team"], |text| text.contains("exceeded quota"));
    assert!(refusal.contains("exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2"), "{refusal}");
    cluster.kill_and_start();
    let refused = kubectl.fails(&["run", "late", "--image=example.com/late", "-n", "team"], "");
    assert!(refused.contains("exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2"), "{refused}");
    kubectl.ok(&["delete", "deployment", "web", "-n", "team"]);
    becomes(kubectl, &["get", "quota", "team", "-n", "team", "-o", USED], |text| text == "0/2");
    kubectl.ok(&["run", "late", "--image=example.com/late", "-n", "team"]);
    let shown = kubectl.ok(&["describe", "quota", "team", "-n", "team"]);
    assert!(shown.lines().any(|line| line.split_whitespace().eq(["pods", "1", "2"])), "{shown}");
    kubectl.ok(&["delete", "namespace", "team"]);
}

fn containers_get_what_a_range_has_for_them(kubectl: &Kubectl) {
    kubectl.ok(&["create", "namespace", "ranged"]);
    apply(
        kubectl,
        r#"{"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "r", "namespace": "ranged"}, "spec": {"limits": [
            {"type": "Container", "max": {"memory": "1Gi"}, "default": {"memory": "512Mi"}, "defaultRequest": {"memory": "256Mi"}}]}}"#,
    );
    kubectl.ok(&["run", "plain", "--image=example.com/plain", "-n", "ranged"]);
    let given = kubectl.ok(&[
        "get",
        "pod",
        "plain",
        "-n",
        "ranged",
        "-o",
        "jsonpath={.spec.containers[0].resources.requests.memory}",
    ]);
    assert_eq!(given, "256Mi");
    let greedy = kubectl.fails(
        &["apply", "-f", "-"],
        r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "greedy", "namespace": "ranged"}, "spec": {"containers": [
            {"name": "c", "image": "example.com/c", "resources": {"limits": {"memory": "2Gi"}}}]}}"#,
    );
    assert!(greedy.contains("maximum memory usage per Container is 1Gi, but limit is 2Gi"), "{greedy}");
    kubectl.ok(&["delete", "namespace", "ranged"]);
}

/// Both hollow nodes have 32 processors.
fn who_matters_more_runs(kubectl: &Kubectl) {
    apply(
        kubectl,
        r#"{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}"#,
    );
    let pod = |name: &str, class: &str| {
        format!(
            r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "{name}"}}, "spec": {{"priorityClassName": "{class}",
            "terminationGracePeriodSeconds": 0, "containers": [{{"name": "c", "image": "example.com/c", "resources": {{"requests": {{"cpu": "20"}}}}}}]}}}}"#
        )
    };
    for name in ["low-a", "low-b"] {
        apply(kubectl, &pod(name, ""));
        kubectl.ok(&["wait", "--for=condition=Ready", &format!("pod/{name}"), "--timeout=120s"]);
    }
    apply(kubectl, &pod("high", "high"));
    kubectl.ok(&["wait", "--for=condition=Ready", "pod/high", "--timeout=120s"]);
    let left = kubectl.ok(&["get", "pods", "-o", "jsonpath={.items[*].metadata.name}"]);
    assert!(left == "high low-a" || left == "high low-b", "{left}");
    let nominated = kubectl.ok(&["get", "pod", "high", "-o", "jsonpath={.status.nominatedNodeName}"]);
    assert_eq!(nominated, "", "the room is taken");
    becomes(kubectl, &["get", "events"], |text| text.contains("Preempted by pod"));
    kubectl.ok(&["delete", "pod", "--all", "--wait=true"]);
    kubectl.ok(&["delete", "priorityclass", "high"]);
}

fn taints_of_kubectl_are_borne_for_a_while(kubectl: &Kubectl) {
    apply(
        kubectl,
        r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "patient"}, "spec": {"nodeName": "hollow-1", "terminationGracePeriodSeconds": 0,
            "tolerations": [{"key": "busy", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2}],
            "containers": [{"name": "c", "image": "example.com/c"}]}}"#,
    );
    kubectl.ok(&["wait", "--for=condition=Ready", "pod/patient", "--timeout=120s"]);
    kubectl.ok(&["taint", "node", "hollow-1", "busy=yes:NoExecute"]);
    kubectl.ok(&["wait", "--for=delete", "pod/patient", "--timeout=120s"]);
    kubectl.ok(&["taint", "node", "hollow-1", "busy-"]);
}

fn a_hollow_node_says_that_it_is(kubectl: &Kubectl) {
    kubectl.ok(&["run", "hollow", "--image=example.com/c", "--restart=Never"]);
    kubectl.ok(&["wait", "--for=condition=Ready", "pod/hollow", "--timeout=120s"]);
    for words in [&["exec", "hollow", "--", "true"][..], &["logs", "hollow"], &["port-forward", "hollow", "0:80"]] {
        let text = kubectl.fails(words, "");
        assert!(text.contains("is hollow"), "kubectl {} {words:?}: {text}", kubectl.version);
    }
    kubectl.ok(&["delete", "pod", "hollow", "--wait=true"]);
}

/// metrics.k8s.io as objects of a definition, so that the test says what is measured.
fn a_deployment_follows_its_metrics(cluster: &mut Cluster, kubectl: &Kubectl) {
    apply(
        kubectl,
        r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "pods.metrics.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}}, "spec": {"group": "metrics.k8s.io", "scope": "Namespaced",
            "names": {"plural": "pods", "kind": "PodMetrics"}, "versions": [{"name": "v1beta1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"timestamp": {"type": "string"}, "window": {"type": "string"},
            "containers": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"},
            "usage": {"type": "object", "additionalProperties": {"type": "string"}}}}}}}}}]}}"#,
    );
    kubectl.ok(&["wait", "--for=condition=Established", "crd/pods.metrics.k8s.io", "--timeout=120s"]);
    apply(
        kubectl,
        r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "load"}, "spec": {"selector": {"matchLabels": {"app": "load"}},
            "template": {"metadata": {"labels": {"app": "load"}}, "spec": {"containers": [
            {"name": "c", "image": "example.com/c", "resources": {"requests": {"memory": "100Mi"}}}]}}}}"#,
    );
    kubectl.ok(&["rollout", "status", "deployment/load", "--timeout=120s"]);
    apply(
        kubectl,
        r#"{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "load"}, "spec": {"maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "load"}, "metrics": [
            {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 50}}}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}}"#,
    );
    let active = ["get", "hpa", "load", "-o", "jsonpath={.status.conditions[?(@.type==\"ScalingActive\")].reason}"];
    becomes(kubectl, &active, |text| text == "FailedGetResourceMetric");
    let measure = |memory: &str| {
        let names = kubectl.ok(&["get", "pods", "-l", "app=load", "-o", "jsonpath={.items[*].metadata.name}"]);
        for name in names.split_whitespace() {
            apply(
                kubectl,
                &format!(
                    r#"{{"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics", "metadata": {{"name": "{name}", "namespace": "default", "labels": {{"app": "load"}}}},
                    "timestamp": "2026-01-01T00:00:00Z", "window": "30s", "containers": [{{"name": "c", "usage": {{"memory": "{memory}"}}}}]}}"#
                ),
            );
        }
    };
    let replicas = ["get", "deployment", "load", "-o", "jsonpath={.spec.replicas}"];
    measure("90Mi");
    becomes(kubectl, &replicas, |text| text == "2");
    cluster.kill_and_start();
    kubectl.ok(&["rollout", "status", "deployment/load", "--timeout=120s"]);
    measure("150Mi");
    becomes(kubectl, &replicas, |text| text == "3");
    kubectl.ok(&["rollout", "status", "deployment/load", "--timeout=120s"]);
    measure("5Mi");
    becomes(kubectl, &replicas, |text| text == "1");
    becomes(kubectl, &["get", "events"], |text| text.contains("New size: 1; reason: All metrics below target"));
    let old = kubectl.ok(&[
        "get",
        "horizontalpodautoscalers.v1.autoscaling",
        "load",
        "-o",
        "jsonpath={.metadata.annotations}",
    ]);
    assert!(old.contains("autoscaling.alpha.kubernetes.io/metrics"), "{old}");
    kubectl.ok(&["delete", "hpa/load", "deployment/load", "crd/pods.metrics.k8s.io"]);
}

#[test]
fn limits_hold_on_hollow_nodes() {
    let mut cluster = Cluster::up();
    for kubectl in Kubectl::all(&cluster.kubeconfig(), cluster.folder.path()) {
        kubectl.ok(&["wait", "--for=condition=Ready", "node", "--all", "--timeout=120s"]);
        a_quota_holds_through_a_crash(&mut cluster, &kubectl);
        containers_get_what_a_range_has_for_them(&kubectl);
        who_matters_more_runs(&kubectl);
        taints_of_kubectl_are_borne_for_a_while(&kubectl);
        a_hollow_node_says_that_it_is(&kubectl);
        a_deployment_follows_its_metrics(&mut cluster, &kubectl);
    }
}
