//! Deployments, DaemonSets, drains and namespaces on hollow nodes, with every kubectl there is, as a user works with them.

use e2e::{Kubectl, Process, twinstack, wait_for};
use std::{path::PathBuf, time::Duration};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(120);

/// `twinstack up` with two hollow nodes; it stops and its folder goes with the handle.
pub(crate) struct Cluster {
    process: Process,
    folder: TempDir,
}

impl Cluster {
    pub(crate) fn up() -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let data = format!("--data-dir={}", folder.path().join("data").display());
        let words =
            ["up", "--bind-address=127.0.0.1,::1", "--secure-port=0", "--dns-port=0", "--hollow-nodes=2", &data];
        let process = Process::start(twinstack(), &words, &folder.path().join("up.log"));
        let cluster = Self { process, folder };
        let ready = wait_for(PATIENCE, || {
            cluster
                .process
                .output()
                .contains("Twinstack is up")
                .then_some(())
                .filter(|()| cluster.kubeconfig().exists())
        });
        assert!(ready.is_some(), "it did not come up:\n{}", cluster.process.output());
        cluster
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("data/admin.kubeconfig")
    }

    /// Every kubectl, each with a namespace of its own.
    pub(crate) fn kubectls(&self) -> Vec<Kubectl> {
        let all = Kubectl::all(&self.kubeconfig(), self.folder.path());
        for kubectl in &all {
            kubectl.ok(&["wait", "--for=condition=Ready", "node/hollow-0", "node/hollow-1", "--timeout=120s"]);
            let namespace = format!("team-{}", kubectl.version.replace('.', "-"));
            kubectl.ok(&["create", "namespace", &namespace]);
            kubectl.ok(&["config", "set-context", "--current", &format!("--namespace={namespace}")]);
            becomes(kubectl, &["get", "serviceaccount", "default", "-o", "name"], "serviceaccount/default");
        }
        all
    }
}

/// Asks until the answer is this.
pub(crate) fn becomes(kubectl: &Kubectl, words: &[&str], expected: &str) {
    let mut last = String::new();
    let found = wait_for(PATIENCE, || {
        last = kubectl.run(words).stdout;
        (last.trim() == expected).then_some(())
    });
    assert!(found.is_some(), "kubectl {} {words:?} never says {expected:?}, but {last:?}", kubectl.version);
}

pub(crate) fn rolled_out(kubectl: &Kubectl, what: &str) {
    let message = kubectl.ok(&["rollout", "status", what, "--timeout=120s"]);
    assert!(message.contains("successfully rolled out"), "{message}");
}

pub(crate) const IMAGES: &str = "jsonpath={.items[*].spec.containers[0].image}";
pub(crate) const RUNNING: &str = "--field-selector=status.phase=Running";

fn a_deployment_lives(kubectl: &Kubectl) {
    kubectl.ok(&["create", "deployment", "web", "--image=example.com/web:1"]);
    rolled_out(kubectl, "deployment/web");
    kubectl.ok(&["wait", "--for=condition=Available", "deployment/web", "--timeout=120s"]);
    for (size, expected) in [("50", 50), ("3", 3)] {
        kubectl.ok(&["scale", "deployment/web", &format!("--replicas={size}")]);
        rolled_out(kubectl, "deployment/web");
        let pods = wait_for(PATIENCE, || {
            let pods = kubectl.ok(&[
                "get",
                "pods",
                "-l",
                "app=web",
                "-o",
                "jsonpath={range .items[*]}{.status.podIPs[*].ip}{\"\\n\"}{end}",
            ]);
            let pods: Vec<String> = pods.lines().map(str::to_owned).collect();
            (pods.len() == expected).then_some(pods)
        });
        for pod in pods.expect("as many pods as asked for") {
            let families: Vec<bool> = pod.split(' ').map(|ip| ip.contains(':')).collect();
            assert!(families == [false, true] || families == [true, false], "one address of each family: {pod}");
        }
    }
    kubectl.ok(&["set", "image", "deployment/web", "web=example.com/web:2"]);
    rolled_out(kubectl, "deployment/web");
    becomes(
        kubectl,
        &["get", "pods", "-l", "app=web", RUNNING, "-o", IMAGES],
        "example.com/web:2 example.com/web:2 example.com/web:2",
    );
    let history = kubectl.ok(&["rollout", "history", "deployment/web"]);
    let revisions: Vec<&str> = history
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| word.parse::<u32>().is_ok())
        .collect();
    assert_eq!(revisions, ["1", "2"], "{history}");
    kubectl.ok(&["rollout", "undo", "deployment/web"]);
    rolled_out(kubectl, "deployment/web");
    becomes(
        kubectl,
        &["get", "pods", "-l", "app=web", RUNNING, "-o", IMAGES],
        "example.com/web:1 example.com/web:1 example.com/web:1",
    );
    becomes(
        kubectl,
        &["get", "deployment", "web", "-o", "jsonpath={.metadata.annotations.deployment\\.kubernetes\\.io/revision}"],
        "3",
    );
}

