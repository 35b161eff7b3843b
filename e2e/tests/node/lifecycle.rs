//! Containers of every role start, fail, end and leave as upstream's do.

use super::{lab, nothing_is_left};
use e2e::node_lab::{Lab, Shape, items, pod, shell};
use serde_json::{Value, json};

fn phase(lab: &Lab, name: &str, wanted: &str) -> Value {
    lab.until(&["get", "pod", name], |pod| (pod["status"]["phase"] == wanted).then(|| pod.clone()))
}

fn with(mut object: Value, field: &str, value: Value) -> Value {
    object["spec"][field] = value;
    object
}

#[test]
fn containers_of_every_role_live_and_end_as_they_should() {
    let Some(lab) = lab(Shape::V4V6, 1, &[]) else { return };
    // All at once: each waits for itself.
    let good =
        with(pod("good", &[shell("c", "echo bye > /dev/termination-log; exit 0")]), "restartPolicy", json!("Never"));
    let bad = with(pod("bad", &[shell("c", "echo no such thing >&2; exit 3")]), "restartPolicy", json!("Never"));
    let mut bad = bad;
    bad["spec"]["containers"][0]["terminationMessagePolicy"] = json!("FallbackToLogsOnError");
    let crash = pod("crash", &[shell("c", "exit 1")]);
    let missing = pod("missing", &[json!({"name": "c", "image": "localhost/nowhere:1", "imagePullPolicy": "Never"})]);
    let late = with(pod("late", &[shell("c", "sleep 600")]), "activeDeadlineSeconds", json!(3));
    let mut sidecar = shell("side", "trap 'exit 0' TERM; touch /shared/side; sleep 600 & wait");
    sidecar["restartPolicy"] = json!("Always");
    let share = json!([{"name": "shared", "mountPath": "/shared"}]);
    sidecar["volumeMounts"] = share.clone();
    let mut first = shell("first", "echo first > /shared/order");
    first["volumeMounts"] = share.clone();
    let mut main =
        shell("main", "test -e /shared/side && test -e /shared/order && echo all there > /dev/termination-log");
    main["volumeMounts"] = share;
    let mut roles = with(pod("roles", &[main]), "restartPolicy", json!("Never"));
    roles["spec"]["initContainers"] = json!([first, sidecar]);
    roles["spec"]["volumes"] = json!([{"name": "shared", "emptyDir": {}}]);
    let mut hooked = pod("hooked", &[shell("c", "sleep 600")]);
    hooked["spec"]["containers"][0]["lifecycle"] =
        json!({"postStart": {"exec": {"command": ["sh", "-c", "echo started > /tmp/hook"]}}});
    hooked["spec"]["containers"][0]["readinessProbe"] =
        json!({"exec": {"command": ["cat", "/tmp/hook"]}, "periodSeconds": 1});
    for object in [&good, &bad, &crash, &missing, &late, &roles, &hooked] {
        lab.apply(object);
    }
    let state = |pod: &Value| pod["status"]["containerStatuses"][0]["state"].clone();
    let ended = phase(&lab, "good", "Succeeded");
    assert_eq!(
        (&state(&ended)["terminated"]["reason"], &state(&ended)["terminated"]["message"]),
        (&json!("Completed"), &json!("bye\n"))
    );
    let ended = phase(&lab, "bad", "Failed");
    assert_eq!(
        (&state(&ended)["terminated"]["exitCode"], &state(&ended)["terminated"]["message"]),
        (&json!(3), &json!("no such thing\n"))
    );
    lab.until(&["get", "pod", "crash"], |pod| (state(pod)["waiting"]["reason"] == "CrashLoopBackOff").then_some(()));
    lab.until(&["get", "pod", "missing"], |pod| (state(pod)["waiting"]["reason"] == "ErrImageNeverPull").then_some(()));
    let ended = phase(&lab, "late", "Failed");
    assert_eq!(ended["status"]["reason"], "DeadlineExceeded");
    let ended = phase(&lab, "roles", "Succeeded");
    assert_eq!(state(&ended)["terminated"]["message"], "all there\n");
    let init = items(&ended["status"]["initContainerStatuses"]);
    assert!(init.iter().all(|one| one["state"]["terminated"].is_object()), "{init:#?}");
    lab.ready("hooked");
    let events = lab.kubectl(&["get", "events", "-o", "jsonpath={.items[*].reason}"], "").unwrap();
    for reason in ["Pulled", "Created", "Started", "BackOff", "ErrImageNeverPull"] {
        assert!(events.split(' ').any(|one| one == reason), "no event {reason}: {events}");
    }
    for name in ["good", "bad", "crash", "missing", "late", "roles", "hooked"] {
        lab.delete(name);
    }
    nothing_is_left(&lab, 0);
}

#[test]
fn a_pod_is_run_in_the_way_that_its_class_names() {
    let Some(lab) = lab(Shape::V4V6, 1, &[]) else { return };
    for (class, handler) in [("another", "other"), ("unknown", "nowhere")] {
        lab.apply(&json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": class}, "handler": handler}));
        lab.apply(&with(pod(class, &[shell("c", "sleep 600")]), "runtimeClassName", json!(class)));
    }
    lab.ready("another");
    let told = e2e::wait_for(e2e::node_lab::PATIENCE, || {
        let events = lab.kubectl(&["get", "events"], "").ok()?;
        events.lines().any(|line| line.contains("FailedCreatePodSandBox") && line.contains("nowhere")).then_some(())
    });
    assert!(told.is_some(), "{}", lab.logs());
    lab.delete("another");
    lab.delete("unknown");
    nothing_is_left(&lab, 0);
}

#[test]
fn a_pod_of_a_file_runs_and_is_mirrored() {
    let folder = tempfile::tempdir().unwrap();
    let flag = format!("--pod-manifest-path={}", folder.path().display());
    let Some(lab) = lab(Shape::V4V6, 1, &[&flag, "--file-check-frequency=1s"]) else { return };
    let file = folder.path().join("web.yaml");
    std::fs::write(&file, pod("web", &[shell("c", "sleep 600")]).to_string()).unwrap();
    lab.ready("web-n0");
    // Whoever deletes the mirror has deleted a picture.
    lab.kubectl(&["delete", "pod", "web-n0", "--wait=false"], "").unwrap();
    lab.ready("web-n0");
    std::fs::remove_file(file).unwrap();
    let gone = e2e::wait_for(e2e::node_lab::PATIENCE, || lab.get(&["get", "pod", "web-n0"]).is_none().then_some(()));
    assert!(gone.is_some(), "{}", lab.logs());
    nothing_is_left(&lab, 0);
}
