//! The index as a whole: who may do what, told by which binding, through changes.

use super::*;
use serde_json::json;

fn index() -> RbacIndex {
    let index = RbacIndex::new();
    let rules = |verbs: &[&str], resource: &str| json!([{"verbs": verbs, "apiGroups": [""], "resources": [resource]}]);
    index.set(RbacKind::ClusterRole, &json!({"metadata": {"name": "view"}, "rules": rules(&["get", "list"], "pods")}));
    index.set(
        RbacKind::Role,
        &json!({"metadata": {"name": "edit", "namespace": "ns"}, "rules": rules(&["update"], "pods")}),
    );
    index
}

fn bind(index: &RbacIndex, namespace: &str, name: &str, role: (&str, &str), subjects: Value) {
    let mut binding = json!({"metadata": {"name": name}, "subjects": subjects,
                             "roleRef": {"apiGroup": GROUP, "kind": role.0, "name": role.1}});
    let kind = match namespace {
        "" => RbacKind::ClusterRoleBinding,
        namespace => {
            binding.set("metadata.namespace", namespace);
            RbacKind::RoleBinding
        }
    };
    index.set(kind, &binding);
}

fn ask(index: &RbacIndex, user: &User, verb: &str, namespace: &str) -> Decision {
    index.authorize(&Attributes { namespace, ..Attributes::resource(user, verb, "", "pods") })
}

