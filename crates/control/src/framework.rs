//! The kit of `runtime::controller` with the options of these controllers. Each room has its own part of them.

pub use runtime::controller::{
    Change, Events, Index, Key, Next, Queue, Reconcile, Result, Selection, Store, matches_labels, reference, selects,
    start, work,
};

use crate::{endpointslice, hollow, housekeeping, mirroring, node_ipam, routes, service_lb};

/// Options of all controllers; the defaults are upstream's.
#[derive(Clone, Debug, Default)]
pub struct ControllerOptions {
    /// EndpointSlices, and how many Services are worked on at a time.
    pub endpointslice: endpointslice::EndpointSliceOptions,
    /// Mirrored slices.
    pub mirroring: mirroring::MirroringOptions,
    /// Pod CIDRs of nodes.
    pub node_ipam: node_ipam::NodeIpamOptions,
    /// Load balancers.
    pub service_lb: service_lb::ServiceLbOptions,
    /// Routes of a cloud.
    pub routes: routes::RouteControllerOptions,
    /// Hollow nodes.
    pub hollow: hollow::HollowOptions,
    /// Namespaces, owners, nodes and their like.
    pub housekeeping: housekeeping::HousekeepingOptions,
}

/// What a controller of this crate is given.
pub type Context = runtime::controller::Context<ControllerOptions>;
/// A controller of this crate.
pub type Controller = runtime::controller::Controller<ControllerOptions>;
