//! Roles and bindings, indexed by subject. Fed object by object from the engine's watch; checks take no lock.
//!
//! A `Snapshot` is immutable and made of shared parts: a change copies the part it touches (one namespace, the cluster's
//! bindings or the ClusterRoles) and swaps the pointer. Aggregated ClusterRoles are computed here, so that they work at once;
//! the API server writes the same rules into the objects.

use super::{Attributes, Authorizer, Decision, PolicyRule, Reason, Rules};
use crate::authn::{User, user::service_account_name};
use aggregate::ClusterRoles;
use api::object::Fields;
use arc_swap::ArcSwap;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::ControlFlow,
    sync::Arc,
};

mod aggregate;
#[cfg(test)]
mod tests;

/// API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// The four kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RbacKind {
    /// Rules in a namespace.
    Role,
    /// Rules for the cluster, or to be bound in a namespace.
    ClusterRole,
    /// Grants in a namespace.
    RoleBinding,
    /// Grants in the whole cluster.
    ClusterRoleBinding,
}

impl RbacKind {
    /// By the plural of the resource.
    pub fn from_plural(plural: &str) -> Option<Self> {
        [Self::Role, Self::ClusterRole, Self::RoleBinding, Self::ClusterRoleBinding]
            .into_iter()
            .find(|kind| kind.plural() == plural)
    }

    /// Plural of the resource.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Role => "roles",
            Self::ClusterRole => "clusterroles",
            Self::RoleBinding => "rolebindings",
            Self::ClusterRoleBinding => "clusterrolebindings",
        }
    }
}

/// Which role a binding grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleRef {
    /// `Role` or `ClusterRole`.
    pub kind: String,
    /// Name of the role.
    pub name: String,
}

impl RoleRef {
    /// From a binding.
    pub fn of(binding: &Value) -> Self {
        Self { kind: binding.str_at("roleRef.kind").to_owned(), name: binding.str_at("roleRef.name").to_owned() }
    }
}

/// One binding as one of its subjects sees it.
#[derive(Clone, Debug)]
struct Grant {
    binding: Arc<str>,
    role: Arc<RoleRef>,
    reason: Reason,
}

/// The bindings of one scope, by subject. A service account is found by its user name.
#[derive(Clone, Debug, Default)]
struct Bindings {
    users: HashMap<String, Vec<Grant>>,
    groups: HashMap<String, Vec<Grant>>,
    names: BTreeSet<String>,
}

impl Bindings {
    fn remove(&mut self, name: &str) {
        if self.names.remove(name) {
            for map in [&mut self.users, &mut self.groups] {
                map.retain(|_, grants| {
                    grants.retain(|grant| &*grant.binding != name);
                    !grants.is_empty()
                });
            }
        }
    }

    fn set(&mut self, namespace: &str, binding: &Value) {
        let name = binding.str_at("metadata.name");
        self.remove(name);
        self.names.insert(name.to_owned());
        let (shared, role) = (Arc::<str>::from(name), Arc::new(RoleRef::of(binding)));
        let shown = match namespace {
            "" => format!("ClusterRoleBinding {name:?}"),
            namespace => format!("RoleBinding {:?}", format!("{name}/{namespace}")),
        };
        for subject in binding.list_at("subjects") {
            let (kind, subject_name) = (subject.str_at("kind"), subject.str_at("name"));
            let own = subject.str_at("namespace");
            let account_namespace = if own.is_empty() { namespace } else { own };
            let (map, key, subject_name) = match kind {
                "User" => (&mut self.users, subject_name.to_owned(), subject_name.to_owned()),
                "Group" => (&mut self.groups, subject_name.to_owned(), subject_name.to_owned()),
                "ServiceAccount" if !account_namespace.is_empty() => (
                    &mut self.users,
                    service_account_name(account_namespace, subject_name),
                    format!("{subject_name}/{account_namespace}"),
                ),
                _ => continue,
            };
            let reason =
                format!("RBAC: allowed by {shown} of {} {:?} to {kind} {subject_name:?}", role.kind, role.name);
            map.entry(key).or_default().push(Grant {
                binding: shared.clone(),
                role: role.clone(),
                reason: reason.into(),
            });
        }
    }

