//! All measurements of one system, in an order in which each finds what it needs: the Services of one are read by the next.

mod creates;
pub(crate) mod definitions;
mod fan_out;
mod gets;
mod list;
mod ready;

use std::time::Duration;

pub(crate) use self::creates::Block;
pub(crate) use self::definitions::Defined;
pub(crate) use self::fan_out::FanOut;
pub(crate) use self::list::Listed;
use crate::{progress, system::System};

/// How many Services are there when memory, GET and LIST are measured.
pub(crate) const SERVICES: usize = 10_000;

/// Connections that write or read at the same time.
const CONNECTIONS: usize = 16;

/// Where the Services are.
const PATH: &str = "/api/v1/namespaces/default/services";

/// How long memory may settle before it is read.
const SETTLE: Duration = Duration::from_secs(1);

/// What was measured of one system.
pub(crate) struct Results {
    /// From the start of the process, with nothing on disk, until it is ready.
    pub(crate) ready: Duration,
    /// Bytes of memory then.
    pub(crate) idle: u64,
    /// The first Services made.
    pub(crate) creates: Block,
    /// Bytes of memory with them.
    pub(crate) filled: u64,
    /// GETs of one Service per second.
    pub(crate) gets: f64,
    /// All of them listed.
    pub(crate) list: Listed,
    /// Until all watchers have all events.
    pub(crate) fan_out: FanOut,
}

/// Measures everything, then makes Services up to `services`. Also returns what each block of them cost.
pub(crate) async fn all(system: &mut System, services: usize) -> anyhow::Result<(Results, Vec<Block>)> {
    let name = system.name;
    progress(&format!("{name}: starting from empty"));
    let ready = ready::wait(system).await?;
    tokio::time::sleep(SETTLE).await;
    let idle = system.resident()?;
    progress(&format!("{name}: creating {SERVICES} dual-stack Services"));
    let creates = creates::block(system, 0).await?;
    tokio::time::sleep(SETTLE).await;
    let filled = system.resident()?;
    progress(&format!("{name}: GET"));
    let gets = gets::rate(system, creates.services).await?;
    progress(&format!("{name}: LIST"));
    let list = list::best(system).await?;
    progress(&format!("{name}: {} watchers", fan_out::WATCHERS));
    let fan_out = fan_out::measure(system).await?;
    let mut blocks = vec![creates];
    while blocks.len() * SERVICES < services {
        let made = blocks.len() * SERVICES;
        progress(&format!("{name}: {made} of {services} Services"));
        blocks.push(creates::block(system, made).await?);
    }
    Ok((Results { ready, idle, creates, filled, gets, list, fan_out }, blocks))
}
