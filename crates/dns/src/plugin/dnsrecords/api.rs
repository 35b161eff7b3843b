//! Watching DNSRecord objects. What was seen stays when the API is gone.

use super::{Watched, table::Table};
use crate::{compile::JobError, plugin::kubernetes::Source};
use api::config::DnsRecordSpec;
use kube::api::{ApiResource, DynamicObject};
use runtime::{
    client::Api,
    controller::Store,
    operator::DnsRecord,
    watch::{self, watch},
};
use std::sync::Arc;
use tokio::sync::Notify;

/// Follows the objects until it is dropped by its caller.
pub(super) async fn follow(source: &Source, watched: &Watched) -> Result<(), JobError> {
    // Values and not types: an object that cannot be read must not hide the others.
    let records = Api::<DynamicObject>::all_with(source.client().await?, &ApiResource::erase::<DnsRecord>(&()));
    let (store, changed) = (Store::default(), Arc::new(Notify::new()));
    let bell = Arc::clone(&changed);
    let _told = store.on_change(move |_| bell.notify_one());
    let publish = async {
        if !store.known().await {
            tracing::debug!("the cluster has no DNSRecord resource");
        }
        loop {
            let specs: Vec<DnsRecordSpec> = store.all().iter().filter_map(|object| spec(object)).collect();
            watched.set(Table::new(specs.iter()));
            changed.notified().await;
        }
    };
    tokio::select! {
        () = store.follow(watch(records, watch::Config::default())) => Err("the watch ended".into()),
        () = publish => Ok(()),
    }
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
pub(super) fn job(source: Source, watched: &Arc<Watched>) -> crate::compile::Job {
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
    crate::compile::Job { name: "dns-dnsrecords".to_owned(), run: Box::new(run) }
}
