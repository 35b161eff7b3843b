//! Watching a cluster. What was seen stays when the API is gone: the watch begins again, and a new list replaces the old.

use super::{
    Records,
    index::{Change, Index, Sort},
    parse::{Source, Watch},
};
use crate::{compile::JobError, metrics::Counters};
use futures::stream::{self, BoxStream, StreamExt};
use k8s_openapi::api::{
    core::v1::{Namespace, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Client, Config, Resource,
    config::{KubeConfigOptions, Kubeconfig},
};
use objects::Decode;
use runtime::{
    client::Api,
    watch::{
        self, Event,
        report::{NAMESPACE, report},
    },
};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio_util::sync::CancellationToken;

/// Follows the cluster until `stop`, or until it is dropped by its caller.
pub(super) async fn follow(
    watch: &Watch,
    records: Arc<Records>,
    counters: Arc<Counters>,
    stop: CancellationToken,
) -> Result<(), JobError> {
    let client = watch.source.client().await?;
    let sign = report(client.clone(), "dns", NAMESPACE, stop);
    let mut sorts = vec![Sort::Services, Sort::Namespaces];
    let labelled = |labels: &Option<String>| {
        let config = watch::Config::default();
        labels.as_ref().map_or_else(watch::Config::default, |labels| config.labels(labels))
    };
    let mut streams: Vec<BoxStream<'static, Change>> = vec![
        changes(
            Api::<Service>::all(client.clone()),
            labelled(&watch.labels),
            Sort::Services,
            Change::Service,
            Change::NoService,
        ),
        changes(
            Api::<Namespace>::all(client.clone()),
            labelled(&watch.namespace_labels),
            Sort::Namespaces,
            Change::Namespace,
            Change::NoNamespace,
        ),
    ];
    if watch.endpoints {
        sorts.push(Sort::Slices);
        let slices = Api::<EndpointSlice>::all(client.clone());
        streams.push(changes(slices, labelled(&watch.labels), Sort::Slices, Change::Slice, Change::NoSlice));
    }
    if watch.pods {
        sorts.push(Sort::Pods);
        let alive =
            watch::Config::default().fields("status.phase!=Succeeded,status.phase!=Failed,status.phase!=Unknown");
        streams.push(changes(Api::<Pod>::all(client), alive, Sort::Pods, Change::Pod, Change::NoPod));
    }
    let known = Arc::clone(&records);
    let mut index = Index::new(records, &sorts, watch.details);
    let mut all = stream::select_all(streams);
    let follow = async {
        while let Some(change) = all.next().await {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            // What was there before is no change that could be late.
            let changed = if known.synced() { triggered(&change) } else { None };
            index.apply(change, now.as_secs() as u32);
            if let Some(late) = changed.and_then(|changed| now.checked_sub(changed)) {
                let kind = vec![("service_kind", "headless_with_selector".to_owned())];
                counters.programming.get_or_create(&kind).observe(late.as_nanos() as u64);
            }
        }
    };
    tokio::select! {
        () = sign => Ok(()),
        () = follow => Err("the watch ended".into()),
    }
}

/// When the change of a headless Service's endpoints began, if it says so.
fn triggered(change: &Change) -> Option<Duration> {
    let Change::Slice(slice) = change else { return None };
    let has = |map: &Option<BTreeMap<String, String>>, key: &str| map.as_ref().and_then(|map| map.get(key)).cloned();
    has(&slice.metadata.labels, "service.kubernetes.io/headless")?;
    let text = has(&slice.metadata.annotations, "endpoints.kubernetes.io/last-change-trigger-time")?;
    let time: jiff::Timestamp = text.parse().ok()?;
    SystemTime::from(time).duration_since(UNIX_EPOCH).ok()
}

impl Source {
    /// A client of it; without a word the Pod's own account, or the usual kubeconfig.
    pub(crate) async fn client(&self) -> Result<Client, JobError> {
        let config = match (&self.kubeconfig, &self.endpoint) {
            (Some((path, context)), _) => {
                let kubeconfig = Kubeconfig::read_from(path)?;
                let options = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
                Config::from_custom_kubeconfig(kubeconfig, &options).await?
            }
            (None, Some(url)) => Config::new(url.parse()?),
            (None, None) => Config::infer().await?,
        };
        Ok(runtime::client::client(config)?)
    }
}

fn changes<K>(
    api: Api<K>,
    config: watch::Config,
    sort: Sort,
    made: fn(K) -> Change,
    gone: fn(K) -> Change,
) -> BoxStream<'static, Change>
where
    K: Resource + Decode + Send + 'static,
{
    let events = watch::watch(api, config);
    let changes = events.filter_map(move |event| async move {
        match event {
            Ok(Event::Init) => Some(Change::Listing(sort)),
            Ok(Event::InitApply(object) | Event::Apply(object)) => Some(made(object)),
            Ok(Event::Delete(object)) => Some(gone(object)),
            Ok(Event::InitDone) => Some(Change::Listed(sort)),
            // What is known stays.
            Err(_) => None,
        }
    });
    changes.boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_endpoints_of_headless_services_say_when_they_changed() {
        let slice = |labels: serde_json::Value, annotations: serde_json::Value| {
            let metadata = json!({"name": "a", "namespace": "b", "labels": labels, "annotations": annotations});
            let slice = json!({"metadata": metadata, "addressType": "IPv6", "endpoints": []});
            triggered(&Change::Slice(serde_json::from_value(slice).unwrap())).map(|time| time.as_secs())
        };
        let time = json!({"endpoints.kubernetes.io/last-change-trigger-time": "1970-01-01T00:01:00.5Z"});
        assert_eq!(slice(json!({"service.kubernetes.io/headless": ""}), time.clone()), Some(60));
        assert_eq!(slice(json!({}), time), None);
        assert_eq!(slice(json!({"service.kubernetes.io/headless": ""}), json!({})), None);
    }
}
