//! What the controllers ask of a cloud. The one seam between them and whoever talks to its API: `control` asks, a provider
//! answers, `cli` joins them.

mod dns;

pub use dns::{DnsEntry, DnsProvider, DnsZone};

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Node, Service};
use net::Cidr;
use std::{net::IpAddr, sync::Arc, time::Duration};

/// Why a cloud did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    /// Not ready yet: ask again after this long. No event is written for it.
    #[error("{reason}; asked again in {after:?}")]
    Later {
        /// What is being waited for.
        reason: String,
        /// When to ask again.
        after: Duration,
    },
    /// What is asked for is used up: told, and asked again after this long, or as soon as something is given back.
    #[error("{reason}; asked again in {after:?}")]
    Exhausted {
        /// What there is no more of.
        reason: String,
        /// When to ask again.
        after: Duration,
    },
    /// The Service asks for something that cannot be had. Asked again only when it changes.
    #[error("{0}")]
    Refused(String),
    /// It went wrong and may work another time.
    #[error(transparent)]
    Failed(#[from] crate::http::BoxError),
}

/// What a question comes to.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, CloudError>>;

/// A cloud. What it does not offer is `None`, and the controller of it does nothing.
pub trait CloudProvider: Send + Sync {
    /// Its name, as `--cloud-provider` has it.
    fn name(&self) -> &str;

    /// Load balancers for Services.
    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        None
    }

    /// Routes to the pods of each node.
    fn routes(&self) -> Option<&dyn Routes> {
        None
    }
}

/// Load balancers of a cloud. Every method may be called again with the same Service and then changes nothing.
pub trait LoadBalancers: Send + Sync {
    /// Whether there is one for the Service.
    fn exists<'a>(&'a self, service: &'a Service) -> Answer<'a, bool>;

    /// Makes there be one as the Service asks for, of all its families, in front of these nodes; where it is reached.
    fn ensure<'a>(&'a self, service: &'a Service, nodes: &'a [Arc<Node>]) -> Answer<'a, LoadBalancerStatus>;

    /// Puts it in front of these nodes; nothing else has changed.
    fn update_nodes<'a>(&'a self, service: &'a Service, nodes: &'a [Arc<Node>]) -> Answer<'a, ()>;

    /// Makes there be none. That there is none already is fine.
    fn delete<'a>(&'a self, service: &'a Service) -> Answer<'a, ()>;

    /// Takes note of what a Service has got before: called for each when the controller starts.
    fn adopt(&self, _service: &Service) {}

    /// How often a load balancer is to be looked at when nothing changes, where others can change it by hand.
    fn look_again(&self) -> Option<Duration> {
        None
    }
}

/// A route: packets for these pods go to this node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// Tells it from other routes of the cluster; unique.
    pub name: String,
    /// The node's name.
    pub node: String,
    /// Where packets go: an address of the node, of the family of `pods`.
    pub via: Option<IpAddr>,
    /// The node's pods of one family.
    pub pods: Cidr,
}

/// Routes of a cloud.
pub trait Routes: Send + Sync {
    /// The routes that were made for this cluster, which has these nodes.
    fn list<'a>(&'a self, nodes: &'a [Arc<Node>]) -> Answer<'a, Vec<Route>>;

    /// Makes a route to a node.
    fn create<'a>(&'a self, node: &'a Node, route: &'a Route) -> Answer<'a, ()>;

    /// Takes a route away.
    fn delete<'a>(&'a self, route: &'a Route) -> Answer<'a, ()>;
}
