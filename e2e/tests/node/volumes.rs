//! Volumes of Pods that run: what is in them, how it changes, that a kubelet that is killed forgets nothing, and that nothing is left.

use e2e::{
    node_lab::{Lab, PATIENCE, Shape, missing, pod, shell},
    wait_for,
};
use serde_json::json;

fn lab() -> Option<Lab> {
    if let Some(enable) = missing() {
        e2e::skip("volumes with a real container runtime", enable);
        return None;
    }
    Some(Lab::new(Shape::V4V6, 1))
}

#[track_caller]
fn run(lab: &Lab, line: &str) -> String {
    let words = ["exec", "p", "-c", "c", "--", "sh", "-c", line];
    lab.kubectl(&words, "").unwrap_or_else(|error| panic!("{line}: {error}\n{}", lab.logs())).trim().to_owned()
}

#[track_caller]
fn until(lab: &Lab, line: &str, want: &str) {
    let mut last = String::new();
    let found = wait_for(PATIENCE, || {
        // A kubelet that has just been started serves a moment later.
        last = lab
            .kubectl(&["exec", "p", "-c", "c", "--", "sh", "-c", line], "")
            .unwrap_or_else(|error| error.to_string());
        (last.trim() == want).then_some(())
    });
    assert!(found.is_some(), "{line}: {last:?} is not {want:?}\n{}", lab.logs());
}

#[test]
fn volumes_hold_what_they_should_and_follow_changes() {
    let Some(mut lab) = lab() else { return };
    let folder = tempfile::tempdir().unwrap();
    lab.apply(
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1", "b": "2"}}),
    );
    lab.apply(
        &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "secret"}}),
    );
    let mut container = shell("c", "sleep 3600");
    container["resources"] = json!({"limits": {"memory": "64Mi"}});
    container["volumeMounts"] = json!([
        {"name": "map", "mountPath": "/map"}, {"name": "secret", "mountPath": "/secret"}, {"name": "own", "mountPath": "/own"},
        {"name": "memory", "mountPath": "/memory"}, {"name": "about", "mountPath": "/about"}, {"name": "host", "mountPath": "/host"},
        {"name": "own", "mountPath": "/part", "subPath": "deep/er"}, {"name": "own", "mountPath": "/named", "subPathExpr": "$(NAME)"},
        {"name": "map", "mountPath": "/one-file", "subPath": "a"}, {"name": "maybe", "mountPath": "/maybe"},
    ]);
    container["env"] = json!([{"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]);
    let mut own = pod("p", &[container]);
    own["spec"]["securityContext"] = json!({"fsGroup": 4321});
    own["spec"]["volumes"] = json!([
        {"name": "map", "configMap": {"name": "m"}},
        {"name": "secret", "secret": {"secretName": "s", "defaultMode": 0o400, "items": [{"key": "key", "path": "below/it"}]}},
        {"name": "own", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "about", "downwardAPI": {"items": [
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
            {"path": "memory", "resourceFieldRef": {"containerName": "c", "resource": "limits.memory", "divisor": "1Mi"}}]}},
        {"name": "host", "hostPath": {"path": folder.path().join("made"), "type": "DirectoryOrCreate"}},
        {"name": "maybe", "configMap": {"name": "later", "optional": true}},
    ]);
    lab.apply(&own);
    lab.ready("p");
    assert_eq!(run(&lab, "cat /map/a /map/b"), "12");
    assert_eq!(run(&lab, "cat /secret/below/it; stat -L -c ' %a %g' /secret/below/it"), "secret 440 4321");
    assert_eq!(run(&lab, "stat -c '%a %g' /own"), "2777 4321");
    assert_eq!(run(&lab, "cat /about/labels; echo; cat /about/memory"), "app=\"p\"\n64");
    assert_eq!(run(&lab, "df -k /memory | tail -1 | awk '{print $2}'"), "1024");
    assert_eq!(run(&lab, "grep -c ' /secret tmpfs' /proc/mounts"), "1");
    assert_eq!(run(&lab, "echo x > /part/file; echo y > /named/file; cat /own/deep/er/file /own/p/file"), "x\ny");
    assert_eq!(run(&lab, "cat /one-file; ls /maybe | wc -l"), "10");
    assert!(run(&lab, "(echo z > /map/a) 2>&1; true").contains("ead-only"));
    run(&lab, "echo kept > /host/file");
    assert_eq!(std::fs::read_to_string(folder.path().join("made/file")).unwrap(), "kept\n");
    let token = run(&lab, "cat /var/run/secrets/kubernetes.io/serviceaccount/token");
    assert_eq!(token.split('.').count(), 3, "{token}");

    // What changes is seen, all at once; what may be missing may come.
    lab.apply(
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "3", "c": "4"}}),
    );
    until(&lab, "cat /map/a /map/c; ls /map", "34a\nc");
    lab.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "later"}, "data": {"x": "here"}}));
    until(&lab, "cat /maybe/x", "here");
    lab.kubectl(&["label", "pod", "p", "more=1"], "").unwrap();
    until(&lab, "cat /about/labels", "app=\"p\"\nmore=\"1\"");

    // A kubelet that is killed restarts nothing and goes on.
    let before = lab.get(&["get", "pod", "p"]).unwrap()["status"]["containerStatuses"][0]["containerID"].clone();
    lab.nodes[0].kill_kubelet();
    lab.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "5"}}));
    let Lab { nodes, network, .. } = &mut lab;
    nodes[0].start_kubelet(network.node(0));
    until(&lab, "cat /map/a; ls /map", "5a");
    assert_eq!(run(&lab, "cat /own/deep/er/file"), "x");
    assert_eq!(lab.get(&["get", "pod", "p"]).unwrap()["status"]["containerStatuses"][0]["containerID"], before);

    lab.delete("p");
    let left = wait_for(PATIENCE, || {
        let left = lab.nodes[0].remains(lab.network.node(0));
        (left == Default::default()).then_some(())
    });
    assert!(left.is_some(), "{:#?}\n{}", lab.nodes[0].remains(lab.network.node(0)), lab.logs());
    assert_eq!(std::fs::read_to_string(folder.path().join("made/file")).unwrap(), "kept\n");
}

