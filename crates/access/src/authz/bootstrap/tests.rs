//! The defaults do what their names promise, and come back when they are taken away.

use super::*;
use crate::{
    authn::User,
    authz::{Attributes, Authorizer, rbac::RbacIndex},
};
use api::object::Fields;

fn index() -> RbacIndex {
    let index = RbacIndex::new();
    let objects = objects();
    objects.iter().for_each(|(kind, object)| index.set(*kind, object));
    index
}

fn find(name: &str) -> Value {
    objects().into_iter().find(|(_, object)| object.str_at("metadata.name") == name).unwrap().1
}

#[test]
fn objects_look_as_upstream_makes_them() {
    assert_eq!(
        find("system:basic-user"),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {
                "name": "system:basic-user", "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
                "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
            },
            "rules": [
                {"apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], "verbs": ["create"]},
                {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]},
            ],
        })
    );
    let edit = find("edit");
    assert_eq!(
        edit["aggregationRule"],
        json!({"clusterRoleSelectors": [{"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}}]})
    );
    assert_eq!(edit["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-admin"], "true");
    let (_, binding) = objects()
        .into_iter()
        .find(|(kind, o)| {
            *kind == RbacKind::ClusterRoleBinding && o.str_at("metadata.name") == "system:public-info-viewer"
        })
        .unwrap();
    assert_eq!(
        (&binding["roleRef"], &binding["subjects"]),
        (
            &json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:public-info-viewer"}),
            &json!([
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"},
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:unauthenticated"},
            ])
        )
    );
}

#[test]
fn every_object_is_unique_and_every_binding_names_a_role_that_exists() {
    let objects = objects();
    let mut seen = std::collections::BTreeSet::new();
    for (kind, object) in &objects {
        let key = (kind.plural(), object.str_at("metadata.namespace"), object.str_at("metadata.name"));
        assert!(seen.insert(key), "{key:?} stands twice");
        for rule in object.list_at("rules") {
            assert!(!rule.list_at("verbs").is_empty(), "{key:?}");
            let (resource, path) = (!rule.list_at("resources").is_empty(), !rule.list_at("nonResourceURLs").is_empty());
            assert!(resource != path, "{key:?} {rule}");
            assert_eq!(resource, !rule.list_at("apiGroups").is_empty(), "{key:?} {rule}");
        }
    }
    for (kind, object) in &objects {
        if matches!(kind, RbacKind::RoleBinding | RbacKind::ClusterRoleBinding) {
            let role = format!("{}s", object.str_at("roleRef.kind").to_lowercase());
            let namespace = if role == "roles" { object.str_at("metadata.namespace") } else { "" };
            assert!(seen.contains(&(role.as_str(), namespace, object.str_at("roleRef.name"))), "{object}");
        }
    }
    for name in [
        "admin",
        "cluster-admin",
        "edit",
        "view",
        "system:auth-delegator",
        "system:discovery",
        "system:kube-controller-manager",
        "system:kube-dns",
        "system:kube-scheduler",
        "system:monitoring",
        "system:node",
        "system:node-proxier",
        "system:service-account-issuer-discovery",
        "system:controller:daemon-set-controller",
        "system:controller:deployment-controller",
        "system:controller:disruption-controller",
        "system:controller:endpoint-controller",
        "system:controller:endpointslice-controller",
        "system:controller:endpointslicemirroring-controller",
        "system:controller:generic-garbage-collector",
        "system:controller:namespace-controller",
        "system:controller:node-controller",
        "system:controller:pod-garbage-collector",
        "system:controller:replicaset-controller",
        "system:controller:root-ca-cert-publisher",
        "system:controller:route-controller",
        "system:controller:service-account-controller",
        "system:controller:service-controller",
        "system:controller:ttl-controller",
    ] {
        assert!(seen.contains(&("clusterroles", "", name)), "{name}");
    }
}

#[test]
fn the_defaults_give_each_identity_its_rights() {
    let index = index();
    let everybody = "system:authenticated";
    // user | group | verb | group/resource or path | namespace | allowed
    for (name, group, verb, what, namespace, want) in [
        ("root", "system:masters", "delete", "/nodes", "", true),
        ("system:anonymous", "system:unauthenticated", "get", "path:/healthz", "", true),
        ("system:anonymous", "system:unauthenticated", "get", "path:/version", "", true),
        ("system:anonymous", "system:unauthenticated", "get", "path:/api", "", false),
        ("system:anonymous", "system:unauthenticated", "get", "path:/metrics", "", false),
        ("system:anonymous", "system:unauthenticated", "list", "/pods", "default", false),
        ("bob", everybody, "get", "path:/apis/apps", "", true),
        ("bob", everybody, "get", "path:/openapi/v3", "", true),
        ("bob", everybody, "create", "authorization.k8s.io/selfsubjectaccessreviews", "", true),
        ("bob", everybody, "create", "authentication.k8s.io/selfsubjectreviews", "", true),
        ("bob", everybody, "create", "authorization.k8s.io/subjectaccessreviews", "", false),
        ("bob", everybody, "list", "/pods", "default", false),
        ("system:kube-scheduler", everybody, "create", "/pods/binding", "default", true),
        ("system:kube-scheduler", everybody, "delete", "/nodes", "", false),
        ("system:kube-scheduler", everybody, "update", "coordination.k8s.io/leases", "kube-system", true),
        ("system:kube-controller-manager", everybody, "list", "apps/deployments", "", true),
        ("system:kube-controller-manager", everybody, "create", "/serviceaccounts/token", "kube-system", true),
        ("system:kube-proxy", everybody, "watch", "discovery.k8s.io/endpointslices", "", true),
        ("system:kube-proxy", everybody, "list", "/secrets", "", false),
        (
            "system:serviceaccount:kube-system:endpointslice-controller",
            everybody,
            "create",
            "discovery.k8s.io/endpointslices",
            "x",
            true,
        ),
        ("system:serviceaccount:kube-system:deployment-controller", everybody, "create", "apps/replicasets", "x", true),
        ("system:serviceaccount:kube-system:deployment-controller", everybody, "create", "/secrets", "x", false),
        ("system:serviceaccount:other:deployment-controller", everybody, "create", "apps/replicasets", "x", false),
        ("system:node:n1", "system:nodes", "get", "/secrets", "x", false),
    ] {
        let user = User::new(name, [group]);
        let asked = match what.strip_prefix("path:") {
            Some(path) => Attributes::path(&user, verb, path),
            None => {
                let mut parts = what.split('/');
                let (api, resource) = (parts.next().unwrap(), parts.next().unwrap());
                let subresource = parts.next().unwrap_or_default();
                Attributes { namespace, subresource, ..Attributes::resource(&user, verb, api, resource) }
            }
        };
        assert_eq!(index.authorize(&asked).allowed(), want, "{name} {verb} {what}");
    }
}

#[test]
fn admin_edit_and_view_gather_their_rules() {
    let index = index();
    for role in ["admin", "edit", "view"] {
        let subjects = json!([{"kind": "User", "name": role}]);
        index.set(
            RbacKind::RoleBinding,
            &json!({"metadata": {"name": role, "namespace": "ns"}, "subjects": subjects,
                    "roleRef": {"kind": "ClusterRole", "name": role}}),
        );
    }
    for (verb, group, resource, who) in [
        ("list", "", "services", "admin edit view"),
        ("list", "", "secrets", "admin edit"),
        ("create", "", "services", "admin edit"),
        ("create", "", "serviceaccounts/token", "admin edit"),
        ("create", GROUP, "rolebindings", "admin"),
        ("create", "", "resourcequotas", ""),
        ("delete", "", "nodes", ""),
    ] {
        for role in ["admin", "edit", "view"] {
            let user = User::new(role, ["dev"]);
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let asked =
                Attributes { namespace: "ns", subresource, ..Attributes::resource(&user, verb, group, resource) };
            assert_eq!(index.authorize(&asked).allowed(), who.contains(role), "{role} {verb} {resource}");
            assert!(!index.authorize(&Attributes { namespace: "other", ..asked }).allowed(), "another namespace");
        }
    }
}

#[test]
fn what_is_missing_comes_back_and_what_was_added_stays() {
    let wanted = json!({"metadata": {"name": "r", "labels": {"l": "1"}, "annotations": {AUTOUPDATE: "true"}},
        "rules": [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}]});
    let kind = RbacKind::ClusterRole;
    assert_eq!(reconcile(kind, None, &wanted), Reconcile::Create(wanted.clone()));
    assert_eq!(reconcile(kind, Some(&wanted), &wanted), Reconcile::Keep);
    let mut changed = wanted.clone();
    changed.set("metadata.resourceVersion", "7");
    changed.set("metadata.labels", json!({"l": "mine"}));
    changed.set("rules", json!([{"verbs": ["get", "delete"], "apiGroups": [""], "resources": ["pods"]}]));
    let mut expected = changed.clone();
    expected["rules"]
        .as_array_mut()
        .unwrap()
        .push(json!({"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}));
    assert_eq!(reconcile(kind, Some(&changed), &wanted), Reconcile::Update(expected.clone()));
    assert_eq!(reconcile(kind, Some(&expected), &wanted), Reconcile::Keep, "once is enough");
    changed.set("metadata.annotations", json!({AUTOUPDATE: "false"}));
    assert_eq!(reconcile(kind, Some(&changed), &wanted), Reconcile::Keep, "an administrator may say no");
}

#[test]
fn subjects_come_back_and_a_changed_role_means_a_new_binding() {
    let wanted = find("system:basic-user");
    assert_eq!(wanted["kind"], "ClusterRole", "roles come before bindings");
    let (kind, wanted) = objects()
        .into_iter()
        .find(|(kind, o)| *kind == RbacKind::ClusterRoleBinding && o.str_at("metadata.name") == "system:basic-user")
        .unwrap();
    let mut changed = wanted.clone();
    let mine = json!({"apiGroup": GROUP, "kind": "User", "name": "bob"});
    changed.set("subjects", json!([mine]));
    let mut expected = wanted.clone();
    expected.set("subjects", json!([mine, wanted["subjects"][0]]));
    assert_eq!(reconcile(kind, Some(&changed), &wanted), Reconcile::Update(expected.clone()));
    changed.set("roleRef.name", "other");
    changed.set("metadata.uid", "u");
    assert_eq!(reconcile(kind, Some(&changed), &wanted), Reconcile::Recreate(expected));
}

#[test]
fn every_default_is_stable_under_reconciliation() {
    for (kind, object) in objects() {
        assert_eq!(reconcile(kind, Some(&object), &object), Reconcile::Keep, "{object}");
    }
}
