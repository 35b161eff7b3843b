//! Pod Security beside what kube-apiserver 1.37 said of 3,000 Pods and Deployments, and what the rows do not show: updates,
//! labels, defaults, exemptions, the audit log's notes.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use apiserver::{
    ApiServer,
    admission::{
        AdmissionConfiguration, Plugins,
        pod_security::{Exemptions, Level, PodSecurity, Policy, Standard, Version},
    },
    testing::Lab,
};
use serde_json::{Value, json};
use std::sync::Arc;
use support::{Reply, ask, lines};

const PREFIX: &str = "pod-security.kubernetes.io/";

async fn post(server: &Arc<ApiServer>, path: &str, body: &Value) -> Reply {
    ask(server, "POST", path, &[("content-type", "application/json")], body.to_string()).await
}

async fn patch(server: &Arc<ApiServer>, path: &str, body: &Value) -> Reply {
    ask(server, "PATCH", path, &[("content-type", "application/merge-patch+json")], body.to_string()).await
}

/// The texts of the warnings, as they were before they went into a header.
fn warnings(reply: &Reply) -> Vec<String> {
    let texts = reply.headers.get_all("warning").iter().map(|value| value.to_str().unwrap());
    let bare = |text: &str| {
        let text = text.strip_prefix("299 - \"").and_then(|text| text.strip_suffix('"')).unwrap();
        text.replace("\\\"", "\"").replace("\\\\", "\\")
    };
    texts.map(bare).collect()
}

/// The standard and the names of the broken rules in a refusal or warning, sorted; what stands in brackets is left out.
fn rules(text: &str) -> Option<Value> {
    let (_, text) = text.split_once("PodSecurity \"")?;
    let (standard, rest) = text.split_once("\": ")?;
    let mut depth = 0;
    let outside = rest.chars().filter(|c| {
        depth += i32::from(*c == '(');
        let outside = depth == 0;
        depth -= i32::from(*c == ')');
        outside
    });
    let outside: String = outside.collect();
    let mut names: Vec<&str> = outside.split(',').map(|name| name.trim().trim_matches('"').trim()).collect();
    names.retain(|name| !name.is_empty());
    names.sort_unstable();
    Some(json!([standard, names]))
}

async fn namespace(server: &Arc<ApiServer>, name: &str, labels: &[(&str, &str)]) -> Reply {
    let labels: serde_json::Map<String, Value> =
        labels.iter().map(|(key, value)| (format!("{PREFIX}{key}"), (*value).into())).collect();
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    post(server, "/api/v1/namespaces", &body).await
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    pod
}

