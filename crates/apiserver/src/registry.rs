//! The resources being served: built-in ones from the table, custom ones as their definitions come and go.

use api::resource::{Resource, Scope};
use std::{collections::BTreeMap, sync::Arc};

/// An immutable set of resources; a change of definitions publishes a new one.
#[derive(Clone, Default)]
pub struct Registry {
    /// Group, version, plural.
    resources: BTreeMap<(String, String, String), Arc<Resource>>,
    /// Order in which groups were added, which is the order of discovery.
    groups: Vec<String>,
}

impl Registry {
    /// A set of the given resources.
    pub fn new(resources: impl IntoIterator<Item = Arc<Resource>>) -> Self {
        let mut registry = Self::default();
        for resource in resources {
            registry.add(resource);
        }
        registry
    }

    fn add(&mut self, resource: Arc<Resource>) {
        if !self.groups.contains(&resource.group) {
            self.groups.push(resource.group.clone());
        }
        let key = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
        self.resources.insert(key, resource);
    }

    /// The same built-in resources with these custom ones.
    #[must_use]
    pub fn with_custom(&self, custom: impl IntoIterator<Item = Arc<Resource>>) -> Self {
        let built_in: Vec<_> =
            self.groups.iter().flat_map(|group| self.group(group)).filter(|r| !r.custom).cloned().collect();
        Self::new(built_in.into_iter().chain(custom))
    }

    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// Group names in the order of discovery.
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    /// The resources of a group, all versions.
    pub fn group<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.resources.values().filter(move |resource| resource.group == group)
    }

    /// Versions of a group, the preferred one first.
    pub fn versions(&self, group: &str) -> Vec<String> {
        let mut versions: Vec<String> = self.group(group).map(|resource| resource.version.clone()).collect();
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        versions.dedup();
        versions
    }

    /// By kind, in any served version of the group; used where an object names another one.
    pub fn by_kind(&self, group: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.resources.values().find(|resource| resource.group == group && resource.kind == kind)
    }
}

/// Kubernetes' order of versions: `v2` before `v1` before `v1beta1` before `v1alpha1` before anything else by name.
pub(crate) fn priority(version: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let other = || (0, 0, 0, std::cmp::Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else { return other() };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let Ok(major) = rest[..digits].parse::<u64>() else { return other() };
    let (stage, minor) = match &rest[digits..] {
        "" => (3, ""),
        tail => match (tail.strip_prefix("beta"), tail.strip_prefix("alpha")) {
            (Some(minor), _) => (2, minor),
            (_, Some(minor)) => (1, minor),
            _ => return other(),
        },
    };
    match (minor, minor.parse::<u64>()) {
        ("", _) if stage == 3 => (3, major, 0, std::cmp::Reverse(String::new())),
        (_, Ok(minor)) => (stage, major, minor, std::cmp::Reverse(String::new())),
        _ => other(),
    }
}

/// The key of an object in the store, or the prefix of a collection when `name` is empty.
pub fn key(resource: &Resource, namespace: &str, name: &str) -> String {
    let mut key = format!("{}/", resource.storage);
    if resource.scope == Scope::Namespaced && !namespace.is_empty() {
        key.push_str(namespace);
        key.push('/');
    }
    key.push_str(name);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_kubernetes_does() {
        let mut versions =
            vec!["foo10", "v1", "v10beta3", "v11alpha2", "v11beta2", "v12alpha1", "v2", "v3beta1", "v10", "foo1"];
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]
        );
    }
}
