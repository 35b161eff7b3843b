//! What a running lab tells about itself, for `twinstack lab`: a file that is there as long as the lab is.

use crate::{Home, Network};
use net::Cidr;
use runtime::atomic_file;
use serde::{Deserialize, Serialize};
use std::{io, net::IpAddr, path::PathBuf};

/// The file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// The process of `up`.
    pub process: u32,
    pub kubeconfig: PathBuf,
    pub interface: String,
    pub machine: Vec<IpAddr>,
    pub nodes: Vec<NodeState>,
    pub load_balancers: Vec<String>,
}

/// A node of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeState {
    pub name: String,
    pub namespace: String,
    pub addresses: Vec<IpAddr>,
    /// Of its containerd.
    pub socket: PathBuf,
}

impl State {
    /// Of a network that was just made.
    #[must_use]
    pub fn of(network: &Network, kubeconfig: PathBuf, balancers: &[Cidr]) -> Self {
        let home = &network.home;
        let node = |node: &crate::NodeLayout| NodeState {
            name: node.name.clone(),
            namespace: home.namespace(&node.name),
            addresses: node.addresses.iter().copied().collect(),
            socket: home.run.join(&node.name).join("containerd.sock"),
        };
        Self {
            process: std::process::id(),
            kubeconfig,
            interface: home.interface(),
            machine: network.layout.machine.iter().copied().collect(),
            nodes: network.layout.nodes.iter().map(node).collect(),
            load_balancers: balancers.iter().map(ToString::to_string).collect(),
        }
    }

    fn file(home: &Home) -> PathBuf {
        home.run.join("lab.json")
    }

    /// Writes it where [`State::read`] looks.
    pub fn write(&self, home: &Home) -> io::Result<()> {
        std::fs::create_dir_all(&home.run)?;
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
        atomic_file::write(&Self::file(home), &text, atomic_file::PUBLIC)
    }

    /// What a lab says; `None` where none runs.
    pub fn read(home: &Home) -> io::Result<Option<Self>> {
        match std::fs::read(Self::file(home)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
