//! Namespace, ConfigMap, Secret, Event, Lease, roles and bindings, reviews, flow control.

use super::*;

#[test]
fn namespaces() {
    let good = json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["kubernetes", "a.io/b"]}});
    refuses(
        "",
        "namespaces",
        &good,
        &[
            ("/metadata/name", json!("a.b"), "metadata.name", Invalid),
            ("/metadata/namespace", json!("x"), "metadata.namespace", Forbidden),
            ("/spec/finalizers/1", json!("x"), "spec.finalizers", Invalid),
        ],
    );
    let rules = resource("", "namespaces");
    let (stored, _) = create(&rules, &json!({"metadata": {"name": "a"}}));
    assert_eq!(stored.at("spec.finalizers"), &json!(["kubernetes"]));
    assert_eq!(stored.at("metadata.labels")["kubernetes.io/metadata.name"], "a");
    let wanted = [("status.Phase".to_owned(), Invalid)];
    assert_eq!(update_status(&rules, json!({"phase": "Terminating"}), &stored), wanted);
}

#[test]
fn config_maps_and_secrets() {
    let map = json!({"data": {"k": "v"}, "binaryData": {"b": "AAAA"}});
    refuses(
        "",
        "configmaps",
        &map,
        &[
            ("/data/..", json!("v"), "data[..]", Invalid),
            ("/data/b", json!("v"), "data[b]", Invalid),
            ("/data/k", json!("x".repeat(1024 * 1024)), "", TooLong),
        ],
    );
    let mut frozen = map.clone();
    frozen["immutable"] = json!(true);
    keeps(
        "",
        "configmaps",
        &frozen,
        &[
            ("/data/k", json!("w"), "data", Forbidden),
            ("/binaryData/b", json!("BBBB"), "binaryData", Forbidden),
            ("/immutable", json!(false), "immutable", Forbidden),
        ],
    );
    for (kind, data, missing, field) in [
        ("kubernetes.io/tls", json!({"tls.crt": "AAAA", "tls.key": "AAAA"}), "/data/tls.key", "data[tls.key]"),
        ("kubernetes.io/ssh-auth", json!({"ssh-privatekey": "AAAA"}), "/data/ssh-privatekey", "data[ssh-privatekey]"),
        ("kubernetes.io/dockercfg", json!({".dockercfg": "e30="}), "/data/.dockercfg", "data[.dockercfg]"),
    ] {
        refuses("", "secrets", &json!({"type": kind, "data": data}), &[(missing, json!(null), field, Required)]);
    }
    let registry = json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="}});
    refuses(
        "",
        "secrets",
        &registry,
        &[("/data/.dockerconfigjson", json!("eA=="), "data[.dockerconfigjson]", Invalid)],
    );
    keeps("", "secrets", &json!({"data": {"a": "AAAA"}}), &[("/type", json!("other"), "type", Invalid)]);
    let (stored, _) = create(&resource("", "secrets"), &json!({"stringData": {"a": "b"}, "data": {"a": "AAAA"}}));
    assert_eq!(stored.at("data"), &json!({"a": "Yg=="}));
    assert!(stored.get("stringData").is_none());
}

#[test]
fn events() {
    let good = json!({
        "regarding": {"kind": "Pod", "namespace": "d"}, "reason": "R", "note": "n", "type": "Normal", "action": "A",
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "a.io/b", "reportingInstance": "i",
        "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"},
    });
    refuses(
        "events.k8s.io",
        "events",
        &good,
        &[
            ("/type", json!("Odd"), "type", Invalid),
            ("/reason", json!(""), "reason", Required),
            ("/action", json!("x".repeat(129)), "action", Invalid),
            ("/note", json!("x".repeat(1025)), "message", Invalid),
            ("/reportingController", json!("a b"), "reportingController", Invalid),
            ("/reportingInstance", json!(""), "reportingInstance", Required),
            ("/series/count", json!(1), "series.count", Invalid),
            ("/deprecatedCount", json!(1), "count", Invalid),
        ],
    );
    keeps("events.k8s.io", "events", &good, &[("/reason", json!("S"), "reason", Invalid)]);
    let old = json!({"involvedObject": {"namespace": "d"}});
    refuses("", "events", &old, &[("/involvedObject/namespace", json!("e"), "involvedObject.namespace", Invalid)]);
}

#[test]
fn leases() {
    let good = json!({"spec": {"leaseDurationSeconds": 1, "leaseTransitions": 0}});
    refuses(
        "coordination.k8s.io",
        "leases",
        &good,
        &[
            ("/spec/leaseDurationSeconds", json!(0), "spec.leaseDurationSeconds", Invalid),
            ("/spec/leaseTransitions", json!(-1), "spec.leaseTransitions", Invalid),
        ],
    );
}

