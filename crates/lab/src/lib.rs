//! Nodes out of network namespaces: what `up --nodes` runs and `twinstack lab` works in.
//!
//! [`Home`] says what belongs to a lab by its names alone, so that whoever comes after a crash finds it; [`Layout`] (pure) has its addresses;
//! [`Network`] is the bridge, the namespaces and the one interface of the machine; [`Node`] the containerd, kubelet and proxy of a node;
//! [`Cloud`] the routes to Pods and load balancers; [`sweep`] takes everything away again.

#![forbid(unsafe_code)]

mod cloud;
mod containerd;
mod cut;
mod front;
mod home;
mod layout;
mod network;
mod node;
mod state;
pub mod sweep;
mod tools;

pub use cloud::Cloud;
pub use cut::Cut;
pub use front::Front;
pub use home::{Home, Lock};
pub use layout::{Layout, LayoutError, NodeLayout, Ranges, balancers};
pub use network::{Network, NetworkError};
pub use node::{Node, NodeFlags};
pub use state::State;
pub use tools::{Tools, missing, program};
