//! Which server block a name belongs to.

use crate::{chain::Chain, observe::Observers, wire::Name, zones::Zones};
use std::sync::Arc;

/// The server blocks behind one address and port.
#[derive(Default)]
pub struct Routes {
    zones: Zones<Arc<Chain>>,
    /// Whether classes other than IN have somebody to answer them.
    pub other_classes: bool,
    /// Counts what no block gets to see.
    pub dropped: Option<Observers>,
}

impl Routes {
    /// Adds a block's zone, in lower case. False when it is there already.
    pub fn add(&mut self, zone: &Name, chain: &Arc<Chain>) -> bool {
        self.zones.insert(zone, Arc::clone(chain)).is_none()
    }

    /// The block with the longest zone that a name, in lower case, is in.
    #[must_use]
    pub fn chain(&self, lower: &Name) -> Option<&Arc<Chain>> {
        self.zones.of(lower, 0).next()
    }

    /// The block for a question of type DS: such a record is the parent's (RFC 4035, section 3.1.4.1).
    #[must_use]
    pub fn parent_chain(&self, lower: &Name) -> Option<&Arc<Chain>> {
        let above = self.zones.of(lower, 1).next();
        above.or_else(|| self.chain(lower))
    }

    /// The blocks, each as often as it has zones.
    pub fn chains(&self) -> impl Iterator<Item = &Arc<Chain>> {
        self.zones.values()
    }
}
