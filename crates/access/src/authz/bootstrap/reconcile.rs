//! What to do with a default object that may have been changed: what is missing comes back, what was added stays.

use super::AUTOUPDATE;
use crate::authz::{
    PolicyRule,
    rbac::{RbacKind, RoleRef},
    rule::uncovered,
};
use api::object::Fields;
use serde_json::{Map, Value, json};

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Reconcile {
    /// Nothing: all is there, or an administrator has said `autoupdate: "false"`.
    Keep,
    /// It does not exist.
    Create(Value),
    /// Write this in its place.
    Update(Value),
    /// A binding names another role, which cannot be changed in place: delete, then create this.
    Recreate(Value),
}

/// Compares what is stored with what should be.
pub fn reconcile(kind: RbacKind, existing: Option<&Value>, wanted: &Value) -> Reconcile {
    let Some(existing) = existing else { return Reconcile::Create(wanted.clone()) };
    let annotations = existing.at("metadata.annotations");
    if annotations.get(AUTOUPDATE).and_then(Value::as_str) == Some("false") {
        return Reconcile::Keep;
    }
    let mut new = existing.clone();
    for field in ["metadata.labels", "metadata.annotations"] {
        // What an administrator has set wins.
        let mut merged: Map<String, Value> = wanted.map_at(field).cloned().unwrap_or_default();
        merged.extend(existing.map_at(field).cloned().unwrap_or_default());
        new.set(field, merged);
    }
    match kind {
        RbacKind::Role | RbacKind::ClusterRole => add_rules(&mut new, existing, wanted),
        RbacKind::RoleBinding | RbacKind::ClusterRoleBinding => {
            add_subjects(&mut new, wanted);
            if RoleRef::of(existing) != RoleRef::of(wanted) {
                let mut fresh = wanted.clone();
                fresh.set("metadata.labels", new.at("metadata.labels").clone());
                fresh.set("metadata.annotations", new.at("metadata.annotations").clone());
                fresh.set("subjects", new.at("subjects").clone());
                return Reconcile::Recreate(fresh);
            }
        }
    }
    if new == *existing { Reconcile::Keep } else { Reconcile::Update(new) }
}

fn add_rules(new: &mut Value, existing: &Value, wanted: &Value) {
    let missing = uncovered(&PolicyRule::all_from_json(existing), &PolicyRule::all_from_json(wanted));
    append(new, "rules", missing.iter().map(PolicyRule::to_json).collect());
    if wanted.at("aggregationRule").is_null() {
        new.remove("aggregationRule");
        return;
    }
    let selectors = "aggregationRule.clusterRoleSelectors";
    let missing = wanted.list_at(selectors).iter().filter(|selector| !existing.list_at(selectors).contains(selector));
    append(new, selectors, missing.cloned().collect());
}

fn add_subjects(new: &mut Value, wanted: &Value) {
    let key = |subject: &Value| json!([subject.str_at("kind"), subject.str_at("namespace"), subject.str_at("name")]);
    let present: Vec<Value> = new.list_at("subjects").iter().map(key).collect();
    let missing = wanted.list_at("subjects").iter().filter(|subject| !present.contains(&key(subject)));
    let missing = missing.cloned().collect();
    append(new, "subjects", missing);
}

fn append(object: &mut Value, path: &str, more: Vec<Value>) {
    if !more.is_empty() {
        let list: Vec<Value> = object.list_at(path).iter().cloned().chain(more).collect();
        object.set(path, list);
    }
}
