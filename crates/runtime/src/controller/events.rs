//! Events: what a controller tells the people who look at an object with `kubectl describe`.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};

/// Writes events in the name of one controller. An event that cannot be written is logged and forgotten.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
}

/// The longest note that the API takes.
const LONGEST_NOTE: usize = 1024;

impl Events {
    /// Events that `controller` reports.
    #[must_use]
    pub fn new(client: Client, controller: &str) -> Self {
        Self { recorder: Recorder::new(client, Reporter { controller: controller.to_owned(), instance: None }) }
    }

    /// Tells that something went as it should.
    pub async fn normal(&self, object: &ObjectReference, reason: &str, note: impl Into<String>) {
        self.tell(EventType::Normal, object, reason, note.into()).await;
    }

    /// Tells that something needs attention.
    pub async fn warning(&self, object: &ObjectReference, reason: &str, note: impl Into<String>) {
        self.tell(EventType::Warning, object, reason, note.into()).await;
    }

    async fn tell(&self, type_: EventType, object: &ObjectReference, reason: &str, mut note: String) {
        if note.len() > LONGEST_NOTE {
            note.truncate(note.floor_char_boundary(LONGEST_NOTE));
        }
        let event =
            Event { type_, reason: reason.to_owned(), note: Some(note), action: reason.to_owned(), secondary: None };
        if let Err(error) = self.recorder.publish(&event, object).await {
            tracing::warn!(reason, error = &error as &dyn std::error::Error, "event was not written");
        }
    }
}

/// How an event refers to an object.
pub fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    object.object_ref(&())
}
