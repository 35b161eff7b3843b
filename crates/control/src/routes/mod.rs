//! `node-route-controller`: routes of a cloud for every pod CIDR of every family.

pub mod plan;
#[cfg(test)]
mod tests;

use crate::{
    framework::{Context, Controller, Events, Key, Next, Queue, Reconcile, Result, Store, reference, work},
    service_lb::provider::Provider,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use net::Cidr;
use plan::{of_node, plan};
use runtime::{
    client::Api,
    cloud::{Route, Routes},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

/// The controller of this room.
pub const CONTROLLERS: &[Controller] = &[Controller {
    name: "node-route-controller",
    alias: "route",
    default_on: true,
    run: |context| Box::pin(run(context)),
}];

/// What flags decide here.
#[derive(Clone, Debug)]
pub struct RouteControllerOptions {
    /// `--cloud-provider`, unless `--configure-cloud-routes` is off.
    pub provider: Option<Provider>,
    /// `--cluster-cidr`: other routes are left alone.
    pub clusters: Vec<Cidr>,
    /// `--route-reconciliation-period`.
    pub period: Duration,
}

impl Default for RouteControllerOptions {
    fn default() -> Self {
        Self { provider: None, clusters: Vec::new(), period: Duration::from_secs(10) }
    }
}

struct NodeRoutes {
    nodes: Store<Node>,
    api: Api<Node>,
    events: Events,
    options: RouteControllerOptions,
    provider: Provider,
}

async fn run(context: Context) -> Result<()> {
    let options = context.options().routes.clone();
    let Some(provider) = options.provider.clone().filter(|provider| provider.routes().is_some()) else { return Ok(()) };
    let nodes = context.store::<Node>();
    let queue: Queue<Key> = context.queue("route");
    nodes.synced().await;
    // A cloud lists all its routes at once: one key for all.
    let all = Key::cluster("routes");
    let _nodes = nodes.on_change({
        let (queue, all) = (queue.clone(), all.clone());
        move |change| {
            let routes = |node: &Arc<Node>| of_node(node);
            if change.old.map(routes) != change.new.map(routes) {
                queue.add(all.clone());
            }
        }
    });
    queue.add(all);
    let controller = NodeRoutes {
        nodes,
        api: Api::all(context.client()),
        events: context.events("route_controller"),
        options,
        provider,
    };
    work(&queue, 1, &controller).await
}

impl Reconcile for NodeRoutes {
    type Key = Key;

    async fn reconcile(&self, _all: &Key) -> Result<Next> {
        let Some(cloud) = self.provider.routes() else { return Ok(Next::Done) };
        let nodes = self.nodes.all();
        let plan = plan(&nodes, &cloud.list(&nodes).await?, &self.options.clusters);
        // One that cannot be deleted keeps no other from being.
        let mut undeleted = None;
        for route in &plan.delete {
            if let Err(error) = cloud.delete(route).await {
                undeleted.get_or_insert(error);
            }
        }
        let failed = create(cloud, &nodes, &plan.create).await;
        for node in &nodes {
            self.report(node, failed.get(&node.name_any())).await?;
        }
        undeleted.map_or(Ok(Next::After(self.options.period)), |error| Err(error.into()))
    }
}

/// Creates routes; what went wrong, by node.
async fn create(cloud: &dyn Routes, nodes: &[Arc<Node>], routes: &[Route]) -> BTreeMap<String, String> {
    let mut failed = BTreeMap::new();
    let by_name: HashMap<String, &Arc<Node>> = nodes.iter().map(|node| (node.name_any(), node)).collect();
    for route in routes {
        let Some(node) = by_name.get(&route.node) else { continue };
        if let Err(error) = cloud.create(node, route).await {
            failed.insert(route.node.clone(), format!("route {} to {}: {error}", route.name, route.pods));
        }
    }
    failed
}

impl NodeRoutes {
    /// The node's condition NetworkUnavailable, and an event if a route could not be made.
    async fn report(&self, node: &Node, failure: Option<&String>) -> Result<()> {
        let has_routes =
            of_node(node).iter().any(|route| self.options.clusters.iter().any(|all| all.contains_cidr(&route.pods)));
        if !has_routes {
            return Ok(());
        }
        if let Some(failure) = failure {
            self.events.warning(&reference(node), "FailedToCreateRoute", failure.clone()).await;
        }
        let (status, reason, message) = match failure {
            None => ("False", "RouteCreated", "every pod CIDR has a route"),
            Some(failure) => ("True", "NoRouteCreated", failure.as_str()),
        };
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let unchanged = conditions
            .into_iter()
            .any(|condition| condition.type_ == "NetworkUnavailable" && condition.status == status);
        if unchanged {
            return Ok(());
        }
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let patch = json!({"status": {"conditions": [{
            "type": "NetworkUnavailable", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": now, "lastHeartbeatTime": now,
        }]}});
        let answer = self.api.patch_status(&node.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await;
        match answer {
            Ok(written) => self.nodes.remember(written),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
