//! The default roles and bindings. The engine reconciles them at start, so that a cluster is never without its own rights.
//!
//! `objects` lists what should be, `reconcile` decides per object. Names, rules, labels and annotations are upstream's.

mod cluster_roles;
mod controllers;
mod reconcile;
mod table;
#[cfg(test)]
mod tests;

pub use reconcile::{Reconcile, reconcile};

use super::{
    PolicyRule,
    rbac::{GROUP, RbacKind},
};
use cluster_roles::{AGGREGATED, CLUSTER_BINDINGS, CLUSTER_ROLES, GATHERED, ROLE_BINDINGS, ROLES};
use controllers::CONTROLLER_ROLES;
use serde_json::{Value, json};
use table::Rule;

/// `"false"` keeps a default object from being reconciled.
pub const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
const CONTROLLER_PREFIX: &str = "system:controller:";
const AGGREGATE_PREFIX: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// Every default object with its kind; roles come before the bindings that name them.
pub fn objects() -> Vec<(RbacKind, Value)> {
    let mut objects = Vec::new();
    for (name, to, gathered_by) in AGGREGATED {
        let mut role = object("ClusterRole", "", name);
        role["aggregationRule"] =
            json!({"clusterRoleSelectors": [{"matchLabels": {format!("{AGGREGATE_PREFIX}{to}"): "true"}}]});
        role["rules"] = Value::Null;
        label(&mut role, *gathered_by);
        objects.push((RbacKind::ClusterRole, role));
    }
    for (name, rules) in CLUSTER_ROLES {
        let mut role = with_rules(object("ClusterRole", "", name), rules);
        label(&mut role, GATHERED.iter().find(|(gathered, _)| gathered == name).map(|(_, into)| *into));
        objects.push((RbacKind::ClusterRole, role));
    }
    for (name, rules) in CONTROLLER_ROLES {
        let role = object("ClusterRole", "", &format!("{CONTROLLER_PREFIX}{name}"));
        objects.push((RbacKind::ClusterRole, with_rules(role, rules)));
    }
    for (namespace, name, rules) in ROLES {
        objects.push((RbacKind::Role, with_rules(object("Role", namespace, name), rules)));
    }
    for (name, subjects) in CLUSTER_BINDINGS {
        let binding = object("ClusterRoleBinding", "", name);
        objects.push((RbacKind::ClusterRoleBinding, bound(binding, "ClusterRole", name, subjects)));
    }
    for (name, _) in CONTROLLER_ROLES {
        let role = format!("{CONTROLLER_PREFIX}{name}");
        let binding = object("ClusterRoleBinding", "", &role);
        let account = format!("ServiceAccount kube-system/{name}");
        objects.push((RbacKind::ClusterRoleBinding, bound(binding, "ClusterRole", &role, &[&account])));
    }
    for (namespace, name, role, subjects) in ROLE_BINDINGS {
        objects.push((RbacKind::RoleBinding, bound(object("RoleBinding", namespace, name), "Role", role, subjects)));
    }
    objects
}

/// The rules of a default ClusterRole that is not aggregated; none for a name that is no such role.
pub fn cluster_role_rules(name: &str) -> Vec<PolicyRule> {
    let role = CLUSTER_ROLES.iter().find(|(known, _)| *known == name);
    role.map(|(_, rules)| rules.iter().map(Rule::policy).collect()).unwrap_or_default()
}

fn object(kind: &str, namespace: &str, name: &str) -> Value {
    let mut object = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": kind,
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {AUTOUPDATE: "true"},
        },
    });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

fn label(role: &mut Value, into: Option<&str>) {
    if let Some(into) = into {
        role["metadata"]["labels"][format!("{AGGREGATE_PREFIX}{into}")] = "true".into();
    }
}

fn with_rules(mut role: Value, rules: &[Rule]) -> Value {
    role["rules"] = rules.iter().map(|rule| rule.policy().to_json()).collect::<Vec<_>>().into();
    role
}

/// Adds role and subjects; a subject is written `User name`, `Group name` or `ServiceAccount namespace/name`.
fn bound(mut binding: Value, role_kind: &str, role: &str, subjects: &[&str]) -> Value {
    binding["roleRef"] = json!({"apiGroup": GROUP, "kind": role_kind, "name": role});
    let subjects = subjects.iter().filter_map(|subject| {
        let (kind, name) = subject.split_once(' ')?;
        Some(match name.split_once('/').filter(|_| kind == "ServiceAccount") {
            Some((namespace, name)) => json!({"kind": kind, "name": name, "namespace": namespace}),
            None => json!({"apiGroup": GROUP, "kind": kind, "name": name}),
        })
    });
    let subjects: Vec<Value> = subjects.collect();
    if !subjects.is_empty() {
        binding["subjects"] = subjects.into();
    }
    binding
}
