//! What flags decide, for all controllers. Each room has its own part.

use crate::{endpointslice, hollow, housekeeping};

/// Options of all controllers; the defaults are upstream's.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// EndpointSlices, and how many Services are worked on at a time.
    pub endpointslice: endpointslice::Options,
    /// Hollow nodes.
    pub hollow: hollow::Options,
    /// Namespaces, owners, nodes and their like.
    pub housekeeping: housekeeping::Options,
}
