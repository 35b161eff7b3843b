//! Watching DNSRecord objects. What was seen stays when the API is gone.

use super::Watched;
use super::table::Table;
use crate::build::JobError;
use crate::plugin::kubernetes::Source;
use api::config::{DNS_RECORD, DnsRecordSpec};
use futures::StreamExt;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use runtime::watch::{self, Event};
use std::collections::BTreeMap;
use std::sync::Arc;

type Key = (String, String);

/// Follows the objects until it is dropped by its caller.
pub(super) async fn follow(source: &Source, watched: &Watched) -> Result<(), JobError> {
    let client = source.client().await?;
    let (group, version) = DNS_RECORD.split_once('/').unwrap_or((DNS_RECORD, "v1"));
    let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, "DNSRecord"), "dnsrecords");
    let records = Api::<DynamicObject>::all_with(client, &kind);
    let mut events = watch::watch(records, watch::Config::default()).boxed();
    let mut known: BTreeMap<Key, DnsRecordSpec> = BTreeMap::new();
    let mut listing = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listing.clear(),
            Ok(Event::InitApply(object)) => {
                listing.extend(spec(&object).map(|spec| (key(&object), spec)));
                continue;
            }
            Ok(Event::InitDone) => known = std::mem::take(&mut listing),
            Ok(Event::Apply(object)) => {
                match spec(&object) {
                    Some(spec) => known.insert(key(&object), spec),
                    None => known.remove(&key(&object)),
                };
            }
            Ok(Event::Delete(object)) => drop(known.remove(&key(&object))),
            Err(error) if error.is_not_served() => {
                tracing::debug!("the cluster has no DNSRecord resource");
                known.clear();
            }
            // What is known stays.
            Err(_) => continue,
        }
        watched.set(Table::new(known.values()));
    }
    Err("the watch ended".into())
}

fn key(object: &DynamicObject) -> Key {
    (object.metadata.namespace.clone().unwrap_or_default(), object.metadata.name.clone().unwrap_or_default())
}

/// What an object asks for; one that is being deleted asks for nothing.
fn spec(object: &DynamicObject) -> Option<DnsRecordSpec> {
    if object.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let spec = serde_json::from_value(object.data.get("spec")?.clone());
    spec.inspect_err(|error| tracing::warn!(%error, object = ?object.metadata.name, "a DNSRecord cannot be read")).ok()
}

/// The job for a plugin's objects.
pub(super) fn job(source: Source, watched: &Arc<Watched>) -> crate::build::Job {
    let (watched, stop) = (Arc::downgrade(watched), watched.stop.clone());
    let run = move |ended: tokio_util::sync::CancellationToken| {
        let (source, watched, stop) = (source.clone(), watched.clone(), stop.clone());
        let work = async move {
            // Nobody is left to answer: nothing to follow.
            let Some(watched) = watched.upgrade() else { return Ok(()) };
            tokio::select! {
                () = ended.cancelled() => Ok(()),
                () = stop.cancelled() => Ok(()),
                result = follow(&source, &watched) => result,
            }
        };
        Box::pin(work) as futures::future::BoxFuture<'static, _>
    };
    crate::build::Job { name: "dns-dnsrecords".to_owned(), run: Box::new(run) }
}
