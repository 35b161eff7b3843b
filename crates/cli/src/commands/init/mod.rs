//! `twinstack init`: from a kubeadm or install-config file to a directory that a cluster starts from.

pub(super) mod apply;

use super::{Command, apiserver, controller_manager};
use crate::{
    flag::{DefaultFlag, Flag, flags, folder, switch},
    read,
};
use install::{KnownFlags, Overwrite};
use runtime::{config::Settings, version::BUILD};
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
    flags: &[FLAGS],
    positional: None,
    long_running: false,
    check: |given| asked(given).map(drop),
    run,
};

flags! {
    FLAGS:
    CONFIG: Flag<(PathBuf, String)> = Flag::new("config", "FILE", "a readable file", |path| Ok((PathBuf::from(path), read::content(path)?)), "kubeadm or install-config file to read");
    OUTPUT: DefaultFlag<PathBuf> = folder("output", "where to write; must be empty or not there").or("twinstack-init");
    DRY_RUN: DefaultFlag<bool> = switch("dry-run", "print the files, keys and certificates excepted, and write nothing").or("false");
    FORCE: DefaultFlag<bool> = switch("force", "replace what init wrote there before; its authority and signing key are kept").or("false");
}

/// What the flags say.
struct Asked {
    config: (PathBuf, String),
    output: PathBuf,
    dry_run: bool,
    overwrite: Overwrite,
}

fn asked(given: &mut Settings) -> Option<Asked> {
    let config = given.required(&CONFIG);
    let (output, dry_run) = (given.get(&OUTPUT), given.get(&DRY_RUN));
    let overwrite = if given.get(&FORCE) { Overwrite::Ours } else { Overwrite::No };
    Some(Asked { config: config?, output, dry_run, overwrite })
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let Asked { config: (config, text), output, dry_run, overwrite } = settings.read(asked)?;
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
    print_next_steps(&output);
    Ok(())
}

/// The flags of a command itself.
fn names(command: &Command) -> Vec<&'static str> {
    command.flags.iter().flat_map(|flags| flags.iter()).map(|flag| flag.name()).collect()
}

fn print(cluster: &install::Cluster) {
    for file in install::plan(cluster, BUILD.version) {
        anstream::println!("==> {} <==\n{}", file.path, file.text);
    }
    for path in install::secret_paths(cluster) {
        anstream::println!("==> {path} <==\n(made when it is written)\n");
    }
}

fn print_next_steps(output: &Path) {
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
    use crate::{args, commands::proxy};

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
                let known: Vec<&str> = args::flags(command).map(|flag| flag.name()).collect();
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
