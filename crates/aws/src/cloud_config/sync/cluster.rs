//! What the objects `cluster` of config.openshift.io say, each kept current by a watch. A cluster without them, or without their kinds, says nothing.

#[cfg(test)]
mod tests;

use api::config::{CLUSTER, CloudConfigReference, FeatureGateStatus, InfrastructureSpec};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject},
    runtime::watcher::{self, watch_object},
};
use parking_lot::Mutex;
use runtime::{
    backoff::{self, Backoff},
    client::said,
    controller::Result,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// How often a kind that the API does not serve is asked for.
const UNSERVED: Duration = Duration::from_secs(10);
/// Pauses between attempts at a watch that fails.
const RETRY: Backoff = Backoff { first: Duration::from_millis(500), cap: Duration::from_secs(30) };

/// Both objects.
pub(super) struct Cluster {
    infrastructure: Watched,
    gates: Watched,
}

/// What both objects say.
#[derive(Default)]
pub(super) struct Said {
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
        Self::asking_every(UNSERVED)
    }

    /// With another time between questions for kinds that the API does not serve.
    fn asking_every(unserved: Duration) -> Self {
        Self {
            infrastructure: Watched::new("Infrastructure", "infrastructures", unserved),
            gates: Watched::new("FeatureGate", "featuregates", unserved),
        }
    }

    /// Watches both, and calls `changed` whenever one of them says something else. Ends only by being dropped.
    pub(super) async fn follow(&self, client: &Client, changed: impl Fn() + Sync) {
        tokio::join!(self.infrastructure.follow(client, &changed), self.gates.follow(client, &changed));
    }

    /// What they say; nothing while one of them has not been heard of, because what is not known must not count as closed or empty.
    pub(super) fn said(&self) -> Result<Option<Said>> {
        let (infrastructure, gates) = (self.infrastructure.seen(), self.gates.seen());
        if matches!(infrastructure, Seen::NotYet) || matches!(gates, Seen::NotYet) {
            return Ok(None);
        }
        let mut said = Said::default();
        if let Seen::There(object) = infrastructure {
            let spec: InfrastructureSpec = self.infrastructure.part(&object, "spec")?;
            let platform = object.data.pointer("/status/platformStatus/type").and_then(Value::as_str);
            said.infrastructure = Infrastructure {
                reference: Some(object.object_ref(&self.infrastructure.resource)),
                platform: platform.map(str::to_owned),
                file: spec.cloud_config.unwrap_or_default(),
            };
        }
        if let Seen::There(object) = gates {
            said.gates = self.gates.part(&object, "status")?;
        }
        Ok(Some(said))
    }
}

/// What the API has told of an object.
#[derive(Clone, Default)]
enum Seen {
    #[default]
    NotYet,
    /// There is none, or the API does not serve its kind.
    Missing,
    There(Arc<DynamicObject>),
}

/// The object `cluster` of one kind.
struct Watched {
    resource: ApiResource,
    unserved: Duration,
    seen: Mutex<Seen>,
}

impl Watched {
    fn new(kind: &str, plural: &str, unserved: Duration) -> Self {
        let resource = ApiResource {
            group: "config.openshift.io".to_owned(),
            version: "v1".to_owned(),
            api_version: api::config::CONFIG.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        Self { resource, unserved, seen: Mutex::default() }
    }

    fn seen(&self) -> Seen {
        self.seen.lock().clone()
    }

    async fn follow(&self, client: &Client, changed: &(impl Fn() + Sync)) {
        let api = Api::<DynamicObject>::all_with(client.clone(), &self.resource);
        let mut objects = std::pin::pin!(watch_object(api, CLUSTER));
        let mut failures = 0;
        // After an error the watch begins anew when it is asked for more.
        while let Some(told) = objects.next().await {
            let (seen, pause) = match told {
                Ok(Some(object)) => (Seen::There(Arc::new(object)), None),
                Ok(None) => (Seen::Missing, None),
                Err(error) if is_unserved(&error) => (Seen::Missing, Some(self.unserved)),
                Err(error) => {
                    failures += 1;
                    let kind = &self.resource.kind;
                    tracing::warn!(kind, error = said(&error), "watch failed and is tried again");
                    tokio::time::sleep(RETRY.delay(failures, backoff::random())).await;
                    continue;
                }
            };
            failures = 0;
            let before = std::mem::replace(&mut *self.seen.lock(), seen.clone());
            if !matches!((before, seen), (Seen::Missing, Seen::Missing)) {
                changed();
            }
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
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

/// Whether the API has no such kind, at the first list or after the kind has gone.
fn is_unserved(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(cause)
    | watcher::Error::WatchStartFailed(cause)
    | watcher::Error::WatchFailed(cause)) = error
    else {
        return false;
    };
    matches!(cause, kube::Error::Api(status) if status.code == 404)
}
