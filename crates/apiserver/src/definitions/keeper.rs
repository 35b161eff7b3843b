//! Carries out what `plan` says, one step at a time, and opens and closes routes on the way.

use super::{
    PREFIX,
    index::Index,
    instances,
    plan::{self, Step},
};
use crate::{ApiServer, client, follow::FollowError, stored};
use api::{error::ApiError, object::Fields};
use http::Method;
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc};
use store::Event;

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The definitions and what is to be done about them.
pub(super) struct Keeper {
    server: Arc<ApiServer>,
    index: Index,
    revision: u64,
    /// Those that wait for something that no change of a definition will tell.
    waiting: BTreeSet<String>,
}

impl Keeper {
    /// Reads all definitions.
    pub(super) async fn load(server: &Arc<ApiServer>) -> Result<Self, FollowError> {
        let page = server.store.list(PREFIX, None, None, None).await?;
        let mut index = Index::default();
        for entry in &page.entries {
            index.read(entry);
        }
        Ok(Self { server: Arc::clone(server), index, revision: page.revision, waiting: BTreeSet::new() })
    }

    /// The revision that `load` read at.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Opens the routes of all definitions, and closes all others.
    pub(super) async fn publish(&self) {
        let names = self.index.all().map(|(name, _)| name.clone()).collect();
        self.server.definitions.publish_all(&self.server, names, |name| self.stored(name)).await;
    }

    /// Takes in a change; routes follow at once.
    pub(super) async fn note(&mut self, event: &Event) {
        if let Some((name, definition)) = self.index.note(event) {
            self.server.definitions.publish(&self.server, &name, definition).await;
        }
    }

    /// All of a definition, as it was taken in; none when it has changed since, which its event will tell.
    fn stored(&self, name: &str) -> Option<Value> {
        let entry = self.server.store.get(&format!("{PREFIX}{name}"))?;
        let current = self.index.revision(name) == Some(entry.mod_revision());
        stored::parse(&entry).ok().filter(|_| current)
    }

    /// Takes one step for each definition that is due; false when there was none.
    pub(super) async fn round(&mut self) -> bool {
        let due = self.index.take_due();
        for name in &due {
            if let Err(why) = self.step(name).await {
                tracing::warn!(definition = %name, %why, "a definition cannot be brought up to date; trying again");
                self.waiting.insert(name.clone());
            }
        }
        !due.is_empty()
    }

    /// Whether nothing is waiting.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Has those that wait looked at again.
    pub(super) fn wake(&mut self) {
        for name in std::mem::take(&mut self.waiting) {
            self.index.wake(name);
        }
    }

    /// Takes the next step for a definition. What it writes comes back as a change, and makes the definition due again.
    pub(super) async fn step(&mut self, name: &str) -> Result<(), ApiError> {
        match self.next(name).await? {
            Step::Rest => {}
            Step::Wait => drop(self.waiting.insert(name.to_owned())),
            Step::Hold(object) => self.write(&format!("{PATH}/{name}"), &object).await?,
            Step::Status(object) => self.write(&format!("{PATH}/{name}/status"), &object).await?,
            Step::Empty => {
                if let Some(definition) = self.index.get(name) {
                    instances::delete(&self.server, definition).await?;
                }
                self.index.wake(name.to_owned());
            }
            Step::LetGo(object) => drop(self.ask(&format!("{PATH}/{name}/status"), &object).await?),
        }
        Ok(())
    }

    /// What comes next for a definition.
    pub(super) async fn next(&self, name: &str) -> Result<Step, ApiError> {
        let Some(definition) = self.stored(name) else { return Ok(Step::Rest) };
        let now = self.server.now();
        if plan::is_dying(&definition) {
            let found = instances::look(&self.server, &definition).await;
            let found = found.map_err(|why| ApiError::unavailable(why.to_string()))?;
            return Ok(plan::dying(&definition, found, now));
        }
        let others: Vec<&Value> = self.index.all().map(|(_, other)| other).collect();
        Ok(plan::living(&definition, &others, now))
    }

    /// Stores a definition and takes in the answer: the next one to be looked at must see the names that are taken by now.
    async fn write(&mut self, path: &str, object: &Value) -> Result<(), ApiError> {
        let Some(stored) = self.ask(path, object).await? else { return Ok(()) };
        let revision = stored.str_at("metadata.resourceVersion").parse().unwrap_or_default();
        if let Some((name, definition)) = self.index.put(stored, revision) {
            self.server.definitions.publish(&self.server, &name, Some(definition)).await;
        }
        Ok(())
    }

    /// Stores a definition if it is still what was read; a change that was faster will be told by its event.
    async fn ask(&self, path: &str, object: &Value) -> Result<Option<Value>, ApiError> {
        match client::ask(&self.server, Method::PUT, path, Some(object)).await {
            Ok(stored) => Ok(Some(stored)),
            Err(why) if matches!(why.code, 404 | 409) => Ok(None),
            Err(why) => Err(why),
        }
    }
}
