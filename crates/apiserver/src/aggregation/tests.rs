//! The pure parts: order, registration, verdicts.

use super::{
    documents::{from_legacy, own_part},
    index::{Index, ServiceRef},
    order::{Source, groups},
    plan::{Verdict, conditions, hindrance, local_conditions},
    register::{Change, Occasion, plan},
};
use crate::warm;
use api::object::Fields;
use serde_json::{Value, json};

fn remote(group: &str, version: &str, priorities: (i64, i64)) -> Value {
    json!({
        "metadata": {"name": format!("{version}.{group}"), "uid": "u"},
        "spec": {
            "group": group, "version": version, "groupPriorityMinimum": priorities.0, "versionPriority": priorities.1,
            "insecureSkipTLSVerify": true, "service": {"namespace": "kube-system", "name": "metrics-server", "port": 443},
        },
    })
}

#[test]
fn discovery_follows_the_priorities() {
    let objects = [
        remote("metrics.k8s.io", "v1beta1", (100, 100)),
        remote("first.example.com", "v1", (19000, 10)),
        remote("first.example.com", "v2", (10, 20)),
        remote("apps", "v9", (17800, 99)),
    ];
    let index = Index::read(&objects, &Index::default(), None);
    let remotes: Vec<_> = index.iter().cloned().collect();
    let listed = groups(&warm::registry(), &remotes);
    let names: Vec<&str> = listed.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names[..4], ["apiregistration.k8s.io", "first.example.com", "", "apps"]);
    assert_eq!(names.last(), Some(&"metrics.k8s.io"));
    let versions = |name: &str| -> Vec<(String, bool)> {
        let group = listed.iter().find(|group| group.name == name).unwrap();
        let is_here = |source: &Source| matches!(source, Source::Here);
        group.versions.iter().map(|(version, source)| (version.clone(), is_here(source))).collect()
    };
    assert_eq!(versions("first.example.com"), [("v2".to_owned(), false), ("v1".to_owned(), false)]);
    assert_eq!(versions("apps"), [("v9".to_owned(), false), ("v1".to_owned(), true)]);
    assert_eq!(listed.iter().filter(|group| group.name == "rbac.authorization.k8s.io").count(), 1);
}

#[test]
fn nobody_else_answers_for_the_group_of_apiservices() {
    let objects = [remote("apiregistration.k8s.io", "v1", (1, 1))];
    assert_eq!(Index::read(&objects, &Index::default(), None).iter().count(), 0);
}

#[test]
fn what_is_served_here_is_written_down_once_and_others_are_left_alone() {
    let registry = warm::registry();
    let created: Vec<Value> = plan(&registry, &[], Occasion::Start)
        .into_iter()
        .map(|change| match change {
            Change::Create(object) => object,
            other => panic!("{other:?}"),
        })
        .collect();
    let names: Vec<&str> = created.iter().map(|object| object.str_at("metadata.name")).collect();
    assert!(names.contains(&"v1.") && names.contains(&"v1.apps") && !names.contains(&"v1.apiregistration.k8s.io"));
    assert_eq!(plan(&registry, &created, Occasion::Start), []);
    let mut stored = created;
    let apps = stored.iter_mut().find(|object| object.str_at("metadata.name") == "v1.apps").unwrap();
    apps.set("spec.versionPriority", 3);
    assert_eq!(plan(&registry, &stored, Occasion::Later), [], "built-in ones are put right at the next start");
    assert!(matches!(plan(&registry, &stored, Occasion::Start)[..], [Change::Update(_)]));
    stored.retain(|object| object.str_at("metadata.name") != "v1.apps");
    stored.push(remote("apps", "v1", (1, 1)));
    assert_eq!(plan(&registry, &stored, Occasion::Start), [], "somebody else's");
    let gone = json!({
        "metadata": {"name": "v1.gone.example.com", "labels": {"kube-aggregator.kubernetes.io/automanaged": "true"}},
    });
    stored.push(gone);
    assert_eq!(plan(&registry, &stored, Occasion::Later), [Change::Delete("v1.gone.example.com".into())]);
}

