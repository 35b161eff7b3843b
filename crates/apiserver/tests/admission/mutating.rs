//! MutatingAdmissionPolicies: changes as configurations and as JSON patches, parameters, reinvocation, failures.

use crate::{
    V4, lab, server,
    support::{Reply, ask, make, secure::Secure},
};
use apiserver::ApiServer;
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use runtime::http::{Body, full};
use serde_json::{Value, json};
use std::{convert::Infallible, sync::Arc};

const KINDS: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn on(group: &str, resource: &str) -> Value {
    json!({"resourceRules": [{"apiGroups": [group], "apiVersions": ["*"], "resources": [resource], "operations": ["CREATE", "UPDATE"]}]})
}

fn configuration(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn operations(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

async fn bound(server: &Arc<ApiServer>, name: &str, matched: Value, mutations: Vec<Value>, extra: Value) {
    let mut spec = json!({"matchConstraints": matched, "mutations": mutations, "reinvocationPolicy": "Never"});
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let policy = json!({"metadata": {"name": name}, "spec": spec});
    make(server, &format!("{KINDS}/mutatingadmissionpolicies"), policy).await;
    let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
    make(server, &format!("{KINDS}/mutatingadmissionpolicybindings"), binding).await;
}

async fn clear(server: &Arc<ApiServer>) {
    for plural in ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"] {
        assert_eq!(ask(server, "DELETE", &format!("{KINDS}/{plural}"), &[], "").await.status, 200);
    }
}

async fn dry(server: &Arc<ApiServer>, path: &str, object: &Value) -> Reply {
    ask(server, "POST", &format!("{path}?dryRun=All"), &[], object.to_string()).await
}

#[tokio::test]
async fn an_object_is_changed_by_a_configuration_and_by_a_patch() {
    let server = server().await;
    let object = json!({"metadata": {"name": "m", "labels": {"a": "1"}}, "data": {"k": "v"}});
    let labels = "Object{metadata: Object.metadata{labels: {'b': object.data.k}}}";
    let patch = "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('x/y'), value: string(size(object.metadata.labels))}]";
    bound(&server, "p.example.com", on("", "configmaps"), vec![configuration(labels), operations(patch)], json!({}))
        .await;
    let made = dry(&server, MAPS, &object).await.json();
    assert_eq!(made["metadata"]["labels"], json!({"a": "1", "b": "v", "x/y": "2"}), "{made}");
    let table = ask(
        &server,
        "GET",
        &format!("{KINDS}/mutatingadmissionpolicies"),
        &[("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")],
        "",
    )
    .await
    .json();
    assert_eq!(
        table["rows"][0]["cells"].as_array().unwrap()[..3],
        [json!("p.example.com"), json!(2), json!("<unset>")]
    );
    clear(&server).await;
    // A test that does not hold leaves the object alone, and so does a condition.
    let tested = "[JSONPatch{op: 'test', path: '/data/k', value: 'w'}, JSONPatch{op: 'remove', path: '/data'}]";
    let condition = json!({"matchConditions": [{"name": "never", "expression": "object.metadata.name == 'other'"}]});
    bound(&server, "a.example.com", on("", "configmaps"), vec![operations(tested)], json!({})).await;
    let remove = operations("[JSONPatch{op: 'remove', path: '/data'}]");
    bound(&server, "b.example.com", on("", "configmaps"), vec![remove], condition).await;
    assert_eq!(dry(&server, MAPS, &object).await.json()["data"], json!({"k": "v"}));
}

#[tokio::test]
async fn what_goes_wrong_refuses_the_request_unless_the_policy_says_otherwise() {
    let server = server().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let denied = "policy 'p.example.com' with binding 'p.example.com' denied request";
    for (mutation, why) in [
        (
            configuration("Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', command: ['x']}]}}"),
            format!(
                "{denied}: error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.containers[0].command"
            ),
        ),
        (
            configuration("Object{spec: Object.spec{nonsense: 1}}"),
            format!(
                "{denied}: error applying patch: failed to convert patch object to typed object: .spec.nonsense: field not declared in schema"
            ),
        ),
        (
            configuration("Object{spec: Object.status{nodeName: 'x'}}"),
            format!(
                "{denied}: type mismatch: unexpected type name \"Object.status\", expected \"Object.spec\", which matches field name path from root Object type"
            ),
        ),
        (operations("[JSONPatch{op: 'remove', path: '/spec/x/y'}]"), format!("{denied}: JSON Patch: ")),
        (
            operations("[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': object.spec.nothing}}]"),
            format!(
                "{denied}: expression '[JSONPatch{{op: 'add', path: '/metadata/labels', value: {{'a': object.spec.nothing}}}}]' resulted in error: no such key: nothing"
            ),
        ),
    ] {
        bound(&server, "p.example.com", on("", "pods"), vec![mutation.clone()], json!({})).await;
        let answer = dry(&server, pods, &pod).await.json();
        let message = answer["message"].as_str().unwrap();
        assert!(message.starts_with(&why), "{message}");
        assert_eq!((&answer["code"], &answer["reason"]), (&json!(403), &json!("Invalid")));
        assert_eq!(answer["details"]["causes"][0]["message"], message);
        clear(&server).await;
        bound(&server, "p.example.com", on("", "pods"), vec![mutation], json!({"failurePolicy": "Ignore"})).await;
        assert_eq!(dry(&server, pods, &pod).await.status, 201);
        clear(&server).await;
    }
    // What no Pod can be is nobody's failure policy.
    let strange = operations("[JSONPatch{op: 'add', path: '/spec/nonsense', value: 1}]");
    bound(&server, "p.example.com", on("", "pods"), vec![strange], json!({"failurePolicy": "Ignore"})).await;
    let answer = dry(&server, pods, &pod).await.json();
    assert_eq!(answer["code"], 500);
    assert!(answer["message"].as_str().unwrap().contains("unknown field \"spec.nonsense\""), "{answer}");
}

#[tokio::test]
async fn a_policy_sees_its_parameters_each_in_turn() {
    let server = server().await;
    for name in ["one", "two"] {
        let param = json!({"metadata": {"name": name, "labels": {"use": "yes"}}, "data": {"key": name}});
        make(&server, MAPS, param).await;
    }
    let add = configuration("Object{metadata: Object.metadata{annotations: {params.data.key: variables.count}}}");
    let spec = json!({"matchConstraints": on("", "secrets"), "mutations": [add], "reinvocationPolicy": "Never",
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "variables": [{"name": "count", "expression": "string(has(object.metadata.annotations) ? size(object.metadata.annotations) : 0)"}]});
    let policy = json!({"metadata": {"name": "p.example.com"}, "spec": spec});
    make(&server, &format!("{KINDS}/mutatingadmissionpolicies"), policy).await;
    let param = json!({"selector": {"matchLabels": {"use": "yes"}}, "parameterNotFoundAction": "Deny"});
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p.example.com", "paramRef": param}});
    make(&server, &format!("{KINDS}/mutatingadmissionpolicybindings"), binding).await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let made = dry(&server, secrets, &json!({"metadata": {"name": "s"}})).await.json();
    assert_eq!(made["metadata"]["annotations"], json!({"one": "0", "two": "1"}), "{made}");
    assert_eq!(ask(&server, "DELETE", &format!("{MAPS}?labelSelector=use%3Dyes"), &[], "").await.status, 200);
    let answer = dry(&server, secrets, &json!({"metadata": {"name": "s"}})).await.json();
    assert_eq!(
        answer["message"],
        "policy 'p.example.com' with binding 'b' denied request: failed to configure binding: \
         no params found for policy binding with `Deny` parameterNotFoundAction"
    );
    assert_eq!(answer["reason"], "Forbidden");
}

async fn labels(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let review: Value = serde_json::from_slice(&request.into_body().collect().await.unwrap().to_bytes()).unwrap();
    let before = review["request"]["object"]["metadata"]["labels"].clone();
    let mut after = before.as_object().cloned().unwrap_or_default();
    after.insert("hook".into(), format!("saw-{}", after.len()).into());
    let patch = json!([{"op": "add", "path": "/metadata/labels", "value": after}]).to_string();
    let response = json!({"uid": review["request"]["uid"], "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch)});
    let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
    Ok(Response::new(full(Bytes::from(review.to_string()))))
}

#[tokio::test]
async fn policies_come_before_webhooks_and_are_asked_again_after_them_where_they_want() {
    let server = server().await;
    let standin = Secure::new(V4, labels);
    let hook = json!({"name": "hook.example.com", "clientConfig": standin.url(V4, "/x"), "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}]});
    make(
        &server,
        &format!("{KINDS}/mutatingwebhookconfigurations"),
        json!({"metadata": {"name": "h"}, "webhooks": [hook]}),
    )
    .await;
    let count = "Object{metadata: Object.metadata{labels: {'NAME': string(has(object.metadata.labels) ? size(object.metadata.labels) : 0)}}}";
    for (name, again) in [("never", "Never"), ("needed", "IfNeeded")] {
        let mutation = configuration(&count.replace("NAME", name));
        let matched = on("", "configmaps");
        bound(&server, &format!("{name}.example.com"), matched, vec![mutation], json!({"reinvocationPolicy": again}))
            .await;
    }
    let made = dry(&server, MAPS, &json!({"metadata": {"name": "m"}})).await.json();
    // `needed` first (0), then `never` (1), the webhook saw two; then `needed` once more with all three.
    assert_eq!(made["metadata"]["labels"], json!({"needed": "3", "never": "1", "hook": "saw-2"}), "{made}");
}

#[tokio::test]
async fn the_default_family_policy_can_be_another_one_on_every_shape_of_cluster() {
    let single = [("10.96.0.0/16", vec!["IPv4"]), ("fd00:96::/108", vec!["IPv6"])];
    let double =
        [("10.96.0.0/16,fd00:96::/108", vec!["IPv4", "IPv6"]), ("fd00:96::/108,10.96.0.0/16", vec!["IPv6", "IPv4"])];
    for (ranges, families) in single.into_iter().chain(double) {
        let mut lab = lab();
        let ranges = net::flags::service_ranges(ranges).unwrap();
        lab.server.services =
            apiserver::services::Services::new(apiserver::services::Settings { ranges, ..Default::default() });
        let server = lab.start().await;
        let unset = json!({"matchConditions": [{"name": "unset", "expression": "!has(object.spec.ipFamilyPolicy) && object.spec.?type.orValue('') != 'ExternalName'"}]});
        let prefer = configuration("Object{spec: Object.spec{ipFamilyPolicy: 'PreferDualStack'}}");
        bound(&server, "dual-stack.example.com", on("", "services"), vec![prefer], unset).await;
        let services = "/api/v1/namespaces/default/services";
        let service = |name: &str, extra: Value| {
            let mut spec = json!({"ports": [{"port": 80}]});
            spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            json!({"metadata": {"name": name}, "spec": spec})
        };
        let made = make(&server, services, service("a", json!({}))).await;
        assert_eq!(
            (&made["spec"]["ipFamilyPolicy"], &made["spec"]["ipFamilies"]),
            (&json!("PreferDualStack"), &json!(families))
        );
        assert_eq!(made["spec"]["clusterIPs"].as_array().unwrap().len(), families.len());
        let made = make(&server, services, service("b", json!({"ipFamilyPolicy": "SingleStack"}))).await;
        assert_eq!(made["spec"]["ipFamilies"], json!([families[0]]));
        let made =
            make(&server, services, service("c", json!({"type": "ExternalName", "externalName": "a.example.com"})))
                .await;
        assert_eq!(made["spec"]["ipFamilyPolicy"], Value::Null);
    }
}
