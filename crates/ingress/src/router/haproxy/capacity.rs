//! How many connections and health checks fit into the files that HAProxy may open.
//!
//! HAProxy does not start when the limit is lower than what its configuration may need: two files for each connection, one for
//! each server that it checks, and some for itself. Checks are what many Routes bring, so they are counted for each generation.

use super::senders;
use crate::router::{model::Model, settings::Settings};

/// What HAProxy itself needs: listeners, logs, its threads, and servers that come while it runs.
const OWN: u64 = 1_000;
/// Fewer connections than this are no service.
const FEWEST: u64 = 100;

/// What one generation may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    /// None leaves it to HAProxy.
    pub(super) connections: Option<u32>,
    /// Whether there is room to check servers. EndpointSlices tell of pods that are not ready in any case.
    pub(super) checks: bool,
}

impl Capacity {
    pub(super) fn of(settings: &Settings, model: &Model) -> Self {
        let resources = &settings.resources;
        // A connection that waits for its header is two.
        let each = if senders::waits(settings) { 4 } else { 2 };
        let counts = model.backends().map(|(_, backend)| backend.servers.len()).filter(|servers| *servers > 1);
        let capacity = within(resources.open_files, resources.max_connections, each, counts.sum::<usize>() as u64);
        if capacity.connections != resources.max_connections {
            let (wanted, possible) = (resources.max_connections, capacity.connections);
            tracing::warn!(
                ?wanted,
                ?possible,
                "ROUTER_MAX_CONNECTIONS is more than the limit of open files allows; it is lowered"
            );
        }
        if !capacity.checks {
            let files = resources.open_files;
            tracing::warn!(?files, "the limit of open files leaves no room for health checks; servers are not checked");
        }
        capacity
    }
}

/// `files` is the limit, if there is one; `each` what a connection takes; `checks` how many servers would be checked.
fn within(files: Option<u64>, wanted: Option<u32>, each: u64, checks: u64) -> Capacity {
    let Some(files) = files else { return Capacity { connections: wanted, checks: true } };
    // Backends that grow while HAProxy runs bring more.
    let checked = checks + checks / 4;
    let fits = files >= OWN + checked + FEWEST * each || checks == 0;
    let taken = if fits { checked } else { 0 };
    let possible = (files.saturating_sub(OWN + taken) / each).max(FEWEST);
    let possible = u32::try_from(possible).unwrap_or(u32::MAX);
    Capacity { connections: wanted.map(|wanted| wanted.min(possible)), checks: fits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_and_connections_share_the_open_files() {
        for (files, wanted, each, checks, connections, checked) in [
            (None, Some(50_000), 2, 1_000_000, Some(50_000), true),
            (Some(1 << 20), Some(50_000), 2, 30_000, Some(50_000), true),
            (Some(65_536), Some(50_000), 2, 0, Some(32_268), true),
            (Some(65_536), Some(50_000), 2, 3_000, Some(30_393), true),
            (Some(65_536), Some(50_000), 4, 3_000, Some(15_196), true),
            (Some(65_536), None, 2, 3_000, None, true),
            (Some(4_096), Some(50_000), 2, 3_000, Some(1_548), false),
            (Some(4_096), None, 2, 3_000, None, false),
            (Some(1_024), Some(50_000), 2, 0, Some(100), true),
        ] {
            let expected = Capacity { connections, checks: checked };
            assert_eq!(within(files, wanted, each, checks), expected, "{files:?} {wanted:?} {each} {checks}");
        }
    }
}
