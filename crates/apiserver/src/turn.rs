//! When a request may run: by priority and fairness, or, where that is switched off, by two plain limits.
//!
//! What a request is decides early where it belongs (`Turn::of`); it waits there when its body has been read (`take`), so that
//! a slow body keeps no seat. The seat is held until the answer has been sent.

use crate::{
    ApiServer,
    fairness::{Flow, Seat},
    inflight::{Permit, Weight},
};
use access::authz::Attributes;
use api::error::ApiError;

/// How long a request lasts by its nature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lasting {
    /// Like any other.
    No,
    /// A watch: only its beginning costs anything.
    Watch,
    /// A connection to a node: nothing here is busy with it.
    Connection,
}

/// Where a request waits.
pub(crate) enum Turn {
    Flow(Flow),
    /// With all others of its weight, reading or writing.
    Weight(Weight, bool),
    /// Nowhere.
    Free,
}

/// What a request holds while it runs; dropping it gives it back.
#[expect(dead_code, reason = "held, not looked at")]
pub(crate) enum Held {
    /// A seat of a priority level.
    Seat(Seat),
    /// One of the plain limit.
    Permit(Permit),
    /// Nothing, as nothing is counted.
    Nothing,
}

impl Turn {
    /// Where a request belongs.
    pub(crate) fn of(server: &ApiServer, asked: &Attributes<'_>, mutating: bool, lasting: Lasting) -> Self {
        match (&server.fairness, lasting) {
            (_, Lasting::Connection) | (None, Lasting::Watch) => Self::Free,
            (Some(fairness), _) => fairness.classify(asked).map_or(Self::Free, Self::Flow),
            (None, Lasting::No) => Self::Weight(Weight::of(asked), mutating),
        }
    }

    /// The flow, if it has one.
    pub(crate) fn flow(&self) -> Option<&Flow> {
        match self {
            Self::Flow(flow) => Some(flow),
            Self::Weight(..) | Self::Free => None,
        }
    }

    /// Waits until the request may run, or 429. `width` is how many seats it needs.
    pub(crate) async fn take(self, server: &ApiServer, width: u32) -> Result<Held, ApiError> {
        match (self, &server.fairness) {
            (Self::Flow(flow), Some(fairness)) => fairness.enter(flow, width).await.map(Held::Seat),
            (Self::Weight(weight, mutating), _) => server.inflight.take(weight, mutating).map(Held::Permit),
            (Self::Flow(_) | Self::Free, _) => Ok(Held::Nothing),
        }
    }
}
