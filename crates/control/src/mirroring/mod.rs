//! `endpointslice-mirroring-controller`: Endpoints that somebody made by hand, as slices of both families.

pub mod plan;
#[cfg(test)]
mod tests;

use crate::{
    endpointslice::{
        draft::{MANAGED_BY, SERVICE_NAME},
        plan::Plan,
        write,
    },
    framework::{Context, Controller, Events, Index, Key, Next, Queue, Reconcile, Result, Store, reference, work},
};
use k8s_openapi::api::{
    core::v1::{Endpoints, Service},
    discovery::v1::EndpointSlice,
};
use kube::{Client, ResourceExt};
use plan::plan;
use std::sync::Arc;

/// The controller of this room.
pub const CONTROLLERS: &[Controller] = &[Controller {
    name: "endpointslice-mirroring-controller",
    alias: "endpointslicemirroring",
    default_on: true,
    run: |context| Box::pin(run(context)),
}];

/// What flags decide here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirroringOptions {
    /// `--mirroring-max-endpoints-per-subset`, 1 to 1000.
    pub max_endpoints_per_subset: usize,
    /// `--mirroring-concurrent-service-endpoint-syncs`.
    pub workers: usize,
}

impl Default for MirroringOptions {
    fn default() -> Self {
        Self { max_endpoints_per_subset: 1000, workers: 5 }
    }
}

struct Mirror {
    client: Client,
    endpoints: Store<Endpoints>,
    services: Store<Service>,
    slices: Store<EndpointSlice>,
    by_endpoints: Index,
    events: Events,
    most: usize,
}

async fn run(context: Context) -> Result<()> {
    let options = context.options().mirroring.clone();
    let (endpoints, services) = (context.store::<Endpoints>(), context.store::<Service>());
    let slices = context.store::<EndpointSlice>();
    let queue: Queue<Key> = context.queue("endpoint_slice_mirroring");
    let by_endpoints =
        slices.index("mirrored", |slice| mirrored_from(slice).map(|key| key.to_string()).into_iter().collect());
    context.synced(&[&endpoints, &services, &slices]).await;
    let _endpoints = endpoints.on_change({
        let queue = queue.clone();
        move |change| {
            if change.both().any(|object| is_mirrored(object)) {
                queue.add(change.key());
            }
        }
    });
    let _services = services.on_change({
        let queue = queue.clone();
        move |change| {
            let picks = |service: &Arc<Service>| has_selector(service);
            if change.old.map(picks) != change.new.map(picks) {
                queue.add(change.key());
            }
        }
    });
    let _slices = slices.on_change({
        let queue = queue.clone();
        move |change| {
            if !change.ours {
                change.both().filter_map(|slice| mirrored_from(slice)).for_each(|key| queue.add(key));
            }
        }
    });
    let controller = Mirror {
        client: context.client(),
        endpoints,
        services,
        slices,
        by_endpoints,
        events: context.events("endpoint-slice-mirroring-controller"),
        most: options.max_endpoints_per_subset,
    };
    work(&queue, options.workers, &controller).await
}

/// The Endpoints object that a slice mirrors.
fn mirrored_from(slice: &EndpointSlice) -> Option<Key> {
    let labels = slice.labels();
    let ours = labels.get(MANAGED_BY).is_some_and(|manager| manager == plan::CONTROLLER);
    let name = labels.get(SERVICE_NAME).filter(|name| ours && !name.is_empty())?;
    Some(Key::new(slice.namespace().unwrap_or_default(), name))
}

/// Not if it says so, and not if it is somebody's lock.
fn is_mirrored(endpoints: &Endpoints) -> bool {
    let skipped =
        endpoints.labels().get("endpointslice.kubernetes.io/skip-mirror").is_some_and(|value| value == "true");
    !skipped && !endpoints.annotations().contains_key("control-plane.alpha.kubernetes.io/leader")
}

fn has_selector(service: &Service) -> bool {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| !selector.is_empty())
}

impl Reconcile for Mirror {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let stored = self.slices.by(self.by_endpoints, &key.to_string());
        let by_hand = self.services.get(key).is_some_and(|service| !has_selector(&service));
        let Some(endpoints) = self.endpoints.get(key).filter(|endpoints| by_hand && is_mirrored(endpoints)) else {
            let plan = Plan { delete: stored, ..Plan::default() };
            write::apply(&self.client, &self.slices, key, plan, None).await?;
            return Ok(Next::Done);
        };
        let mirrored = plan(&endpoints, &stored, self.most);
        let changes = mirrored.plan.writes() > 0;
        write::apply(&self.client, &self.slices, key, mirrored.plan, None).await?;
        // Told when it is written, not each time it is looked at.
        if changes && mirrored.invalid > 0 {
            let note = format!("{} addresses are no IP addresses and were not mirrored", mirrored.invalid);
            self.events.warning(&reference(&*endpoints), "InvalidIPAddress", note).await;
        }
        if changes && mirrored.too_many > 0 {
            let note = format!(
                "at most {} addresses of a subset are mirrored; {} were left out",
                self.most, mirrored.too_many
            );
            self.events.warning(&reference(&*endpoints), "TooManyAddressesToMirror", note).await;
        }
        Ok(Next::Done)
    }
}
