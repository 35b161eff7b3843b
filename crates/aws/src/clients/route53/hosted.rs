//! Hosted zones and their records, as one identity sees them: the process itself, or a role that it takes on for zones of another account.

use super::{
    is_no_zone,
    names::same,
    plan::{Record, Step},
    zones::Found,
};
use crate::{
    account::AwsError,
    clients::{OpenError, Session, actions, caller::Caller},
};
use aws_sdk_route53::{Client, config, types as sdk};
use parking_lot::Mutex;
use runtime::cloud::{CloudError, DnsZone};
use std::collections::BTreeMap;

/// How often an entry is read anew because somebody changed it in between.
const ROUNDS: usize = 3;

/// See the top of the file.
#[derive(Debug)]
pub(super) struct Hosted {
    pub(super) client: Client,
    pub(super) caller: Caller,
    /// Zones that were found by their tags.
    pub(super) zones: Mutex<BTreeMap<BTreeMap<String, String>, Found>>,
}

impl Hosted {
    pub(super) fn new(session: &Session) -> Result<Self, OpenError> {
        let sdk = session.sdk("Route 53", "route53")?;
        let client = Client::from_conf(config::Builder::from(&sdk).build());
        Ok(Self { client, caller: session.caller().clone(), zones: Mutex::default() })
    }

    /// Changes a name in a zone. One that was found by its tags and has gone is looked for anew, once: there may be another.
    pub(super) async fn change_in(
        &self,
        zone: &DnsZone,
        name: &str,
        steps: impl Fn(&[Record]) -> Vec<Step>,
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
