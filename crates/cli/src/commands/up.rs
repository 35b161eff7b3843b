//! `twinstack up`: everything that is built, in one process, with a word on what to try.

use super::{Command, apiserver};
use crate::{
    component,
    flag::{Flag, flag},
};
use ::apiserver::serve::{self, Started};
use anyhow::Context;
use runtime::config::Settings;
use std::path::PathBuf;

pub(super) const COMMAND: Command = Command {
    name: "up",
    about: "run a cluster on this machine, all components in one process",
    more: "Listens on loopback, keeps its state in a folder of yours, and goes on where it left off when it is started again. \
           Takes the flags of `twinstack apiserver` as well, in the file of --config or in the environment.",
    example: "twinstack up\nkubectl --kubeconfig ~/.local/share/twinstack/admin.kubeconfig get services --all-namespaces",
    flags: FLAGS,
    positional: None,
    long_running: true,
    run,
};

#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    flag("data-dir", "FOLDER", "~/.local/share/twinstack, or /var/lib/twinstack for root", "where state, certificates and admin.kubeconfig are kept"),
    flag("bind-address", "ADDRESS[,ADDRESS]", "127.0.0.1,::1", "where to listen: one address, one of each family, or :: for both"),
    flag("secure-port", "PORT", "6443", "port of the API; 0 takes a free one"),
    flag("service-cluster-ip-range", "CIDR[,CIDR]", apiserver::SERVICE_RANGES, "addresses for Services, one range or one of each family; the first is the default family"),
];

fn run(settings: Settings) -> anyhow::Result<()> {
    let settings = settings.defaults([
        ("data-dir".to_owned(), data_dir().display().to_string()),
        ("bind-address".to_owned(), "127.0.0.1,::1".to_owned()),
    ]);
    let (log, options) = settings.read(|given| Some((component::log(given), apiserver::read(given)?)))?;
    component::run(&log, async |admin, tasks| {
        let started = serve::start(options, admin, &tasks).await.context("the API server did not come up")?;
        tell(&started);
        Ok(())
    })
}

/// Where a user's programs keep their state.
fn data_dir() -> PathBuf {
    let home = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/twinstack");
    }
    let share = home("XDG_DATA_HOME").or_else(|| home("HOME").map(|home| home.join(".local/share")));
    share.unwrap_or_else(std::env::temp_dir).join("twinstack")
}

fn tell(started: &Started) {
    let listening: Vec<String> = started.addresses.iter().map(|address| format!("https://{address}")).collect();
    anstream::println!(
        "\n\x1b[1;32mTwinstack is up.\x1b[0m\n\n  \
         API         {}\n  \
         kubeconfig  {}\n\n\
         Try:\n  \
         export KUBECONFIG={}\n  \
         kubectl get namespaces\n  \
         kubectl create service clusterip web --tcp=80 && kubectl get service web -o jsonpath='{{.spec.clusterIPs}}'\n\n\
         Ctrl-C stops it; started again it goes on where it was.\n",
        listening.join(", "),
        started.kubeconfig.display(),
        started.kubeconfig.display(),
    );
}
