//! Policies as upstream reads them, events as upstream writes them, and no secret in either.

use super::*;
use access::{authn::User, authz::Attributes};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
  - level: None
    users: ["system:kube-proxy"]
    verbs: ["watch"]
    resources:
      - group: ""
        resources: ["endpoints", "services", "services/status"]
  - level: None
    userGroups: ["system:nodes"]
    verbs: ["get"]
  - level: None
    nonResourceURLs: ["/healthz*", "/version"]
  - level: Metadata
    namespaces: ["kube-system"]
    omitStages: [ResponseStarted]
  - level: RequestResponse
    omitManagedFields: false
    resources:
      - group: "apps"
  - level: Request
    resources:
      - group: ""
        resources: ["pods/log", "*/eviction", "configmaps/*"]
      - group: ""
        resources: ["configmaps"]
        resourceNames: ["special"]
      - group: "*"
        resources: ["secrets", "serviceaccounts/token", "tokenreviews"]
"#;

fn judge(user: &User, verb: &str, what: &str, namespace: &str, name: &str) -> Verdict {
    let policy = Policy::parse(POLICY).unwrap();
    if let Some(path) = what.strip_prefix("path:") {
        return policy.judge(&Attributes::path(user, verb, path));
    }
    let (group, rest) = what.split_once(':').unwrap_or(("", what));
    let (resource, subresource) = rest.split_once('/').unwrap_or((rest, ""));
    policy.judge(&Attributes { namespace, subresource, name, ..Attributes::resource(user, verb, group, resource) })
}

#[test]
fn the_first_rule_that_matches_decides() {
    let bob = User::new("bob", ["dev"]);
    let proxy = User::new("system:kube-proxy", ["system:authenticated"]);
    let node = User::new("system:node:n1", ["system:nodes"]);
    for (user, verb, what, namespace, name, want) in [
        (&proxy, "watch", "services", "", "", Level::None),
        (&proxy, "watch", "services/status", "", "", Level::None),
        (&proxy, "watch", "services", "kube-system", "", Level::None),
        (&proxy, "list", "services", "kube-system", "", Level::Metadata),
        (&node, "get", "path:/any", "", "", Level::None),
        (&node, "get", "apps:deployments", "x", "", Level::None),
        (&node, "list", "apps:deployments", "x", "", Level::RequestResponse),
        (&bob, "get", "path:/healthz/etcd", "", "", Level::None),
        (&bob, "get", "path:/metrics", "", "", Level::None),
        (&bob, "create", "pods", "kube-system", "", Level::Metadata),
        (&bob, "create", "apps:deployments", "x", "", Level::RequestResponse),
        (&bob, "update", "apps:deployments/scale", "x", "d", Level::RequestResponse),
        (&bob, "get", "pods/log", "x", "p", Level::Request),
        (&bob, "get", "pods", "x", "p", Level::None),
        (&bob, "create", "pods/eviction", "x", "p", Level::Request),
        (&bob, "update", "configmaps", "x", "special", Level::Request),
        (&bob, "update", "configmaps/status", "x", "other", Level::Request),
    ] {
        assert_eq!(
            judge(user, verb, what, namespace, name).level,
            want,
            "{} {verb} {what} {namespace} {name}",
            user.name
        );
    }
}

#[test]
fn stages_and_managed_fields_follow_the_rule_and_the_policy() {
    let bob = User::new("bob", ["dev"]);
    let verdict = judge(&bob, "create", "pods", "kube-system", "");
    assert_eq!(verdict.omit_stages, [Stage::ResponseStarted, Stage::RequestReceived]);
    assert!(verdict.omit_managed_fields);
    let verdict = judge(&bob, "create", "apps:deployments", "x", "");
    assert_eq!((verdict.omit_stages.as_slice(), verdict.omit_managed_fields), (&[Stage::RequestReceived][..], false));
}

#[test]
fn secrets_and_tokens_are_never_recorded_with_their_content() {
    let bob = User::new("bob", ["dev"]);
    for what in ["secrets", "serviceaccounts/token", "authentication.k8s.io:tokenreviews"] {
        assert_eq!(judge(&bob, "create", what, "x", "s").level, Level::Metadata, "{what}");
    }
    let all = Policy::parse("{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: RequestResponse}]}").unwrap();
    let list = Attributes { namespace: "x", ..Attributes::resource(&bob, "list", "", "secrets") };
    assert_eq!(all.judge(&list).level, Level::Metadata);
}

#[test]
fn without_a_policy_everything_is_metadata() {
    let bob = User::new("bob", ["dev"]);
    let policy = Policy::default();
    assert_eq!(policy.judge(&Attributes::resource(&bob, "get", "", "pods")).level, Level::Metadata);
    assert_eq!(policy.judge(&Attributes::path(&bob, "get", "/healthz")).level, Level::Metadata);
}

