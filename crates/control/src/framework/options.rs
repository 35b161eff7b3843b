//! What flags decide, for all controllers. Each room has its own part.

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