#[test]
fn roles_and_bindings() {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let role = json!({"metadata": {"name": "system:a"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    let mistakes = [
        ("/metadata/name", json!("a/b"), "metadata.name", Invalid),
        ("/rules/0/verbs", json!([]), "rules[0].verbs", Required),
        ("/rules/0/apiGroups", json!([]), "rules[0].apiGroups", Required),
        ("/rules/0/resources", json!([]), "rules[0].resources", Required),
        ("/rules/0/nonResourceURLs", json!(["/x"]), "rules[0].nonResourceURLs", Invalid),
    ];
    for plural in ["roles", "clusterroles"] {
        refuses(GROUP, plural, &role, &mistakes);
    }
    let urls = json!({"rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}], "aggregationRule": {"clusterRoleSelectors": [{}]}});
    let empty = ("/aggregationRule/clusterRoleSelectors", json!([]), "aggregationRule.clusterRoleSelectors", Required);
    refuses(GROUP, "clusterroles", &urls, &[empty]);

    let binding = json!({
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "d"}, {"kind": "User", "name": "u"}],
    });
    let mut mistakes = vec![
        ("/roleRef/kind", json!("Pod"), "roleRef.kind", NotSupported),
        ("/roleRef/apiGroup", json!("x"), "roleRef.apiGroup", NotSupported),
        ("/roleRef/name", json!(""), "roleRef.name", Required),
        ("/subjects/0/name", json!(""), "subjects[0].name", Required),
        ("/subjects/0/name", json!("A"), "subjects[0].name", Invalid),
        ("/subjects/1/kind", json!("Robot"), "subjects[1].kind", NotSupported),
        ("/subjects/1/apiGroup", json!("x"), "subjects[1].apiGroup", NotSupported),
    ];
    refuses(GROUP, "rolebindings", &binding, &mistakes);
    mistakes.push(("/roleRef/kind", json!("Role"), "roleRef.kind", NotSupported));
    mistakes.push(("/subjects/0/namespace", json!(null), "subjects[0].namespace", Required));
    refuses(GROUP, "clusterrolebindings", &binding, &mistakes);
    keeps(GROUP, "rolebindings", &binding, &[("/roleRef/name", json!("other"), "roleRef", Invalid)]);
}

#[test]
fn reviews() {
    let good = json!({"metadata": {"namespace": "d"}, "spec": {"user": "u", "resourceAttributes": {"namespace": "d", "verb": "get"}}});
    let both = ("/spec/nonResourceAttributes", json!({"path": "/"}), "spec", Invalid);
    let nobody = ("/spec/user", json!(""), "spec.user", Invalid);
    refuses("authorization.k8s.io", "subjectaccessreviews", &good, &[both.clone(), nobody.clone()]);
    let elsewhere = ("/spec/resourceAttributes/namespace", json!("e"), "spec.resourceAttributes.namespace", Invalid);
    refuses("authorization.k8s.io", "localsubjectaccessreviews", &good, &[nobody, elsewhere]);
    let own = json!({"spec": {"resourceAttributes": {"verb": "get"}}});
    refuses("authorization.k8s.io", "selfsubjectaccessreviews", &own, &[both]);
    let binding = json!({"target": {"kind": "Node", "name": "n"}});
    refuses(
        "",
        "bindings",
        &binding,
        &[
            ("/target/name", json!(""), "target.name", Required),
            ("/target/name", json!("A"), "target.name", Invalid),
            ("/target/kind", json!("Pod"), "target.kind", NotSupported),
        ],
    );
}

#[test]
fn flow_schemas() {
    let group = "flowcontrol.apiserver.k8s.io";
    let good = json!({"spec": {
        "priorityLevelConfiguration": {"name": "low"}, "distinguisherMethod": {"type": "ByUser"},
        "rules": [{
            "subjects": [{"kind": "ServiceAccount", "serviceAccount": {"namespace": "d", "name": "*"}}],
            "resourceRules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["d"]}],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics/*"]}],
        }],
    }});
    refuses(
        group,
        "flowschemas",
        &good,
        &[
            ("/spec/matchingPrecedence", json!(10_001), "spec.matchingPrecedence", Invalid),
            ("/spec/matchingPrecedence", json!(1), "spec.matchingPrecedence", Invalid),
            ("/spec/distinguisherMethod/type", json!("ByName"), "spec.distinguisherMethod.type", NotSupported),
            ("/spec/priorityLevelConfiguration/name", json!(""), "spec.priorityLevelConfiguration.name", Required),
            ("/spec/rules/0/subjects", json!([]), "spec.rules[0].subjects", Required),
            ("/spec/rules/0/subjects/0/kind", json!("Robot"), "spec.rules[0].subjects[0].kind", NotSupported),
            ("/spec/rules/0/subjects/0/user", json!({"name": "a"}), "spec.rules[0].subjects[0].user", Forbidden),
            (
                "/spec/rules/0/subjects/0/serviceAccount/namespace",
                json!(""),
                "spec.rules[0].subjects[0].serviceAccount.namespace",
                Required,
            ),
            (
                "/spec/rules/0/resourceRules/0/verbs/0",
                json!("eat"),
                "spec.rules[0].resourceRules[0].verbs",
                NotSupported,
            ),
            (
                "/spec/rules/0/resourceRules/0/verbs",
                json!(["*", "get"]),
                "spec.rules[0].resourceRules[0].verbs",
                Invalid,
            ),
            (
                "/spec/rules/0/resourceRules/0/namespaces",
                json!([]),
                "spec.rules[0].resourceRules[0].namespaces",
                Required,
            ),
            (
                "/spec/rules/0/nonResourceRules/0/nonResourceURLs/0",
                json!("metrics"),
                "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]",
                Invalid,
            ),
        ],
    );
    let (stored, _) = create(&resource(group, "flowschemas"), &good);
    assert_eq!(stored.int_at("spec.matchingPrecedence"), Some(1000));
    let repeated = json!({"conditions": [{"type": "Dangling"}, {"type": "Dangling"}]});
    let mistakes = update_status(&resource(group, "flowschemas"), repeated, &stored);
    assert_eq!(mistakes, [("status.conditions[1].type".to_owned(), Duplicate)]);
}

