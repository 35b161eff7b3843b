//! Roles: what they open, reviews, escalation, aggregation and impersonation.

use super::*;

#[tokio::test]
async fn a_role_opens_what_it_names() {
    let server = apiserver::testing::server().await;
    for name in ["mine", "other"] {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        make(&server, "/api/v1/namespaces/default/configmaps", map).await;
    }
    let verbs = ["get", "list", "watch", "deletecollection"];
    let rule = json!({"verbs": verbs, "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"]});
    grant(&server, "bob", json!([rule])).await;
    let (bob, base) = (user("bob"), "/api/v1/namespaces/default/configmaps");
    for (path, want) in [
        (format!("{base}/mine"), 200),
        (format!("{base}/other"), 403),
        (base.to_owned(), 403),
        (format!("{base}?fieldSelector=metadata.name%3Dmine"), 200),
        (format!("{base}?fieldSelector=metadata.name%3Dother"), 403),
        (format!("{base}?fieldSelector=metadata.name!%3Dmine"), 403),
        (format!("{base}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dmine"), 200),
    ] {
        assert_eq!(get(&server, &bob, &path).await.status, want, "{path}");
    }
    let one = format!("{base}?fieldSelector=metadata.name%3Dmine");
    let listed = get(&server, &bob, &one).await.json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
    let refused = with_headers(&server, &bob, "DELETE", &one, &[], &Value::Null).await;
    assert_eq!(refused.status, 403, "a name never bounds who deletes collections, as upstream has it");
}

#[tokio::test]
async fn reviews_answer_what_requests_would_get() {
    let server = apiserver::testing::server().await;
    let rules = json!([{"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments"]},
                       {"verbs": ["get"], "nonResourceURLs": ["/metrics"]}]);
    grant(&server, "bob", rules).await;
    let base = "/apis/authorization.k8s.io/v1";
    let asked = |verb: &str| json!({"verb": verb, "group": "apps", "resource": "deployments", "namespace": "default"});
    let ask = async |who: &Who, path: &str, kind: &str, spec: Value| {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec,
                            "metadata": {"namespace": if path.contains("namespaces/") { json!("default") } else { Value::Null }}});
        let reply = post(&server, who, &format!("{base}/{path}"), &review).await;
        assert_eq!(reply.status, 201, "{kind}: {}", reply.json());
        reply.json()["status"].clone()
    };
    for (verb, allowed) in [("get", true), ("delete", false)] {
        let own = json!({"resourceAttributes": asked(verb)});
        let of_bob = json!({"resourceAttributes": asked(verb), "user": "bob"});
        let local = "namespaces/default/localsubjectaccessreviews";
        for (who, path, kind, spec) in [
            (user("bob"), "selfsubjectaccessreviews", "SelfSubjectAccessReview", own),
            (user_root(), "subjectaccessreviews", "SubjectAccessReview", of_bob.clone()),
            (user_root(), local, "LocalSubjectAccessReview", of_bob),
        ] {
            let status = ask(&who, path, kind, spec).await;
            assert_eq!(status["allowed"], allowed, "{kind} {verb}: {status}");
        }
    }
    let path = json!({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}});
    assert_eq!(ask(&user("bob"), "selfsubjectaccessreviews", "SelfSubjectAccessReview", path).await["allowed"], true);
    let namespace = json!({"namespace": "default"});
    let all = ask(&user("bob"), "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespace).await;
    let has = |list: &str, rule: Value| all[list].as_array().unwrap().contains(&rule);
    assert!(
        has("resourceRules", json!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments"]})),
        "{all}"
    );
    assert!(has("nonResourceRules", json!({"verbs": ["get"], "nonResourceURLs": ["/metrics"]})), "{all}");
    assert_eq!(all["incomplete"], false);
    let body =
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "root"}});
    assert_eq!(post(&server, &user("bob"), &format!("{base}/subjectaccessreviews"), &body).await.status, 403);
    let both = post(&server, &user_root(), &format!("{base}/subjectaccessreviews"), &body).await;
    assert_eq!(both.status, 422, "{}", both.json());
}

#[tokio::test]
async fn nobody_grants_more_than_they_have() {
    let server = apiserver::testing::server().await;
    let group = "rbac.authorization.k8s.io";
    let own = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
    let resources = ["roles", "rolebindings", "clusterroles", "clusterrolebindings"];
    let writes = json!({"verbs": ["create", "update", "patch"], "apiGroups": [group], "resources": resources});
    grant(&server, "bob", json!([own, writes])).await;
    grant(
        &server,
        "eve",
        json!([writes, {"verbs": ["escalate"], "apiGroups": [group], "resources": ["roles"]},
        {"verbs": ["bind"], "apiGroups": [group], "resources": ["clusterroles"], "resourceNames": ["cluster-admin"]}]),
    )
    .await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let role = |name: &str, verbs: Value| {
        json!({"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": {"name": name},
               "rules": [{"verbs": verbs, "apiGroups": [""], "resources": ["pods"]}]})
    };
    assert_eq!(post(&server, &user("bob"), &roles, &role("same", json!(["get"]))).await.status, 201);
    let more = post(&server, &user("bob"), &roles, &role("more", json!(["get", "delete"]))).await;
    assert_eq!(
        message(&more),
        (
            403,
            "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"bob\" (groups=[\"system:authenticated\"]) is attempting to grant \
             RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}"
                .to_owned()
        )
    );
    let widen = json!({"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]});
    let path = format!("{roles}/same");
    assert_eq!(with_headers(&server, &user("bob"), "PATCH", &path, &[], &widen).await.status, 403, "nor by a patch");
    assert_eq!(
        with_headers(&server, &user("eve"), "PATCH", &path, &[], &widen).await.status,
        200,
        "escalate is the right to"
    );
    let bind = |role: &str, name: &str| {
        json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
               "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
               "subjects": [{"apiGroup": group, "kind": "User", "name": "bob"}]})
    };
    let bindings = format!("{RBAC}/clusterrolebindings");
    for (who, role, want) in [
        ("bob", "cluster-admin", 403),
        ("bob", "nowhere", 404),
        ("eve", "system:node", 403),
        ("eve", "cluster-admin", 201),
    ] {
        let reply = post(&server, &user(who), &bindings, &bind(role, &format!("{who}-{role}"))).await;
        assert_eq!(reply.status, want, "{who} {role}: {}", reply.json());
    }
}

