//! Nobody grants rights they do not have. The engine asks at admission of roles and bindings, after validation.
//!
//! A role may be written by who holds all its rules or may `escalate` it; a binding by who holds all rules of the role or may
//! `bind` it; `system:masters` may do both.

use super::{
    Attributes, Authorizer, PolicyRule,
    rbac::{GROUP, RbacKind, RoleRef, Snapshot},
    rule::{quoted, summary, uncovered},
};
use crate::authn::{User, user::MASTERS};
use api::{error::ApiError, object::Fields};
use serde_json::Value;

/// A write of a role or a binding.
#[derive(Clone, Copy)]
pub struct Write<'a> {
    /// Who writes.
    pub user: &'a User,
    /// What kind of object.
    pub kind: RbacKind,
    /// Namespace of the request, empty for cluster kinds.
    pub namespace: &'a str,
    /// Name in the path: empty on create.
    pub name: &'a str,
    /// The object to be stored.
    pub new: &'a Value,
    /// The object stored now; none on create.
    pub old: Option<&'a Value>,
}

/// Refuses a write that would give somebody more rights than the writer has.
pub fn check(write: Write<'_>, authorizer: &dyn Authorizer, rbac: &Snapshot) -> Result<(), ApiError> {
    if write.user.in_group(MASTERS) || write.old.is_some_and(|old| only_garbage_collection(write.new, old)) {
        return Ok(());
    }
    match write.kind {
        RbacKind::Role | RbacKind::ClusterRole => check_role(write, authorizer, rbac),
        RbacKind::RoleBinding | RbacKind::ClusterRoleBinding => check_binding(write, authorizer, rbac),
    }
}

fn check_role(write: Write<'_>, authorizer: &dyn Authorizer, rbac: &Snapshot) -> Result<(), ApiError> {
    let Write { user, kind, namespace, name, new, old } = write;
    let escalate =
        Attributes { namespace, name, version: "*", ..Attributes::resource(user, "escalate", GROUP, kind.plural()) };
    if authorizer.authorize(&escalate).allowed() {
        return Ok(());
    }
    let refused = |why: String| ApiError::forbidden(kind.plural(), GROUP, new.str_at("metadata.name"), why);
    holds_all(user, namespace, &PolicyRule::all_from_json(new), rbac).map_err(refused)?;
    let gathers = |role: &Value| !role.list_at("aggregationRule.clusterRoleSelectors").is_empty();
    if kind == RbacKind::ClusterRole
        && (gathers(new) || old.is_some_and(gathers))
        && holds_all(user, namespace, &everything(), rbac).is_err()
    {
        return Err(refused("must have cluster-admin privileges to use the aggregationRule".to_owned()));
    }
    Ok(())
}

fn check_binding(write: Write<'_>, authorizer: &dyn Authorizer, rbac: &Snapshot) -> Result<(), ApiError> {
    let Write { user, kind, namespace, new, .. } = write;
    let role = RoleRef::of(new);
    let plural = match role.kind.as_str() {
        "Role" => "roles",
        "ClusterRole" => "clusterroles",
        other => return Err(ApiError::bad_request(format!("unsupported role reference kind: {other:?}"))),
    };
    let group = new.str_at("roleRef.apiGroup");
    let bind =
        Attributes { namespace, name: &role.name, version: "*", ..Attributes::resource(user, "bind", group, plural) };
    if authorizer.authorize(&bind).allowed() {
        return Ok(());
    }
    let rules = rbac.role_rules(&role, namespace).ok_or_else(|| ApiError::not_found(plural, GROUP, &role.name))?;
    holds_all(user, namespace, rules, rbac)
        .map_err(|why| ApiError::forbidden(kind.plural(), GROUP, new.str_at("metadata.name"), why))
}

/// Whether a user holds all of `wanted` in a namespace; otherwise a message that lists what is missing.
fn holds_all(user: &User, namespace: &str, wanted: &[PolicyRule], rbac: &Snapshot) -> Result<(), String> {
    let held = rbac.rules_for(user, namespace);
    let missing = uncovered(&held.rules, wanted);
    if missing.is_empty() {
        return Ok(());
    }
    let mut why = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        quoted(&user.groups),
        summary(&missing).join("\n")
    );
    if !held.errors.is_empty() {
        why.push_str(&format!("; resolution errors: [{}]", held.errors.join(", ")));
    }
    Err(why)
}

fn everything() -> [PolicyRule; 2] {
    let all = || vec!["*".to_owned()];
    [
        PolicyRule { verbs: all(), groups: all(), resources: all(), ..PolicyRule::default() },
        PolicyRule { verbs: all(), urls: all(), ..PolicyRule::default() },
    ]
}