#[test]
fn priority_levels() {
    let group = "flowcontrol.apiserver.k8s.io";
    let queuing = json!({"queues": 16, "handSize": 4, "queueLengthLimit": 10});
    let good = json!({"spec": {
        "type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": queuing}, "lendablePercent": 50},
    }});
    let queue = "/spec/limited/limitResponse/queuing";
    refuses(
        group,
        "prioritylevelconfigurations",
        &good,
        &[
            ("/spec/type", json!("Open"), "spec.type", NotSupported),
            ("/spec/exempt", json!({}), "spec.exempt", Forbidden),
            ("/spec/limited/lendablePercent", json!(101), "spec.limited.lendablePercent", Invalid),
            ("/spec/limited/borrowingLimitPercent", json!(-1), "spec.limited.borrowingLimitPercent", Invalid),
            ("/spec/limited/limitResponse/type", json!("Reject"), "spec.limited.limitResponse.queuing", Forbidden),
            (&format!("{queue}/handSize"), json!(17), "spec.limited.limitResponse.queuing.handSize", Invalid),
            (&format!("{queue}/queues"), json!(40_000), "spec.limited.limitResponse.queuing.handSize", Invalid),
            (
                &format!("{queue}/queueLengthLimit"),
                json!(-1),
                "spec.limited.limitResponse.queuing.queueLengthLimit",
                Invalid,
            ),
        ],
    );
    let (stored, _) = create(&resource(group, "prioritylevelconfigurations"), &good);
    assert_eq!(stored.int_at("spec.limited.nominalConcurrencyShares"), Some(30));
}

#[test]
fn what_every_cluster_has_is_valid_and_stays_as_it_is() {
    use crate::kinds::flowcontrol::defaults::{self, Need};
    let group = "flowcontrol.apiserver.k8s.io";
    for (plural, objects) in [("flowschemas", defaults::schemas()), ("prioritylevelconfigurations", defaults::levels())]
    {
        let rules = resource(group, plural);
        for (need, object) in objects {
            let name = object.str_at("metadata.name").to_owned();
            let (stored, mistakes) = create(&rules, &object);
            assert_eq!(mistakes, [], "{plural} {name}");
            assert_eq!(stored.at("spec"), object.at("spec"), "{plural} {name}: nothing is filled in");
            let (pointer, value) = match plural {
                "flowschemas" => ("/spec/rules/0/subjects/0", json!({"kind": "User", "user": {"name": "eve"}})),
                _ if name == "exempt" => ("/spec/exempt/nominalConcurrencyShares", json!(7)),
                _ => ("/spec/limited/nominalConcurrencyShares", json!(7)),
            };
            let fixed = need == Need::Mandatory && (plural, name.as_str()) != ("prioritylevelconfigurations", "exempt");
            let wanted = if fixed { vec![("spec".to_owned(), Invalid)] } else { vec![] };
            assert_eq!(update(&rules, &changed(&stored, pointer, &value), &stored), wanted, "{plural} {name}");
        }
    }
}
