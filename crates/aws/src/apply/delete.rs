//! Everything of a Service goes, whichever part of it is still there.

use super::{
    Aws, IN_USE,
    execute::{Handles, Run},
    failed, observe, owner,
};
use crate::plan;
use k8s_openapi::api::core::v1::Service;
use runtime::cloud::CloudError;

/// How often AWS is looked at when something was gone before its turn came.
const LOOKS: usize = 3;

impl Aws {
    pub(super) async fn delete_one(&self, service: &Service) -> Result<(), CloudError> {
        let owner = owner(service);
        self.done.lock().remove(&owner.uid);
        self.conditions.forget(service);
        for _ in 0..LOOKS {
            let observed = observe::leftovers(&self.account, &self.settings.cluster, &owner).await.map_err(failed)?;
            let others = self.ledger.others(Some(&owner.uid));
            let actions = plan::remove(&owner, &observed, &others, &self.settings.cluster);
            let mut run = Run {
                account: &self.account,
                name: &owner.load_balancer(),
                uid: Some(&owner.uid),
                removals: &self.removals,
                ledger: &self.ledger,
                handles: Handles::of(&observed),
            };
            match run.all(&actions).await {
                Err(error) if error.is_not_found() => {}
                outcome => {
                    outcome.map_err(failed)?;
                    self.ledger.forget(&owner.uid);
                    return self.retire_backend(&observed).await.map_err(failed);
                }
            }
        }
        Err(CloudError::Later { reason: "AWS does not settle".to_owned(), after: IN_USE })
    }

    pub(super) async fn anything_of(&self, service: &Service) -> Result<bool, CloudError> {
        let (owner, cluster) = (owner(service), &self.settings.cluster);
        let observed = observe::leftovers(&self.account, cluster, &owner).await.map_err(failed)?;
        let others = self.ledger.others(Some(&owner.uid));
        let there = !plan::remove(&owner, &observed, &others, cluster).is_empty();
        if !there {
            // Nothing will be deleted for it, so nothing else would forget what it wanted.
            self.done.lock().remove(&owner.uid);
            self.ledger.forget(&owner.uid);
            self.conditions.forget(service);
        }
        Ok(there)
    }
}