#[test]
fn subjects_are_users_groups_and_service_accounts() {
    let index = index();
    bind(
        &index,
        "",
        "crb",
        ("ClusterRole", "view"),
        json!([
            {"kind": "User", "name": "alice"}, {"kind": "Group", "name": "dev"},
            {"kind": "ServiceAccount", "name": "sa", "namespace": "kube-system"},
            {"kind": "ServiceAccount", "name": "homeless"},
        ]),
    );
    bind(&index, "ns", "rb", ("ClusterRole", "view"), json!([{"kind": "ServiceAccount", "name": "local"}]));
    bind(&index, "ns", "rb2", ("Role", "edit"), json!([{"kind": "User", "name": "bob"}]));
    let reason = |name: &str, groups: &[&str], verb: &str, namespace: &str| {
        let user = User::new(name, groups.iter().copied());
        match ask(&index, &user, verb, namespace) {
            Decision::Allow(reason) => reason.to_string(),
            other => format!("{other:?}"),
        }
    };
    let none = r#"NoOpinion("")"#;
    for (name, groups, verb, namespace, want) in [
        (
            "alice",
            &[][..],
            "get",
            "",
            r#"RBAC: allowed by ClusterRoleBinding "crb" of ClusterRole "view" to User "alice""#,
        ),
        (
            "alice",
            &[],
            "get",
            "any",
            r#"RBAC: allowed by ClusterRoleBinding "crb" of ClusterRole "view" to User "alice""#,
        ),
        ("alice", &[], "update", "ns", none),
        (
            "x",
            &["dev"],
            "list",
            "",
            r#"RBAC: allowed by ClusterRoleBinding "crb" of ClusterRole "view" to Group "dev""#,
        ),
        ("dev", &["alice"], "list", "", none),
        (
            "system:serviceaccount:kube-system:sa",
            &[],
            "get",
            "",
            r#"RBAC: allowed by ClusterRoleBinding "crb" of ClusterRole "view" to ServiceAccount "sa/kube-system""#,
        ),
        ("system:serviceaccount::homeless", &[], "get", "", none),
        (
            "system:serviceaccount:ns:local",
            &[],
            "get",
            "ns",
            r#"RBAC: allowed by RoleBinding "rb/ns" of ClusterRole "view" to ServiceAccount "local/ns""#,
        ),
        ("system:serviceaccount:ns:local", &[], "get", "", none),
        ("system:serviceaccount:ns:local", &[], "get", "other", none),
        ("bob", &[], "update", "ns", r#"RBAC: allowed by RoleBinding "rb2/ns" of Role "edit" to User "bob""#),
        ("bob", &[], "update", "other", none),
    ] {
        assert_eq!(reason(name, groups, verb, namespace), want, "{name} {groups:?} {verb} {namespace}");
    }
}

#[test]
fn changes_count_at_once() {
    let index = index();
    let alice = User::new("alice", ["dev"]);
    let may = |verb: &str| ask(&index, &alice, verb, "ns").allowed();
    assert!(!may("get"), "no binding");
    bind(&index, "", "crb", ("ClusterRole", "view"), json!([{"kind": "User", "name": "alice"}]));
    assert!(may("get"));
    let before = index.snapshot();
    index.set(RbacKind::ClusterRole, &json!({"metadata": {"name": "view"}, "rules": []}));
    assert!(!may("get"), "role changed");
    let asked = Attributes { namespace: "ns", ..Attributes::resource(&alice, "get", "", "pods") };
    assert!(before.authorize(&asked).allowed(), "an old snapshot stays as it was");
    bind(&index, "ns", "rb", ("Role", "edit"), json!([{"kind": "Group", "name": "dev"}]));
    assert!(may("update"));
    bind(&index, "ns", "rb", ("Role", "edit"), json!([{"kind": "Group", "name": "ops"}]));
    assert!(!may("update"), "subjects changed");
    bind(&index, "ns", "rb", ("Role", "edit"), json!([{"kind": "Group", "name": "dev"}]));
    index.remove(RbacKind::RoleBinding, "ns", "rb");
    assert!(!may("update"), "binding removed");
    index.remove(RbacKind::Role, "ns", "edit");
    assert!(index.snapshot().namespaces.is_empty(), "an empty namespace is forgotten");
}

#[test]
fn a_fresh_list_forgets_what_is_not_in_it() {
    let alice = User::new("alice", ["dev"]);
    let subjects = || json!([{"kind": "User", "name": "alice"}]);
    for (kind, verb) in [
        (RbacKind::ClusterRoleBinding, "get"),
        (RbacKind::ClusterRole, "get"),
        (RbacKind::RoleBinding, "update"),
        (RbacKind::Role, "update"),
    ] {
        let index = index();
        bind(&index, "", "crb", ("ClusterRole", "view"), subjects());
        bind(&index, "ns", "rb", ("Role", "edit"), subjects());
        assert!(ask(&index, &alice, verb, "ns").allowed(), "{kind:?}");
        index.replace(kind, &[]);
        assert!(!ask(&index, &alice, verb, "ns").allowed(), "{kind:?}");
        let other = if verb == "get" { "update" } else { "get" };
        assert!(ask(&index, &alice, other, "ns").allowed(), "other kinds stay: {kind:?}");
    }
}

#[test]
fn a_missing_role_is_told() {
    let index = index();
    let alice = User::new("alice", ["dev"]);
    bind(&index, "", "crb", ("ClusterRole", "nowhere"), json!([{"kind": "User", "name": "alice"}]));
    let one = r#"RBAC: clusterrole.rbac.authorization.k8s.io "nowhere" not found"#;
    assert_eq!(ask(&index, &alice, "get", ""), Decision::NoOpinion(one.into()));
    bind(&index, "ns", "rb", ("Role", "nothing"), json!([{"kind": "Group", "name": "dev"}]));
    let two = r#"RBAC: [clusterrole.rbac.authorization.k8s.io "nowhere" not found, role.rbac.authorization.k8s.io "nothing" not found]"#;
    assert_eq!(ask(&index, &alice, "get", "ns"), Decision::NoOpinion(two.into()));
    assert_eq!(index.rules_for(&alice, "ns").errors.len(), 2);
}

#[test]
fn rules_are_listed_once_per_binding() {
    let index = index();
    let both = json!([{"kind": "User", "name": "alice"}, {"kind": "Group", "name": "dev"}]);
    bind(&index, "", "crb", ("ClusterRole", "view"), both);
    bind(&index, "ns", "rb", ("Role", "edit"), json!([{"kind": "User", "name": "alice"}]));
    let alice = User::new("alice", ["dev"]);
    assert_eq!(index.rules_for(&alice, "").rules.len(), 1);
    let rules = index.rules_for(&alice, "ns").rules;
    assert_eq!(rules.iter().map(|rule| rule.verbs.join(" ")).collect::<Vec<_>>(), ["get list", "update"]);
}

#[test]
fn an_aggregated_role_works_without_a_controller() {
    let index = index();
    let selector = json!({"clusterRoleSelectors": [{"matchLabels": {"to-all": "true"}}]});
    index.set(RbacKind::ClusterRole, &json!({"metadata": {"name": "all"}, "aggregationRule": selector, "rules": null}));
    bind(&index, "", "crb", ("ClusterRole", "all"), json!([{"kind": "User", "name": "alice"}]));
    let alice = User::new("alice", [] as [&str; 0]);
    assert!(!ask(&index, &alice, "delete", "").allowed());
    let rules = json!([{"verbs": ["delete"], "apiGroups": [""], "resources": ["pods"]}]);
    index.set(
        RbacKind::ClusterRole,
        &json!({"metadata": {"name": "part", "labels": {"to-all": "true"}}, "rules": rules}),
    );
    assert!(ask(&index, &alice, "delete", "").allowed());
    let snapshot = index.snapshot();
    assert_eq!(snapshot.aggregated_rules("all"), Some(rules));
    assert_eq!(snapshot.aggregated_rules("part"), None);
    assert_eq!(snapshot.aggregated_names().collect::<Vec<_>>(), ["all"]);
}

#[test]
fn no_change_is_lost_when_several_come_at_once() {
    let index = index();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let index = &index;
            scope.spawn(move || {
                for number in 0..50 {
                    let name = format!("b-{thread}-{number}");
                    bind(index, "ns", &name, ("ClusterRole", "view"), json!([{"kind": "User", "name": name}]));
                }
            });
        }
    });
    for thread in 0..4 {
        for number in 0..50 {
            let user = User::new(format!("b-{thread}-{number}"), [] as [&str; 0]);
            assert!(ask(&index, &user, "get", "ns").allowed(), "{}", user.name);
        }
    }
}
