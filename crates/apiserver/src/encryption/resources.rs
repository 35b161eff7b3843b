//! Which resource a key in the store belongs to.

use super::GroupResource;

/// Built-in resources by the prefix of their keys, the longest first.
#[derive(Debug)]
pub(super) struct Resources(Vec<(String, GroupResource)>);

impl Resources {
    /// Those that are served; custom ones tell by their keys.
    pub(super) fn built_in() -> Self {
        let registry = crate::warm::registry();
        let mut found: Vec<(String, GroupResource)> = Vec::new();
        for resource in registry.iter() {
            // What has two groups and one place (events) is known by the group in which it is stored.
            let other = resource.rules.stored_as().is_some_and(|(group, _)| group != resource.group);
            if resource.storage.is_empty() || other {
                continue;
            }
            let of = GroupResource { group: resource.group.clone(), resource: resource.plural.clone() };
            found.push((format!("{}/", resource.storage), of));
        }
        found.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Self(found)
    }

    /// The resource of a key; none for what is no API object, such as allocations.
    pub(super) fn of(&self, key: &str) -> Option<GroupResource> {
        let known = self.0.iter().find(|(prefix, _)| key.starts_with(prefix.as_str()));
        if let Some((_, of)) = known {
            return Some(of.clone());
        }
        let (group, rest) = key.split_once('/')?;
        let (plural, _) = rest.split_once('/')?;
        // The group of a definition has a dot in it; no other prefix has.
        group.contains('.').then(|| GroupResource { group: group.to_owned(), resource: plural.to_owned() })
    }
}
