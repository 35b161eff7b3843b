//! The group that all managed load balancers have in common: made with the first, gone with the last.
//!
//! It lets nothing in and nothing out: it only says who somebody is. Nodes let its members in by a few rules, however many Services there are, so that the nodes' groups
//! never fill up. What a load balancer may reach is up to its own group.

use super::{Aws, failed};
use crate::{
    account::{AwsError, GroupFilter, SecurityGroup, Tags},
    cloud_config::GroupMode,
    model::{Existing, annotations::Kind, names::SERVICE_TAG, request::Request, rules::BACKEND_GROUP},
    plan::{Observed, differing},
};
use runtime::cloud::CloudError;
use std::time::{Duration, Instant};

/// How long its id is believed.
const FRESH: Duration = Duration::from_secs(3600);

/// Its id, and when it was seen.
#[derive(Debug, Default)]
pub(super) struct Backend {
    known: tokio::sync::Mutex<Option<(String, Instant)>>,
}

impl Backend {
    /// It may be gone.
    pub(super) async fn forget(&self) {
        *self.known.lock().await = None;
    }
}

impl Aws {
    /// Its id, for a load balancer that has it; [`BACKEND_GROUP`] while it is not there.
    pub(super) async fn backend_for(
        &self,
        request: &Request,
        existing: Option<&Existing>,
    ) -> Result<Option<String>, CloudError> {
        let is_managed = self.settings.nlb_groups == GroupMode::Managed && request.annotations.groups.is_none();
        let can_have_groups = existing.is_none_or(|existing| !existing.groups.is_empty());
        let takes_part = request.annotations.kind == Kind::Network && is_managed && can_have_groups;
        if !takes_part || self.settings.disable_node_rules {
            return Ok(None);
        }
        let mut known = self.backend.known.lock().await;
        if let Some((id, _)) = known.as_ref().filter(|(_, at)| at.elapsed() < FRESH) {
            self.removals.keep(id);
            return Ok(Some(id.clone()));
        }
        let Some(group) = self.seen_backend().await.map_err(failed)? else { return Ok(Some(BACKEND_GROUP.to_owned())) };
        let id = self.take_over(&group).await?;
        self.removals.keep(&id);
        *known = Some((id.clone(), Instant::now()));
        Ok(Some(id))
    }

    async fn seen_backend(&self) -> Result<Option<SecurityGroup>, AwsError> {
        let cluster = &self.settings.cluster;
        let (vpc, name) = (Some(cluster.vpc.clone()), Some(cluster.backend_group()));
        let filter = GroupFilter { vpc, name, ..GroupFilter::default() };
        Ok(self.account.ec2.describe_security_groups(&filter).await?.into_iter().next())
    }

    /// One that has its name, and is nobody else's, is it.
    async fn take_over(&self, group: &SecurityGroup) -> Result<String, CloudError> {
        let cluster = &self.settings.cluster;
        let is_others = cluster.shares(&group.tags) || cluster.is_twins(&group.tags);
        if is_others || group.tags.contains_key(SERVICE_TAG) {
            return Err(CloudError::Refused(format!(
                "security group {} ({}) has the name of the group that load balancers of this cluster share, but its tags claim it for others: rename it, or \
                 tag it {}=owned",
                group.name,
                group.id,
                cluster.tag()
            )));
        }
        let missing = differing(&cluster.own_tags(&Tags::new()), &group.tags);
        if !missing.is_empty() {
            self.account.ec2.create_tags(std::slice::from_ref(&group.id), &missing).await.map_err(failed)?;
        }
        Ok(group.id.clone())
    }

    /// Goes when no Service wants it any more. AWS keeps it in use for a while: nobody waits for that.
    pub(super) async fn retire_backend(&self, observed: &Observed) -> Result<(), AwsError> {
        let cluster = &self.settings.cluster;
        let is_it = |group: &&SecurityGroup| group.name == cluster.backend_group() && cluster.owns(&group.tags);
        // One that load balancers keep while groups are not managed is left to the sweep.
        let seen = observed.groups.values().find(is_it).filter(|_| self.settings.nlb_groups == GroupMode::Managed);
        let Some(group) = seen.filter(|group| self.ledger.others(None).spare(&group.id)) else { return Ok(()) };
        self.backend.forget().await;
        self.removals.remove(&self.account, &group.id).await
    }
}
