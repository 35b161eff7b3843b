//! StatefulSet: pods with numbers, made, replaced and ended in order, each with its own name and claims.

pub mod claims;
pub mod plan;
pub mod pod;

mod apply;
#[cfg(test)]
mod tests;

use super::{
    history::{self, History, Kept},
    now,
    owned::{self, Owned, Terms, owners_of},
    pods,
};
use crate::framework::{Context, Events, Key, Next, Reconcile, Result, Store, work};
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet},
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::{Client, ResourceExt};
use plan::{Revision, View};
use std::{borrow::Cow, sync::Arc, time::Duration};

/// Where a revision keeps the hash of its template.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";

struct StatefulSets {
    client: Client,
    sets: Owned<StatefulSet>,
    pods: Owned<Pod>,
    claims: Store<PersistentVolumeClaim>,
    history: History,
    events: Events,
}

/// Runs until it is dropped.
pub async fn run(context: Context) -> Result<()> {
    let (sets, pods) = (Owned::<StatefulSet>::new(&context), Owned::<Pod>::new(&context));
    // Where claims are not served there are none, and pods are made without.
    let claims = context.store::<PersistentVolumeClaim>();
    let history = History::new(&context, HASH_LABEL);
    let queue = context.queue("statefulset");
    let _sets = sets.store.on_change({
        let queue = queue.clone();
        move |change| queue.add(change.key())
    });
    let _pods = pods.store.on_change({
        let (queue, owners) = (queue.clone(), sets.store.clone());
        move |change| {
            let keys = owners_of(change, &owners, |set: &StatefulSet| Cow::Borrowed(&set.spec.selector));
            keys.into_iter().for_each(|key| queue.add(key));
        }
    });
    context.synced(&[&sets.store, &pods.store, history.store()]).await;
    claims.known().await;
    let events = context.events("statefulset-controller");
    work(&queue, 5, &StatefulSets { client: context.client(), sets, pods, claims, history, events }).await
}

impl Reconcile for StatefulSets {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(set) = self.sets.store.get(key) else { return Ok(Next::Done) };
        if owned::is_empty(&set.spec.selector) {
            return Ok(Next::Done);
        }
        let is_member = |name: &str| pod::ordinal(&key.name, name).is_some();
        let terms = Terms { named: Some(&is_member), finalizer: None };
        let owned = self.pods.claim_on(&*set, &set.spec.selector, terms).await?;
        let (update, old) = self.keep_history(&set).await?;
        let named = set.status.as_ref().and_then(|status| status.current_revision.as_deref());
        let current = old.iter().chain([&update]).find(|one| Some(one.name_any().as_str()) == named).unwrap_or(&update);
        let revisions = [Revision::read(current)?, Revision::read(&update)?];
        let seen: Vec<&Pod> = owned.iter().map(|pod| &**pod).collect();
        let outcome = if set.metadata.deletion_timestamp.is_none() {
            let plan =
                View { set: &set, pods: &seen, current: &revisions[0], update: &revisions[1], now: now() }.plan();
            self.apply(&set, &plan, &revisions).await
        } else {
            Ok(())
        };
        let left = self.pods.of(&set.uid().unwrap_or_default());
        let left: Vec<&Pod> = left.iter().map(|pod| &**pod).collect();
        let after = View { set: &set, pods: &left, current: &revisions[0], update: &revisions[1], now: now() };
        let status = after.status();
        if set.status.as_ref() != Some(&status) {
            self.sets.write_status(&StatefulSet { status: Some(status.clone()), ..(*set).clone() }).await?;
        }
        outcome?;
        let names = [status.current_revision.as_deref(), status.update_revision.as_deref()];
        self.forget_revisions(&set, &old, &left, names).await?;
        let min_ready = set.spec.min_ready_seconds.unwrap_or_default();
        let waits = left.iter().filter_map(|pod| pods::available_in(pod, min_ready, now()));
        let next = waits.filter(|wait| !wait.is_zero()).min();
        Ok(next.map_or(Next::Done, |wait| Next::After(wait.try_into().unwrap_or(Duration::from_secs(1)))))
    }
}

impl StatefulSets {
    /// The revision of the present template, and the others from the first on.
    async fn keep_history(&self, set: &StatefulSet) -> Result<(Arc<ControllerRevision>, Vec<Arc<ControllerRevision>>)> {
        let collisions = set.status.as_ref().and_then(|status| status.collision_count);
        match self.history.keep(set, &set.spec.selector, &set.spec.template, collisions).await? {
            Kept::Revisions { present, old } => Ok((present, old)),
            Kept::Taken(name) => {
                let mut status = set.status.clone().unwrap_or_default();
                status.collision_count = Some(collisions.unwrap_or_default() + 1);
                self.sets.write_status(&StatefulSet { status: Some(status), ..set.clone() }).await?;
                Err(history::taken(&name))
            }
        }
    }

    /// Drops what is beyond the limit and in nobody's use, from the first on.
    async fn forget_revisions(
        &self,
        set: &StatefulSet,
        old: &[Arc<ControllerRevision>],
        pods: &[&Pod],
        names: [Option<&str>; 2],
    ) -> Result<()> {
        // A negative limit keeps all.
        let Ok(limit) = usize::try_from(set.spec.revision_history_limit.unwrap_or(10)) else { return Ok(()) };
        let used = |name: &str| names.contains(&Some(name)) || pods.iter().any(|pod| pod::revision(pod) == name);
        let unused: Vec<&Arc<ControllerRevision>> = old.iter().filter(|one| !used(&one.name_any())).collect();
        for revision in unused.iter().take(unused.len().saturating_sub(limit)) {
            self.history.delete(revision).await?;
        }
        Ok(())
    }
}
