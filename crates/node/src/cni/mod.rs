//! The network of Pods on this node, by the real CNI plugins that the runtime calls: a list of plugins with an address range of each
//! family, settings of the kernel, and the rules that let Pods out of the cluster and outsiders onto host ports.
//!
//! `bridge` and `ptp` are ours to configure; `none` leaves the folder to the administrator.

mod conflist;
mod host_ports;
mod masquerade;
mod sysctl;

pub use host_ports::NftHostPorts;

use kernel::nft::{Nft, NftError};
use net::{Cidr, DualStack, Family};
use runtime::atomic_file;
use std::{
    io,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

/// Which plugin connects Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// All Pods of the node on one bridge.
    Bridge,
    /// A cable for each Pod.
    Ptp,
    /// Somebody else's.
    None,
}

impl FromStr for Plugin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "bridge" => Ok(Self::Bridge),
            "ptp" => Ok(Self::Ptp),
            "none" => Ok(Self::None),
            _ => Err("is no plugin".to_owned()),
        }
    }
}

/// Where and how.
#[derive(Clone, Debug)]
pub struct CniOptions {
    pub plugin: Plugin,
    /// Where the runtime looks for lists of plugins.
    pub folder: PathBuf,
    /// Where the plugins note which addresses are taken.
    pub data: PathBuf,
    /// What is reached without another address before it; the node's own ranges where nothing is said.
    pub cluster: Option<DualStack<Cidr>>,
    pub mtu: Option<u32>,
}

/// Why Pods have no network. Retried.
#[derive(Debug, thiserror::Error)]
pub enum CniError {
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Nft(#[from] NftError),
}

/// Our network for Pods.
pub struct Cni {
    options: CniOptions,
    nft: Arc<dyn Nft>,
}

/// The list of plugins; others may put theirs before it by name.
const FILE: &str = "10-twinstack.conflist";

impl Cni {
    pub fn new(options: CniOptions, nft: Arc<dyn Nft>) -> Self {
        Self { options, nft }
    }

    /// Brings the network about for these ranges. Idempotent; blocks.
    pub fn apply(&self, ranges: &DualStack<Cidr>) -> Result<(), CniError> {
        if self.options.plugin == Plugin::None {
            return Ok(());
        }
        sysctl::forward(ranges.families())?;
        for family in Family::BOTH {
            let cluster = self.options.cluster.as_ref().and_then(|cluster| cluster.get(family));
            let rules = masquerade::transaction(family, ranges.get(family), cluster);
            self.nft.commit(&rules)?;
        }
        let text = conflist::text(self.options.plugin, ranges, &self.options.data, self.options.mtu);
        let file = self.options.folder.join(FILE);
        let wrong = |path: &Path| {
            let path = path.to_owned();
            move |source| CniError::File { path, source }
        };
        std::fs::create_dir_all(&self.options.folder).map_err(wrong(&self.options.folder))?;
        if std::fs::read_to_string(&file).is_ok_and(|now| now == text) {
            return Ok(());
        }
        // Last, because a runtime that sees it is ready for Pods.
        atomic_file::write(&file, text.as_bytes(), atomic_file::PUBLIC).map_err(wrong(&file))?;
        tracing::info!(file = %file.display(), ranges = %ranges, "pods have a network");
        Ok(())
    }
}
