//! Security groups on their way out. AWS keeps one in use for minutes after its load balancer is gone: nobody waits for it, it has a
//! queue of its own. What is in the queue when the process ends is found again by the sweep.

use crate::account::{Account, AwsError};
use parking_lot::Mutex;
use runtime::{
    backoff::Backoff,
    controller::{Next, Queue, Reconcile, Result, work},
};
use std::{collections::BTreeSet, time::Duration};

const PATIENCE: Backoff = Backoff { first: Duration::from_secs(5), cap: Duration::from_secs(120) };

/// Groups that wait to be removed.
pub(super) struct Removals {
    queue: Queue<String>,
    waiting: Mutex<BTreeSet<String>>,
}

impl Default for Removals {
    fn default() -> Self {
        Self { queue: Queue::new(PATIENCE), waiting: Mutex::default() }
    }
}

impl Removals {
    /// Removes a group now, or later if it is still in use.
    pub(super) async fn remove(&self, account: &Account, group: &str) -> Result<(), AwsError> {
        match account.ec2.delete_security_group(group).await {
            Err(error) if error.is_in_use() => {
                tracing::debug!(group, %error, "security group waits to be removed");
                if self.waiting.lock().insert(group.to_owned()) {
                    self.queue.add_after(group.to_owned(), PATIENCE.first);
                }
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            outcome => outcome,
        }
    }

    /// Whether a group is wanted again.
    pub(super) fn keep(&self, group: &str) {
        self.waiting.lock().remove(group);
    }

    /// Groups that wait.
    pub(super) fn waiting(&self) -> BTreeSet<String> {
        self.waiting.lock().clone()
    }

    /// Tries one again.
    pub(super) async fn again(&self, account: &Account, group: &str) -> Result<(), AwsError> {
        if !self.waiting.lock().contains(group) {
            return Ok(());
        }
        match account.ec2.delete_security_group(group).await {
            Ok(()) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        tracing::info!(group, "security group is removed");
        self.waiting.lock().remove(group);
        Ok(())
    }

    /// Tries them again and again, each with its own pauses.
    pub(super) async fn run(&self, account: &Account) -> Result<()> {
        work(&self.queue, 1, &Remover { account, removals: self }).await
    }
}

struct Remover<'a> {
    account: &'a Account,
    removals: &'a Removals,
}

impl Reconcile for Remover<'_> {
    type Key = String;

    async fn reconcile(&self, group: &String) -> Result<Next> {
        self.removals.again(self.account, group).await?;
        Ok(Next::Done)
    }
}
