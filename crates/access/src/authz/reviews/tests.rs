//! Reviews against a small set of roles.

use super::*;
use crate::{
    authn::{
        Authenticator, TokenFile, User,
        service_account::{ObjectKind, Objects},
    },
    authz::{
        Attributes, Authorizer, Decision,
        rbac::{RbacIndex, RbacKind},
    },
};
use api::object::Fields;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

fn index() -> RbacIndex {
    let index = RbacIndex::new();
    let rules = json!([
        {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"], "resourceNames": []},
        {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
    ]);
    index.set(RbacKind::ClusterRole, &json!({"metadata": {"name": "r"}, "rules": rules}));
    let subjects = json!([{"kind": "User", "name": "alice"}]);
    let binding =
        json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": subjects});
    index.set(RbacKind::ClusterRoleBinding, &binding);
    index
}

fn spec(spec: Value) -> Value {
    json!({"metadata": {"creationTimestamp": null}, "spec": spec})
}

#[test]
fn access_is_reviewed_for_the_named_user() {
    let allowed = r#"RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to User "alice""#;
    let pods = json!({"verb": "list", "resource": "pods", "namespace": "ns"});
    for (asked, want) in [
        (json!({"user": "alice", "resourceAttributes": pods}), json!({"allowed": true, "reason": allowed})),
        (json!({"user": "bob", "resourceAttributes": pods}), json!({"allowed": false})),
        (json!({"groups": ["alice"], "resourceAttributes": pods}), json!({"allowed": false})),
        (
            json!({"user": "alice", "nonResourceAttributes": {"verb": "get", "path": "/metrics"}}),
            json!({"allowed": true, "reason": allowed}),
        ),
        (
            json!({"user": "alice", "nonResourceAttributes": {"verb": "get", "path": "/logs"}}),
            json!({"allowed": false}),
        ),
    ] {
        let answer = subject_access_review(spec(asked.clone()), &index()).unwrap();
        assert_eq!(answer["status"], want, "{asked}");
        assert_eq!(answer["spec"], asked, "the question is repeated");
    }
}

#[test]
fn a_denial_is_told_apart_from_no_opinion() {
    struct No;
    impl Authorizer for No {
        fn authorize(&self, _: &Attributes<'_>) -> Decision {
            Decision::Deny("house rules".into())
        }
    }
    let review = spec(json!({"nonResourceAttributes": {"verb": "get", "path": "/"}}));
    let answer = self_subject_access_review(review, &User::anonymous(), &No).unwrap();
    assert_eq!(answer["status"], json!({"allowed": false, "denied": true, "reason": "house rules"}));
}

#[test]
fn mistakes_are_told_in_upstreams_words() {
    let pods = json!({"verb": "list", "resource": "pods"});
    let union =
        "spec: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified";
    let nobody = "spec.user: Invalid value: \"\": at least one of user or group must be specified";
    for (review, want) in [
        (spec(json!({"user": "a"})), union.to_owned()),
        (spec(json!({})), format!("[{union}, {nobody}]")),
        (
            spec(json!({"user": "a", "resourceAttributes": pods, "nonResourceAttributes": {"path": "/"}})),
            "spec: Invalid value: {\"path\":\"/\"}: exactly one of nonResourceAttributes or resourceAttributes must be specified".into(),
        ),
        (
            json!({"metadata": {"name": "x"}, "spec": {"user": "a", "resourceAttributes": pods}}),
            "metadata: Invalid value: {\"name\":\"x\"}: must be empty".into(),
        ),
        (
            spec(json!({"user": "a", "resourceAttributes": {"fieldSelector": {}}})),
            "spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required".into(),
        ),
        (
            spec(json!({"user": "a", "resourceAttributes": {"labelSelector": {"rawSelector": "a=b", "requirements": [{}]}}})),
            "spec.resourceAttributes.labelSelector.rawSelector: Invalid value: \"a=b\": may not specified at the same time as requirements".into(),
        ),
    ] {
        let error = subject_access_review(review, &index()).unwrap_err();
        let prefix = "SubjectAccessReview.authorization.k8s.io \"\" is invalid: ";
        assert_eq!((error.code, error.message), (422, format!("{prefix}{want}")));
    }
}

#[test]
fn a_local_review_stays_in_its_namespace() {
    let review = |metadata: &str, asked: &str| {
        json!({"metadata": {"namespace": metadata},
               "spec": {"user": "alice", "resourceAttributes": {"verb": "list", "resource": "pods", "namespace": asked}}})
    };
    let ask = |review: Value| local_subject_access_review(review, "ns", &index()).map_err(|error| error.code);
    assert!(ask(review("ns", "ns")).unwrap().is_true("status.allowed"));
    assert_eq!(ask(review("ns", "other")), Err(422));
    assert_eq!(ask(review("other", "other")), Err(400));
    let path = json!({"metadata": {"namespace": "ns"}, "spec": {"user": "a", "nonResourceAttributes": {"path": "/"}}});
    assert_eq!(ask(path), Err(422));
}

#[test]
fn a_user_reviews_their_own_access_and_rules() {
    let alice = User::new("alice", ["system:authenticated"]);
    let review = spec(json!({"user": "root", "resourceAttributes": {"verb": "list", "resource": "pods"}}));
    let answer = self_subject_access_review(review, &alice, &index()).unwrap();
    assert!(answer.is_true("status.allowed"), "the asker counts, not what the review names");
    assert_eq!(
        self_subject_rules_review(&spec(json!({"namespace": "ns"})), &alice, &index()).unwrap(),
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
            "metadata": {"creationTimestamp": null}, "spec": {},
            "status": {
                "resourceRules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}],
                "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}],
                "incomplete": false,
            },
        })
    );
    assert_eq!(self_subject_rules_review(&spec(json!({})), &alice, &index()).unwrap_err().code, 400);
}

