//! When the change happened that a slice is written for: `endpoints.kubernetes.io/last-change-trigger-time`.
//!
//! The earliest readiness change of a Pod, or creation of the Service, that has not been written yet. Dashboards measure
//! with it how long the network takes to follow.

use crate::framework::Key;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};

pub const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// What was seen of each Service when it was looked at last.
#[derive(Debug, Default)]
pub struct Triggers {
    seen: Mutex<HashMap<Key, TriggerTimes>>,
}

#[derive(Debug, Default)]
struct TriggerTimes {
    service: Option<Timestamp>,
    pods: HashMap<String, Timestamp>,
}

impl Triggers {
    /// The earliest change since the last call for this Service.
    pub fn since_last(&self, key: &Key, service: &Service, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        let mut all = self.seen.lock();
        let seen = all.entry(key.clone()).or_default();
        let mut earliest: Option<Timestamp> = None;
        let mut changed = |time: Timestamp| earliest = Some(earliest.map_or(time, |known| known.min(time)));
        let now: HashMap<String, Timestamp> =
            pods.iter().filter_map(|pod| Some((pod.metadata.name.clone()?, turned_ready(pod)?))).collect();
        for (name, time) in &now {
            if seen.pods.get(name).is_none_or(|known| time > known) {
                changed(*time);
            }
        }
        let created = service.metadata.creation_timestamp.as_ref().map(|time| time.0);
        if let Some(created) = created.filter(|created| seen.service.is_none_or(|known| *created > known)) {
            changed(created);
        }
        *seen = TriggerTimes { service: created, pods: now };
        earliest
    }

    /// Ends the account of a Service.
    pub fn forget(&self, key: &Key) {
        self.seen.lock().remove(key);
    }
}

fn turned_ready(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}