    fn grants<'a>(&'a self, user: &'a User) -> impl Iterator<Item = &'a Grant> {
        let own = self.users.get(&user.name).into_iter().flatten();
        own.chain(user.groups.iter().filter_map(|group| self.groups.get(group)).flatten())
    }
}

#[derive(Clone, Debug, Default)]
struct Namespace {
    roles: BTreeMap<String, Arc<[PolicyRule]>>,
    bindings: Bindings,
}

/// All roles and bindings at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    cluster_roles: Arc<ClusterRoles>,
    cluster_bindings: Arc<Bindings>,
    namespaces: Arc<HashMap<String, Arc<Namespace>>>,
}

impl Snapshot {
    fn set(&mut self, kind: RbacKind, object: &Value) {
        let (namespace, name) = (object.str_at("metadata.namespace"), object.str_at("metadata.name"));
        match kind {
            RbacKind::ClusterRole => Arc::make_mut(&mut self.cluster_roles).set(object),
            RbacKind::ClusterRoleBinding => Arc::make_mut(&mut self.cluster_bindings).set("", object),
            RbacKind::Role => {
                let rules = PolicyRule::all_from_json(object).into();
                self.namespace(namespace).roles.insert(name.to_owned(), rules);
            }
            RbacKind::RoleBinding => self.namespace(namespace).bindings.set(namespace, object),
        }
    }

    fn remove(&mut self, kind: RbacKind, namespace: &str, name: &str) {
        match kind {
            RbacKind::ClusterRole => Arc::make_mut(&mut self.cluster_roles).remove(name),
            RbacKind::ClusterRoleBinding => Arc::make_mut(&mut self.cluster_bindings).remove(name),
            RbacKind::Role => {
                self.namespace(namespace).roles.remove(name);
            }
            RbacKind::RoleBinding => self.namespace(namespace).bindings.remove(name),
        }
        let empty = |ns: &Arc<Namespace>| ns.roles.is_empty() && ns.bindings.names.is_empty();
        if self.namespaces.get(namespace).is_some_and(empty) {
            Arc::make_mut(&mut self.namespaces).remove(namespace);
        }
    }

    fn clear(&mut self, kind: RbacKind) {
        match kind {
            RbacKind::ClusterRole => self.cluster_roles = Arc::default(),
            RbacKind::ClusterRoleBinding => self.cluster_bindings = Arc::default(),
            RbacKind::Role | RbacKind::RoleBinding => {
                Arc::make_mut(&mut self.namespaces).retain(|_, shared| {
                    let namespace = Arc::make_mut(shared);
                    match kind {
                        RbacKind::Role => namespace.roles.clear(),
                        _ => namespace.bindings = Bindings::default(),
                    }
                    !namespace.roles.is_empty() || !namespace.bindings.names.is_empty()
                });
            }
        }
    }

    fn namespace(&mut self, namespace: &str) -> &mut Namespace {
        let namespaces = Arc::make_mut(&mut self.namespaces);
        Arc::make_mut(namespaces.entry(namespace.to_owned()).or_default())
    }

    /// The rules of a role as they count: of an aggregated ClusterRole those it gathers. None when there is no such role.
    pub fn role_rules(&self, role: &RoleRef, namespace: &str) -> Option<&[PolicyRule]> {
        match role.kind.as_str() {
            "ClusterRole" => self.cluster_roles.rules(&role.name),
            "Role" => self.namespaces.get(namespace)?.roles.get(&role.name).map(AsRef::as_ref),
            _ => None,
        }
    }

    /// What an aggregated ClusterRole gathers, as its `rules` should read; none for every other role.
    pub fn aggregated_rules(&self, name: &str) -> Option<Value> {
        let rules = self.cluster_roles.aggregated(name)?;
        Some(rules.iter().map(PolicyRule::to_json).collect::<Vec<_>>().into())
    }

    /// Names of the aggregated ClusterRoles.
    pub fn aggregated_names(&self) -> impl Iterator<Item = &str> {
        self.cluster_roles.aggregated_names()
    }

