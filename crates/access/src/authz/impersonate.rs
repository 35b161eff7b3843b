//! Whether somebody may act as somebody else. The engine calls this between authentication and authorization; every part of
//! the wish (user, each group, uid, each extra) needs the verb `impersonate`.

use super::{Attributes, Authorizer, forbidden};
use crate::authn::{Impersonation, User, user::split_service_account};
use api::error::ApiError;

const GROUP: &str = "authentication.k8s.io";

/// The user a request goes on as, or 403 for the first part that is not allowed.
pub fn impersonate(requester: &User, wish: Impersonation, authorizer: &dyn Authorizer) -> Result<User, ApiError> {
    let base = |group, resource, name| Attributes {
        version: "v1",
        name,
        ..Attributes::resource(requester, "impersonate", group, resource)
    };
    let mut parts = vec![match split_service_account(&wish.user) {
        Some((namespace, name)) => Attributes { namespace, ..base("", "serviceaccounts", name) },
        None => base("", "users", &wish.user),
    }];
    parts.extend(wish.groups.iter().map(|group| base("", "groups", group)));
    for (key, values) in &wish.extra {
        parts.extend(values.iter().map(|value| Attributes { subresource: key, ..base(GROUP, "userextras", value) }));
    }
    parts.extend((!wish.uid.is_empty()).then(|| base(GROUP, "uids", &wish.uid)));
    for part in &parts {
        let decision = authorizer.authorize(part);
        if !decision.allowed() {
            return Err(forbidden(part, decision.reason()));
        }
    }
    Ok(wish.into_user())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::rbac::{RbacIndex, RbacKind};
    use http::HeaderMap;
    use serde_json::json;

    fn ask(pairs: &[(&'static str, &str)]) -> Result<User, String> {
        let index = RbacIndex::new();
        let rule = |group: &str, resource: &str, names: &[&str]| json!({"verbs": ["impersonate"], "apiGroups": [group], "resources": [resource], "resourceNames": names});
        let rules = json!([
            rule("", "users", &["bob"]),
            rule("", "groups", &["dev"]),
            rule("", "serviceaccounts", &["sa"]),
            rule(GROUP, "userextras/scopes", &["view"]),
            rule(GROUP, "uids", &["7"]),
        ]);
        index.set(RbacKind::ClusterRole, &json!({"metadata": {"name": "r"}, "rules": rules}));
        let subjects = json!([{"kind": "User", "name": "alice"}]);
        let binding =
            json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": subjects});
        index.set(RbacKind::ClusterRoleBinding, &binding);
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        let wish = Impersonation::parse(&headers).unwrap().unwrap();
        impersonate(&User::new("alice", ["system:authenticated"]), wish, &index).map_err(|error| error.message)
    }

    #[test]
    fn every_part_needs_its_own_right() {
        let bob = ("impersonate-user", "bob");
        for (pairs, refused) in [
            (&[bob][..], None),
            (
                &[bob, ("impersonate-group", "dev"), ("impersonate-uid", "7"), ("impersonate-extra-scopes", "view")],
                None,
            ),
            (&[("impersonate-user", "system:serviceaccount:ns:sa")], None),
            (
                &[("impersonate-user", "root")],
                Some(
                    r#"users "root" is forbidden: User "alice" cannot impersonate resource "users" in API group "" at the cluster scope"#,
                ),
            ),
            (
                &[bob, ("impersonate-group", "system:masters")],
                Some(
                    r#"groups "system:masters" is forbidden: User "alice" cannot impersonate resource "groups" in API group "" at the cluster scope"#,
                ),
            ),
            (
                &[("impersonate-user", "system:serviceaccount:ns:other")],
                Some(
                    r#"serviceaccounts "other" is forbidden: User "alice" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "ns""#,
                ),
            ),
            (
                &[bob, ("impersonate-extra-scopes", "admin")],
                Some(
                    r#"userextras.authentication.k8s.io "admin" is forbidden: User "alice" cannot impersonate resource "userextras/scopes" in API group "authentication.k8s.io" at the cluster scope"#,
                ),
            ),
            (
                &[bob, ("impersonate-uid", "8")],
                Some(
                    r#"uids.authentication.k8s.io "8" is forbidden: User "alice" cannot impersonate resource "uids" in API group "authentication.k8s.io" at the cluster scope"#,
                ),
            ),
        ] {
            assert_eq!(ask(pairs).err().as_deref(), refused, "{pairs:?}");
        }
    }
}
