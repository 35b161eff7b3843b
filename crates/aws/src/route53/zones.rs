//! Which hosted zone: by its id, or the one that has the tags.
//!
//! Zones are listed and their tags read; of all zones only those that can hold the name. The tagging API, which upstream asks, is one
//! permission more and has no zones in some partitions.

use super::{failed, hosted::Hosted, names::holds};
use crate::{
    account::{AwsError, HostedZone},
    clients::route53::bare,
};
use runtime::cloud::{CloudError, DnsZone};
use std::collections::BTreeMap;

/// Zones whose tags one call tells.
const ZONES: usize = 10;

impl Hosted {
    /// The zone's id.
    pub(super) async fn zone(&self, zone: &DnsZone, name: &str) -> Result<String, CloudError> {
        if let Some(id) = &zone.id {
            return Ok(bare(id));
        }
        if zone.tags.is_empty() {
            return Err(CloudError::Refused(format!("the zone of {name} has neither an id nor tags")));
        }
        let known = self.zones.lock().get(&zone.tags).filter(|found| holds(&found.name, name)).cloned();
        if let Some(found) = known {
            return Ok(found.id);
        }
        let mut all = self.tagged(&zone.tags, name).await.map_err(failed)?;
        let tags: Vec<String> = zone.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let tags = tags.join(", ");
        match (all.pop(), all.as_slice()) {
            (Some(found), []) => {
                self.zones.lock().insert(zone.tags.clone(), found.clone());
                Ok(found.id)
            }
            (None, _) => Err(CloudError::Refused(format!("no hosted zone that can hold {name} has the tags {tags}"))),
            (Some(last), others) => {
                let ids: Vec<&str> = others.iter().chain([&last]).map(|found| found.id.as_str()).collect();
                let ids = ids.join(", ");
                Err(CloudError::Refused(format!(
                    "several hosted zones that can hold {name} have the tags {tags}: {ids}"
                )))
            }
        }
    }

    /// Takes back what was found by tags; says whether it was this zone.
    pub(super) fn forget_zone(&self, tags: &BTreeMap<String, String>, id: &str) -> bool {
        let mut zones = self.zones.lock();
        let known = zones.get(tags).is_some_and(|found| found.id == id);
        if known {
            zones.remove(tags);
        }
        known
    }

    /// The zones that can hold the name and have the tags.
    async fn tagged(&self, tags: &BTreeMap<String, String>, name: &str) -> Result<Vec<HostedZone>, AwsError> {
        let mut candidates = self.client.list_hosted_zones().await?;
        candidates.retain(|zone| holds(&zone.name, name));
        let mut found = Vec::new();
        for some in candidates.chunks(ZONES) {
            let ids: Vec<String> = some.iter().map(|zone| zone.id.clone()).collect();
            for (id, has) in self.client.list_tags(&ids).await? {
                if tags.iter().all(|(key, value)| has.get(key) == Some(value)) {
                    found.extend(some.iter().filter(|zone| zone.id == id).cloned());
                }
            }
        }
        Ok(found)
    }
}
