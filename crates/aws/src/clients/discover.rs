//! Which VPC and which cluster: from the cloud-config, else from the instance that this runs on.

use super::Session;
use crate::{
    account::{Account, AwsError, Instance, InstanceFilter, Tags},
    cloud_config::CloudConfig,
    model::names::{CLUSTER_TAG, LEGACY_TAG},
};
use std::collections::BTreeSet;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub vpc: String,
    pub cluster_id: String,
    /// Whether the old tag is used too.
    pub legacy_tag: bool,
}

/// Why the VPC or the cluster is not known.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// The instance cannot be found out.
    #[error(
        "{missing} not known: set it in [Global] of the cloud-config, or run on an EC2 instance (instance metadata service: {why})"
    )]
    NoInstance {
        /// What is missing: `VPC`, `KubernetesClusterID`.
        missing: String,
        /// What the metadata service said.
        why: String,
    },
    /// The instance has gone, or is of another account.
    #[error(
        "the instance metadata service says that this is {0}, but EC2 has no such instance in this region and account"
    )]
    Unknown(String),
    /// The instance does not say which cluster.
    #[error(
        "KubernetesClusterID is not set in the cloud-config, and instance {0} has no tag {CLUSTER_TAG}ID to tell it"
    )]
    NoTag(String),
    /// The instance says several things.
    #[error(
        "KubernetesClusterID is not set in the cloud-config, and instance {instance} has tags of several clusters: {ids}"
    )]
    ManyTags {
        instance: String,
        /// The clusters' ids.
        ids: String,
    },
    /// EC2 could not be asked.
    #[error("looking up this instance: {0}")]
    Aws(#[from] AwsError),
}

/// Finds out VPC and cluster. The instance is only asked for when the cloud-config leaves something open.
pub async fn discover(session: &Session, account: &Account, config: &CloudConfig) -> Result<Found, DiscoverError> {
    let global = &config.global;
    let vpc = Some(global.vpc.clone()).filter(|vpc| !vpc.is_empty());
    let id = config.cluster_id().map(str::to_owned);
    let legacy_tag = !global.cluster_tag.is_empty();
    if let (Some(vpc), Some(cluster_id)) = (&vpc, &id) {
        return Ok(Found { vpc: vpc.clone(), cluster_id: cluster_id.clone(), legacy_tag });
    }
    let missing: Vec<&str> =
        [vpc.is_none().then_some("VPC"), id.is_none().then_some("KubernetesClusterID")].into_iter().flatten().collect();
    let own = own_id(session).await;
    let own = own.map_err(|why| DiscoverError::NoInstance { missing: format!("{} is", missing.join(" and ")), why })?;
    let filter = InstanceFilter { ids: BTreeSet::from([own.clone()]), ..InstanceFilter::default() };
    let instance = account.ec2.describe_instances(&filter).await?.into_iter().next();
    let instance = instance.ok_or(DiscoverError::Unknown(own))?;
    let (cluster_id, legacy_tag) = match id {
        Some(id) => (id, legacy_tag),
        None => cluster_of(&instance)?,
    };
    Ok(Found { vpc: vpc.unwrap_or(instance.vpc), cluster_id, legacy_tag })
}

async fn own_id(session: &Session) -> Result<String, String> {
    let id = session.metadata().get("/latest/meta-data/instance-id").await?;
    if id.starts_with("i-") { Ok(id) } else { Err(format!("{id:?} is no instance id")) }
}

fn cluster_of(instance: &Instance) -> Result<(String, bool), DiscoverError> {
    let (ids, legacy_tag) = ids_in(&instance.tags);
    let mut ids = ids.into_iter();
    match (ids.next(), ids.next()) {
        (Some(id), None) => Ok((id.to_owned(), legacy_tag)),
        (None, _) => Err(DiscoverError::NoTag(instance.id.clone())),
        (Some(first), Some(second)) => {
            let ids = [first, second].into_iter().chain(ids).collect::<Vec<_>>().join(", ");
            Err(DiscoverError::ManyTags { instance: instance.id.clone(), ids })
        }
    }
}

/// The clusters that tags name, and whether one of them is the old tag.
fn ids_in(tags: &Tags) -> (BTreeSet<&str>, bool) {
    let legacy = tags.get(LEGACY_TAG).map(String::as_str);
    let named = tags.keys().filter_map(|key| key.strip_prefix(CLUSTER_TAG));
    (named.chain(legacy).collect(), legacy.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(tags: &[(&str, &str)]) -> Instance {
        let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Instance { id: "i-1".to_owned(), tags, ..Instance::default() }
    }

    #[test]
    fn an_instance_tells_its_cluster() {
        let owned = ("kubernetes.io/cluster/blue", "owned");
        let legacy = ("KubernetesCluster", "blue");
        for (tags, legacy_tag) in [(vec![owned], false), (vec![legacy], true), (vec![owned, legacy], true)] {
            assert_eq!(cluster_of(&instance(&tags)).expect("a cluster"), ("blue".to_owned(), legacy_tag), "{tags:?}");
        }
    }

    #[test]
    fn an_instance_of_no_or_many_clusters_is_an_error() {
        let none = cluster_of(&instance(&[("Name", "x")])).expect_err("no cluster");
        assert_eq!(
            none.to_string(),
            "KubernetesClusterID is not set in the cloud-config, and instance i-1 has no tag kubernetes.io/cluster/ID to tell it"
        );
        let tags = [("kubernetes.io/cluster/blue", "owned"), ("kubernetes.io/cluster/green", "shared")];
        let many = cluster_of(&instance(&tags)).expect_err("two clusters");
        assert_eq!(
            many.to_string(),
            "KubernetesClusterID is not set in the cloud-config, and instance i-1 has tags of several clusters: blue, green"
        );
    }
}
