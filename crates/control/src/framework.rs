//! The kit of `runtime::controller` with the options of these controllers. Each room has its own part of them.

pub use runtime::controller::{
    Change, Events, Index, Key, Next, Queue, Reconcile, Result, Selection, Store, matches_labels, reference, selects,
    start, work,
};

use crate::{endpointslice, hollow, housekeeping, mirroring, node_ipam, routes, service_lb};

/// Options of all controllers; the defaults are upstream's.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// EndpointSlices, and how many Services are worked on at a time.
    pub endpointslice: endpointslice::Options,
    /// Mirrored slices.
    pub mirroring: mirroring::Options,
    /// Pod CIDRs of nodes.
    pub node_ipam: node_ipam::Options,
    /// Load balancers.
    pub service_lb: service_lb::Options,
    /// Routes of a cloud.
    pub routes: routes::Options,
    /// Hollow nodes.
    pub hollow: hollow::Options,
    /// Namespaces, owners, nodes and their like.
    pub housekeeping: housekeeping::Options,
}

/// What a controller of this crate is given.
pub type Context = runtime::controller::Context<Options>;
/// A controller of this crate.
pub type Controller = runtime::controller::Controller<Options>;
