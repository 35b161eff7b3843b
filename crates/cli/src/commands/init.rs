//! `twinstack init`: from a kubeadm or install-config file to a directory that a cluster starts from.

pub(super) mod apply;

use super::{Command, apiserver, controller_manager};
use crate::{flag::flag, read};
use install::{KnownFlags, Overwrite};
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
    let (api_server, controller_manager) = (names(&apiserver::COMMAND), names(&controller_manager::COMMAND));
    let known = KnownFlags { api_server: &api_server, controller_manager: &controller_manager };
    let install::Read { cluster, warnings } = install::read(&config, &text, known)?;
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

/// The flags of a command.
fn names(command: &Command) -> Vec<&'static str> {
    command.flags.iter().flat_map(|flags| flags.iter()).map(|flag| flag.name).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{commands::proxy, flag::COMMON};

    #[test]
    fn every_component_knows_every_flag_that_is_written_for_it() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/init");
        for case in ["kubeadm-v4v6", "kubeadm-v6v4", "kubeadm-v6", "install-config-dual"] {
            let path = folder.join(case).join("input.yaml");
            let text = std::fs::read_to_string(&path).expect("a file");
            let (api_server, controllers) = (names(&apiserver::COMMAND), names(&controller_manager::COMMAND));
            let known = KnownFlags { api_server: &api_server, controller_manager: &controllers };
            let cluster = install::read(&path, &text, known).expect("a cluster").cluster;
            for command in [
                &apiserver::COMMAND,
                &controller_manager::COMMAND,
                &super::super::cloud_controller_manager::COMMAND,
                &proxy::COMMAND,
            ] {
                let known: Vec<&str> = names(command).into_iter().chain(COMMON.iter().map(|flag| flag.name)).collect();
                let own = format!("components/{}.yaml", command.name);
                let Some(file) = install::plan(&cluster, "0").into_iter().find(|file| file.path == own) else {
                    continue;
                };
                let lines = file.text.lines().filter(|line| !line.starts_with('#'));
                let flags: Vec<&str> = lines.filter_map(|line| Some(line.split_once(": ")?.0)).collect();
                assert!(flags.len() > 1, "{own}");
                for flag in flags {
                    assert!(known.contains(&flag), "{case}: {} has no --{flag}", command.name);
                }
            }
        }
    }
}
