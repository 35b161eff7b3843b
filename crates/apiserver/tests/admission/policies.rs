//! ValidatingAdmissionPolicies: bound, with parameters, variables, messages and audit annotations.

use crate::support::{RBAC, Reply, ask, make, send};
use access::authn::User;
use apiserver::{ApiServer, handle::Insider, testing};
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use std::sync::Arc;

const KINDS: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A policy on ConfigMaps.
fn policy(name: &str, extra: Value) -> Value {
    let mut spec = json!({
        "matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]},
        ]},
    });
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

fn binding(name: &str, policy: &str, extra: Value) -> Value {
    let mut spec = json!({"policyName": policy, "validationActions": ["Deny"]});
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

async fn bound(server: &Arc<ApiServer>, extra: Value, bound: Value) {
    make(server, &format!("{KINDS}/validatingadmissionpolicies"), policy("p.example.com", extra)).await;
    let binding = binding("b.example.com", "p.example.com", bound);
    make(server, &format!("{KINDS}/validatingadmissionpolicybindings"), binding).await;
}

async fn clear(server: &Arc<ApiServer>) {
    for plural in ["validatingadmissionpolicies", "validatingadmissionpolicybindings"] {
        assert_eq!(ask(server, "DELETE", &format!("{KINDS}/{plural}"), &[], "").await.status, 200);
    }
}

async fn send_as(server: &Arc<ApiServer>, user: &str, path: &str, object: &Value) -> Reply {
    let user = User::new(user, ["system:authenticated"]);
    let request = Request::post(path).extension(Insider(user)).body(Full::new(object.to_string().into()));
    send(server, request.unwrap()).await
}

/// Tries a ConfigMap with this data and forgets it.
async fn map(server: &Arc<ApiServer>, data: Value) -> Reply {
    let object = json!({"metadata": {"name": "m"}, "data": data});
    ask(server, "POST", &format!("{MAPS}?dryRun=All"), &[], object.to_string()).await
}

#[tokio::test]
async fn a_write_that_a_validation_refuses_is_told_why() {
    let server = testing::server().await;
    for (validation, code, reason, told) in [
        (json!({"expression": "'a' in object.data"}), 422, "Invalid", "failed expression: 'a' in object.data"),
        (json!({"expression": "'a' in object.data", "message": " an a, please "}), 422, "Invalid", "an a, please"),
        (
            json!({"expression": "'a' in object.data", "messageExpression": "'not in ' + object.metadata.name", "reason": "Forbidden"}),
            403,
            "Forbidden",
            "not in m",
        ),
        (
            json!({"expression": "variables.count > 1", "messageExpression": "string(variables.count) + ' is few'", "reason": "RequestEntityTooLarge"}),
            413,
            "RequestEntityTooLarge",
            "1 is few",
        ),
        (
            json!({"expression": "object.data.a == 'b'"}),
            422,
            "Invalid",
            "expression 'object.data.a == 'b'' resulted in error: no such key: a",
        ),
        (
            json!({"expression": "authorizer.group('').resource('pods').check('get').allowed() && !request.dryRun"}),
            422,
            "Invalid",
            "failed expression: authorizer.group('').resource('pods').check('get').allowed() && !request.dryRun",
        ),
        (
            json!({"expression": "namespaceObject.metadata.name == 'other'"}),
            422,
            "Invalid",
            "failed expression: namespaceObject.metadata.name == 'other'",
        ),
    ] {
        let variables = json!([
            {"name": "unused", "expression": "object.nothing"},
            {"name": "keys", "expression": "object.data.map(key, key)"},
            {"name": "count", "expression": "size(variables.keys)"},
        ]);
        bound(&server, json!({"variables": variables, "validations": [validation]}), json!({})).await;
        let reply = map(&server, json!({"x": "y"})).await;
        let answer = reply.json();
        assert_eq!((reply.status, answer["reason"].as_str()), (code, Some(reason)), "{answer}");
        let text =
            format!("ValidatingAdmissionPolicy 'p.example.com' with binding 'b.example.com' denied request: {told}");
        assert_eq!(answer["message"], format!("configmaps \"m\" is forbidden: {text}"));
        assert_eq!(answer["details"]["causes"], json!([{"message": text}]));
        clear(&server).await;
        assert_eq!(map(&server, json!({"x": "y"})).await.status, 201);
    }
}

#[tokio::test]
async fn a_binding_warns_and_narrows_and_an_error_follows_the_failure_policy() {
    let server = testing::server().await;
    let no = json!([{"expression": "false", "message": "never"}]);
    bound(&server, json!({"validations": no}), json!({"validationActions": ["Warn", "Audit"]})).await;
    let reply = map(&server, json!({})).await;
    assert_eq!(reply.status, 201);
    let text = "Validation failed for ValidatingAdmissionPolicy 'p.example.com' with binding 'b.example.com': never";
    assert_eq!(reply.headers["warning"], format!("299 - \"{text}\""));
    clear(&server).await;
    let elsewhere = json!({"matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}});
    let excluded = json!({"matchResources": {"excludeResourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"], "resourceNames": ["m"]},
    ]}});
    for (extra, narrowed, status) in [
        (json!({"validations": no}), elsewhere, 201),
        (json!({"validations": no}), excluded, 201),
        (
            json!({"validations": no, "matchConditions": [{"name": "c", "expression": "object.metadata.name == 'n'"}]}),
            json!({}),
            201,
        ),
        (
            json!({"validations": no, "matchConditions": [{"name": "c", "expression": "object.metadata.name == 'm'"}]}),
            json!({}),
            422,
        ),
        (json!({"validations": [{"expression": "object.nothing == 1"}]}), json!({}), 422),
        (json!({"validations": [{"expression": "object.nothing == 1"}], "failurePolicy": "Ignore"}), json!({}), 201),
    ] {
        bound(&server, extra.clone(), narrowed.clone()).await;
        assert_eq!(map(&server, json!({})).await.status, status, "{extra} {narrowed}");
        clear(&server).await;
    }
}

