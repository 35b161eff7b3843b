//! `cloud-config-sync-controller`: keeps the ConfigMap that the cloud controller manager reads, made by the transformer from
//! what the administrator wrote.
//!
//! Mirrors the controller of the cluster cloud controller manager operator: the source is `kube-cloud-config` in
//! `openshift-config-managed`, else the ConfigMap that the Infrastructure names; the target is `cloud-conf`. A source that cannot be read leaves the
//! target as it is and is told as an event.

use super::{Gate, transform};
use crate::nodes::Options;
use api::config::{FeatureGateStatus, InfrastructureSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams},
};
use runtime::controller::{Context, Controller, Events, Key, Next, Queue, Reconcile, Result, Store, reference, work};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// The controller of this room, beside those of the cloud controller manager; off unless it is picked.
pub const CONTROLLERS: &[Controller<Options>] = &[Controller {
    name: "cloud-config-sync-controller",
    alias: "cloud-config-sync",
    default_on: false,
    run: |context| Box::pin(run(context)),
}];

/// The same by itself.
pub const ALONE: &[Controller<()>] = &[Controller {
    name: "cloud-config-sync-controller",
    alias: "cloud-config-sync",
    default_on: true,
    run: |context| Box::pin(run(context)),
}];

const TARGET: (&str, &str) = ("openshift-cloud-controller-manager", "cloud-conf");
const MANAGED: (&str, &str) = ("openshift-config-managed", "kube-cloud-config");
const FILE: &str = "cloud.conf";
const GATE: &str = "AWSServiceLBNetworkSecurityGroup";
/// How often the Infrastructure and the feature gates are read.
const PERIOD: Duration = Duration::from_secs(60);

struct Sync {
    client: Client,
    maps: Store<ConfigMap>,
    events: Events,
}

async fn run<O: Send + std::marker::Sync + 'static>(context: Context<O>) -> Result<()> {
    let maps = context.store::<ConfigMap>();
    let queue: Queue<Key> = context.queue("cloud-config-sync");
    let target = Key::new(TARGET.0, TARGET.1);
    let _maps = maps.on_change({
        let (queue, target) = (queue.clone(), target.clone());
        move |change| {
            let key = change.key();
            if key == target || key.namespace.starts_with("openshift-config") {
                queue.add(target.clone());
            }
        }
    });
    context.synced(&[&maps]).await;
    queue.add(target);
    let controller = Sync { client: context.client(), maps, events: context.events("cloud-config-sync-controller") };
    work(&queue, 1, &controller).await
}

impl Reconcile for Sync {
    type Key = Key;

    async fn reconcile(&self, target: &Key) -> Result<Next> {
        let (source, text) = match self.source().await? {
            Ok(found) => found,
            Err(Unreadable { map, problem }) => {
                tracing::warn!(problem, "the cloud-config is left as it is");
                if let Some(map) = map {
                    self.events.warning(&reference(&*map), "CloudConfigInvalid", problem).await;
                }
                return Ok(Next::After(PERIOD));
            }
        };
        match transform(&text, self.gate().await?) {
            Ok((wanted, warnings)) => {
                warnings.iter().for_each(|warning| tracing::warn!(warning, "cloud-config"));
                self.write(target, &wanted).await?;
            }
            Err(error) => {
                let note = format!("{FILE} is not accepted, and {} is left as it is: {error}", TARGET.1);
                tracing::warn!(note, "cloud-config");
                if let Some(source) = source {
                    self.events.warning(&reference(&*source), "CloudConfigInvalid", note).await;
                }
            }
        }
        Ok(Next::After(PERIOD))
    }
}

type Source = (Option<Arc<ConfigMap>>, String);

/// What is named and cannot be read.
struct Unreadable {
    map: Option<Arc<ConfigMap>>,
    problem: String,
}

impl Sync {
    /// What the administrator wrote; nothing at all is an empty file.
    async fn source(&self) -> Result<Result<Source, Unreadable>> {
        let file = |map: &ConfigMap, key: &str| map.data.as_ref().and_then(|data| data.get(key).cloned());
        if let Some(map) = self.maps.get(&Key::new(MANAGED.0, MANAGED.1)) {
            let text = file(&map, FILE).unwrap_or_default();
            return Ok(Ok((Some(map), text)));
        }
        let spec = self.cluster_object::<InfrastructureSpec>("Infrastructure", "infrastructures", "spec").await?;
        let Some(named) = spec.and_then(|spec| spec.cloud_config).filter(|named| !named.name.is_empty()) else {
            return Ok(Ok((None, String::new())));
        };
        let Some(map) = self.maps.get(&Key::new("openshift-config", &named.name)) else {
            let problem = format!("ConfigMap {} that the Infrastructure names is not in openshift-config", named.name);
            return Ok(Err(Unreadable { map: None, problem }));
        };
        let key = if named.key.is_empty() { FILE } else { &named.key };
        Ok(match file(&map, key) {
            Some(text) => Ok((Some(map), text)),
            None => {
                let problem = format!("ConfigMap {} has no key {key}, which the Infrastructure names", named.name);
                Err(Unreadable { map: Some(map), problem })
            }
        })
    }

    async fn gate(&self) -> Result<Gate> {
        let status = self.cluster_object::<FeatureGateStatus>("FeatureGate", "featuregates", "status").await?;
        Ok(match status.is_some_and(|status| status.is_enabled("", GATE)) {
            true => Gate::On,
            false => Gate::Off,
        })
    }

    /// A part of the object `cluster` of a kind of config.openshift.io, where there is one.
    async fn cluster_object<T: DeserializeOwned>(&self, kind: &str, plural: &str, part: &str) -> Result<Option<T>> {
        let resource = ApiResource {
            group: "config.openshift.io".to_owned(),
            version: "v1".to_owned(),
            api_version: "config.openshift.io/v1".to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let found = api.get_opt("cluster").await?;
        Ok(found.and_then(|object| serde_json::from_value(object.data.get(part)?.clone()).ok()))
    }

    async fn write(&self, target: &Key, wanted: &str) -> Result<()> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &target.namespace);
        let written = match self.maps.get(target) {
            Some(map) if map.data.as_ref().and_then(|data| data.get(FILE)).is_some_and(|has| has == wanted) => {
                return Ok(());
            }
            Some(_) => {
                let patch = Patch::Merge(json!({"data": {FILE: wanted}}));
                api.patch(&target.name, &PatchParams::default(), &patch).await?
            }
            None => {
                let map = ConfigMap {
                    metadata: ObjectMeta { name: Some(target.name.clone()), ..ObjectMeta::default() },
                    data: Some([(FILE.to_owned(), wanted.to_owned())].into()),
                    ..ConfigMap::default()
                };
                api.create(&PostParams::default(), &map).await?
            }
        };
        self.maps.remember(written);
        Ok(())
    }
}