/// Whether an update changes nothing but what the garbage collector writes.
fn only_garbage_collection(new: &Value, old: &Value) -> bool {
    let bare = |object: &Value| {
        let mut object = object.clone();
        for field in ["ownerReferences", "finalizers", "managedFields"] {
            object.remove(&format!("metadata.{field}"));
        }
        object
    };
    bare(new) == bare(old)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::rbac::RbacIndex;
    use serde_json::json;

    fn role(name: &str, rules: Value) -> Value {
        json!({"metadata": {"name": name}, "rules": rules})
    }

    fn binding(role_kind: &str, role: &str, user: &str) -> Value {
        json!({"metadata": {"name": format!("{role}-{user}")},
               "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role},
               "subjects": [{"kind": "User", "apiGroup": GROUP, "name": user}]})
    }

    fn pods(verbs: &[&str]) -> Value {
        json!({"verbs": verbs, "apiGroups": [""], "resources": ["pods"]})
    }

    fn index() -> RbacIndex {
        let index = RbacIndex::new();
        let roles = [
            ("reader", json!([pods(&["get", "list"])])),
            ("escalator", json!([{"verbs": ["escalate"], "apiGroups": [GROUP], "resources": ["clusterroles"]}])),
            (
                "binder",
                json!([{"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["admin"]}]),
            ),
            (
                "admin",
                json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["*"], "nonResourceURLs": ["*"]}]),
            ),
        ];
        for (name, rules) in roles {
            index.set(RbacKind::ClusterRole, &role(name, rules));
            index.set(RbacKind::ClusterRoleBinding, &binding("ClusterRole", name, &format!("{name}-user")));
        }
        index
    }

    fn ask(user: &User, kind: RbacKind, new: &Value, old: Option<&Value>) -> Result<(), ApiError> {
        let index = index();
        check(Write { user, kind, namespace: "", name: "", new, old }, &index, &index.snapshot())
    }

    #[test]
    fn a_role_is_written_only_by_who_holds_its_rules_or_may_escalate() {
        let same = role("r", json!([pods(&["get"])]));
        let more = role("r", json!([pods(&["get", "delete", "create"])]));
        for (user, group, new, allowed) in [
            ("reader-user", "dev", &same, true),
            ("reader-user", "dev", &more, false),
            ("reader-user", "system:masters", &more, true),
            ("escalator-user", "dev", &more, true),
            ("admin-user", "dev", &more, true),
            ("stranger", "dev", &same, false),
        ] {
            let got = ask(&User::new(user, [group]), RbacKind::ClusterRole, new, None);
            assert_eq!(got.is_ok(), allowed, "{user} {group} {got:?}");
        }
        let error = ask(&User::new("reader-user", ["dev", "ops"]), RbacKind::ClusterRole, &more, None).unwrap_err();
        assert_eq!(
            error.message,
            "clusterroles.rbac.authorization.k8s.io \"r\" is forbidden: user \"reader-user\" (groups=[\"dev\" \"ops\"]) \
             is attempting to grant RBAC permissions not currently held:\n\
             {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\" \"create\"]}"
        );
        assert_eq!(error.code, 403);
    }

    #[test]
    fn aggregation_needs_everything() {
        let mut gathering = role("r", json!([]));
        gathering.set("aggregationRule", json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}));
        let plain = role("r", json!([]));
        let reader = User::new("reader-user", ["dev"]);
        let error = ask(&reader, RbacKind::ClusterRole, &gathering, None).unwrap_err();
        assert!(error.message.ends_with("must have cluster-admin privileges to use the aggregationRule"), "{error}");
        assert!(ask(&reader, RbacKind::ClusterRole, &plain, Some(&gathering)).is_err(), "nor may it be taken away");
        assert!(ask(&User::new("admin-user", ["dev"]), RbacKind::ClusterRole, &gathering, None).is_ok());
    }

    #[test]
    fn a_role_is_bound_only_by_who_holds_its_rules_or_may_bind_it() {
        for (user, role, code) in [
            ("reader-user", "reader", None),
            ("reader-user", "admin", Some(403)),
            ("binder-user", "admin", None),
            ("binder-user", "reader", Some(403)),
            ("reader-user", "nowhere", Some(404)),
            ("admin-user", "reader", None),
        ] {
            let user = User::new(user, ["dev"]);
            let got = ask(&user, RbacKind::ClusterRoleBinding, &binding("ClusterRole", role, "x"), None);
            assert_eq!(got.as_ref().err().map(|error| error.code), code, "{} {role} {got:?}", user.name);
        }
        let odd =
            ask(&User::new("admin-user", ["dev"]), RbacKind::ClusterRoleBinding, &binding("Pod", "reader", "x"), None);
        assert_eq!(odd.unwrap_err().code, 400);
    }

    #[test]
    fn the_garbage_collector_may_do_its_work() {
        let old = role("r", json!([pods(&["delete"])]));
        let mut new = old.clone();
        new.set("metadata.finalizers", json!(["x"]));
        new.set("metadata.ownerReferences", json!([{"name": "y"}]));
        let reader = User::new("reader-user", ["dev"]);
        assert!(ask(&reader, RbacKind::ClusterRole, &new, Some(&old)).is_ok());
        new.set("metadata.labels", json!({"a": "b"}));
        assert!(ask(&reader, RbacKind::ClusterRole, &new, Some(&old)).is_err());
    }
}
