//! Which changes of objects by others are put right, and which are left alone.

use super::*;
use runtime::operator::contains;

/// What the API has of an object: what was written, with what it and others fill in.
fn live(object: &Value) -> Value {
    let mut live = object.clone();
    live["metadata"]["uid"] = "1".into();
    live["metadata"]["resourceVersion"] = "7".into();
    live["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    live["status"] = json!({"observedGeneration": 1});
    live
}

/// Sets `path` of a live object to each value; tells whether the object is written again.
fn holds_after(object: &Value, rows: &[(&str, Value, bool)]) {
    assert!(contains(&live(object), object));
    for (path, value, left_alone) in rows {
        let mut live = live(object);
        let (parent, name) = path.rsplit_once('/').unwrap();
        match live.pointer_mut(parent).unwrap_or_else(|| panic!("{path}")) {
            Value::Object(fields) => drop(fields.insert(name.to_owned(), value.clone())),
            Value::Array(list) if name == "-" => list.push(value.clone()),
            Value::Array(list) => list[name.parse::<usize>().unwrap()] = value.clone(),
            other => panic!("{path}: {other}"),
        }
        assert_eq!(contains(&live, object), *left_alone, "{path} = {value}");
    }
}

fn of(kind: &str) -> Value {
    let all = objects(&workload(), &Served::default(), Some("172.30.0.10".parse().unwrap()));
    all.into_iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == NAME).unwrap()
}

#[test]
fn a_daemonset_is_put_right_where_it_matters() {
    let pod = "/spec/template/spec";
    let at = |path: &str| format!("{pod}{path}");
    let rows = [
        ("/metadata/uid".to_owned(), json!("2"), true),
        ("/metadata/annotations".to_owned(), json!({"deprecated.daemonset.template.generation": "2"}), true),
        ("/metadata/generation".to_owned(), json!(2), true),
        ("/status/numberReady".to_owned(), json!(3), true),
        ("/spec/revisionHistoryLimit".to_owned(), json!(10), true),
        (at("/restartPolicy"), json!("Always"), true),
        (at("/terminationGracePeriodSeconds"), json!(30), true),
        (at("/schedulerName"), json!("default-scheduler"), true),
        (at("/volumes/0/configMap/defaultMode"), json!(420), true),
        (at("/containers/0/imagePullPolicy"), json!("IfNotPresent"), true),
        (at("/containers/0/terminationMessagePath"), json!("/dev/termination-log"), true),
        ("/spec/minReadySeconds".to_owned(), json!(0), false),
        ("/spec/updateStrategy/type".to_owned(), json!("OnDelete"), false),
        ("/spec/updateStrategy/rollingUpdate/maxUnavailable".to_owned(), json!("10%"), false),
        ("/spec/template/metadata/labels".to_owned(), json!({}), false),
        (at("/nodeSelector"), json!({"a": "b"}), false),
        (at("/tolerations/0/operator"), json!("Equal"), false),
        (at("/tolerations/-"), json!({"operator": "Exists"}), false),
        (at("/dnsPolicy"), json!("ClusterFirst"), false),
        (at("/priorityClassName"), json!(""), false),
        (at("/serviceAccountName"), json!("default"), false),
        (at("/containers/-"), json!({"name": "other"}), false),
        (at("/containers/0/name"), json!("other"), false),
        (at("/containers/0/image"), json!("example.test/other:1"), false),
        (at("/containers/0/command"), json!(["sleep"]), false),
        (at("/containers/0/ports/0/containerPort"), json!(53), false),
        (at("/containers/0/readinessProbe/httpGet/port"), json!(8080), false),
        (at("/containers/0/readinessProbe/periodSeconds"), json!(10), false),
        (at("/containers/0/livenessProbe/failureThreshold"), json!(3), false),
        (at("/containers/0/resources/requests/cpu"), json!("1"), false),
        (at("/containers/0/securityContext/readOnlyRootFilesystem"), json!(false), false),
        (at("/containers/0/volumeMounts/0/mountPath"), json!("/etc"), false),
        (at("/volumes/0/configMap/name"), json!("other"), false),
    ];
    let rows: Vec<(&str, Value, bool)> =
        rows.iter().map(|(path, value, alone)| (path.as_str(), value.clone(), *alone)).collect();
    holds_after(&of("DaemonSet"), &rows);
}

#[test]
fn a_service_keeps_the_families_that_the_api_gave_it() {
    holds_after(
        &of("Service"),
        &[
            ("/spec/clusterIPs", json!(["172.30.0.10", "fd02::a"]), true),
            ("/spec/ipFamilies", json!(["IPv4", "IPv6"]), true),
            ("/spec/ipFamilies", json!(["IPv6", "IPv4"]), true),
            ("/spec/sessionAffinity", json!("None"), true),
            ("/spec/internalTrafficPolicy", json!("Cluster"), true),
            ("/metadata/annotations", json!({"a": "b"}), true),
            ("/status/loadBalancer", json!({}), true),
            ("/spec/clusterIP", json!("172.30.0.11"), false),
            ("/spec/ipFamilyPolicy", json!("SingleStack"), false),
            ("/spec/selector", json!({"foo": "bar"}), false),
            ("/spec/type", json!("NodePort"), false),
            ("/spec/ports/0/port", json!(5300), false),
            ("/spec/ports/0/targetPort", json!("other"), false),
            ("/spec/ports/-", json!({"name": "other", "port": 1}), false),
            ("/spec/trafficDistribution", json!("Other"), false),
        ],
    );
}
