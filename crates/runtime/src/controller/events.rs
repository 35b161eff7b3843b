//! Events: what a controller tells the people who look at an object with `kubectl describe`.

use crate::client::error_line;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// Writes events in the name of one controller. An event that cannot be written is logged and forgotten.
#[derive(Clone)]
pub struct Events {
    client: Client,
    reporter: Reporter,
    /// One for each note, and when it was last used: a recorder counts events of an object that have the same reason as one,
    /// and keeps the note of the first.
    recorders: Arc<Mutex<HashMap<String, (Recorder, Instant)>>>,
}

/// The longest note that the API takes.
const LONGEST_NOTE: usize = 1024;
/// How long the same event counts as one; a recorder's own time.
const SERIES: Duration = Duration::from_secs(6 * 60);

impl Events {
    /// Events that `controller` reports.
    #[must_use]
    pub fn new(client: Client, controller: &str) -> Self {
        let reporter = Reporter { controller: controller.to_owned(), instance: None };
        Self { client, reporter, recorders: Arc::default() }
    }

    /// Tells that something went as it should.
    pub async fn normal(&self, object: &ObjectReference, reason: &str, note: impl Into<String>) {
        self.publish(EventType::Normal, object, reason, note.into()).await;
    }

    /// Tells that something needs attention.
    pub async fn warning(&self, object: &ObjectReference, reason: &str, note: impl Into<String>) {
        self.publish(EventType::Warning, object, reason, note.into()).await;
    }

    async fn publish(&self, type_: EventType, object: &ObjectReference, reason: &str, mut note: String) {
        if note.len() > LONGEST_NOTE {
            note.truncate(note.floor_char_boundary(LONGEST_NOTE));
        }
        let recorder = self.recorder(&note);
        let event =
            Event { type_, reason: reason.to_owned(), note: Some(note), action: reason.to_owned(), secondary: None };
        if let Err(error) = recorder.publish(&event, object).await {
            tracing::warn!(reason, error = error_line(&error), "event was not written");
        }
    }

    fn recorder(&self, note: &str) -> Recorder {
        let now = Instant::now();
        let mut recorders = self.recorders.lock();
        recorders.retain(|_, (_, used)| now.duration_since(*used) < SERIES);
        let new = || (Recorder::new(self.client.clone(), self.reporter.clone()), now);
        let (recorder, used) = recorders.entry(note.to_owned()).or_insert_with(new);
        *used = now;
        recorder.clone()
    }
}

/// How an event refers to an object.
pub fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    object.object_ref(&())
}
