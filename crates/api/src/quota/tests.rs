//! What objects use, which quotas they are charged to, and what is refused.

use super::*;
use serde_json::json;

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn pod(spec: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": {
        "requests": {"cpu": "500m", "memory": "200Mi", "example.com/gpu": "2"}, "limits": {"cpu": "1", "memory": "1Gi"}}}]}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    pod
}

fn quota(spec: Value, hard: &Value, used: &Value) -> Value {
    json!({"metadata": {"name": "q"}, "spec": spec, "status": {"hard": hard, "used": used}})
}

fn used(counted: Counted<'_>, object: &Value) -> String {
    text(&counted.usage(object, now()))
}

#[test]
fn a_pod_uses_what_its_containers_ask_for() {
    let pods = Counted::core("pods");
    assert_eq!(
        used(pods, &pod(&json!({"overhead": {"cpu": "100m"}}))),
        "count/pods=1,cpu=600m,limits.cpu=1100m,limits.memory=1Gi,memory=200Mi,pods=1,requests.cpu=600m,\
         requests.example.com/gpu=2,requests.memory=200Mi"
    );
    let mut over = pod(&json!({}));
    over["status"] = json!({"phase": "Succeeded"});
    assert_eq!(used(pods, &over), "count/pods=1");
    let mut late = pod(&json!({}));
    late["metadata"]["deletionTimestamp"] = "2025-12-31T23:59:00Z".into();
    late["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    assert_eq!(used(pods, &late), "count/pods=1");
    late["metadata"]["deletionGracePeriodSeconds"] = 90.into();
    assert!(used(pods, &late).contains(",pods=1,"));
    let whole = json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}});
    assert!(used(pods, &pod(&whole)).contains("limits.cpu=3,"));
    let mut resized = pod(&json!({}));
    resized["status"] = json!({"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "800m"}}}]});
    assert!(used(pods, &resized).contains(",requests.cpu=800m,"), "what still runs counts");
}

#[test]
fn services_and_claims_count_by_what_they_are() {
    let ports = json!([{"port": 1}, {"port": 2, "nodePort": 30000}]);
    for (spec, expected) in [
        (json!({"ports": ports}), "services=1,services.loadbalancers=0,services.nodeports=0"),
        (json!({"type": "NodePort", "ports": ports}), "services=1,services.loadbalancers=0,services.nodeports=2"),
        (json!({"type": "LoadBalancer", "ports": ports}), "services=1,services.loadbalancers=1,services.nodeports=2"),
        (
            json!({"type": "LoadBalancer", "ports": ports, "allocateLoadBalancerNodePorts": false}),
            "services=1,services.loadbalancers=1,services.nodeports=1",
        ),
    ] {
        assert_eq!(used(Counted::core("services"), &json!({"spec": spec})), format!("count/services=1,{expected}"));
    }
    let claim = json!({"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"allocatedResources": {"storage": "2Gi"}}});
    assert_eq!(
        used(Counted::core("persistentvolumeclaims"), &claim),
        "count/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
         gold.storageclass.storage.k8s.io/requests.storage=2Gi,persistentvolumeclaims=1,requests.storage=2Gi"
    );
    assert_eq!(used(Counted::core("secrets"), &json!({})), "count/secrets=1,secrets=1");
    assert_eq!(used(Counted { group: "apps", plural: "deployments" }, &json!({})), "count/deployments.apps=1");
    assert_eq!(used(Counted { group: "x.io", plural: "secrets" }, &json!({})), "count/secrets.x.io=1");
}

#[test]
fn claims_count_devices_by_class() {
    let wish =
        |class: &str, mode: &str, count: i64| json!({"deviceClassName": class, "allocationMode": mode, "count": count});
    let claim = json!({"spec": {"devices": {"requests": [
        {"name": "a", "exactly": wish("gold", "ExactCount", 2)},
        {"name": "b", "exactly": {"deviceClassName": "gold", "allocationMode": "All"}},
        {"name": "c", "firstAvailable": [wish("gold", "ExactCount", 1), wish("gold", "ExactCount", 3), wish("tin", "ExactCount", 5)]},
    ]}}});
    let claims = Counted { group: "resource.k8s.io", plural: "resourceclaims" };
    assert_eq!(
        used(claims, &claim),
        "count/resourceclaims.resource.k8s.io=1,gold.deviceclass.resource.k8s.io/devices=37,\
         tin.deviceclass.resource.k8s.io/devices=5"
    );
    assert!(claims.has("gold.deviceclass.resource.k8s.io/devices") && !claims.has("pods"));
}

#[test]
fn scopes_narrow_a_quota() {
    let pods = Counted::core("pods");
    let of_class = |operator: &str, values: Value| json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": values}]}});
    let elsewhere = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "namespaces": ["other"]}]}}});
    for (scopes, spec, expected) in [
        (json!({}), json!({}), true),
        (json!({"scopes": ["Terminating"]}), json!({}), false),
        (json!({"scopes": ["Terminating"]}), json!({"activeDeadlineSeconds": 0}), true),
        (json!({"scopes": ["NotTerminating", "NotBestEffort"]}), json!({}), true),
        (json!({"scopes": ["BestEffort"]}), json!({}), false),
        (json!({"scopes": ["BestEffort"]}), json!({"containers": [{"name": "c"}]}), true),
        (json!({"scopes": ["CrossNamespacePodAffinity"]}), json!({}), false),
        (json!({"scopes": ["CrossNamespacePodAffinity"]}), elsewhere, true),
        (of_class("In", json!(["high"])), json!({"priorityClassName": "high"}), true),
        (of_class("In", json!(["high"])), json!({}), false),
        (of_class("NotIn", json!(["high"])), json!({}), true),
        (of_class("Exists", json!([])), json!({"priorityClassName": "low"}), true),
        (of_class("DoesNotExist", json!([])), json!({"priorityClassName": "low"}), false),
    ] {
        let quota = quota(scopes.clone(), &json!({"pods": "1"}), &json!({}));
        assert_eq!(covers(&quota, pods, &pod(&spec)), expected, "{scopes} {spec}");
        assert!(!covers(&quota, Counted::core("services"), &json!({})), "a quota for pods is not about services");
    }
}

