//! What the objects `cluster` of config.openshift.io say, each kept current by a watch. A cluster without them, or without their kinds, says nothing.

#[cfg(test)]
mod tests;

use api::config::{CLUSTER, CloudConfigReference, FeatureGateStatus, InfrastructureSpec};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject},
};
use parking_lot::Mutex;
use runtime::{
    controller::Result,
    watch::{self, Event, watch},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

/// Both objects.
pub(super) struct Cluster {
    infrastructure: Watched,
    gates: Watched,
}

/// What both objects say.
#[derive(Default)]
pub(super) struct ClusterConfig {
    pub(super) infrastructure: Infrastructure,
    /// Which gates are open.
    pub(super) gates: FeatureGateStatus,
}

/// The part of the Infrastructure that counts here.
#[derive(Default)]
pub(super) struct Infrastructure {
    /// For events about it.
    pub(super) reference: Option<ObjectReference>,
    /// What the cluster runs on, where that is known.
    pub(super) platform: Option<String>,
    /// Where the administrator's cloud-config is; without a name there is none.
    pub(super) file: CloudConfigReference,
}

impl Cluster {
    pub(super) fn new() -> Self {
        Self {
            infrastructure: Watched::new("Infrastructure", "infrastructures"),
            gates: Watched::new("FeatureGate", "featuregates"),
        }
    }

    /// Watches both, and calls `changed` whenever one of them says something else. Ends only by being dropped.
    pub(super) async fn follow(&self, client: &Client, changed: impl Fn() + Sync) {
        tokio::join!(self.infrastructure.follow(client, &changed), self.gates.follow(client, &changed));
    }

    /// What they say; nothing while one of them has not been heard of, because what is not known must not count as closed or empty.
    pub(super) fn config(&self) -> Result<Option<ClusterConfig>> {
        let (infrastructure, gates) = (self.infrastructure.seen(), self.gates.seen());
        if matches!(infrastructure, ObjectState::NotYet) || matches!(gates, ObjectState::NotYet) {
            return Ok(None);
        }
        let mut config = ClusterConfig::default();
        if let ObjectState::There(object) = infrastructure {
            let spec: InfrastructureSpec = self.infrastructure.part(&object, "spec")?;
            let platform = object.data.pointer("/status/platformStatus/type").and_then(Value::as_str);
            config.infrastructure = Infrastructure {
                reference: Some(object.object_ref(&self.infrastructure.resource)),
                platform: platform.map(str::to_owned),
                file: spec.cloud_config.unwrap_or_default(),
            };
        }
        if let ObjectState::There(object) = gates {
            config.gates = self.gates.part(&object, "status")?;
        }
        Ok(Some(config))
    }
}

/// What the API has told of an object.
#[derive(Clone, Default)]
enum ObjectState {
    #[default]
    NotYet,
    /// There is none, or the API does not serve its kind.
    Missing,
    There(Arc<DynamicObject>),
}

impl ObjectState {
    fn of(object: Option<DynamicObject>) -> Self {
        object.map_or(Self::Missing, |object| Self::There(Arc::new(object)))
    }

    /// Whether both say the same: the same version of the object, or that there is none.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::There(one), Self::There(other)) => one.metadata.resource_version == other.metadata.resource_version,
            (Self::Missing, Self::Missing) => true,
            _ => false,
        }
    }
}

/// The object `cluster` of one kind.
struct Watched {
    resource: ApiResource,
    seen: Mutex<ObjectState>,
}

impl Watched {
    fn new(kind: &str, plural: &str) -> Self {
        let resource = ApiResource {
            group: "config.openshift.io".to_owned(),
            version: "v1".to_owned(),
            api_version: api::config::CONFIG.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        Self { resource, seen: Mutex::default() }
    }

    fn seen(&self) -> ObjectState {
        self.seen.lock().clone()
    }

    async fn follow(&self, client: &Client, changed: &(impl Fn() + Sync)) {
        let api = Api::<DynamicObject>::all_with(client.clone(), &self.resource);
        let config = watch::Config::default().fields(&format!("metadata.name={CLUSTER}"));
        let mut events = std::pin::pin!(watch(api, config));
        let mut listed = None;
        while let Some(event) = events.next().await {
            let seen = match event {
                Ok(Event::Init) => {
                    listed = None;
                    continue;
                }
                Ok(Event::InitApply(object)) => {
                    listed = Some(object);
                    continue;
                }
                Ok(Event::InitDone) => ObjectState::of(listed.take()),
                Ok(Event::Apply(object)) => ObjectState::of(Some(object)),
                Ok(Event::Delete(_)) => ObjectState::Missing,
                Err(error) if error.is_not_served() => ObjectState::Missing,
                Err(_) => continue,
            };
            let before = std::mem::replace(&mut *self.seen.lock(), seen.clone());
            if !before.is(&seen) {
                changed();
            }
        }
    }

    /// A part that cannot be understood is an error: taken for nothing, it would undo what was written from it.
    fn part<T: DeserializeOwned + Default>(&self, object: &DynamicObject, name: &str) -> Result<T> {
        match object.data.get(name) {
            None | Some(Value::Null) => Ok(T::default()),
            Some(value) => serde_json::from_value(value.clone())
                .map_err(|error| format!("{} cluster: {name}: {error}", self.resource.kind).into()),
        }
    }
}
