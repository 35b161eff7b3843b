//! Who asks: names, groups and extras, and the well-known ones of Kubernetes. Made by `authn`, read by `authz` and `audit`.

use api::kinds::names::{is_dns_label, is_dns_subdomain};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The user of a request without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// Everybody who showed valid credentials.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Everybody who showed none.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Members may do anything; no authorizer is asked.
pub const MASTERS: &str = "system:masters";
/// The kubelets.
pub const NODES: &str = "system:nodes";
/// Every service account.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// Key in `extra` that names the credential used, never the credential itself.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

const NODE_PREFIX: &str = "system:node:";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct User {
    /// Unique name.
    pub name: String,
    /// Tells apart two users that had the same name at different times; often empty.
    pub uid: String,
    /// Groups, in the order the credential lists them.
    pub groups: Vec<String>,
    /// What else the authenticator knows.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user by name and groups.
    pub fn new(name: impl Into<String>, groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { name: name.into(), groups: groups.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// The user of a request without credentials.
    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS, [UNAUTHENTICATED])
    }

    /// A service account, with the groups every service account has.
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        let groups = service_account_groups(namespace);
        Self { uid: uid.to_owned(), ..Self::new(service_account_name(namespace, name), groups) }
    }

    /// Whether the user is in a group.
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// The node this user is the kubelet of. The name may be empty when the user name ends after the prefix.
    pub fn node(&self) -> Option<&str> {
        self.name.strip_prefix(NODE_PREFIX).filter(|_| self.in_group(NODES))
    }

    /// As `userInfo` of a review or an audit event.
    pub fn info(&self) -> Value {
        let mut info = json!({"username": self.name});
        if !self.uid.is_empty() {
            info["uid"] = self.uid.clone().into();
        }
        if !self.groups.is_empty() {
            info["groups"] = self.groups.clone().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }
}

/// `system:serviceaccount:<namespace>:<name>`.
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// The groups every service account of a namespace is in.
pub fn service_account_groups(namespace: &str) -> [String; 2] {
    [SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")]
}

/// Namespace and name, if the user name is that of a service account.
pub fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    (is_dns_label(namespace) && is_dns_subdomain(name)).then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_account_name_is_split_only_when_both_parts_are_valid() {
        for (user, want) in [
            ("system:serviceaccount:kube-system:dns", Some(("kube-system", "dns"))),
            ("system:serviceaccount:a:b.c", Some(("a", "b.c"))),
            ("system:serviceaccount:a:b:c", None),
            ("system:serviceaccount:a.b:c", None),
            ("system:serviceaccount::c", None),
            ("system:serviceaccount:a:", None),
            ("system:serviceaccount:A:b", None),
            ("serviceaccount:a:b", None),
        ] {
            assert_eq!(split_service_account(user), want, "{user}");
        }
    }

    #[test]
    fn a_node_needs_both_the_name_and_the_group() {
        for (name, group, want) in [
            ("system:node:n1", NODES, Some("n1")),
            ("system:node:", NODES, Some("")),
            ("system:node:n1", "system:masters", None),
            ("n1", NODES, None),
        ] {
            assert_eq!(User::new(name, [group]).node(), want, "{name} {group}");
        }
    }

    #[test]
    fn user_info_leaves_out_what_is_empty() {
        assert_eq!(User::new("a", [] as [&str; 0]).info(), json!({"username": "a"}));
        let user = User::service_account("ns", "sa", "u1");
        assert_eq!(
            user.info(),
            json!({"username": "system:serviceaccount:ns:sa", "uid": "u1",
                   "groups": ["system:serviceaccounts", "system:serviceaccounts:ns"]})
        );
    }
}