#[test]
fn objects_tell_why_a_server_cannot_be_asked() {
    let to = ServiceRef { namespace: "kube-system".into(), name: "metrics-server".into(), port: 443 };
    let service = json!({"spec": {"type": "ClusterIP", "ports": [{"name": "https", "port": 443}]}});
    let slice = |ready: bool, port: &str| json!({"endpoints": [{"addresses": ["fd00::1"], "conditions": {"ready": ready}}], "ports": [{"name": port, "port": 10250}]});
    let other_port = json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80}]}});
    let external = json!({"spec": {"type": "ExternalName"}});
    let rows = [
        (None, vec![], Some(("ServiceNotFound", r#"service/metrics-server in "kube-system" is not present"#))),
        (
            Some(&other_port),
            vec![],
            Some(("ServicePortError", r#"service/metrics-server in "kube-system" is not listening on port 443"#)),
        ),
        (
            Some(&service),
            vec![],
            Some(("EndpointsNotFound", r#"cannot find endpointslices for service/metrics-server in "kube-system""#)),
        ),
        (
            Some(&service),
            vec![slice(false, "https"), slice(true, "http")],
            Some((
                "MissingEndpoints",
                r#"endpointslices for service/metrics-server in "kube-system" have no addresses with port name "https""#,
            )),
        ),
        (Some(&service), vec![slice(true, "https")], None),
        (Some(&external), vec![], None),
    ];
    for (service, slices, want) in rows {
        let found = hindrance(&to, service, &slices);
        let found = found.as_ref().map(|verdict| (verdict.reason, verdict.message.as_str()));
        assert_eq!(found, want);
    }
}

#[test]
fn a_condition_says_since_when() {
    let now = "2026-01-02T03:04:05Z".parse().unwrap();
    let later = "2026-02-02T03:04:05Z".parse().unwrap();
    let mut object = json!({});
    let first = conditions(&object, &Verdict::failed("no".into()), now).unwrap();
    assert_eq!(
        first,
        [json!({
            "type": "Available", "status": "False", "reason": "FailedDiscoveryCheck", "message": "no",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        })]
    );
    object.set("status.conditions", first);
    assert_eq!(conditions(&object, &Verdict::failed("no".into()), later), None);
    let other = conditions(&object, &Verdict::failed("never".into()), later).unwrap();
    assert_eq!(other[0].str_at("lastTransitionTime"), "2026-01-02T03:04:05Z", "it was away before");
    let back = conditions(&object, &Verdict::passed(), later).unwrap();
    assert_eq!(back[0].str_at("lastTransitionTime"), "2026-02-02T03:04:05Z");
    let local = local_conditions(&object, later).unwrap();
    object.set("status.conditions", local);
    assert_eq!(object.at("status.conditions")[0].str_at("reason"), "Local");
    assert_eq!(local_conditions(&object, now), None);
}

#[test]
fn old_discovery_is_read_in_the_new_form() {
    let document = json!({"resources": [
        {"name": "pods", "singularName": "pod", "namespaced": true, "kind": "PodMetrics", "verbs": ["get", "list"], "shortNames": ["po"]},
        {"name": "pods/scale", "singularName": "", "namespaced": true, "kind": "Scale", "group": "autoscaling", "version": "v1", "verbs": ["get"]},
        {"name": "nodes", "singularName": "", "namespaced": false, "kind": "NodeMetrics", "verbs": ["get"]},
    ]});
    let kind = |kind: &str| json!({"group": "metrics.k8s.io", "version": "v1beta1", "kind": kind});
    assert_eq!(
        from_legacy(&document, "metrics.k8s.io", "v1beta1"),
        json!([
            {
                "resource": "pods", "responseKind": kind("PodMetrics"), "scope": "Namespaced", "singularResource": "pod",
                "verbs": ["get", "list"], "shortNames": ["po"],
                "subresources": [{
                    "subresource": "scale", "verbs": ["get"],
                    "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                }],
            },
            {
                "resource": "nodes", "responseKind": kind("NodeMetrics"), "scope": "Cluster", "singularResource": "",
                "verbs": ["get"],
            },
        ])
    );
}

#[test]
fn a_server_speaks_for_its_own_paths_alone() {
    let document = json!({
        "paths": {
            "/apis/a/v1": {}, "/apis/a/v1/things": {"get": {"$ref": "#/definitions/Thing"}}, "/apis/a/v1beta1/things": {},
            "/api/v1/pods": {"get": {"$ref": "#/definitions/Pod"}},
        },
        "definitions": {"Thing": {"items": {"$ref": "#/definitions/Part"}}, "Part": {}, "Pod": {}},
    });
    assert_eq!(
        own_part(document, "/apis/a/v1"),
        json!({
            "paths": {"/apis/a/v1": {}, "/apis/a/v1/things": {"get": {"$ref": "#/definitions/Thing"}}},
            "definitions": {"Thing": {"items": {"$ref": "#/definitions/Part"}}, "Part": {}},
        })
    );
}