#[test]
fn selectors_of_a_review_reach_the_authorizer() {
    struct Echo;
    impl Authorizer for Echo {
        fn authorize(&self, asked: &Attributes<'_>) -> Decision {
            Decision::NoOpinion(asked.field_selector.into())
        }
    }
    for (selector, want) in [
        (json!({"rawSelector": "spec.nodeName=n1"}), "spec.nodeName=n1"),
        (
            json!({"requirements": [
                {"key": "spec.nodeName", "operator": "In", "values": ["n1"]},
                {"key": "a", "operator": "NotIn", "values": ["b"]},
                {"key": "a", "operator": "In", "values": ["b,spec.nodeName=n2"]},
                {"key": "c", "operator": "In", "values": ["d"]}]}),
            "spec.nodeName=n1,c=d",
        ),
    ] {
        let review =
            spec(json!({"resourceAttributes": {"verb": "list", "resource": "pods", "fieldSelector": selector}}));
        let answer = self_subject_access_review(review, &User::anonymous(), &Echo).unwrap();
        assert_eq!(answer.str_at("status.reason"), want);
    }
}

#[test]
fn everybody_may_learn_who_they_are() {
    let user = User { uid: "1".into(), ..User::new("alice", ["dev"]) };
    let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    assert_eq!(
        self_subject_review(&user, now),
        json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
            "metadata": {"creationTimestamp": "2026-01-02T03:04:05Z"},
            "status": {"userInfo": {"username": "alice", "uid": "1", "groups": ["dev"]}},
        })
    );
}

#[test]
fn a_token_is_reviewed() {
    struct Nothing;
    impl Objects for Nothing {
        fn get(&self, _: ObjectKind, _: &str, _: &str) -> Option<Arc<Value>> {
            None
        }
    }
    let authenticator = Authenticator {
        token_file: Some(TokenFile::parse("hush,alice,1,dev").unwrap()),
        audiences: vec!["api".into()],
        ..Authenticator::default()
    };
    let ask = |asked: Value| token_review(spec(asked), &authenticator, &Nothing, Timestamp::UNIX_EPOCH);
    let known = json!({"authenticated": true, "audiences": ["api"],
        "user": {"username": "alice", "uid": "1", "groups": ["dev", "system:authenticated"]}});
    let unknown = json!({"user": {}, "error": "invalid bearer token"});
    for (asked, want) in [
        (json!({"token": "hush"}), &known),
        (json!({"token": "hush", "audiences": ["api", "x"]}), &known),
        (json!({"token": "hush", "audiences": ["x"]}), &unknown),
        (json!({"token": "wrong"}), &unknown),
    ] {
        assert_eq!(ask(asked.clone()).unwrap()["status"], *want, "{asked}");
    }
    assert_eq!(ask(json!({"token": ""})).unwrap_err().code, 400);
}
