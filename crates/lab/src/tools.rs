//! The programs that nodes are made of, where this machine has them.

use std::path::{Path, PathBuf};

/// Where programs of the system are that an ordinary user's PATH does not have.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/sbin"];
/// Where distributions and upstream put CNI plugins.
const PLUGINS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools {
    pub containerd: PathBuf,
    pub runc: PathBuf,
    /// The folder of CNI plugins.
    pub plugins: PathBuf,
    /// The folder that has `ctr` and the shim, for the PATH of nodes.
    pub shim: PathBuf,
}

impl Tools {
    /// Looks on the PATH, and in the folder that `TWINSTACK_TOOLS` names.
    #[must_use]
    pub fn find() -> Option<Self> {
        let shim = program("containerd-shim-runc-v2")?;
        program("ctr")?;
        Some(Self {
            containerd: program("containerd")?,
            runc: program("runc")?,
            plugins: plugins()?,
            shim: shim.parent()?.to_owned(),
        })
    }
}

fn folders() -> Vec<PathBuf> {
    let tools = std::env::var_os("TWINSTACK_TOOLS").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    tools.into_iter().chain(std::env::split_paths(&path)).chain(SYSTEM.map(PathBuf::from)).collect()
}

/// Where a program is: on the PATH, in the folder that `TWINSTACK_TOOLS` names, or where only root looks.
#[must_use]
pub fn program(name: &str) -> Option<PathBuf> {
    folders().into_iter().map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn plugins() -> Option<PathBuf> {
    let own = folders().into_iter().map(|folder| folder.join("cni"));
    let complete =
        |folder: &PathBuf| ["bridge", "host-local", "loopback"].iter().all(|name| folder.join(name).is_file());
    own.chain(PLUGINS.map(PathBuf::from)).find(complete)
}

/// What would have to be there for nodes, in words; `None` when everything is.
#[must_use]
pub fn missing(root: bool) -> Option<String> {
    let lacks = |name: &str| program(name).is_none();
    let packages: Vec<&str> = [
        ("containerd", lacks("containerd") || lacks("containerd-shim-runc-v2") || lacks("ctr")),
        ("runc", lacks("runc")),
        ("containernetworking-plugins", plugins().is_none()),
        ("iproute2", lacks("ip")),
        ("nftables", lacks("nft")),
    ]
    .into_iter()
    .filter_map(|(package, lacks)| lacks.then_some(package))
    .collect();
    let install = (!packages.is_empty()).then(|| format!("apt-get install {}", packages.join(" ")));
    match (root, install) {
        (true, None) => None,
        (true, Some(install)) => Some(install),
        (false, None) => Some("run as root".to_owned()),
        (false, Some(install)) => Some(format!("run as root after {install}")),
    }
}

/// A folder before what a program's PATH has.
#[must_use]
pub(crate) fn path_with(folder: &Path) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{}:{path}:/usr/sbin:/sbin", folder.display())
}
