//! The words of a plan: pools of endpoints, and where a frontend leads.

use crate::track::{Frontend, Protocol};
use net::Cidr;
use runtime::stable_hash;
use std::{net::SocketAddr, sync::Arc};

/// A frontend and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// What clients address.
    pub frontend: Frontend,
    /// Who may.
    pub sources: Sources,
    /// Where to.
    pub to: To,
    /// UDP: endpoints whose flows go on, which are all that serve, whatever policy and topology say and also when they are
    /// about to end. Sorted, each once; empty for other transports, whose connections end by themselves.
    pub serving: Arc<[SocketAddr]>,
}

/// Who may use a frontend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sources {
    /// All.
    Everyone,
    /// Clients in these blocks, none of which contains another; nobody when there is none.
    Only(Vec<Cidr>),
}

/// Where a frontend leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// There are no endpoints: the client is told at once.
    Reject,
    /// There are endpoints, but not on this node, and the policy wants one here.
    Drop,
    /// To one of these. The client's address stays, unless it is not a pod of this cluster.
    Inside(Pool),
    /// To one of these, and the answer must come back through this node.
    Outside(Pool),
    /// Pods and programs of this node go to any endpoint; all others to those here, with their own address, or nowhere.
    OutsideLocal {
        /// For this node and its pods; never empty.
        own: Pool,
        /// For everyone else; may be empty.
        others: Pool,
    },
}

/// Endpoints to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Sorted, each once.
    pub endpoints: Arc<[SocketAddr]>,
    /// Whether a client stays with its endpoint.
    pub affinity: Option<Affinity>,
}

impl Pool {
    pub(super) fn new(endpoints: &Arc<[SocketAddr]>, affinity: Option<Affinity>) -> Self {
        Self { endpoints: Arc::clone(endpoints), affinity: affinity.filter(|_| !endpoints.is_empty()) }
    }
}

/// A client stays with its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Affinity {
    /// For so many seconds after its last new connection.
    pub seconds: u32,
    /// Transport of the Service port.
    pub protocol: Protocol,
    /// The same for the same Service port and policy, also after a restart.
    pub id: u64,
}

impl Affinity {
    /// Stands for one endpoint of this pool in the kernel's memory; the same after a restart.
    #[must_use]
    pub fn endpoint_id(&self, endpoint: SocketAddr) -> u32 {
        let hash = stable_hash(format!("{:x}/{endpoint}", self.id).as_bytes());
        // nft takes offsets up to 2^32 - 2.
        ((hash >> 32) as u32).min(u32::MAX - 1)
    }
}
