//! A load balancer whose Service asks for something that cannot be had goes on as it was accepted last, and follows the nodes.
//!
//! In the process that accepted it, that is the whole of what was asked for then. In another process, and after a change that was made in part, the
//! load balancer in AWS tells: its target groups follow the nodes, and nodes that come let it in as the others do.

use super::{
    Aws,
    execute::{Handles, Run},
    failed, observe, owner,
    pass::Ask,
};
use crate::{
    account::AwsError,
    model::{
        annotations::Annotations,
        names::Owner,
        nodes::{self, instances},
    },
    plan::{self, Follow},
};
use k8s_openapi::api::core::v1::{Node, Service};
use runtime::cloud::CloudError;
use std::{collections::BTreeSet, sync::Arc};

impl Aws {
    /// What was accepted last is maintained where a change is refused; says what is to be told.
    pub(super) async fn maintain_after(&self, service: &Service, nodes: &[Arc<Node>], error: CloudError) -> CloudError {
        let goes_on = match &error {
            CloudError::Refused(_) => true,
            CloudError::Failed(cause) => is_refused_by_aws(cause.as_ref()),
            _ => false,
        };
        if !goes_on {
            return error;
        }
        match (self.maintain(service, nodes).await, error) {
            (Ok(()), error) => error,
            // Tried again sooner than what is refused.
            (Err(failure), CloudError::Refused(why)) => {
                let message = format!("{why}; and what was accepted before could not be maintained: {failure}");
                CloudError::Failed(message.into())
            }
            (Err(failure), error) => {
                let service = owner(service).key();
                tracing::warn!(service, %failure, "what was accepted before could not be maintained");
                error
            }
        }
    }

    async fn maintain(&self, service: &Service, nodes: &[Arc<Node>]) -> Result<(), CloudError> {
        let owner = owner(service);
        let accepted = self.done.lock().get(&owner.uid).map(|done| done.request.clone());
        if let Some(request) = accepted {
            match self.reach(&Ask { service, request, nodes }).await {
                Err(CloudError::Refused(_)) => {}
                outcome => return outcome.map(|_| ()),
            }
        }
        self.follow(service, &owner, nodes).await
    }

    /// The load balancer as it is in AWS leads to these nodes.
    async fn follow(&self, service: &Service, owner: &Owner, nodes: &[Arc<Node>]) -> Result<(), CloudError> {
        let empty = Default::default();
        // Labels can be read whatever else is wrong.
        let labels =
            Annotations::read(service.metadata.annotations.as_ref().unwrap_or(&empty), &mut Vec::new()).node_labels;
        let wanted = instances(nodes, &labels);
        for again in [true, false] {
            match self.follow_once(owner, &wanted).await {
                Err(error) if again && (error.is_not_found() || error.is_invalid_target()) => {
                    self.inventory.forget().await;
                }
                outcome => return outcome.map_err(failed),
            }
        }
        Ok(())
    }

    async fn follow_once(&self, owner: &Owner, wanted: &BTreeSet<String>) -> Result<(), AwsError> {
        let cluster = &self.settings.cluster;
        let mut observed = observe::serving(&self.account, owner).await?;
        if !plan::is_ours(&observed, owner, cluster) {
            return Ok(());
        }
        let around = self.inventory.get(&self.account, cluster, wanted).await?;
        let instances: Vec<_> = wanted.iter().filter_map(|id| around.instances.get(id)).collect();
        // Where it is not clear which group takes rules, none does.
        let node_groups = if self.settings.disable_node_rules {
            BTreeSet::new()
        } else {
            nodes::groups(&instances, &around.group_tags, cluster).unwrap_or_default()
        };
        let follow = Follow { name: &owner.load_balancer(), instances: &instances, node_groups: &node_groups };
        observed.groups = observe::groups_by_id(&self.account, node_groups.clone()).await?;
        if follow.lacks_rules(&observed) {
            observed.groups = observe::groups_by_owner(&self.account, cluster, owner).await?;
        }
        let actions = plan::follow(&follow, &observed);
        let mut run = Run {
            account: &self.account,
            name: follow.name,
            uid: Some(&owner.uid),
            removals: &self.removals,
            ledger: &self.ledger,
            handles: Handles::of(&observed),
        };
        run.all(&actions).await
    }
}

/// Whether AWS has answered, and will answer the same.
fn is_refused_by_aws(cause: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    !matches!(
        cause.downcast_ref::<AwsError>(),
        None | Some(AwsError::Timeout { .. } | AwsError::Throttled { .. } | AwsError::InUse { .. })
    )
}
