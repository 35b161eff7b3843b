//! The lab as a cloud: routes between nodes and from the machine for the Pods of each, and load balancers, whose addresses somebody else's
//! pool gives out and the machine reaches through a node.

use crate::{Front, Network, network::batch};
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Node, Service};
use net::HasFamily;
use parking_lot::Mutex;
use runtime::cloud::{Answer, CloudError, CloudProvider, LoadBalancers, Route, Routes};
use std::{collections::BTreeMap, sync::Arc};

/// A lab's cloud.
pub struct Cloud {
    network: Arc<Network>,
    /// Who gives out addresses.
    pool: Arc<dyn CloudProvider>,
    front: Arc<Front>,
    made: Mutex<BTreeMap<String, Route>>,
}

impl Cloud {
    /// With the addresses of a pool.
    pub fn new(network: Arc<Network>, pool: Arc<dyn CloudProvider>, front: Arc<Front>) -> Self {
        Self { network, pool, front, made: Mutex::default() }
    }

    fn pool(&self) -> Result<&dyn LoadBalancers, CloudError> {
        self.pool.load_balancers().ok_or_else(|| CloudError::Refused("there is no pool of addresses".to_owned()))
    }

    /// What has to be run where for a route to be there, or not: on every other node and on the machine.
    fn lines(&self, route: &Route, verb: &str) -> Vec<(Option<String>, String)> {
        let home = &self.network.home;
        let nodes = &self.network.layout.nodes;
        let Some(to) = nodes.iter().find(|node| node.name == route.node) else { return Vec::new() };
        let Some(via) = to.addresses.get(route.pods.family()) else { return Vec::new() };
        let line = format!("route {verb} {} via {via}", route.pods);
        let others = nodes.iter().filter(|node| node.name != to.name);
        let mut all: Vec<_> = others.map(|node| (Some(home.namespace(&node.name)), line.clone())).collect();
        all.push((None, format!("{line} dev {}", home.interface())));
        all
    }

    async fn run(&self, lines: Vec<(Option<String>, String)>) -> Result<(), CloudError> {
        let work = move || {
            lines.iter().try_for_each(|(namespace, line)| batch(namespace.as_deref(), std::slice::from_ref(line)))
        };
        let done = tokio::task::spawn_blocking(work).await;
        let done = done.map_err(|error| CloudError::Failed(error.into()))?;
        done.map_err(|error| CloudError::Failed(error.into()))
    }
}

impl CloudProvider for Cloud {
    fn name(&self) -> &str {
        "lab"
    }

    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        Some(self)
    }

    fn routes(&self) -> Option<&dyn Routes> {
        Some(self)
    }
}

impl Routes for Cloud {
    fn list<'a>(&'a self, _nodes: &'a [Arc<Node>]) -> Answer<'a, Vec<Route>> {
        let made = self.made.lock().values().cloned().collect();
        Box::pin(async move { Ok(made) })
    }

    fn create<'a>(&'a self, _node: &'a Node, route: &'a Route) -> Answer<'a, ()> {
        Box::pin(async move {
            self.run(self.lines(route, "replace")).await?;
            self.made.lock().insert(route.name.clone(), route.clone());
            Ok(())
        })
    }

    fn delete<'a>(&'a self, route: &'a Route) -> Answer<'a, ()> {
        Box::pin(async move {
            self.run(self.lines(route, "delete")).await?;
            self.made.lock().remove(&route.name);
            Ok(())
        })
    }
}

impl LoadBalancers for Cloud {
    fn exists<'a>(&'a self, service: &'a Service) -> Answer<'a, bool> {
        Box::pin(async move { self.pool()?.exists(service).await })
    }

    fn ensure<'a>(&'a self, service: &'a Service, nodes: &'a [Arc<Node>]) -> Answer<'a, LoadBalancerStatus> {
        Box::pin(async move {
            let status = self.pool()?.ensure(service, nodes).await?;
            self.front.serve(service, &status);
            Ok(status)
        })
    }

    fn update_nodes<'a>(&'a self, service: &'a Service, nodes: &'a [Arc<Node>]) -> Answer<'a, ()> {
        Box::pin(async move { self.pool()?.update_nodes(service, nodes).await })
    }

    fn delete<'a>(&'a self, service: &'a Service) -> Answer<'a, ()> {
        Box::pin(async move {
            self.front.forget(service);
            self.pool()?.delete(service).await
        })
    }

    fn adopt(&self, service: &Service) {
        if let Some(pool) = self.pool.load_balancers() {
            pool.adopt(service);
        }
        let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        if let Some(status) = status {
            self.front.serve(service, status);
        }
    }
}
