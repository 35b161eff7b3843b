//! DNS records in Route53: aliases of load balancers, one for each family.
//!
//! What is there is always read first: nothing is written that is there already, and what is deleted is exactly what was read. All changes of an
//! entry go in one batch, which Route53 makes as a whole or not at all.

mod hosted;
mod names;
mod plan;
mod regions;
mod targets;
#[cfg(test)]
mod tests;
mod zones;

use crate::{
    account::{Account, AwsError, RecordSet},
    clients::{Session, role},
};
use hosted::Hosted;
use parking_lot::Mutex;
use runtime::cloud::{Answer, CloudError, DnsEntry, DnsProvider, DnsZone};
use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

/// When to ask again after being throttled.
const THROTTLED: Duration = Duration::from_secs(30);

/// Route53, with the load balancers that records lead to.
#[derive(Debug)]
pub struct Route53 {
    session: Session,
    own: Arc<Hosted>,
    /// The same in the name of roles, by their ARNs: for zones that are in other accounts.
    roles: Mutex<BTreeMap<String, (Session, Arc<Hosted>)>>,
    account: Account,
    /// Zones of load balancers' host names.
    targets: Mutex<BTreeMap<String, String>>,
}

impl Route53 {
    /// The zones of a session's account, and of roles that it may take on; load balancers are those of its account and region.
    pub fn new(session: &Session) -> Self {
        Self {
            session: session.clone(),
            own: Arc::new(Hosted::new(session)),
            roles: Mutex::default(),
            account: session.account(),
            targets: Mutex::default(),
        }
    }

    /// Whoever a zone is to be asked as. A role that cannot be taken on is told as that, and not as a call that went wrong.
    async fn hosted(&self, zone: &DnsZone) -> Result<Arc<Hosted>, CloudError> {
        let Some(arn) = &zone.role else { return Ok(Arc::clone(&self.own)) };
        let (session, hosted) = self.in_role(arn)?;
        match session.try_credentials().await {
            Ok(()) => Ok(hosted),
            Err(why) => Err(CloudError::Failed(format!("the role {arn} of the zone cannot be taken on: {why}").into())),
        }
    }

    fn in_role(&self, arn: &str) -> Result<(Session, Arc<Hosted>), CloudError> {
        let mut roles = self.roles.lock();
        if let Some(known) = roles.get(arn) {
            return Ok(known.clone());
        }
        role::check(arn).map_err(|why| CloudError::Refused(format!("the role of the zone: {why}")))?;
        let session = self.session.in_role(arn, "");
        let hosted = Hosted::new(&session);
        let made = (session, Arc::new(hosted));
        roles.insert(arn.to_owned(), made.clone());
        Ok(made)
    }

    /// GovCloud's Route53 has no aliases of load balancers.
    fn has_aliases(&self) -> bool {
        !self.session.region().starts_with("us-gov-")
    }

    async fn ensure_entry(&self, zone: &DnsZone, entry: &DnsEntry) -> Result<Option<String>, CloudError> {
        let target = target(entry)?;
        // A zone that is not there is told before load balancers are asked for.
        let hosted = self.hosted(zone).await?;
        hosted.zone(zone, &entry.name).await?;
        let (wanted, target_zone) = if self.has_aliases() {
            let target_zone = self.target_zone(target, entry.target_zone.as_deref()).await?;
            (plan::aliases(entry, target, &target_zone), Some(target_zone))
        } else {
            (vec![plan::name_of(entry, target)], None)
        };
        let steps = |there: &[RecordSet]| plan::ensure(there, &wanted, target);
        hosted.change_in(zone, &entry.name, steps).await?.map_err(failed)?;
        Ok(target_zone)
    }

    async fn delete_entry(&self, zone: &DnsZone, entry: &DnsEntry) -> Result<(), CloudError> {
        let steps = |there: &[RecordSet]| plan::delete(there, &entry.targets);
        match self.hosted(zone).await?.change_in(zone, &entry.name, steps).await? {
            // Without the zone there are no records.
            Err(error) if is_no_zone(&error) => Ok(()),
            outcome => outcome.map_err(failed),
        }
    }
}

fn is_no_zone(error: &AwsError) -> bool {
    matches!(error, AwsError::Invalid { code, .. } if code == "NoSuchHostedZone")
}

/// The load balancer's host name that an entry leads to.
fn target(entry: &DnsEntry) -> Result<&str, CloudError> {
    let Some(target) = entry.targets.first() else {
        return Err(CloudError::Refused(format!("{} has no target", entry.name)));
    };
    if target.parse::<IpAddr>().is_ok() {
        let message =
            format!("{} leads to the address {target}; Route53 records are for load balancers' host names", entry.name);
        return Err(CloudError::Refused(message));
    }
    Ok(target)
}

fn failed(error: AwsError) -> CloudError {
    match error {
        AwsError::Throttled { .. } => CloudError::Later { reason: error.to_string(), after: THROTTLED },
        error => CloudError::Failed(error.into()),
    }
}

impl DnsProvider for Route53 {
    fn name(&self) -> &str {
        "Route53"
    }

    fn ensure<'a>(&'a self, zone: &'a DnsZone, entry: &'a DnsEntry) -> Answer<'a, Option<String>> {
        Box::pin(self.ensure_entry(zone, entry))
    }

    fn delete<'a>(&'a self, zone: &'a DnsZone, entry: &'a DnsEntry) -> Answer<'a, ()> {
        Box::pin(self.delete_entry(zone, entry))
    }
}
