//! DNS records in Route53: aliases of load balancers, one for each family.
//!
//! What is there is always read first: nothing is written that is there already, and what is deleted is exactly what was read. All changes of an
//! entry go in one batch, which Route53 makes as a whole or not at all.

mod names;
mod plan;
mod regions;
mod targets;
#[cfg(test)]
mod tests;
mod zones;

use super::{OpenError, Session, actions, caller::Caller, classic::Classic, elbv2::Elbv2};
use crate::account::AwsError;
use aws_sdk_route53::{Client, config, types as sdk};
use names::same;
use parking_lot::Mutex;
use plan::{Record, Step};
use runtime::cloud::{Answer, CloudError, DnsEntry, DnsProvider, DnsZone};
use std::{collections::BTreeMap, net::IpAddr, time::Duration};

/// When to ask again after being throttled.
const THROTTLED: Duration = Duration::from_secs(30);
/// How often an entry is read anew because somebody changed it in between.
const ROUNDS: usize = 3;

/// Route53, with the load balancers that records lead to.
#[derive(Debug)]
pub struct Route53 {
    client: Client,
    caller: Caller,
    network: Elbv2,
    classic: Classic,
    region: String,
    /// Zones that were found by their tags: id and name.
    zones: Mutex<BTreeMap<BTreeMap<String, String>, zones::Found>>,
    /// Zones of load balancers' host names.
    targets: Mutex<BTreeMap<String, String>>,
}

impl Route53 {
    /// The zones of a session's account; load balancers are those of its region.
    pub fn new(session: &Session) -> Result<Self, OpenError> {
        let sdk = session.sdk("Route 53", "route53")?;
        Ok(Self {
            client: Client::from_conf(config::Builder::from(&sdk).build()),
            caller: session.caller().clone(),
            network: Elbv2::new(session)?,
            classic: Classic::new(session)?,
            region: session.region().to_owned(),
            zones: Mutex::default(),
            targets: Mutex::default(),
        })
    }

    /// GovCloud's Route53 has no aliases of load balancers.
    fn has_aliases(&self) -> bool {
        !self.region.starts_with("us-gov-")
    }

    async fn ensure_entry(&self, zone: &DnsZone, entry: &DnsEntry) -> Result<Option<String>, CloudError> {
        let target = target(entry)?;
        // A zone that is not there is told before load balancers are asked for.
        self.zone(zone, &entry.name).await?;
        let (wanted, target_zone) = if self.has_aliases() {
            let target_zone = self.target_zone(target, entry.target_zone.as_deref()).await?;
            (plan::aliases(entry, target, &target_zone), Some(target_zone))
        } else {
            (vec![plan::name_of(entry, target)], None)
        };
        let steps = |there: &[Record]| plan::ensure(there, &wanted, target);
        self.change_in(zone, &entry.name, steps).await?.map_err(failed)?;
        Ok(target_zone)
    }

    async fn delete_entry(&self, zone: &DnsZone, entry: &DnsEntry) -> Result<(), CloudError> {
        let steps = |there: &[Record]| plan::delete(there, &entry.targets);
        match self.change_in(zone, &entry.name, steps).await? {
            // Without the zone there are no records.
            Err(error) if is_no_zone(&error) => Ok(()),
            outcome => outcome.map_err(failed),
        }
    }

    /// Changes a name in a zone. One that was found by its tags and has gone is looked for anew: there may be another.
    async fn change_in(
        &self,
        zone: &DnsZone,
        name: &str,
        steps: impl Fn(&[Record]) -> Vec<Step>,
    ) -> Result<Result<(), AwsError>, CloudError> {
        loop {
            let id = self.zone(zone, name).await?;
            match self.change(&id, name, &steps).await {
                Err(error) if is_no_zone(&error) && self.forget_zone(&zone.tags, &id) => {}
                outcome => return Ok(outcome),
            }
        }
    }

    /// Reads what is there, decides, and changes it; anew when it was not so any more.
    async fn change(&self, zone: &str, name: &str, steps: impl Fn(&[Record]) -> Vec<Step>) -> Result<(), AwsError> {
        let mut round = 1;
        loop {
            let steps = steps(&self.records(zone, name).await?);
            if steps.is_empty() {
                return Ok(());
            }
            match self.submit(zone, &steps).await {
                Err(AwsError::Invalid { code, .. }) if code == "InvalidChangeBatch" && round < ROUNDS => round += 1,
                outcome => return outcome,
            }
        }
    }

    /// The records of a name.
    async fn records(&self, zone: &str, name: &str) -> Result<Vec<Record>, AwsError> {
        let request = self.client.list_resource_record_sets().hosted_zone_id(zone);
        let mut from = (Some(name.to_owned()), Some(sdk::RrType::A), None);
        let mut records = Vec::new();
        loop {
            let send = || {
                let (name, kind, identifier) = from.clone();
                request
                    .clone()
                    .set_start_record_name(name)
                    .set_start_record_type(kind)
                    .set_start_record_identifier(identifier)
                    .send()
            };
            let page = self.caller.sdk(actions::LIST_RECORD_SETS, send).await?;
            let count = page.resource_record_sets.len();
            records.extend(page.resource_record_sets.into_iter().filter(|set| same(&set.name, name)).map(Record::of));
            let next = (page.next_record_name, page.next_record_type, page.next_record_identifier);
            let goes_on = page.is_truncated && count > 0 && next.0.as_deref().is_some_and(|next| same(next, name));
            if !goes_on || next == from {
                return Ok(records);
            }
            from = next;
        }
    }

    async fn submit(&self, zone: &str, steps: &[Step]) -> Result<(), AwsError> {
        let unfinished = |error: aws_sdk_route53::error::BuildError| AwsError::Invalid {
            code: "IncompleteRequest".to_owned(),
            message: error.to_string(),
        };
        let mut changes = Vec::new();
        for step in steps {
            let (action, record) = match step {
                Step::Write(record) => (sdk::ChangeAction::Upsert, record),
                Step::Delete(record) => (sdk::ChangeAction::Delete, record),
            };
            let set = record.to_sdk().map_err(unfinished)?;
            changes.push(sdk::Change::builder().action(action).resource_record_set(set).build().map_err(unfinished)?);
        }
        let batch = sdk::ChangeBatch::builder().set_changes(Some(changes)).build().map_err(unfinished)?;
        let request = self.client.change_resource_record_sets().hosted_zone_id(zone).change_batch(batch);
        self.caller.sdk(actions::CHANGE_RECORD_SETS, || request.clone().send()).await.map(drop)
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
