//! Events: what a controller tells the people who look at an object with `kubectl describe`.
//!
//! Written as core/v1 and counted as client-go's recorder does: the same again is one event with a higher `count`, many that differ
//! only in their note become one, and an object about which too much is told is told about more slowly.

mod correlate;

use crate::client::{Api, error_line, is_unreachable};
use correlate::{Correlator, Told, Write};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Client, Resource,
    api::{Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::json;
use std::sync::Arc;

/// Writes events in the name of one controller. An event that cannot be written is logged and forgotten.
#[derive(Clone)]
pub struct Events {
    client: Client,
    controller: String,
    correlator: Arc<Mutex<Correlator>>,
}

/// The longest note that the API takes.
const LONGEST_NOTE: usize = 1024;

impl Events {
    /// Events that `controller` reports.
    #[must_use]
    pub fn new(client: Client, controller: &str) -> Self {
        Self { client, controller: controller.to_owned(), correlator: Arc::default() }
    }

    /// Tells that something went as it should.
    pub async fn normal(&self, object: &ObjectReference, reason: &str, note: impl Into<String>) {
        self.publish("Normal", object, reason, note.into()).await;
    }

    /// Tells that something needs attention.
    pub async fn warning(&self, object: &ObjectReference, reason: &str, note: impl Into<String>) {
        self.publish("Warning", object, reason, note.into()).await;
    }

    async fn publish(&self, kind: &'static str, object: &ObjectReference, reason: &str, mut note: String) {
        if note.len() > LONGEST_NOTE {
            note.truncate(note.floor_char_boundary(LONGEST_NOTE));
        }
        let told = Told { kind, object: object.clone(), reason: reason.to_owned(), note };
        let write = self.correlator.lock().take(told, now(), getrandom::u64().unwrap_or_default());
        if let Some(write) = write
            && let Err(error) = self.write(&write).await
        {
            // That nobody answers is told once for the whole process.
            if is_unreachable(&error) {
                tracing::debug!(reason, error = error_line(&error), "event was not written");
            } else {
                tracing::warn!(reason, error = error_line(&error), "event was not written");
            }
        }
    }

    async fn write(&self, write: &Write) -> kube::Result<()> {
        let namespace = write.told.object.namespace.as_deref().unwrap_or("default");
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        if write.count > 1 {
            let patch = json!({"count": write.count, "lastTimestamp": Time(write.last), "message": write.told.note});
            let patched = api.patch(&write.name, &PatchParams::default(), &Patch::Merge(patch)).await;
            match patched {
                // It has gone by its age; it begins anew with its count.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                other => return other.map(drop),
            }
        }
        match api.create(&PostParams::default(), &self.event(write, namespace)).await {
            // Told twice at the same time.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            other => other.map(drop),
        }
    }

    fn event(&self, write: &Write, namespace: &str) -> Event {
        Event {
            metadata: ObjectMeta {
                name: Some(write.name.clone()),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: write.told.object.clone(),
            reason: Some(write.told.reason.clone()),
            message: Some(write.told.note.clone()),
            source: Some(EventSource { component: Some(self.controller.clone()), host: None }),
            first_timestamp: Some(Time(write.first)),
            last_timestamp: Some(Time(write.last)),
            count: Some(write.count),
            type_: Some(write.told.kind.to_owned()),
            reporting_component: Some(self.controller.clone()),
            reporting_instance: Some(String::new()),
            ..Event::default()
        }
    }
}

/// In whole seconds, as the API keeps it.
fn now() -> Timestamp {
    Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default()
}

/// How an event refers to an object.
pub fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    object.object_ref(&())
}
