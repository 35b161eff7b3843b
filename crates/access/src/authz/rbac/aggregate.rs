//! ClusterRoles, and the rules that aggregated ones gather by label. Mirrors the clusterrole-aggregation controller: roles in
//! order of name, every rule once; roles that gather from each other are followed until nothing new comes.

use super::PolicyRule;
use api::{kinds::selector, object::Fields};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// All ClusterRoles. `gathered` holds the rules of the aggregated ones, computed on every change: roles change rarely, and
/// checks stay plain reads.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterRoles {
    stored: BTreeMap<String, Arc<Stored>>,
    gathered: BTreeMap<String, Arc<[PolicyRule]>>,
}

#[derive(Debug)]
struct Stored {
    labels: Value,
    rules: Vec<PolicyRule>,
    /// Label selectors; some for an aggregated role, even if the list is empty.
    selectors: Option<Vec<Value>>,
}

impl ClusterRoles {
    pub(super) fn set(&mut self, role: &Value) {
        let selectors =
            role.map_at("aggregationRule").map(|_| role.list_at("aggregationRule.clusterRoleSelectors").to_vec());
        let stored =
            Stored { labels: role.at("metadata.labels").clone(), rules: PolicyRule::all_from_json(role), selectors };
        self.stored.insert(role.str_at("metadata.name").to_owned(), Arc::new(stored));
        self.gather();
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.stored.remove(name);
        self.gather();
    }

    pub(super) fn rules(&self, name: &str) -> Option<&[PolicyRule]> {
        self.aggregated(name).or_else(|| self.stored.get(name).map(|role| role.rules.as_slice()))
    }

    pub(super) fn aggregated(&self, name: &str) -> Option<&[PolicyRule]> {
        self.gathered.get(name).map(AsRef::as_ref)
    }

    pub(super) fn aggregated_names(&self) -> impl Iterator<Item = &str> {
        self.gathered.keys().map(String::as_str)
    }

    fn gather(&mut self) {
        let aggregated = self.stored.iter().filter(|(_, role)| role.selectors.is_some());
        self.gathered = aggregated
            .map(|(name, _)| {
                let mut rules = Vec::new();
                self.follow(name, &mut BTreeSet::new(), &mut rules);
                (name.clone(), rules.into())
            })
            .collect();
    }

    /// Appends the rules a role stands for. What an aggregated role has stored is only what it gathered before.
    fn follow<'a>(&'a self, name: &'a str, seen: &mut BTreeSet<&'a str>, rules: &mut Vec<PolicyRule>) {
        let Some(role) = self.stored.get(name).filter(|_| seen.insert(name)) else { return };
        let Some(selectors) = &role.selectors else {
            for rule in &role.rules {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
            return;
        };
        for selector in selectors {
            for (other, candidate) in &self.stored {
                if selector::matches(selector, &candidate.labels) {
                    self.follow(other, seen, rules);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn role(name: &str, labels: Value, verb: &str, selectors: Option<Value>) -> Value {
        let mut role = json!({"metadata": {"name": name, "labels": labels},
                              "rules": [{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}]});
        if let Some(selectors) = selectors {
            role.set("aggregationRule.clusterRoleSelectors", selectors);
        }
        role
    }

    fn verbs(roles: &ClusterRoles, name: &str) -> String {
        roles.rules(name).unwrap().iter().flat_map(|rule| rule.verbs.clone()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_aggregated_role_gathers_through_others_and_follows_changes() {
        let mut roles = ClusterRoles::default();
        let labelled = |key: &str| json!([{"matchLabels": {key: "true"}}]);
        roles.set(&role("admin", json!({}), "stale", Some(labelled("to-admin"))));
        roles.set(&role("edit", json!({"to-admin": "true"}), "stale", Some(labelled("to-edit"))));
        roles.set(&role("b", json!({"to-edit": "true"}), "list", None));
        roles.set(&role("a", json!({"to-edit": "true"}), "get", None));
        roles.set(&role("c", json!({"to-admin": "true"}), "delete", None));
        roles.set(&role("d", json!({"to-admin": "true"}), "get", None));
        assert_eq!(verbs(&roles, "admin"), "delete get list", "c, then d, then edit with a and b; get stands once");
        assert_eq!(verbs(&roles, "edit"), "get list");
        roles.remove("b");
        assert_eq!(verbs(&roles, "admin"), "delete get");
        assert_eq!(roles.aggregated_names().collect::<Vec<_>>(), ["admin", "edit"]);
        assert!(roles.aggregated("a").is_none());
    }

    #[test]
    fn roles_that_gather_from_each_other_end() {
        let mut roles = ClusterRoles::default();
        let all = json!([{}]);
        roles.set(&role("x", json!({}), "stale", Some(all.clone())));
        roles.set(&role("y", json!({}), "stale", Some(all)));
        roles.set(&role("z", json!({}), "get", None));
        assert_eq!(verbs(&roles, "x"), "get");
        assert_eq!(verbs(&roles, "y"), "get");
    }
}
