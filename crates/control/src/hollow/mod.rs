//! Hollow nodes: nodes without a machine, whose pods turn Running and Ready and have addresses of every family.
//!
//! For tests of controllers, for scale runs, and for users who want an API that behaves without machines behind it. Pods
//! and nodes may ask for trouble by annotation (see [`behaviour`]). Other nodes are left alone.

pub mod behaviour;

mod addresses;
mod node;
mod pod;
mod status;
#[cfg(test)]
mod tests;

use crate::framework::{Context, Controller, Result};
use net::{Families, Family};
use std::time::Duration;

/// The controllers of this room.
pub const CONTROLLERS: &[Controller] = &[Controller {
    name: "hollow-node-controller",
    alias: "hollow-node",
    default_on: true,
    run: |context| Box::pin(run(context)),
}];

/// What flags decide here.
#[derive(Clone, Debug)]
pub struct HollowOptions {
    /// `--hollow-nodes`: how many there are.
    pub nodes: u32,
    /// The families of the nodes' own addresses, in order. Pods follow the nodes' pod CIDRs.
    pub families: Families,
    /// How long a pod takes to start, unless it says otherwise.
    pub start_delay: Duration,
    /// How long a pod takes to stop, unless it says otherwise. Never longer than its grace period.
    pub stop_delay: Duration,
    /// How often a node says that it is alive.
    pub heartbeat: Duration,
}

impl Default for HollowOptions {
    fn default() -> Self {
        Self {
            nodes: 0,
            families: Families::both(Family::V4),
            start_delay: Duration::ZERO,
            stop_delay: Duration::ZERO,
            heartbeat: Duration::from_secs(10),
        }
    }
}

/// The name of a hollow node.
pub(crate) fn name(index: u32) -> String {
    format!("hollow-{index}")
}

/// The number of a hollow node, if that is what the name says.
fn index(name: &str, options: &HollowOptions) -> Option<u32> {
    let index = name.strip_prefix("hollow-")?.parse().ok()?;
    (index < options.nodes && self::name(index) == name).then_some(index)
}

/// Runs until it is dropped; ends at once when no hollow nodes are wanted.
pub async fn run(context: Context) -> Result<()> {
    if context.options().hollow.nodes == 0 {
        return Ok(());
    }
    tokio::try_join!(node::run(&context), pod::run(&context))?;
    Ok(())
}