async fn with(config: PodSecurity) -> Arc<ApiServer> {
    let mut lab = Lab::new();
    let mut plugins = Plugins { service_account: false, ..Plugins::default() };
    plugins.configure(AdmissionConfiguration { pod_security: Some(config), ..AdmissionConfiguration::default() });
    lab.server.config.admission = plugins;
    Box::pin(lab.start()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_pods_are_judged_as_upstream_judged_them() {
    let server = apiserver::testing::server().await;
    for (name, labels) in [
        ("psa-base", &[("enforce", "baseline")][..]),
        ("psa-rest", &[("enforce", "restricted")]),
        ("psa-warn", &[("enforce", "privileged"), ("warn", "restricted"), ("audit", "baseline")]),
        ("psa-old", &[("enforce", "restricted"), ("enforce-version", "v1.18")]),
        ("psa-mid", &[("enforce", "baseline"), ("enforce-version", "v1.26"), ("warn", "restricted")]),
        ("psa-none", &[]),
    ] {
        assert_eq!(namespace(&server, name, labels).await.status, 201);
    }
    // The recorder left the quote that ends a header at the last rule's name.
    let bare = |rules: &Value| {
        let mut names: Vec<&str> = rules[1].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        names.iter_mut().for_each(|name| *name = name.trim_end_matches('"').trim());
        names.sort_unstable();
        json!([rules[0], names])
    };
    let rows = lines("psa/rows.jsonl.gz");
    assert_eq!(rows.len(), 3000);
    let mut wrong = Vec::new();
    for row in &rows {
        let path = format!("{}?dryRun=All", row["path"].as_str().unwrap());
        let reply = post(&server, &path, &row["body"]).await;
        let forbidden = (reply.status == 403).then(|| rules(reply.json()["message"].as_str().unwrap())).flatten();
        let warned: Vec<Value> = warnings(&reply).iter().filter_map(|text| rules(text)).collect();
        let got = json!([reply.status, forbidden, warned]);
        let recorded = &row["got"];
        let forbidden = recorded["forbidden"].is_array().then(|| bare(&recorded["forbidden"]));
        let warned: Vec<Value> = recorded["warned"].as_array().unwrap().iter().map(bare).collect();
        if got != json!([recorded["code"], forbidden, warned]) {
            wrong.push(format!("{}\n  recorded {recorded}\n  here     {got}", row["body"]));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ, such as\n{}",
        wrong.len(),
        rows.len(),
        wrong[..wrong.len().min(5)].join("\n")
    );
}

#[tokio::test]
async fn a_refusal_names_every_rule_and_who_breaks_it() {
    let server = apiserver::testing::server().await;
    namespace(&server, "a", &[("enforce", "restricted")]).await;
    let reply = post(&server, "/api/v1/namespaces/a/pods", &pod("x", json!({"hostPID": true}))).await;
    assert_eq!(reply.status, 403);
    assert_eq!(
        reply.json()["message"],
        "pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\": host namespaces (hostPID=true), \
         allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), \
         unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), \
         runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), \
         seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
    );
    assert_eq!((&reply.json()["reason"], &reply.json()["details"]["kind"]), (&json!("Forbidden"), &json!("pods")));
}

#[tokio::test]
async fn updates_are_judged_again_only_when_they_change_what_runs() {
    let server = apiserver::testing::server().await;
    namespace(&server, "a", &[]).await;
    let path = "/api/v1/namespaces/a/pods/x";
    assert_eq!(post(&server, "/api/v1/namespaces/a/pods", &pod("x", json!({"hostNetwork": true}))).await.status, 201);
    let labels = json!({"metadata": {"labels": {format!("{PREFIX}enforce"): "baseline"}}});
    let labelled = patch(&server, "/api/v1/namespaces/a", &labels).await;
    assert_eq!(
        warnings(&labelled),
        [
            "existing pods in namespace \"a\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "x: host namespaces",
        ]
    );
    assert_eq!(patch(&server, path, &json!({"metadata": {"labels": {"a": "b"}}})).await.status, 200);
    let image = json!({"spec": {"containers": [{"name": "c", "image": "other"}]}});
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    assert_eq!(ask(&server, "PATCH", path, &strategic, image.to_string()).await.status, 403);
    let status = json!({"status": {"phase": "Running"}});
    assert_eq!(patch(&server, &format!("{path}/status"), &status).await.status, 200);
    let debugger = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}});
    let added = ask(&server, "PATCH", &format!("{path}/ephemeralcontainers"), &strategic, debugger.to_string()).await;
    assert_eq!(added.status, 403, "{}", added.json());
}

#[tokio::test]
async fn labels_of_a_namespace_are_checked_when_they_change() {
    let server = apiserver::testing::server().await;
    let refused =
        namespace(&server, "a", &[("enforce", "base"), ("warn-version", "1.30"), ("audit-version", "v1.05")]).await;
    assert_eq!(refused.status, 422);
    let causes: Vec<String> = refused.json()["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| cause["field"].as_str().unwrap().to_owned())
        .collect();
    let field = |name: &str| format!("metadata.labels[{PREFIX}{name}]");
    assert_eq!(causes, [field("enforce"), field("audit-version"), field("warn-version")]);
    assert_eq!(namespace(&server, "a", &[("enforce", "baseline"), ("enforce-version", "v1.99")]).await.status, 201);
    let wrong = json!({"metadata": {"labels": {format!("{PREFIX}enforce"): "none"}}});
    assert_eq!(patch(&server, "/api/v1/namespaces/a", &wrong).await.status, 422);
}

#[tokio::test]
async fn existing_pods_with_the_same_faults_are_named_together() {
    let server = apiserver::testing::server().await;
    namespace(&server, "a", &[]).await;
    let bad =
        json!({"hostPID": true, "containers": [{"name": "c", "image": "i", "securityContext": {"privileged": true}}]});
    for name in ["z", "y", "x"] {
        post(&server, "/api/v1/namespaces/a/pods", &pod(name, bad.clone())).await;
    }
    post(&server, "/api/v1/namespaces/a/pods", &pod("good", json!({}))).await;
    let path = "/api/v1/namespaces/a";
    let label = |level: &str| json!({"metadata": {"labels": {format!("{PREFIX}enforce"): level}}});
    let expected = [
        "existing pods in namespace \"a\" violate the new PodSecurity enforce level \"baseline:latest\"",
        "x (and 2 other pods): host namespaces, privileged",
    ];
    assert_eq!(warnings(&patch(&server, &format!("{path}?dryRun=All"), &label("baseline")).await), expected);
    assert_eq!(warnings(&patch(&server, path, &label("baseline")).await), expected);
    assert!(warnings(&patch(&server, path, &label("privileged")).await).is_empty(), "relaxing concerns nobody");
}

#[tokio::test]
async fn a_workload_is_warned_of_and_its_pods_are_refused() {
    let server = apiserver::testing::server().await;
    namespace(&server, "a", &[("enforce", "baseline"), ("enforce-version", "v1.30")]).await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "i"}]}});
    for (kind, plural) in [("Deployment", "deployments"), ("ReplicaSet", "replicasets"), ("DaemonSet", "daemonsets")] {
        let body = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "x"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
        let reply = post(&server, &format!("/apis/apps/v1/namespaces/a/{plural}"), &body).await;
        assert_eq!(reply.status, 201, "{}", reply.json());
        let expected = "would violate PodSecurity \"baseline:v1.30\": host namespaces (hostNetwork=true)";
        assert_eq!(warnings(&reply), [expected], "{kind}");
    }
    let scaled =
        patch(&server, "/apis/apps/v1/namespaces/a/deployments/x/scale", &json!({"spec": {"replicas": 2}})).await;
    assert_eq!((scaled.status, warnings(&scaled).len()), (200, 0));
}

