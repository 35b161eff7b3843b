//! `twinstack lab`: a look at the nodes of `up`, and work in them.

mod change;
mod look;

pub(super) use change::{BREAK, DOWN, LOAD, MEND, take_away};
pub(super) use look::{COMMAND, EXEC, LOGS, STATUS};

use super::{apiserver, up};
use crate::flag::Flag;
use ::lab::{Home, State};
use anyhow::Context;
use runtime::config::Settings;
use std::path::PathBuf;

/// Which lab: the one of a data folder.
#[rustfmt::skip]
pub(super) const DATA_DIR: Flag<PathBuf> = apiserver::DATA_DIR.help("data folder of `twinstack up`").otherwise("~/.local/share/twinstack, or /var/lib/twinstack for root");

fn home(given: &mut Settings) -> Home {
    Home::of(&given.optional(&DATA_DIR).unwrap_or_else(up::data_dir))
}

/// What the lab says of itself.
fn running(home: &Home) -> anyhow::Result<State> {
    let state = State::read(home).with_context(|| format!("{} cannot be read", home.run.display()))?;
    let folder = home.data.parent().unwrap_or(&home.data);
    state.with_context(|| {
        format!(
            "no lab runs with the data folder {}; start it with `twinstack up`, or name another with --data-dir",
            folder.display()
        )
    })
}

/// The namespace of a node.
fn namespace(state: &State, node: &str) -> anyhow::Result<String> {
    let found = state.nodes.iter().find(|one| one.name == node);
    let names: Vec<&str> = state.nodes.iter().map(|one| one.name.as_str()).collect();
    let found = found.with_context(|| format!("there is no node {node}; there are: {}", names.join(", ")))?;
    Ok(found.namespace.clone())
}