#[tokio::test]
async fn parameters_are_found_by_name_and_by_label() {
    let server = testing::server().await;
    make(
        &server,
        "/api/v1/namespaces/default/configmaps",
        json!({"metadata": {"name": "limits", "labels": {"l": "1"}}, "data": {"most": "1"}}),
    )
    .await;
    make(
        &server,
        "/api/v1/namespaces/default/configmaps",
        json!({"metadata": {"name": "wide", "labels": {"l": "1"}}, "data": {"most": "9"}}),
    )
    .await;
    let limited = || {
        json!({
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "validations": [{"expression": "size(object.data) <= int(params.data.most)", "messageExpression": "'at most ' + params.data.most"}],
        })
    };
    let by = |given: Value| json!({"paramRef": given});
    for (given, status, told) in [
        (json!({"name": "limits", "parameterNotFoundAction": "Deny"}), 422, "at most 1"),
        (json!({"name": "wide", "namespace": "default", "parameterNotFoundAction": "Deny"}), 201, ""),
        (json!({"selector": {"matchLabels": {"l": "1"}}, "parameterNotFoundAction": "Deny"}), 422, "at most 1"),
        (
            json!({"name": "none", "parameterNotFoundAction": "Deny"}),
            422,
            "failed to configure binding: no params found",
        ),
        (json!({"name": "none", "parameterNotFoundAction": "Allow"}), 201, ""),
        (json!({"selector": {"matchLabels": {"l": "2"}}, "parameterNotFoundAction": "Allow"}), 201, ""),
    ] {
        bound(&server, limited(), by(given.clone())).await;
        let reply = map(&server, json!({"a": "1", "b": "2"})).await;
        assert_eq!(reply.status, status, "{given} {}", reply.json());
        assert!(reply.json()["message"].as_str().unwrap_or_default().contains(told), "{}", reply.json());
        clear(&server).await;
    }
}

#[tokio::test]
async fn whoever_names_parameters_must_be_able_to_read_them() {
    let server = testing::server().await;
    let rules = json!([{"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]}]);
    make(&server, &format!("{RBAC}/clusterroles"), json!({"metadata": {"name": "policies"}, "rules": rules})).await;
    crate::support::bind(&server, &format!("{RBAC}/clusterrolebindings"), "eve", "ClusterRole", "policies").await;
    let secret = policy(
        "p.example.com",
        json!({"paramKind": {"apiVersion": "v1", "kind": "Secret"}, "validations": [{"expression": "false", "messageExpression": "string(params)"}]}),
    );
    let path = format!("{KINDS}/validatingadmissionpolicies");
    let reply = send_as(&server, "eve", &path, &secret).await;
    let text = reply.json()["message"].as_str().unwrap().to_owned();
    assert!(
        reply.status == 403 && text.contains("must have \"get\" permission on all objects of the referenced paramKind"),
        "{text}"
    );
    make(&server, &path, secret).await;
    let bound = binding(
        "b",
        "p.example.com",
        json!({"paramRef": {"name": "s", "namespace": "kube-system", "parameterNotFoundAction": "Deny"}}),
    );
    let reply = send_as(&server, "eve", &format!("{KINDS}/validatingadmissionpolicybindings"), &bound).await;
    assert_eq!(reply.status, 403, "{}", reply.json());
}

#[tokio::test]
async fn a_policy_makes_dual_stack_a_must() {
    let mut lab = testing::Lab::new();
    let ranges = net::flags::service_ranges("fd00:96::/108,10.96.0.0/16").unwrap();
    lab.server.services =
        apiserver::services::Services::new(apiserver::services::Settings { ranges, ..Default::default() });
    let server = lab.start().await;
    let rules = json!({"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"], "operations": ["CREATE", "UPDATE"]}]});
    let validations = json!([{"expression": "object.spec.?ipFamilyPolicy.orValue('') in ['PreferDualStack', 'RequireDualStack']", "message": "Services have both families here"}]);
    bound(&server, json!({"matchConstraints": rules, "validations": validations}), json!({})).await;
    let services = "/api/v1/namespaces/default/services";
    for (policy, status) in [("SingleStack", 422), ("PreferDualStack", 201)] {
        let service = json!({"metadata": {"name": "a"}, "spec": {"ipFamilyPolicy": policy, "ports": [{"port": 80}]}});
        let reply = ask(&server, "POST", services, &[], service.to_string()).await;
        assert_eq!(reply.status, status, "{}", reply.json());
    }
}

