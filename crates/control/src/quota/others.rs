//! Follows the kinds that quotas name, beside Pods and Services: those of now, and those that are defined later.

use super::plan::{KindName, Used, kinds_of};
use crate::{
    framework::{Result, Store},
    housekeeping::discovery::{self, Kind},
};
use futures::{
    Stream, StreamExt,
    stream::{AbortHandle, BoxStream, SelectAll, abortable},
};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{
    Client, ResourceExt,
    api::{DynamicObject, PartialObjectMeta},
};
use parking_lot::Mutex;
use runtime::{
    client::{Api, error_line, is_unreachable},
    watch::{self, Event, watch},
};
use serde_json::Value;
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};
use tokio::sync::Notify;

/// How often kinds that are named but not served are looked for.
const LOOK: Duration = Duration::from_secs(30);
/// After an API that did not answer.
const AGAIN: Duration = Duration::from_secs(2);

/// An object that came or went: namespace, name, and what there is of it.
type Noted = (String, String, Value);
type NotedEvent = (KindName, Result<Event<Noted>, watch::Error>);

/// What is there of each kind.
#[derive(Default)]
pub(super) struct Others {
    kinds: Mutex<HashMap<KindName, Followed>>,
    changed: Notify,
}

#[derive(Default)]
struct Followed {
    /// By namespace and name.
    objects: HashMap<String, HashMap<String, Arc<Used>>>,
    /// What a list that is under way has brought.
    listing: Option<HashMap<String, HashMap<String, Arc<Used>>>>,
    listed: bool,
    watch: Option<AbortHandle>,
}

impl Others {
    /// Quotas changed: other kinds may be named.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Whether all of these have been listed, or are known not to be served.
    pub(super) fn are_listed(&self, kinds: &BTreeSet<KindName>) -> bool {
        let followed = self.kinds.lock();
        kinds.iter().filter(|kind| !is_shared(kind)).all(|kind| followed.get(kind).is_some_and(|one| one.listed))
    }

    /// What the objects of a kind use in a namespace.
    pub(super) fn in_namespace(&self, kind: &KindName, namespace: &str) -> Vec<Arc<Used>> {
        let followed = self.kinds.lock();
        let objects = followed.get(kind).and_then(|one| one.objects.get(namespace));
        objects.into_iter().flat_map(HashMap::values).cloned().collect()
    }