#[tokio::test]
async fn defaults_and_exemptions_come_from_the_configuration() {
    let standard = |level| Standard { level, version: Version::Latest };
    let server = with(PodSecurity {
        defaults: Policy { enforce: standard(Level::Baseline), ..Policy::default() },
        exemptions: Exemptions {
            usernames: vec!["trusted".into()],
            namespaces: vec!["kube-system".into()],
            runtime_classes: vec!["gvisor".into()],
        },
    })
    .await;
    namespace(&server, "a", &[]).await;
    namespace(&server, "open", &[("enforce", "privileged")]).await;
    let class = json!({"metadata": {"name": "gvisor"}, "handler": "runsc"});
    let json = [("content-type", "application/json")];
    let made = ask(&server, "POST", "/apis/node.k8s.io/v1/runtimeclasses", &json, class.to_string()).await;
    assert_eq!(made.status, 201, "{}", made.json());
    let bad = pod("x", json!({"hostPID": true}));
    let sandboxed = pod("y", json!({"hostPID": true, "runtimeClassName": "gvisor"}));
    for (path, body, user, expected) in [
        ("a", &bad, "", 403),
        ("open", &bad, "", 201),
        ("kube-system", &bad, "", 201),
        ("a", &sandboxed, "", 201),
        ("a", &bad, "other", 403),
        ("a", &bad, "trusted", 201),
    ] {
        let path = format!("/api/v1/namespaces/{path}/pods?dryRun=All");
        let mut headers = vec![("content-type", "application/json")];
        if !user.is_empty() {
            headers.extend([("impersonate-user", user), ("impersonate-group", "system:masters")]);
        }
        let reply = ask(&server, "POST", &path, &headers, body.to_string()).await;
        assert_eq!(reply.status, expected, "{user} {path}: {}", reply.json());
    }
    let labels = json!({"metadata": {"labels": {format!("{PREFIX}enforce"): "restricted"}}});
    assert_eq!(
        warnings(&patch(&server, "/api/v1/namespaces/kube-system", &labels).await),
        [
            "namespace \"kube-system\" is exempt from Pod Security, and the policy (enforce=restricted:latest) will be ignored"
        ]
    );
}

#[tokio::test]
async fn switched_off_it_looks_at_nothing() {
    let mut lab = Lab::new();
    lab.server.config.admission.pod_security = None;
    let server = lab.start().await;
    assert_eq!(namespace(&server, "a", &[("enforce", "nonsense")]).await.status, 201);
    assert_eq!(post(&server, "/api/v1/namespaces/a/pods", &pod("x", json!({"hostPID": true}))).await.status, 201);
    assert_eq!(AdmissionConfiguration::default().pod_security, None);
}

#[tokio::test]
async fn external_ips_are_denied_where_the_plugin_runs() {
    let service = |ips: &[&str]| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "externalIPs": ips}});
    for (on, expected) in [(false, 201), (true, 403)] {
        let mut lab = Lab::new();
        lab.server.config.admission.deny_service_external_ips = on;
        let server = lab.start().await;
        for ips in [&["192.0.2.1"][..], &["2001:db8::1"], &["192.0.2.1", "2001:db8::1"]] {
            let reply = post(&server, "/api/v1/namespaces/default/services?dryRun=All", &service(ips)).await;
            assert_eq!(reply.status, expected, "{}", reply.json());
        }
        assert_eq!(post(&server, "/api/v1/namespaces/default/services", &service(&[])).await.status, 201);
        let added =
            patch(&server, "/api/v1/namespaces/default/services/s", &json!({"spec": {"externalIPs": ["2001:db8::2"]}}))
                .await;
        assert_eq!(added.status, if on { 403 } else { 200 });
    }
}