#[test]
fn what_is_missing_is_waited_for_and_a_link_does_not_lead_out() {
    let Some(lab) = lab() else { return };
    let mut container = shell("c", "sleep 3600");
    container["volumeMounts"] = json!([{"name": "secret", "mountPath": "/secret"}]);
    let mut own = pod("p", &[container]);
    own["spec"]["volumes"] = json!([{"name": "secret", "secret": {"secretName": "late"}}]);
    lab.apply(&own);
    let told = wait_for(PATIENCE, || {
        lab.kubectl(&["get", "events"], "").ok().filter(|events| events.contains("secret \"late\" not found"))
    });
    assert!(told.is_some(), "{}", lab.logs());
    lab.apply(
        &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "late"}, "stringData": {"key": "value"}}),
    );
    lab.ready("p");
    assert_eq!(run(&lab, "cat /secret/key"), "value");
    lab.delete("p");

    // The first container leaves a file that the second has its variables from.
    let mut first = shell("first", "echo \"KEY='from a file'\" > /v/app.env");
    first["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    let mut second = shell("c", "echo $KEY; sleep 3600");
    second["env"] =
        json!([{"name": "KEY", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "app.env", "key": "KEY"}}}]);
    let mut own = pod("p", &[second]);
    own["spec"]["initContainers"] = json!([first]);
    own["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    lab.apply(&own);
    lab.ready("p");
    assert_eq!(lab.kubectl(&["logs", "p", "-c", "c"], "").unwrap(), "from a file\n");

    // The first container leaves a link to the host; the second would be shown what it leads to.
    let mut first = shell("first", "ln -s /etc /v/out");
    first["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    let mut second = shell("c", "sleep 3600");
    second["volumeMounts"] = json!([{"name": "v", "mountPath": "/v", "subPath": "out"}]);
    let mut own = pod("escapes", &[second]);
    own["spec"]["initContainers"] = json!([first]);
    own["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    lab.apply(&own);
    let refused = wait_for(PATIENCE, || {
        lab.kubectl(&["get", "events"], "").ok().filter(|events| events.contains("it leads out of the volume"))
    });
    assert!(refused.is_some(), "{}\n{:?}", lab.logs(), lab.get(&["get", "pod", "escapes"]));
}
