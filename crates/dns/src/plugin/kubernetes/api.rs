//! Watching a cluster. What was seen stays when the API is gone: the watch begins again, and a new list replaces the old.

use super::{
    Records,
    index::{Change, Index, Sort},
    parse::{Source, Watch},
};
use crate::compile::JobError;
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
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};
use tokio_util::sync::CancellationToken;

/// Follows the cluster until `stop`, or until it is dropped by its caller.
pub(super) async fn follow(watch: &Watch, records: Arc<Records>, stop: CancellationToken) -> Result<(), JobError> {
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
    let mut index = Index::new(records, &sorts, watch.pod_names);
    let mut all = stream::select_all(streams);
    let follow = async {
        while let Some(change) = all.next().await {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as u32);
            index.apply(change, now);
        }
    };
    tokio::select! {
        () = sign => Ok(()),
        () = follow => Err("the watch ended".into()),
    }
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
