//! Wakes the Pods whose sandboxes or containers changed in the runtime, and those that the runtime has and nobody knows.
//!
//! Lists everything each second, as upstream's generic PLEG does: containerd before 1.7 has no events.

use super::{Pods, containers::text, labels::UID};
use crate::cri::{
    CriError,
    proto::{ListContainersRequest, ListPodSandboxRequest},
};
use std::{collections::BTreeMap, time::Duration};

/// As upstream's.
const PERIOD: Duration = Duration::from_secs(1);

/// What the runtime has of a Pod, for comparing: ids and states.
type Fingerprint = Vec<(String, i32)>;

impl Pods {
    /// Never ends. An answer that does not come is told once.
    pub async fn relist(&self) {
        let mut known = BTreeMap::<String, Fingerprint>::new();
        let mut away = false;
        loop {
            match self.fingerprints().await {
                Ok(now) => {
                    if away {
                        tracing::info!("the container runtime answers again");
                        away = false;
                    }
                    let changed = now.iter().filter(|(uid, print)| known.get(*uid) != Some(print)).map(|(uid, _)| uid);
                    let gone = known.keys().filter(|uid| !now.contains_key(*uid));
                    changed.chain(gone).for_each(|uid| self.queue.add(uid.clone()));
                    known = now;
                }
                Err(error) => {
                    if !away {
                        tracing::warn!(%error, "the container runtime does not answer");
                        away = true;
                    }
                }
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

    async fn fingerprints(&self) -> Result<BTreeMap<String, Fingerprint>, CriError> {
        let mut all = BTreeMap::<String, Fingerprint>::new();
        let mut add = |labels: &BTreeMap<String, String>, id: String, state: i32| {
            // What others run in the same runtime is not ours.
            let uid = text(labels, UID);
            if !uid.is_empty() {
                all.entry(uid.to_owned()).or_default().push((id, state));
            }
        };
        for one in self.runtime.call(ListPodSandboxRequest::default()).await?.items {
            add(&one.labels, one.id, one.state);
        }
        for one in self.runtime.call(ListContainersRequest::default()).await?.containers {
            add(&one.labels, one.id, one.state);
        }
        all.values_mut().for_each(|print| print.sort());
        Ok(all)
    }
}
