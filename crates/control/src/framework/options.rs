//! What flags decide, for all controllers. Each room has its own part.

use crate::{hollow, housekeeping};

/// Options of all controllers; the defaults are upstream's.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Hollow nodes.
    pub hollow: hollow::Options,
    /// Namespaces, owners, nodes and their like.
    pub housekeeping: housekeeping::Options,
}