#[test]
fn mistakes_in_a_policy_are_told_all_at_once() {
    let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
    let text = format!(
        "{head}omitStages: [Never]\nrules:\n- level: Some\n- verbs: [get]\n- level: None\n  nonResourceURLs: [healthz, /a*b]\n  namespaces: [x]\n- level: None\n  resources: [{{group: apps/v1}}, {{resourceNames: [a]}}]\n"
    );
    assert_eq!(
        Policy::parse(&text).unwrap_err().to_string(),
        "audit policy is invalid: \
         omitStages[0]: Invalid value: \"Never\": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic, \
         rules[0].level: Unsupported value: \"Some\": supported values: \"None\", \"Metadata\", \"Request\", \"RequestResponse\", \
         rules[1].level: Required value, \
         rules[2].nonResourceURLs[0]: Invalid value: \"healthz\": non-resource URL rules must begin with a '/' character, \
         rules[2].nonResourceURLs[1]: Invalid value: \"/a*b\": non-resource URL wildcards '*' must be the final character of the rule, \
         rules[2].nonResourceURLs: Invalid value: [\"healthz\",\"/a*b\"]: rules cannot apply to both regular resources and non-resource URLs, \
         rules[3].resources.group: Invalid value: \"apps/v1\": must be the name of an API group without a version, such as apps or networking.k8s.io, \
         rules[3].resources.resourceNames: Invalid value: [\"a\"]: using resourceNames requires at least one resource"
    );
    assert_eq!(Policy::parse(&format!("{head}rules: []")).unwrap_err(), PolicyError::Empty);
    assert!(matches!(Policy::parse("kind: Policy").unwrap_err(), PolicyError::Kind { .. }));
    assert!(matches!(Policy::parse(&format!("{head}rules: [{{levle: None}}]")), Err(PolicyError::Unreadable(_))));
}

fn moment(second: u32) -> Timestamp {
    format!("2026-01-02T03:04:{second:02}.5Z").parse().unwrap()
}

fn record(level: Level, omit_managed_fields: bool) -> Record {
    let bob = User { uid: "1".into(), ..User::new("bob", ["dev"]) };
    let asked =
        Attributes { namespace: "ns", version: "v1", ..Attributes::resource(&bob, "create", "apps", "deployments") };
    let request = Request {
        id: "a-1",
        attributes: &asked,
        uri: "/apis/apps/v1/namespaces/ns/deployments?dryRun=All",
        user_agent: "kubectl/1.37",
        source_ips: &["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()],
        received: moment(5),
    };
    Record::begin(request, Verdict { level, omit_stages: vec![Stage::ResponseStarted], omit_managed_fields }).unwrap()
}

#[test]
fn a_metadata_event_says_who_what_when_and_how_it_ended() {
    let mut record = record(Level::Metadata, false);
    record.impersonated(&User::new("alice", ["ops"]));
    record.annotate("authorization.k8s.io/decision", "allow");
    record.request_object(&json!({"kind": "Deployment", "metadata": {"name": "web", "uid": "u"}, "spec": {"x": 1}}));
    let response = Response { code: 201, status: None, object: Some(&json!({"kind": "Deployment"})) };
    assert_eq!(
        record.at(Stage::ResponseComplete, response, moment(6)).unwrap(),
        json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": "a-1",
            "stage": "ResponseComplete", "requestURI": "/apis/apps/v1/namespaces/ns/deployments?dryRun=All",
            "verb": "create", "user": {"username": "bob", "uid": "1", "groups": ["dev"]},
            "impersonatedUser": {"username": "alice", "groups": ["ops"]},
            "sourceIPs": ["192.0.2.7", "2001:db8::7"], "userAgent": "kubectl/1.37",
            "objectRef": {"resource": "deployments", "namespace": "ns", "name": "web", "uid": "u", "apiGroup": "apps", "apiVersion": "v1"},
            "responseStatus": {"metadata": {}, "code": 201},
            "requestReceivedTimestamp": "2026-01-02T03:04:05.500000Z", "stageTimestamp": "2026-01-02T03:04:06.500000Z",
            "annotations": {"authorization.k8s.io/decision": "allow"},
        })
    );
    assert_eq!(record.at(Stage::ResponseStarted, response, moment(6)), None, "left out by the policy");
}

#[test]
fn bodies_are_recorded_as_the_level_asks() {
    let sent = json!({"kind": "Deployment", "metadata": {"name": "web", "managedFields": [1]}});
    let answered = json!({"kind": "DeploymentList", "items": [{"metadata": {"managedFields": [1]}}]});
    for (level, request, response) in
        [(Level::Metadata, false, false), (Level::Request, true, false), (Level::RequestResponse, true, true)]
    {
        let mut record = record(level, true);
        assert_eq!((record.wants_request(), record.wants_response()), (request, response));
        record.request_object(&sent);
        let answer = Response { code: 200, status: None, object: Some(&answered) };
        let event = record.at(Stage::ResponseComplete, answer, moment(6)).unwrap();
        assert_eq!((!event["requestObject"].is_null(), !event["responseObject"].is_null()), (request, response));
        assert!(!event.to_string().contains("managedFields"));
        let early = record.at(Stage::RequestReceived, answer, moment(6)).unwrap();
        assert!(early["responseObject"].is_null() && early["responseStatus"].is_null());
    }
}

