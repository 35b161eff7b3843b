//! `twinstack kubelet` with a real containerd, runc and CNI plugins, in network namespaces.

mod addresses;
mod background;
mod hooks;
mod interop;
mod join;
mod kubectl;
mod lifecycle;
mod limits;
mod metrics_server;
mod network;
mod restarts;
mod storm;
mod up;
mod volumes;

use e2e::node_lab::{Lab, Shape, missing};
use std::net::IpAddr;

/// A cluster, where this machine can have one.
fn lab(shape: Shape, nodes: usize, flags: &[&str]) -> Option<Lab> {
    if let Some(enable) = missing() {
        e2e::skip("pods with a real container runtime", enable);
        return None;
    }
    Some(Lab::with(shape, nodes, flags))
}

fn url(ip: &IpAddr, port: u16) -> String {
    match ip {
        IpAddr::V4(ip) => format!("http://{ip}:{port}/"),
        IpAddr::V6(ip) => format!("http://[{ip}]:{port}/"),
    }
}

/// Everything that the Pods of a node had is gone.
#[track_caller]
fn nothing_is_left(lab: &Lab, number: usize) {
    let look = || lab.nodes[number].remains(lab.network.node(number));
    let gone = e2e::wait_for(e2e::node_lab::PATIENCE, || (look() == e2e::node_lab::Remains::default()).then_some(()));
    assert!(gone.is_some(), "{:#?}\n{}", look(), lab.logs());
}