#[tokio::test]
async fn aggregated_roles_are_filled_and_count_at_once() {
    let server = apiserver::testing::server().await;
    let rules_of = async |name: &str| {
        get(&server, &user_root(), &format!("{RBAC}/clusterroles/{name}")).await.json()["rules"].clone()
    };
    until("rules in admin, edit and view", || async {
        let filled = [rules_of("admin").await, rules_of("edit").await, rules_of("view").await];
        filled.iter().all(|rules| rules.as_array().is_some_and(|rules| !rules.is_empty()))
    })
    .await;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "v"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}]});
    make(&server, &format!("{RBAC}/namespaces/default/rolebindings"), binding).await;
    let (pods, leases) = ("/api/v1/namespaces/default/pods", "/apis/coordination.k8s.io/v1/namespaces/default/leases");
    until("view for bob", || async { get(&server, &user("bob"), pods).await.status == 200 }).await;
    assert_eq!(get(&server, &user("bob"), "/api/v1/namespaces/kube-system/pods").await.status, 403);
    assert_eq!(get(&server, &user("bob"), "/api/v1/namespaces/default/secrets").await.status, 403);
    assert_eq!(get(&server, &user("bob"), leases).await.status, 403);
    let rule = json!({"verbs": ["list"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": [rule],
        "metadata": {"name": "more", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}});
    make(&server, &format!("{RBAC}/clusterroles"), role).await;
    until("leases for bob", || async { get(&server, &user("bob"), leases).await.status == 200 }).await;
    until("the rule in the object", || async {
        rules_of("view").await.as_array().is_some_and(|rules| rules.contains(&rule))
    })
    .await;
    let view = get(&server, &user_root(), &format!("{RBAC}/clusterroles/view")).await.json();
    let managers = view["metadata"]["managedFields"].as_array().unwrap();
    assert!(managers.iter().any(|entry| entry["manager"] == "clusterrole-aggregation-controller"), "{managers:?}");
    remove(&server, &format!("{RBAC}/clusterroles/more")).await;
    until("the end of it", || async { get(&server, &user("bob"), leases).await.status == 403 }).await;
}

#[tokio::test]
async fn acting_as_somebody_needs_the_right_for_every_part() {
    let server = apiserver::testing::server().await;
    let rule = |group: &str, resource: &str, names: &[&str]| json!({"verbs": ["impersonate"], "apiGroups": [group], "resources": [resource], "resourceNames": names});
    let rules = json!([
        rule("", "users", &["alice"]),
        rule("", "groups", &["dev"]),
        rule("authentication.k8s.io", "uids", &["7"]),
        rule("authentication.k8s.io", "userextras/acme.com/scope", &["view"]),
    ]);
    grant(&server, "bob", rules).await;
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let alice = ("impersonate-user", "alice");
    let whole =
        [alice, ("impersonate-group", "dev"), ("impersonate-uid", "7"), ("impersonate-extra-acme.com%2Fscope", "view")];
    let me = with_headers(&server, &user("bob"), "POST", path, &whole, &review).await;
    assert_eq!(
        me.json()["status"]["userInfo"],
        json!({"username": "alice", "uid": "7", "groups": ["dev", "system:authenticated"], "extra": {"acme.com/scope": ["view"]}})
    );
    for (headers, want) in [
        (&[("impersonate-user", "root")][..], 403),
        (&[alice, ("impersonate-group", "system:masters")], 403),
        (&[alice, ("impersonate-uid", "8")], 403),
        (&[alice, ("impersonate-extra-acme.com%2Fscope", "admin")], 403),
        (&[alice, ("impersonate-extra-other", "view")], 403),
        (&[("impersonate-group", "dev")], 400),
        (&[("impersonate-uid", "7")], 400),
    ] {
        let reply = with_headers(&server, &user("bob"), "POST", path, headers, &review).await;
        assert_eq!(reply.status, want, "{headers:?}: {}", reply.json());
    }
    let refused = with_headers(&server, &user("bob"), "GET", "/api/v1/pods", &[alice], &Value::Null).await;
    assert_eq!(
        message(&refused),
        (
            403,
            r#"pods is forbidden: User "alice" cannot list resource "pods" in API group "" at the cluster scope"#
                .to_owned()
        ),
        "what alice may not, bob as alice may not"
    );
    let stranger = with_headers(&server, &Nobody, "GET", "/version", &[alice], &Value::Null).await;
    assert_eq!(stranger.status, 403, "nobody may act as nobody else");
}
