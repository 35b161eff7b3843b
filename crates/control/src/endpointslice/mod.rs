//! `endpointslice-controller`: slices of every family that a Service has.
//!
//! `index` finds what a change touches, `plan` decides, this file writes. `families`, `endpoint` and `index` serve the
//! other endpoints controllers as well.

pub mod draft;
pub mod endpoint;
pub mod families;
pub mod hints;
pub mod index;
mod metrics;
pub mod pack;
pub mod plan;
#[cfg(test)]
pub(crate) mod tests;
pub mod topology;
pub mod trigger;
pub mod write;

use crate::framework::{Context, Controller, Events, Key, Next, Queue, Reconcile, Result, Store, reference, work};
use draft::{CONTROLLER, MANAGED_BY, SERVICE_NAME};
use families::selector;
use index::Selected;
use k8s_openapi::api::{
    core::v1::{Node, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::Client;
use metrics::Metrics;
use net::Family;
use parking_lot::Mutex;
use plan::{Plan, Wanted, plan};
use std::{collections::HashMap, sync::Arc, time::Duration};
use topology::Shares;
use trigger::Triggers;

/// The controller of this room.
pub const CONTROLLERS: &[Controller] = &[Controller {
    name: "endpointslice-controller",
    alias: "endpointslice",
    default_on: true,
    run: |context| Box::pin(run(context)),
}];

/// What flags decide here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSliceOptions {
    /// `--max-endpoints-per-slice`, 1 to 1000.
    pub max_endpoints_per_slice: usize,
    /// `--concurrent-service-endpoint-syncs`.
    pub workers: usize,
    /// `--endpointslice-updates-batch-period`: how long changes of Pods are gathered before they are written.
    pub batch_period: Duration,
}

impl Default for EndpointSliceOptions {
    fn default() -> Self {
        Self { max_endpoints_per_slice: 100, workers: 5, batch_period: Duration::ZERO }
    }
}

struct Slices {
    client: Client,
    selected: Selected,
    nodes: Store<Node>,
    slices: Store<EndpointSlice>,
    by_service: crate::framework::Index,
    shares: Arc<Mutex<Shares>>,
    triggers: Triggers,
    events: Events,
    /// What was told last about topology mode `Auto`, so that it is told once.
    reported: Mutex<HashMap<(Key, Family), Result<(), String>>>,
    most: usize,
    metrics: Arc<Metrics>,
}

async fn run(context: Context) -> Result<()> {
    let options = context.options().endpointslice.clone();
    let (services, pods, nodes) = (context.store::<Service>(), context.store::<Pod>(), context.store::<Node>());
    let slices = context.store::<EndpointSlice>();
    let queue: Queue<Key> = context.queue("endpoint_slice");
    let selected = Selected::new(services.clone(), pods.clone());
    let by_auto =
        services.index("topology-auto", |service| hints::wants_auto(service).then(String::new).into_iter().collect());
    let by_service =
        slices.index("service", |slice| service_of(slice).map(|key| key.to_string()).into_iter().collect());
    let shares = Arc::new(Mutex::new(Shares::default()));
    context.synced(&[&services, &pods, &nodes, &slices]).await;

    let _services = services.on_change({
        let queue = queue.clone();
        move |change| queue.add(change.key())
    });
    let _pods = pods.on_change({
        let (queue, selected, batch) = (queue.clone(), selected.clone(), options.batch_period);
        move |change| selected.touched_by_pod(change).into_iter().for_each(|key| queue.add_after(key, batch))
    });
    let _nodes = nodes.on_change({
        let (queue, selected, shares) = (queue.clone(), selected.clone(), Arc::clone(&shares));
        let (all, services) = (nodes.clone(), services.clone());
        move |change| {
            selected.touched_by_node(change).into_iter().for_each(|key| queue.add(key));
            // Only topology mode `Auto` reads the shares, and hardly any Service asks for it.
            if services.count_by(by_auto, "") > 0 {
                let now = Shares::of(&all.all());
                if std::mem::replace(&mut *shares.lock(), now.clone()) != now {
                    services.by(by_auto, "").iter().for_each(|service| queue.add(Key::of(&**service)));
                }
            }
        }
    });
    let _slices = slices.on_change({
        let queue = queue.clone();
        move |change| {
            if !change.ours {
                change.both().filter_map(|slice| service_of(slice)).for_each(|key| queue.add(key));
            }
        }
    });
    let controller = Slices {
        client: context.client(),
        selected,
        nodes,
        slices,
        by_service,
        shares,
        triggers: Triggers::default(),
        events: context.events("endpoint-slice-controller"),
        reported: Mutex::default(),
        most: options.max_endpoints_per_slice,
        metrics: context.lasting(|_| Metrics::new(context.admin())),
    };
    work(&queue, options.workers, &controller).await
}

/// The Service that one of our slices belongs to.
fn service_of(slice: &EndpointSlice) -> Option<Key> {
    let labels = slice.metadata.labels.as_ref()?;
    let ours = labels.get(MANAGED_BY).is_some_and(|manager| manager == CONTROLLER);
    let name = labels.get(SERVICE_NAME).filter(|name| ours && !name.is_empty())?;
    Some(Key::new(slice.metadata.namespace.clone().unwrap_or_default(), name))
}

impl Reconcile for Slices {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(service) = self.selected.service(key).filter(|service| selector(service).is_some()) else {
            // Deleted: the garbage collector takes the slices. Without a selector: they are somebody else's business.
            self.triggers.forget(key);
            self.reported.lock().retain(|(known, _), _| known != key);
            self.metrics.forget(key);
            return Ok(Next::Done);
        };
        let pods = self.selected.pods_of(&service);
        let stored: Vec<Arc<EndpointSlice>> = self.slices.by(self.by_service, &key.to_string());
        let nodes: HashMap<String, Arc<Node>> = pods
            .iter()
            .filter_map(|pod| endpoint::node_name(pod))
            .filter_map(|name| Some((name.to_owned(), self.nodes.get(&Key::cluster(name))?)))
            .collect();
        let shares = self.current_shares(&service);
        let wanted = Wanted { service: &service, pods: &pods, nodes: &nodes, shares: &shares, most: self.most };
        let plan = plan(wanted, &stored);
        let trigger = self.triggers.since_last(key, &service, &pods);
        self.metrics.planned(key, &stored, &plan);
        let topology = plan.topology.clone();
        write::apply(&self.client, &self.slices, key, plan, trigger).await?;
        self.report(key, &service, topology).await;
        Ok(Next::Done)
    }
}

