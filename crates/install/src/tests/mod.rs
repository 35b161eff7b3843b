//! Files that are good, files with every mistake, and the directories that come of them.

mod directories;
mod goldens;
mod install_configs;
mod kubeadm_files;
mod random;

use crate::{Cluster, KnownFlags, Read, read};
use std::path::Path;

/// Flags that these files use.
const KNOWN: KnownFlags<'static> = KnownFlags {
    api_server: &[
        "authorization-mode",
        "audit-log-path",
        "service-cluster-ip-range",
        "advertise-address",
        "secure-port",
        "anonymous-auth",
    ],
    controller_manager: &[
        "leader-elect",
        "node-cidr-mask-size",
        "node-cidr-mask-size-ipv4",
        "node-cidr-mask-size-ipv6",
        "allocate-node-cidrs",
        "cluster-cidr",
    ],
};

fn good(text: &str) -> Read {
    match read(Path::new("f.yaml"), text, KNOWN) {
        Ok(read) => read,
        Err(mistakes) => panic!("{mistakes}\nin\n{text}"),
    }
}

fn cluster(text: &str) -> Cluster {
    good(text).cluster
}

/// The mistakes, one per line, without the file's name.
fn mistakes(text: &str) -> Vec<String> {
    let Err(mistakes) = read(Path::new("f.yaml"), text, KNOWN) else { panic!("no mistake in\n{text}") };
    let line = |text: String| text.strip_prefix("f.yaml: ").map(str::to_owned).unwrap_or(text);
    mistakes.list().iter().map(|mistake| line(mistake.to_string())).collect()
}

fn warnings(text: &str) -> Vec<String> {
    good(text).warnings.into_iter().map(|line| line.replace("f.yaml: ", "")).collect()
}

/// The file of a plan.
fn file(cluster: &Cluster, path: &str) -> String {
    let files = crate::plan(cluster, "1.2.3");
    match files.iter().find(|file| file.path == path) {
        Some(file) => file.text.clone(),
        None => panic!("no {path} among {:?}", files.iter().map(|file| &file.path).collect::<Vec<_>>()),
    }
}
