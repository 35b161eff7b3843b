//! Hosted zones and their records, as one identity sees them: the process itself, or a role that it takes on for zones of another account.

use super::{is_no_zone, names::same};
use crate::{
    account::{AwsError, HostedZone, RecordChange, RecordPosition, RecordSet},
    clients::{Session, route53::Route53Client},
};
use parking_lot::Mutex;
use runtime::cloud::{CloudError, DnsZone};
use std::collections::BTreeMap;

/// How often an entry is read anew because somebody changed it in between.
const ROUNDS: usize = 3;

#[derive(Debug)]
pub(super) struct Hosted {
    pub(super) client: Route53Client,
    /// Zones that were found by their tags.
    pub(super) zones: Mutex<BTreeMap<BTreeMap<String, String>, HostedZone>>,
}

impl Hosted {
    pub(super) fn new(session: &Session) -> Self {
        Self { client: session.hosted_zones(), zones: Mutex::default() }
    }

    /// Changes a name in a zone. One that was found by its tags and has gone is looked for anew, once: there may be another.
    pub(super) async fn change_in(
        &self,
        zone: &DnsZone,
        name: &str,
        steps: impl Fn(&[RecordSet]) -> Vec<RecordChange>,
    ) -> Result<Result<(), AwsError>, CloudError> {
        let id = self.zone(zone, name).await?;
        match self.change(&id, name, &steps).await {
            Err(error) if is_no_zone(&error) && self.forget_zone(&zone.tags, &id) => {}
            outcome => return Ok(outcome),
        }
        let id = self.zone(zone, name).await?;
        let outcome = self.change(&id, name, &steps).await;
        if outcome.as_ref().is_err_and(is_no_zone) {
            self.forget_zone(&zone.tags, &id);
        }
        Ok(outcome)
    }

    /// Reads what is there, decides, and changes it; anew when it was not so any more.
    async fn change(
        &self,
        zone: &str,
        name: &str,
        steps: impl Fn(&[RecordSet]) -> Vec<RecordChange>,
    ) -> Result<(), AwsError> {
        let mut round = 1;
        loop {
            let steps = steps(&self.records(zone, name).await?);
            if steps.is_empty() {
                return Ok(());
            }
            match self.client.change_record_sets(zone, &steps).await {
                Err(AwsError::Invalid { code, .. }) if code == "InvalidChangeBatch" && round < ROUNDS => round += 1,
                outcome => return outcome,
            }
        }
    }

    async fn records(&self, zone: &str, name: &str) -> Result<Vec<RecordSet>, AwsError> {
        let mut from = RecordPosition { name: name.to_owned(), kind: "A".to_owned(), identifier: None };
        let mut records = Vec::new();
        loop {
            let (page, next) = self.client.list_record_sets(zone, &from).await?;
            let count = page.len();
            records.extend(page.into_iter().filter(|set| same(&set.name, name)));
            match next.filter(|next| count > 0 && same(&next.name, name) && *next != from) {
                Some(next) => from = next,
                None => return Ok(records),
            }
        }
    }
}