impl Slices {
    fn current_shares(&self, service: &Service) -> Shares {
        if hints::mode(service) != hints::Mode::Auto {
            return Shares::default();
        }
        let mut shares = self.shares.lock();
        *shares = Shares::of(&self.nodes.all());
        shares.clone()
    }

    async fn report(
        &self,
        key: &Key,
        service: &Service,
        topology: std::collections::BTreeMap<Family, Result<(), String>>,
    ) {
        for (family, outcome) in topology {
            let before = self.reported.lock().insert((key.clone(), family), outcome.clone());
            if before.as_ref() == Some(&outcome) {
                continue;
            }
            let object = reference(service);
            match outcome {
                Ok(()) => {
                    let note = format!("topology aware hints are in use, addressType: {family}");
                    self.events.normal(&object, "TopologyAwareHintsEnabled", note).await;
                }
                Err(why) => {
                    let note = format!("no topology aware hints: {why}, addressType: {family}");
                    self.events.warning(&object, "TopologyAwareHintsDisabled", note).await;
                }
            }
        }
    }
}

/// The plan for a Service from plain lists, for tools and tests.
#[must_use]
pub fn plan_for(service: &Service, pods: &[Arc<Pod>], nodes: &[Arc<Node>], stored: &[Arc<EndpointSlice>]) -> Plan {
    let by_name = nodes.iter().filter_map(|node| Some((node.metadata.name.clone()?, Arc::clone(node)))).collect();
    let most = EndpointSliceOptions::default().max_endpoints_per_slice;
    plan(Wanted { service, pods, nodes: &by_name, shares: &Shares::of(nodes), most }, stored)
}
