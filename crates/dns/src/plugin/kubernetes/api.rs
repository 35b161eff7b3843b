//! Watching a cluster. What was seen stays when the API is gone: the watch begins again, and a new list replaces the old.

use super::Records;
use super::index::{Change, Index, Sort};
use super::parse::{Source, Watch};
use crate::build::JobError;
use futures::stream::{self, BoxStream, StreamExt};
use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Client, Config, Resource};
use runtime::client::said;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Follows the cluster until it is dropped by its caller.
pub(super) async fn follow(watch: &Watch, records: Arc<Records>) -> Result<(), JobError> {
    let client = watch.source.client().await?;
    let mut sorts = vec![Sort::Services, Sort::Namespaces];
    let labelled = |labels: &Option<String>| {
        let config = watcher::Config::default();
        labels.as_ref().map_or_else(watcher::Config::default, |labels| config.labels(labels))
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
            watcher::Config::default().fields("status.phase!=Succeeded,status.phase!=Failed,status.phase!=Unknown");
        streams.push(changes(Api::<Pod>::all(client), alive, Sort::Pods, Change::Pod, Change::NoPod));
    }
    let mut index = Index::new(records, &sorts, watch.pod_names);
    let mut all = stream::select_all(streams);
    while let Some(change) = all.next().await {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as u32);
        index.apply(change, now);
    }
    Err("the watch ended".into())
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
        Ok(Client::try_from(config)?)
    }
}

fn changes<K>(
    api: Api<K>,
    config: watcher::Config,
    sort: Sort,
    made: fn(K) -> Change,
    gone: fn(K) -> Change,
) -> BoxStream<'static, Change>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let events = watcher::watcher(api, config).default_backoff();
    let changes = events.filter_map(move |event| async move {
        match event {
            Ok(Event::Init) => Some(Change::Listing(sort)),
            Ok(Event::InitApply(object) | Event::Apply(object)) => Some(made(object)),
            Ok(Event::Delete(object)) => Some(gone(object)),
            Ok(Event::InitDone) => Some(Change::Listed(sort)),
            Err(error) => {
                tracing::warn!(
                    error = said(&error),
                    ?sort,
                    "the API cannot be watched; what is known stays, and it is tried again"
                );
                None
            }
        }
    });
    changes.boxed()
}
