//! Follows the metadata of every kind: those of now, and those that are defined later.

use super::{
    super::discovery::{self, Kind},
    GarbageCollector,
    graph::Item,
};
use crate::framework::Result;
use futures::{
    Stream, StreamExt,
    stream::{AbortHandle, BoxStream, SelectAll, abortable},
};
use kube::api::{DynamicObject, PartialObjectMeta};
use runtime::{
    client::{Api, error_line, is_unreachable},
    watch::{self, Event, watch},
};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

type KindEvent = (Arc<Kind>, Result<Event<PartialObjectMeta<DynamicObject>>, watch::Error>);

/// How often new kinds are looked for without a sign of any.
const LOOK: Duration = Duration::from_secs(30);
/// A definition that has just been made is served a moment later.
const SETTLE: Duration = Duration::from_millis(500);
/// Work begins after this long even if some kind cannot be listed.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Watches {
    streams: SelectAll<BoxStream<'static, KindEvent>>,
    running: HashMap<String, AbortHandle>,
    /// Kinds whose first list is not complete.
    unlisted: HashSet<String>,
    /// Per kind, what the list that is under way has brought.
    listed: HashMap<String, HashSet<String>>,
}

/// Follows until it is dropped.
pub(super) async fn follow(collector: &GarbageCollector) -> Result<()> {
    let mut watches = Watches::default();
    let begun = tokio::time::Instant::now();
    let mut look = begun;
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(look) => {
                look = tokio::time::Instant::now() + LOOK;
                if let Err(error) = watches.refresh(collector).await {
                    look = tokio::time::Instant::now() + SETTLE * 4;
                    if !is_unreachable(&*error) {
                        tracing::warn!(error = error_line(&*error), "kinds could not be discovered; tried again");
                    }
                }
            }
            Some((kind, event)) = watches.streams.next(), if !watches.streams.is_empty() => {
                if kind.resource.kind == "CustomResourceDefinition" && watches.unlisted.is_empty() {
                    look = look.min(tokio::time::Instant::now() + SETTLE);
                }
                // What is known of a kind that cannot be followed stays.
                if let Ok(event) = event {
                    watches.take(collector, &kind, event);
                }
            }
        }
        let complete = !watches.running.is_empty() && watches.unlisted.is_empty();
        if complete || begun.elapsed() > PATIENCE {
            collector.synced.send_replace(true);
        }
    }
}

impl Watches {
    async fn refresh(&mut self, collector: &GarbageCollector) -> Result<()> {
        let kinds = discovery::kinds(&collector.client).await?;
        // Events own nothing and go by themselves.
        let kinds: Vec<Arc<Kind>> =
            kinds.into_iter().filter(|kind| kind.resource.kind != "Event" && kind.can("watch")).collect();
        let names: HashSet<String> = kinds.iter().map(|kind| kind.name()).collect();
        let gone: Vec<String> = self.running.keys().filter(|name| !names.contains(*name)).cloned().collect();
        for name in gone {
            if let Some(handle) = self.running.remove(&name) {
                handle.abort();
            }
            self.unlisted.remove(&name);
            let uids = collector.graph.lock().of_kind(&name);
            uids.iter().for_each(|uid| remove(collector, uid));
        }
        *collector.kinds.write() = kinds
            .iter()
            .map(|kind| ((kind.resource.group.clone(), kind.resource.kind.clone()), Arc::clone(kind)))
            .collect();
        for kind in kinds {
            let name = kind.name();
            if self.running.contains_key(&name) {
                continue;
            }
            let (stream, handle) = abortable(events(collector, &kind));
            self.streams.push(stream.boxed());
            self.unlisted.insert(name.clone());
            self.running.insert(name, handle);
        }
        Ok(())
    }

    fn take(&mut self, collector: &GarbageCollector, kind: &Arc<Kind>, event: Event<PartialObjectMeta<DynamicObject>>) {
        let name = kind.name();
        match event {
            Event::Init => drop(self.listed.insert(name, HashSet::new())),
            Event::InitApply(object) => {
                if let Some(item) = Item::new(kind, &object.metadata) {
                    self.listed.entry(name).or_default().insert(item.uid.clone());
                    put(collector, item);
                }
            }
            Event::InitDone => {
                let listed = self.listed.remove(&name).unwrap_or_default();
                let known = collector.graph.lock().of_kind(&name);
                known.iter().filter(|uid| !listed.contains(*uid)).for_each(|uid| remove(collector, uid));
                self.unlisted.remove(&name);
            }
            Event::Apply(object) => {
                if let Some(item) = Item::new(kind, &object.metadata) {
                    put(collector, item);
                }
            }
            Event::Delete(object) => {
                if let Some(uid) = &object.metadata.uid {
                    remove(collector, uid);
                }
            }
        }
    }
}

fn events(collector: &GarbageCollector, kind: &Arc<Kind>) -> impl Stream<Item = KindEvent> + Send + use<> {
    let kind = Arc::clone(kind);
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(collector.client.clone(), &kind.resource);
    watch(api, watch::Config::default()).map(move |event| (Arc::clone(&kind), event))
}

fn put(collector: &GarbageCollector, item: Item) {
    let concerned = collector.graph.lock().put(item);
    concerned.into_iter().for_each(|uid| collector.queue.add(uid));
}

fn remove(collector: &GarbageCollector, uid: &str) {
    let concerned = collector.graph.lock().remove(uid);
    concerned.into_iter().for_each(|uid| collector.queue.add(uid));
}