#[test]
fn what_is_too_much_is_refused_in_upstreams_words() {
    let pods = Counted::core("pods");
    let charge = |quota: &Value, object: &Value, old: Option<&Value>| charge(quota, pods, object, old, true, now());
    let hard = json!({"pods": "2", "requests.cpu": "1", "limits.memory": "2Gi"});
    let half = quota(json!({}), &hard, &json!({"pods": "1", "requests.cpu": "500m", "limits.memory": "1Gi"}));
    assert_eq!(
        charge(&half, &pod(&json!({})), None),
        Ok(Some(json!({"pods": "2", "requests.cpu": "1", "limits.memory": "2Gi"})))
    );
    let full = quota(json!({}), &hard, &json!({"pods": "2", "requests.cpu": "900m", "limits.memory": "1Gi"}));
    assert_eq!(
        charge(&full, &pod(&json!({})), None),
        Err("exceeded quota: q, requested: pods=1,requests.cpu=500m, used: pods=2,requests.cpu=900m, \
             limited: pods=2,requests.cpu=1"
            .to_owned())
    );
    assert_eq!(charge(&full, &pod(&json!({})), Some(&pod(&json!({})))), Ok(None), "nothing is added");
    let unknown = quota(json!({}), &hard, &json!({}));
    assert_eq!(
        charge(&unknown, &pod(&json!({})), None),
        Err("status unknown for quota: q, resources: limits.memory,pods,requests.cpu".to_owned())
    );
    let silent = json!({"containers": [{"name": "b"}, {"name": "a", "resources": {"requests": {"cpu": "1"}}}]});
    assert_eq!(
        charge(&half, &pod(&silent), None),
        Err("failed quota: q: must specify limits.memory for: a,b; requests.cpu for: b".to_owned())
    );
    let terminating = quota(json!({"scopes": ["Terminating"]}), &json!({"pods": "1"}), &json!({"pods": "0"}));
    let moved = pod(&json!({"activeDeadlineSeconds": 5}));
    assert_eq!(
        charge(&terminating, &moved, Some(&pod(&json!({})))),
        Ok(Some(json!({"pods": "1"}))),
        "it came into scope"
    );
}
