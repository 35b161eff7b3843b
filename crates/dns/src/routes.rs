//! Which server block a question belongs to.

use crate::{
    chain::{Chain, Stale},
    observe::Observers,
    plugin::{timeouts::Timeouts, tls::ServerTls, view::View},
    query::Query,
    wire::Name,
    zones::Zones,
};
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;

/// The server blocks behind one address and port.
#[derive(Default)]
pub struct Routes {
    /// The blocks of a zone in the order of the file; one without a view is for everybody and the last.
    zones: Zones<Vec<Door>>,
    /// Whether classes other than IN have somebody to answer them.
    pub other_classes: bool,
    /// Counts what no block gets to see.
    pub dropped: Option<Observers>,
    /// For TCP connections.
    pub timeouts: Timeouts,
    /// Takes questions whose answers are to be fetched anew.
    pub(crate) refreshes: Option<UnboundedSender<Stale>>,
    /// What is shown to clients, where they come over TLS.
    pub tls: Option<Arc<ServerTls>>,
}

/// A block, and whom it is for.
struct Door {
    view: Option<Arc<View>>,
    chain: Arc<Chain>,
}

impl Routes {
    /// Adds a block's zone, in lower case. False when there is one for everybody already.
    pub fn add(&mut self, zone: &Name, chain: &Arc<Chain>) -> bool {
        self.add_view(zone, None, chain)
    }

    /// Adds a block's zone for some questions.
    pub(crate) fn add_view(&mut self, zone: &Name, view: Option<&Arc<View>>, chain: &Arc<Chain>) -> bool {
        let door = Door { view: view.cloned(), chain: Arc::clone(chain) };
        let Some(doors) = self.zones.get_mut(zone) else {
            self.zones.insert(zone, vec![door]);
            return true;
        };
        let open = doors.iter().position(|door| door.view.is_none());
        match (open, &door.view) {
            (Some(_), None) => return false,
            (Some(open), Some(_)) => doors.insert(open, door),
            (None, _) => doors.push(door),
        }
        true
    }

    /// The block with the longest zone that a question's name is in, and a view that holds.
    #[must_use]
    pub fn chain(&self, query: &Query) -> Option<&Arc<Chain>> {
        self.find(query, 0)
    }

    /// The block for a question of type DS: such a record is the parent's (RFC 4035, section 3.1.4.1).
    #[must_use]
    pub fn parent_chain(&self, query: &Query) -> Option<&Arc<Chain>> {
        self.find(query, 1).or_else(|| self.chain(query))
    }

    fn find(&self, query: &Query, skipped: usize) -> Option<&Arc<Chain>> {
        let fits = |door: &&Door| door.view.as_ref().is_none_or(|view| view.holds(query));
        self.zones.of(&query.lower, skipped).find_map(|doors| doors.iter().find(fits)).map(|door| &door.chain)
    }

    /// The blocks, each as often as it has zones.
    pub fn chains(&self) -> impl Iterator<Item = &Arc<Chain>> {
        self.zones.values().flatten().map(|door| &door.chain)
    }
}