    /// Follows until it is dropped; `changed` hears the namespace in which something came, went or changed.
    pub(super) async fn follow(
        &self,
        client: &Client,
        quotas: &Store<ResourceQuota>,
        changed: impl Fn(&str),
    ) -> Result<()> {
        let mut streams: SelectAll<BoxStream<'static, NotedEvent>> = SelectAll::new();
        let mut look = tokio::time::Instant::now();
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(look) => {}
                () = self.changed.notified() => {}
                Some((kind, event)) = streams.next(), if !streams.is_empty() => {
                    // What is known of a kind that cannot be followed stays.
                    if let Ok(event) = event {
                        self.take(&kind, event).iter().for_each(|namespace| changed(namespace));
                    }
                    continue;
                }
            }
            look = tokio::time::Instant::now() + LOOK;
            match self.refresh(client, quotas).await {
                Ok(new) => new.into_iter().for_each(|stream| streams.push(stream)),
                Err(error) => {
                    look = tokio::time::Instant::now() + AGAIN;
                    if !is_unreachable(&*error) {
                        tracing::warn!(
                            error = error_line(&*error),
                            "kinds that quotas name could not be discovered; tried again"
                        );
                    }
                }
            }
        }
    }

    /// Starts to follow what is named and served, and ends what is named no more.
    async fn refresh(
        &self,
        client: &Client,
        quotas: &Store<ResourceQuota>,
    ) -> Result<Vec<BoxStream<'static, NotedEvent>>> {
        let mut named: BTreeSet<KindName> = BTreeSet::new();
        for quota in quotas.all() {
            named.extend(kinds_of(&objects::to_value(&*quota)?).into_iter().filter(|kind| !is_shared(kind)));
        }
        let unserved = {
            let mut followed = self.kinds.lock();
            followed.retain(|kind, one| {
                let kept = named.contains(kind);
                if let Some(watch) = one.watch.take_if(|_| !kept) {
                    watch.abort();
                }
                kept
            });
            named.iter().any(|kind| followed.get(kind).is_none_or(|one| one.watch.is_none()))
        };
        if !unserved {
            return Ok(Vec::new());
        }
        let served = discovery::kinds(client).await?;
        let mut streams = Vec::new();
        let mut followed = self.kinds.lock();
        for name in named {
            let one = followed.entry(name.clone()).or_default();
            if one.watch.is_some() {
                continue;
            }
            let kind = served.iter().find(|kind| {
                kind.resource.group == name.group
                    && kind.resource.plural == name.plural
                    && kind.namespaced
                    && kind.can("watch")
            });
            let Some(kind) = kind else {
                // Nothing of it can be there.
                one.listed = true;
                continue;
            };
            one.listed = false;
            let (stream, watch) = abortable(events(client, kind, &name));
            one.watch = Some(watch);
            streams.push(stream.boxed());
        }
        Ok(streams)
    }

    /// Takes in an event; which namespaces it concerns.
    fn take(&self, kind: &KindName, event: Event<Noted>) -> Vec<String> {
        let mut kinds = self.kinds.lock();
        let Some(followed) = kinds.get_mut(kind) else { return Vec::new() };
        let used = |object: Value| Arc::new(Used::of(&kind.group, &kind.plural, object));
        match event {
            Event::Init => {
                followed.listing = Some(HashMap::new());
                Vec::new()
            }
            Event::InitApply((namespace, name, object)) => {
                followed.listing.get_or_insert_default().entry(namespace).or_default().insert(name, used(object));
                Vec::new()
            }
            Event::InitDone => {
                let listed = followed.listing.take().unwrap_or_default();
                let concerned: BTreeSet<String> = listed.keys().chain(followed.objects.keys()).cloned().collect();
                followed.objects = listed;
                followed.listed = true;
                concerned.into_iter().collect()
            }
            Event::Apply((namespace, name, object)) => {
                followed.objects.entry(namespace.clone()).or_default().insert(name, used(object));
                vec![namespace]
            }
            Event::Delete((namespace, name, _)) => {
                if let Some(objects) = followed.objects.get_mut(&namespace) {
                    objects.remove(&name);
                }
                vec![namespace]
            }
        }
    }
}

/// Kinds that are read from the stores that everybody shares.
fn is_shared(kind: &KindName) -> bool {
    kind.group.is_empty() && matches!(kind.plural.as_str(), "pods" | "services")
}

fn events(client: &Client, kind: &Arc<Kind>, name: &KindName) -> impl Stream<Item = NotedEvent> + Send + use<> {
    let name = name.clone();
    let whole = matches!(
        (name.group.as_str(), name.plural.as_str()),
        ("", "persistentvolumeclaims") | ("resource.k8s.io", "resourceclaims")
    );
    let resource = &kind.resource;
    // Claims count by what they ask for, all others by their number.
    if whole {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
        let note = |object: DynamicObject| {
            let (namespace, title) = (object.namespace().unwrap_or_default(), object.name_any());
            (namespace, title, objects::to_value(&object).unwrap_or_default())
        };
        watch(api, watch::Config::default())
            .map(move |event| (name.clone(), event.map(|event| mapped(event, note))))
            .boxed()
    } else {
        let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client.clone(), resource);
        let note = |object: PartialObjectMeta<DynamicObject>| {
            (object.metadata.namespace.unwrap_or_default(), object.metadata.name.unwrap_or_default(), Value::Null)
        };
        watch(api, watch::Config::default())
            .map(move |event| (name.clone(), event.map(|event| mapped(event, note))))
            .boxed()
    }
}

fn mapped<K>(event: Event<K>, note: impl Fn(K) -> Noted) -> Event<Noted> {
    match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(note(object)),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(note(object)),
        Event::Delete(object) => Event::Delete(note(object)),
    }
}