#[test]
fn a_secret_that_arrives_elsewhere_is_still_not_recorded() {
    for kind in ["Secret", "SecretList", "TokenRequest", "TokenReview"] {
        let body = json!({"kind": kind, "data": {"password": "aHVzaA=="}, "status": {"token": "aHVzaA=="}});
        let mut record = record(Level::RequestResponse, false);
        record.request_object(&body);
        let answer = Response { code: 200, status: None, object: Some(&body) };
        let text = record.at(Stage::ResponseComplete, answer, moment(6)).unwrap().to_string();
        assert!(!text.contains("aHVzaA=="), "{text}");
        assert!(!format!("{record:?}").contains("aHVzaA=="));
    }
}

#[test]
fn a_refusal_carries_its_status() {
    let status = api::error::ApiError::forbidden("pods", "", "p", "no").status();
    let response = Response { code: 403, status: Some(&status), object: None };
    let event = record(Level::Metadata, false).at(Stage::ResponseComplete, response, moment(6)).unwrap();
    assert_eq!(
        event["responseStatus"],
        json!({"metadata": {}, "status": "Failure", "message": "pods \"p\" is forbidden: no", "reason": "Forbidden",
               "details": {"name": "p", "kind": "pods"}, "code": 403})
    );
}

#[test]
fn a_refusal_that_may_quote_a_secret_is_told_without_its_words() {
    let status = api::error::ApiError::bad_request("data.password: aHVzaA is not base64").status();
    for (kind, code, quoted) in [("Secret", 400, false), ("Secret", 409, true), ("Deployment", 400, true)] {
        let mut record = record(Level::RequestResponse, false);
        record.request_object(&json!({"kind": kind}));
        let response = Response { code, status: Some(&status), object: Some(&status) };
        let event = record.at(Stage::ResponseComplete, response, moment(6)).unwrap();
        assert_eq!(event.to_string().contains("aHVzaA"), quoted, "{kind} {code}");
        assert_eq!(event["responseStatus"]["reason"], "BadRequest");
    }
}

#[test]
fn a_long_user_agent_is_cut_between_characters() {
    let bob = User::new("bob", ["dev"]);
    let asked = Attributes::path(&bob, "get", "/");
    let long = "é".repeat(600);
    let request =
        Request { id: "a", attributes: &asked, uri: "/", user_agent: &long, source_ips: &[], received: moment(1) };
    let record = Record::begin(request, Policy::default().judge(&asked)).unwrap();
    let event = record.at(Stage::RequestReceived, Response { code: 0, status: None, object: None }, moment(1)).unwrap();
    assert_eq!(event["userAgent"], format!("{}...TRUNCATED", "é".repeat(512)));
    assert!(event.get("objectRef").is_none(), "a path has no object");
}

#[test]
fn the_auditor_writes_what_the_policy_wants() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let log = Log::open(Target::from_flag(path.to_str().unwrap())).unwrap();
    let auditor = Auditor::new(Policy::parse(POLICY).unwrap(), log);
    let bob = User::new("bob", ["dev"]);
    for uri in ["/healthz", "/apis/apps/v1/deployments"] {
        let path = Attributes::path(&bob, "get", uri);
        let list = Attributes { version: "v1", ..Attributes::resource(&bob, "list", "apps", "deployments") };
        let attributes = if uri == "/healthz" { &path } else { &list };
        let request = Request { id: "a", attributes, uri, user_agent: "", source_ips: &[], received: moment(1) };
        let stream = http_body_util::StreamBody::new(futures::stream::pending());
        for body in [runtime::http::full("{}"), http_body_util::BodyExt::boxed_unsync(stream)] {
            if let Some(record) = auditor.begin(request) {
                drop(record.finish(http::Response::new(body)));
            }
        }
        drop(auditor.begin(request));
        auditor.unknown(request, &["bearer"]);
    }
    assert_eq!(auditor.dropped(), 0);
    drop(auditor);
    let text = std::fs::read_to_string(path).unwrap();
    let stages: Vec<Value> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["stage"].clone()).collect();
    let (whole, hung_up) = (["ResponseComplete"], ["ResponseComplete"]);
    let stream = ["ResponseStarted", "ResponseComplete"];
    let unknown = ["ResponseStarted"];
    let all = [&whole[..], &stream, &hung_up, &unknown].concat();
    assert_eq!(stages, all, "none of the path, none of the first stage");
}

proptest! {
    #[test]
    fn arbitrary_policies_never_panic(text in "\\PC{0,120}") {
        let _ = Policy::parse(&text);
        let _ = Policy::parse(&format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {text}"));
    }
}
