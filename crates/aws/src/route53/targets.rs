//! Which hosted zone a load balancer's host name is in: an alias has to say.

use super::{
    Route53, failed,
    names::{plain, same_target},
    regions,
};
use crate::account::AwsError;
use runtime::cloud::CloudError;

impl Route53 {
    /// Asks the two APIs for a load balancer of this name; without one, what was found before, or what all load balancers of the region have.
    pub(super) async fn target_zone(&self, target: &str, before: Option<&str>) -> Result<String, CloudError> {
        let key = plain(target);
        let known = self.targets.lock().get(&key).cloned();
        if let Some(zone) = known {
            return Ok(zone);
        }
        if let Some(zone) = self.asked(target).await.map_err(failed)? {
            self.targets.lock().insert(key, zone.clone());
            return Ok(zone);
        }
        let other = before.map(str::to_owned).or_else(|| regions::zone_of(target).map(str::to_owned));
        other.ok_or_else(|| {
            CloudError::Refused(format!(
                "{target} is the host name of no load balancer here, so no alias can lead to it"
            ))
        })
    }

    async fn asked(&self, target: &str) -> Result<Option<String>, AwsError> {
        let network = self.account.network.describe_load_balancers(None).await?;
        if let Some(found) = network.into_iter().find(|one| same_target(&one.dns_name, target)) {
            return Ok(Some(found.hosted_zone).filter(|zone| !zone.is_empty()));
        }
        let classic = self.account.classic.describe_classic(None).await?;
        let found = classic.into_iter().find(|one| same_target(&one.dns_name, target));
        Ok(found.map(|found| found.hosted_zone).filter(|zone| !zone.is_empty()))
    }
}