#[tokio::test]
async fn mistakes_in_a_policy_are_told_together() {
    let server = testing::server().await;
    let object = json!({"metadata": {"name": "p"}, "spec": {
        "failurePolicy": "Maybe", "paramKind": {"apiVersion": "a/b/c", "kind": ""},
        "matchConstraints": {"resourceRules": []},
        "matchConditions": [{"name": "c", "expression": "variables.x"}],
        "variables": [{"name": "x-y", "expression": "1 +"}, {"name": "n", "expression": "1"}],
        "validations": [{"expression": "variables.n", "message": "a\nb", "reason": "Gone"}, {"expression": "nobody", "messageExpression": "1"}],
        "auditAnnotations": [{"key": "k", "valueExpression": "1"}, {"key": "k", "valueExpression": "''"}],
    }});
    let reply =
        ask(&server, "POST", &format!("{KINDS}/validatingadmissionpolicies"), &[], object.to_string()).await.json();
    let causes = reply["details"]["causes"].as_array().unwrap();
    let fields: Vec<&str> = causes.iter().map(|cause| cause["field"].as_str().unwrap()).collect();
    assert_eq!(
        fields,
        [
            "spec.failurePolicy",
            "spec.paramKind.apiVersion",
            "spec.paramKind.kind",
            "spec.matchConstraints.resourceRules",
            "spec.matchConditions[0].expression",
            "spec.variables[0].name",
            "spec.variables[0].expression",
            "spec.validations[0].expression",
            "spec.validations[0].message",
            "spec.validations[0].reason",
            "spec.validations[1].expression",
            "spec.validations[1].messageExpression",
            "spec.auditAnnotations[0].valueExpression",
            "spec.auditAnnotations[1].key",
        ],
        "{reply:#}"
    );
}

#[tokio::test]
async fn what_is_odd_about_types_is_told_in_the_status() {
    let server = testing::server().await;
    let matched = json!({"matchConstraints": {"resourceRules": [
        {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"], "operations": ["*"]}]}});
    let with = |expression: &str, message: &str| {
        let mut extra = matched.clone();
        extra["validations"] = json!([{"expression": expression, "messageExpression": message}]);
        extra
    };
    let path = format!("{KINDS}/validatingadmissionpolicies");
    make(
        &server,
        &path,
        policy("odd.example.com", with("object.spec.replicas > '1'", "'got ' + object.spec.replicas")),
    )
    .await;
    make(
        &server,
        &path,
        policy("fine.example.com", with("object.spec.replicas > 1", "'got ' + string(object.spec.replicas)")),
    )
    .await;
    let status = async |name: &str| {
        for _ in 0..500 {
            let found = ask(&server, "GET", &format!("{path}/{name}"), &[], "").await.json();
            if found["status"]["typeChecking"].is_object() {
                return found["status"].clone();
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("the types of {name} were not checked");
    };
    assert_eq!(status("fine.example.com").await, json!({"observedGeneration": 1, "typeChecking": {}}));
    let of = "apps/v1, Kind=Deployment: compilation failed: ERROR: found no matching overload for";
    assert_eq!(
        status("odd.example.com").await,
        json!({"observedGeneration": 1, "typeChecking": {"expressionWarnings": [
            {"fieldRef": "spec.validations[0].expression", "warning": format!("{of} '_>_' applied to '(int, string)'\n")},
            {"fieldRef": "spec.validations[0].messageExpression", "warning": format!("{of} '_+_' applied to '(string, int)'\n")},
        ]}})
    );
}
