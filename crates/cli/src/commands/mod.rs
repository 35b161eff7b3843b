//! The commands, one file each. A command that is not built is not here.

mod apiserver;
mod cloud_config;
mod cloud_controller_manager;
mod completions;
mod controller_manager;
pub(crate) mod dns;
mod dns_operator;
mod down;
mod envtest;
mod etcd;
mod image;
mod ingress_operator;
mod init;
mod inspect;
pub(crate) mod kubelet;
mod lab;
mod man;
mod manifests;
mod netexec;
pub(crate) mod proxy;
mod proxy_ipvs;
mod router;
mod up;
mod version;

use crate::{component, flag::Flags};
use runtime::config::Settings;

/// One command.
pub(crate) struct Command {
    /// Upstream's name for the component, or a plain verb; `proxy explain` is a part of `proxy`.
    pub(crate) name: &'static str,
    /// One line, lower case.
    pub(crate) about: &'static str,
    /// What an administrator wants to know next.
    pub(crate) more: &'static str,
    /// A command line to copy, with a word on what it does.
    pub(crate) example: &'static str,
    /// Its flags, in tables: its own, and those that stand beside the code of others that reads them.
    pub(crate) flags: &'static [Flags],
    /// The one that is given without its name.
    pub(crate) positional: Option<&'static str>,
    /// Whether it serves until it is stopped, or reads the settings of what does, and so has the flags of `flag::COMMON`.
    pub(crate) long_running: bool,
    /// Reads its flags as it does itself, and nothing else; `None` comes with a mistake noted.
    pub(crate) check: fn(&mut Settings) -> Option<()>,
    /// Does it.
    pub(crate) run: fn(Settings) -> anyhow::Result<()>,
}

impl Command {
    /// Reads everything that it takes, and does nothing.
    pub(crate) fn read(&self, given: &mut Settings) -> Option<()> {
        if self.long_running {
            component::log(given);
        }
        (self.check)(given)
    }
}

/// In the order of `--help`.
pub(crate) static ALL: &[Command] = &[
    up::COMMAND,
    down::DOWN,
    down::RESET,
    lab::COMMAND,
    lab::STATUS,
    lab::EXEC,
    lab::LOGS,
    lab::LOAD,
    lab::BREAK,
    lab::MEND,
    lab::DOWN,
    init::COMMAND,
    apiserver::COMMAND,
    controller_manager::COMMAND,
    cloud_controller_manager::COMMAND,
    cloud_controller_manager::plan::COMMAND,
    cloud_config::COMMAND,
    cloud_config::sync::COMMAND,
    kubelet::COMMAND,
    proxy::COMMAND,
    ingress_operator::COMMAND,
    router::COMMAND,
    proxy::explain::COMMAND,
    dns::COMMAND,
    dns_operator::COMMAND,
    inspect::doctor::COMMAND,
    inspect::trace::COMMAND,
    manifests::COMMAND,
    envtest::COMMAND,
    etcd::COMMAND,
    image::COMMAND,
    netexec::COMMAND,
    version::COMMAND,
    completions::COMMAND,
    man::COMMAND,
];
