//! StatefulSets and ReplicationControllers with every kubectl there is, and through a kill of the controller manager in a rollout.

use crate::workloads::{Cluster, IMAGES, RUNNING, becomes, rolled_out};
use e2e::{Kubectl, Process, Server, twinstack, wait_for};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);

/// Pods that take a moment to start, so that a rollout can be seen in its middle.
fn set(name: &str, replicas: u32, start_delay: &str) -> String {
    format!(
        r#"{{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {{"name": "{name}"}}, "spec": {{
            "replicas": {replicas}, "serviceName": "{name}", "selector": {{"matchLabels": {{"app": "{name}"}}}}, "template": {{
                "metadata": {{"labels": {{"app": "{name}"}}, "annotations": {{"hollow.twinstack.dev/start-delay": "{start_delay}"}}}},
                "spec": {{"containers": [{{"name": "c", "image": "example.com/c:1"}}]}}}}}}}}"#
    )
}

fn images(kubectl: &Kubectl, app: &str, expected: &str) {
    let label = format!("app={app}");
    becomes(kubectl, &["get", "pods", "-l", &label, RUNNING, "--sort-by=.metadata.name", "-o", IMAGES], expected);
}

fn a_stateful_set_lives(kubectl: &Kubectl) {
    kubectl.ok_with(&["apply", "-f", "-"], &set("db", 3, "0s"));
    let rolled = |what: &str| {
        let message = kubectl.ok(&["rollout", "status", what, "--timeout=120s"]);
        assert!(message.contains("rolling update complete") || message.contains("roll out complete"), "{message}");
    };
    rolled("statefulset/db");
    becomes(kubectl, &["get", "pods", "-l", "app=db", "-o", "jsonpath={.items[*].metadata.name}"], "db-0 db-1 db-2");
    let shown = kubectl.ok(&["get", "statefulset", "db", "--no-headers"]);
    assert_eq!(shown.split_whitespace().take(2).collect::<Vec<_>>(), ["db", "3/3"]);
    kubectl.ok(&["scale", "statefulset/db", "--replicas=2"]);
    becomes(kubectl, &["get", "pods", "-l", "app=db", "-o", "jsonpath={.items[*].metadata.name}"], "db-0 db-1");
    kubectl.ok(&["set", "image", "statefulset/db", "c=example.com/c:2"]);
    rolled("statefulset/db");
    images(kubectl, "db", "example.com/c:2 example.com/c:2");
    let history = kubectl.ok(&["rollout", "history", "statefulset/db"]);
    let revisions: Vec<&str> = history
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| word.parse::<u32>().is_ok())
        .collect();
    assert_eq!(revisions, ["1", "2"], "{history}");
    kubectl.ok(&["rollout", "undo", "statefulset/db"]);
    rolled("statefulset/db");
    images(kubectl, "db", "example.com/c:1 example.com/c:1");
    kubectl.ok(&["delete", "statefulset", "db"]);
    becomes(kubectl, &["get", "pods", "-l", "app=db", "-o", "name"], "");
}

fn a_replication_controller_lives(kubectl: &Kubectl) {
    kubectl.ok_with(
        &["apply", "-f", "-"],
        r#"{"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "old"}, "spec": {"replicas": 2,
            "template": {"metadata": {"labels": {"app": "old"}}, "spec": {"containers": [{"name": "c", "image": "any"}]}}}}"#,
    );
    becomes(kubectl, &["get", "rc", "old", "-o", "jsonpath={.status.readyReplicas}"], "2");
    kubectl.ok(&["scale", "rc/old", "--replicas=3"]);
    becomes(kubectl, &["get", "rc", "old", "-o", "jsonpath={.status.readyReplicas}"], "3");
    let shown = kubectl.ok(&["get", "rc", "old", "--no-headers"]);
    assert_eq!(shown.split_whitespace().take(4).collect::<Vec<_>>(), ["old", "3", "3", "3"]);
    kubectl.ok(&["delete", "rc", "old"]);
    becomes(kubectl, &["get", "pods", "-l", "app=old", "-o", "name"], "");
}

#[test]
fn stateful_sets_on_hollow_nodes() {
    let cluster = Cluster::up();
    for kubectl in cluster.kubectls() {
        a_stateful_set_lives(&kubectl);
        a_replication_controller_lives(&kubectl);
    }
}

/// A controller manager of its own beside an API server.
pub(crate) fn manager(server: &Server, name: &str) -> Process {
    let kubeconfig = format!("--kubeconfig={}", server.kubeconfig().display());
    let words = [
        "controller-manager",
        &kubeconfig,
        "--allocate-node-cidrs",
        "--cluster-cidr=10.244.0.0/16,fd00:10:244::/56",
        "--hollow-nodes=2",
        "--secure-port=0",
        "--leader-elect=false",
    ];
    Process::start(twinstack(), &words, &server.folder().join(format!("{name}.log")))
}

#[test]
fn a_manager_killed_in_a_rollout_leaves_it_to_the_next() {
    let server = Server::start(&[]);
    let Some(kubectl) = server.kubectls().pop() else { return };
    let mut first = manager(&server, "first");
    kubectl.ok_with(&["apply", "-f", "-"], &set("db", 3, "300ms"));
    kubectl.ok(&["rollout", "status", "statefulset/db", "--timeout=120s"]);
    kubectl.ok(&["set", "image", "statefulset/db", "c=example.com/c:2"]);
    let begun = wait_for(PATIENCE, || {
        let image = kubectl.run(&["get", "pod", "db-2", "-o", "jsonpath={.spec.containers[0].image}"]).stdout;
        (image == "example.com/c:2").then_some(())
    });
    assert!(begun.is_some(), "{}", first.output());
    first.kill();
    let second = manager(&server, "second");
    let message = kubectl.ok(&["rollout", "status", "statefulset/db", "--timeout=120s"]);
    assert!(message.contains("complete"), "{message}\n{}", second.output());
    images(&kubectl, "db", "example.com/c:2 example.com/c:2 example.com/c:2");
    let revisions = kubectl.ok(&["get", "controllerrevisions", "-o", "name"]);
    assert_eq!(revisions.lines().count(), 2, "{revisions}");
    rolled_out_again(&kubectl);
}

/// What was there before goes on to work afterwards.
fn rolled_out_again(kubectl: &Kubectl) {
    kubectl.ok(&["create", "deployment", "web", "--image=any"]);
    rolled_out(kubectl, "deployment/web");
}