fn a_stuck_rollout_says_so(kubectl: &Kubectl) {
    kubectl.ok_with(
        &["apply", "-f", "-"],
        r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "stuck"}, "spec": {
            "progressDeadlineSeconds": 1, "selector": {"matchLabels": {"app": "stuck"}}, "template": {
                "metadata": {"labels": {"app": "stuck"}, "annotations": {"hollow.twinstack.dev/fail": "pull"}},
                "spec": {"containers": [{"name": "c", "image": "example.com/none"}]}}}}"#,
    );
    let message = kubectl.fails(&["rollout", "status", "deployment/stuck", "--timeout=120s"], "");
    assert!(message.contains("exceeded its progress deadline"), "{message}");
    // The deadline may be over before the pod has come so far.
    let mut pods = String::new();
    let reported = wait_for(PATIENCE, || {
        pods = kubectl.ok(&["get", "pods", "-l", "app=stuck", "--no-headers"]);
        pods.contains("ImagePullBackOff").then_some(())
    });
    assert!(reported.is_some(), "{pods}");
    kubectl.ok(&["delete", "deployment", "stuck", "--wait=true"]);
    becomes(kubectl, &["get", "pods", "-l", "app=stuck", "-o", "name"], "");
}

fn a_daemon_set_lives(kubectl: &Kubectl) {
    kubectl.ok_with(
        &["apply", "-f", "-"],
        r#"{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {
            "selector": {"matchLabels": {"app": "agent"}}, "template": {"metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "agent", "image": "example.com/agent:1"}]}}}}"#,
    );
    rolled_out(kubectl, "daemonset/agent");
    kubectl.ok(&["set", "image", "daemonset/agent", "agent=example.com/agent:2"]);
    rolled_out(kubectl, "daemonset/agent");
    becomes(
        kubectl,
        &["get", "pods", "-l", "app=agent", RUNNING, "-o", IMAGES],
        "example.com/agent:2 example.com/agent:2",
    );
    kubectl.ok(&["rollout", "undo", "daemonset/agent"]);
    rolled_out(kubectl, "daemonset/agent");
    becomes(
        kubectl,
        &["get", "pods", "-l", "app=agent", RUNNING, "-o", IMAGES],
        "example.com/agent:1 example.com/agent:1",
    );
}

fn a_drain_respects_the_budget(kubectl: &Kubectl) {
    // Old versions of kubectl create budgets of a version that is gone.
    kubectl.ok_with(
        &["apply", "-f", "-"],
        r#"{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": {
            "minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}}"#,
    );
    becomes(
        kubectl,
        &["get", "pdb", "web", "-o", "jsonpath={.status.currentHealthy} {.status.disruptionsAllowed}"],
        "3 0",
    );
    let mut drain = kubectl.background(&["drain", "hollow-0", "--ignore-daemonsets", "--force", "--timeout=120s"]);
    let refused = wait_for(PATIENCE, || drain.output().contains("disruption budget").then_some(()));
    assert!(refused.is_some(), "{}", drain.output());
    let running = ["get", "pods", "-l", "app=web", RUNNING, "-o", "name"];
    assert_eq!(kubectl.ok(&running).lines().count(), 3, "{}", drain.output());
    kubectl.ok(&["patch", "pdb", "web", "--type=merge", "-p", r#"{"spec": {"minAvailable": 2}}"#]);
    // It asks again from time to time.
    let drained = drain.ended(Duration::from_secs(180));
    assert!(drained.is_some_and(|status| status.success()), "{}", drain.output());
    rolled_out(kubectl, "deployment/web");
    becomes(
        kubectl,
        &["get", "pods", "-l", "app=web", RUNNING, "-o", "jsonpath={.items[*].spec.nodeName}"],
        "hollow-1 hollow-1 hollow-1",
    );
    kubectl.ok(&["uncordon", "hollow-0"]);
}

#[test]
fn workloads_on_hollow_nodes() {
    let cluster = Cluster::up();
    for kubectl in cluster.kubectls() {
        let namespace = format!("team-{}", kubectl.version.replace('.', "-"));
        a_deployment_lives(&kubectl);
        a_stuck_rollout_says_so(&kubectl);
        a_daemon_set_lives(&kubectl);
        a_drain_respects_the_budget(&kubectl);
        kubectl.ok(&["delete", "namespace", &namespace, "--timeout=120s"]);
        let gone = kubectl.fails(&["get", "namespace", &namespace], "");
        assert!(gone.contains("NotFound"), "{gone}");
    }
}
