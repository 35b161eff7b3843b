//! Owner garbage collection: objects whose owners are gone go too, in the background, before their owner, or not at all.
//!
//! Follows the metadata of every kind there is. An owner that is not known is asked for before anything is deleted, and a
//! deletion names the uid and version that it was decided on.

mod graph;
#[cfg(test)]
mod tests;
mod watch;

use super::discovery::Kind;
use crate::framework::{Context, Next, Queue, Reconcile, Result, work};
use graph::{FOREGROUND, Graph, Item, ORPHAN, Propagation, Verdict};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Client,
    api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy},
};
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::sync::watch::Sender;

/// An owner's definition may come later; until it is known, nothing is deleted.
const UNKNOWN: Duration = Duration::from_secs(60);

/// What watches and workers share.
pub(super) struct GarbageCollector {
    client: Client,
    graph: Mutex<Graph>,
    /// By group and kind, as owner references name them.
    kinds: RwLock<HashMap<(String, String), Arc<Kind>>>,
    queue: Queue<String>,
    /// Set when every kind has been listed once: before, nobody knows who has dependents.
    synced: Sender<bool>,
}

/// Runs until it is dropped.
pub async fn run(context: Context) -> Result<()> {
    let collector = GarbageCollector {
        client: context.client(),
        graph: Mutex::default(),
        kinds: RwLock::default(),
        queue: context.queue("garbage_collector"),
        synced: Sender::new(false),
    };
    let working = async {
        // The sender lives in `collector`.
        let _ = collector.synced.subscribe().wait_for(|synced| *synced).await;
        work(&collector.queue, 10, &collector).await
    };
    tokio::try_join!(watch::follow(&collector), working)?;
    Ok(())
}

impl Reconcile for GarbageCollector {
    type Key = String;

    async fn reconcile(&self, uid: &String) -> Result<Next> {
        let (item, verdict) = {
            let graph = self.graph.lock();
            let Some(item) = graph.get(uid).cloned() else { return Ok(Next::Done) };
            (item, graph.decide(uid))
        };
        match verdict {
            Verdict::Keep => {}
            Verdict::Ask(owners) => {
                let mut known = true;
                for owner in owners {
                    known &= self.ask(&item, &owner).await?;
                }
                if !known {
                    return Ok(Next::After(UNKNOWN));
                }
            }
            Verdict::Disown(owners) => self.disown(&item, |owner| owners.contains(&owner.uid)).await?,
            Verdict::Delete(propagation) => self.delete(&item, propagation).await?,
            Verdict::Orphan(dependents) => {
                for dependent in dependents {
                    let known = self.graph.lock().get(&dependent).cloned();
                    if let Some(dependent) = known {
                        self.disown(&dependent, |owner| owner.uid == *uid).await?;
                    }
                }
                self.finish(&item, ORPHAN).await?;
            }
            Verdict::Finish => self.finish(&item, FOREGROUND).await?,
        }
        Ok(Next::Done)
    }
}

impl GarbageCollector {
    /// Finds out whether an owner exists; if not, its dependent is looked at again. False when its kind is not known.
    async fn ask(&self, item: &Item, owner: &OwnerReference) -> Result<bool> {
        let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let kind = self.kinds.read().get(&(group.to_owned(), owner.kind.clone())).cloned();
        let Some(kind) = kind else {
            tracing::debug!(object = item.name, owner = owner.name, kind = owner.kind, "an owner is of no known kind");
            return Ok(false);
        };
        if kind.namespaced && item.namespace.is_none() {
            tracing::warn!(
                object = item.name,
                owner = owner.name,
                "a cluster-wide object names an owner in a namespace"
            );
            return Ok(true);
        }
        let found = kind.api(&self.client, item.namespace.as_deref()).get_metadata_opt(&owner.name).await?;
        if found.is_none_or(|found| found.metadata.uid.as_ref() != Some(&owner.uid)) {
            self.graph.lock().note_absent(&owner.uid);
            self.queue.add(item.uid.clone());
        }
        Ok(true)
    }

    async fn delete(&self, item: &Item, propagation: Propagation) -> Result<()> {
        let params = DeleteParams {
            propagation_policy: Some(match propagation {
                Propagation::Background => PropagationPolicy::Background,
                Propagation::Foreground => PropagationPolicy::Foreground,
                Propagation::Orphan => PropagationPolicy::Orphan,
            }),
            preconditions: Some(Preconditions { uid: Some(item.uid.clone()), resource_version: item.version.clone() }),
            ..DeleteParams::default()
        };
        match item.kind.api(&self.client, item.namespace.as_deref()).delete(&item.name, &params).await {
            Ok(_) => tracing::debug!(kind = item.kind.name(), name = item.name, "deleted: its owners are gone"),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    async fn disown(&self, item: &Item, lost: impl Fn(&OwnerReference) -> bool) -> Result<()> {
        let kept: Vec<&OwnerReference> = item.owners.iter().filter(|owner| !lost(owner)).collect();
        if kept.len() == item.owners.len() {
            return Ok(());
        }
        self.patch(item, json!({"ownerReferences": kept})).await
    }

    async fn finish(&self, item: &Item, finalizer: &str) -> Result<()> {
        let kept: Vec<&String> = item.finalizers.iter().filter(|one| *one != finalizer).collect();
        self.patch(item, json!({"finalizers": kept})).await
    }

    async fn patch(&self, item: &Item, mut metadata: Value) -> Result<()> {
        metadata["uid"] = json!(item.uid);
        metadata["resourceVersion"] = json!(item.version);
        let api = item.kind.api(&self.client, item.namespace.as_deref());
        let patch = Patch::Merge(json!({"metadata": metadata}));
        match api.patch(&item.name, &PatchParams::default(), &patch).await {
            Ok(stored) => {
                // With its last finalizer a deleted object is gone, and the answer is the last of it.
                let gone = stored.metadata.deletion_timestamp.is_some()
                    && stored.metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
                if let Some(item) = Item::new(&item.kind, &stored.metadata).filter(|_| !gone) {
                    let concerned = self.graph.lock().put(item);
                    concerned.into_iter().for_each(|uid| self.queue.add(uid));
                }
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
