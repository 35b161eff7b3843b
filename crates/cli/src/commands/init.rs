//! `twinstack init`: from a kubeadm or install-config file to a directory that a cluster starts from.

pub(super) mod apply;

use super::{Command, apiserver};
use crate::{flag::flag, read};
use install::Overwrite;
use runtime::{build::BUILD, config::Settings};
use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

pub(super) const COMMAND: Command = Command {
    name: "init",
    about: "write what a cluster starts from",
    more: "Reads a kubeadm file (ClusterConfiguration, InitConfiguration) or an OpenShift-style install-config, checks all of it, \
           and writes a directory: static pods with the dual-stack flags, configuration objects with their definitions, \
           certificates, kubeconfigs, and a file of flags for every component. Place it at /etc/kubernetes, or start \
           from it with `twinstack up --config`. The directory appears as a whole or not at all.",
    example: "twinstack init --config kubeadm.yaml --output ./lab\ntwinstack up --config ./lab --data-dir ./state",
    flags: &[&[
        flag("config", "FILE", "", "kubeadm or install-config file to read"),
        flag("output", "FOLDER", "twinstack-init", "where to write; must be empty or not there"),
        flag("dry-run", "BOOL", "false", "print the files, keys and certificates excepted, and write nothing"),
        flag("force", "BOOL", "false", "replace what init wrote there before; its authority and signing key are kept"),
    ]],
    positional: None,
    long_running: false,
    run,
};

fn run(settings: Settings) -> anyhow::Result<()> {
    let ((config, text), output, dry_run, overwrite) = settings.read(|given| {
        let config = given.required("config", "a readable file", |path| {
            std::fs::read_to_string(path).map(|text| (PathBuf::from(path), text))
        });
        let output = given.or("output", "twinstack-init".into(), "a folder", read::path);
        let dry_run = given.or("dry-run", false, "true, false", str::parse::<bool>);
        let overwrite = match given.or("force", false, "true, false", str::parse::<bool>) {
            true => Overwrite::Ours,
            false => Overwrite::No,
        };
        Some((config?, output, dry_run, overwrite))
    })?;
    let server_flags: Vec<&str> = apiserver::FLAGS.iter().map(|flag| flag.name).collect();
    let install::Read { cluster, warnings } = install::read(&config, &text, &server_flags)?;
    for warning in warnings {
        anstream::eprintln!("\x1b[1;33mwarning:\x1b[0m {warning}");
    }
    if dry_run {
        print(&cluster);
        return Ok(());
    }
    install::write(&cluster, BUILD.version, &output, overwrite, SystemTime::now())?;
    tell(&output);
    Ok(())
}

fn print(cluster: &install::Cluster) {
    for file in install::plan(cluster, BUILD.version) {
        anstream::println!("==> {} <==\n{}", file.path, file.text);
    }
    for path in install::secret_paths(cluster) {
        anstream::println!("==> {path} <==\n(made when it is written)\n");
    }
}

fn tell(output: &Path) {
    let output = output.display();
    anstream::println!(
        "Wrote {output}.\n\n\
         Try:\n  \
         twinstack up --config {output}          on this machine, listening on loopback\n  \
         cp -r {output}/. /etc/kubernetes/       on a control plane node, before its kubelet starts"
    );
}
