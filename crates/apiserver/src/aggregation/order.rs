//! In which order discovery names groups and their versions: by the priorities of APIServices. Mirrors `SortedByGroupAndVersion`
//! of kube-aggregator.

use super::index::Remote;
use crate::registry::{Registry, priority};
use api::kinds::api_service::local_priorities;
use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

/// A group with its versions, the preferred one first.
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) versions: Vec<(String, Source)>,
}

/// Who answers for a version.
#[derive(Clone)]
pub(crate) enum Source {
    Here,
    There(Arc<Remote>),
}

/// All groups: those of this server and those of others. Where both have a version, the other one answers.
pub(crate) fn groups(registry: &Registry, remotes: &[Arc<Remote>]) -> Vec<Group> {
    let mut versions: BTreeMap<(String, String), (i64, i64, Source)> = BTreeMap::new();
    for resource in registry.iter() {
        let (group, version) = local_priorities(&resource.group, &resource.version);
        let key = (resource.group.clone(), resource.version.clone());
        versions.entry(key).or_insert((group, version, Source::Here));
    }
    for remote in remotes {
        let key = (remote.group.clone(), remote.version.clone());
        versions.insert(key, (remote.group_priority, remote.version_priority, Source::There(Arc::clone(remote))));
    }
    type Versions = Vec<(String, i64, Source)>;
    let mut groups: BTreeMap<String, (Reverse<i64>, String, Versions)> = BTreeMap::new();
    for ((group, version), (of_group, of_version, source)) in versions {
        let place = (Reverse(of_group), format!("{version}.{group}"));
        let known = groups.entry(group).or_insert_with(|| (place.0, place.1.clone(), Vec::new()));
        if place < (known.0, known.1.clone()) {
            (known.0, known.1) = place;
        }
        known.2.push((version, of_version, source));
    }
    let mut ordered: Vec<_> = groups.into_iter().collect();
    ordered.sort_by(|(_, a), (_, b)| (a.0, &a.1).cmp(&(b.0, &b.1)));
    ordered
        .into_iter()
        .map(|(name, (.., mut versions))| {
            versions.sort_by_key(|(version, of_version, _)| (Reverse(*of_version), Reverse(priority(version))));
            Group { name, versions: versions.into_iter().map(|(version, _, source)| (version, source)).collect() }
        })
        .collect()
}