    /// Whether a ClusterRoleBinding has arrived in the index, which follows the store a moment later.
    pub fn knows_binding(&self, name: &str) -> bool {
        self.cluster_bindings.names.contains(name)
    }

    /// Walks the rules that apply to a user, those of the cluster first; a missing role is walked as an error.
    fn visit<'a, B>(
        &'a self,
        user: &'a User,
        namespace: &str,
        mut step: impl FnMut(&'a Grant, Result<&'a [PolicyRule], String>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let local = self.namespaces.get(namespace).map(|ns| ns.bindings.grants(user)).into_iter().flatten();
        let scoped = self.cluster_bindings.grants(user).map(|grant| (grant, ""));
        for (grant, scope) in scoped.chain(local.map(|grant| (grant, namespace))) {
            let rules = self.role_rules(&grant.role, scope).ok_or_else(|| missing(&grant.role));
            step(grant, rules)?;
        }
        ControlFlow::Continue(())
    }
}

fn missing(role: &RoleRef) -> String {
    match role.kind.as_str() {
        kind @ ("Role" | "ClusterRole") => format!("{}.{GROUP} {:?} not found", kind.to_lowercase(), role.name),
        kind => format!("unsupported role reference kind: {kind:?}"),
    }
}

impl Authorizer for Snapshot {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let mut errors = BTreeSet::new();
        let found = self.visit(attributes.user, attributes.namespace, |grant, rules| match rules {
            Ok(rules) if rules.iter().any(|rule| rule.allows(attributes)) => ControlFlow::Break(grant.reason.clone()),
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => {
                errors.insert(error);
                ControlFlow::Continue(())
            }
        });
        match (found, errors.len()) {
            (ControlFlow::Break(reason), _) => Decision::Allow(reason),
            (_, 0) => Decision::none(),
            (_, 1) => Decision::NoOpinion(format!("RBAC: {}", errors.into_iter().collect::<String>()).into()),
            _ => Decision::NoOpinion(format!("RBAC: [{}]", errors.into_iter().collect::<Vec<_>>().join(", ")).into()),
        }
    }

    fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        let mut all = Rules::default();
        let mut seen: Vec<&Arc<str>> = Vec::new();
        let _: ControlFlow<()> = self.visit(user, namespace, |grant, rules| {
            // A binding that names both the user and a group of theirs counts once.
            if !seen.iter().any(|known| Arc::ptr_eq(known, &grant.binding)) {
                seen.push(&grant.binding);
                match rules {
                    Ok(rules) => all.rules.extend_from_slice(rules),
                    Err(error) => all.errors.push(error),
                }
            }
            ControlFlow::Continue(())
        });
        all
    }
}

/// The current snapshot, swapped on every change.
#[derive(Debug, Default)]
pub struct RbacIndex {
    current: ArcSwap<Snapshot>,
}

impl RbacIndex {
    /// An empty index: nobody may do anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// The roles and bindings of this moment.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Replaces all objects of a kind, at start and after a watch had to begin anew: what was deleted in between must not
    /// go on to grant anything.
    pub fn replace(&self, kind: RbacKind, objects: &[Value]) {
        self.change(|snapshot| {
            snapshot.clear(kind);
            objects.iter().for_each(|object| snapshot.set(kind, object));
        });
    }

    /// Adds or replaces an object.
    pub fn set(&self, kind: RbacKind, object: &Value) {
        self.change(|snapshot| snapshot.set(kind, object));
    }

    /// Removes an object; the namespace of cluster kinds is empty.
    pub fn remove(&self, kind: RbacKind, namespace: &str, name: &str) {
        self.change(|snapshot| snapshot.remove(kind, namespace, name));
    }

    /// Copies, changes, swaps; again if somebody else was faster.
    fn change(&self, change: impl Fn(&mut Snapshot)) {
        self.current.rcu(|old| {
            let mut new = Snapshot::clone(old);
            change(&mut new);
            new
        });
    }
}

impl Authorizer for RbacIndex {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        self.current.load().authorize(attributes)
    }

    fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        self.current.load().rules_for(user, namespace)
    }
}
