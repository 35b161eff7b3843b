//! `twinstack envtest`: a folder that `KUBEBUILDER_ASSETS` can name, for tests of controllers.

use super::Command;
use crate::flag::{Flag, flags, folder};
use anyhow::Context;
use runtime::config::Settings;
use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

pub(super) const COMMAND: Command = Command {
    name: "envtest",
    about: "make a folder for KUBEBUILDER_ASSETS",
    more: "The folder has kube-apiserver and etcd, which are names of this program, and kubectl where the machine has one. controller-runtime's envtest, and \
           whatever else starts these two, then runs against this API server with its state in memory.",
    example: "twinstack envtest ./assets && KUBEBUILDER_ASSETS=$PWD/assets go test ./...",
    flags: &[FLAGS],
    positional: Some("assets"),
    long_running: false,
    check: |given| given.required(&ASSETS).map(drop),
    run,
};

flags! {
    FLAGS:
    ASSETS: Flag<PathBuf> = folder("assets", "where the names are put; made when it is not there");
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let target = settings.read(|given| given.required(&ASSETS))?;
    fs::create_dir_all(&target).with_context(|| format!("cannot make {}", target.display()))?;
    let target = target.canonicalize()?;
    let own = std::env::current_exe().context("cannot find this program")?;
    for name in ["kube-apiserver", "etcd"] {
        point(&target.join(name), &own)?;
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let kubectl = std::env::split_paths(&paths).map(|folder| folder.join("kubectl")).find(|path| path.is_file());
    match kubectl {
        Some(kubectl) => point(&target.join("kubectl"), &kubectl)?,
        None => {
            anstream::eprintln!("kubectl is not in PATH and is left out; only envtest's own kubectl helper needs it")
        }
    }
    anstream::println!("export KUBEBUILDER_ASSETS={}", target.display());
    Ok(())
}

/// A name for a program; one that is there is replaced.
fn point(name: &Path, program: &Path) -> anyhow::Result<()> {
    match fs::remove_file(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => symlink(program, name),
    }
    .with_context(|| format!("cannot make {}", name.display()))
}
