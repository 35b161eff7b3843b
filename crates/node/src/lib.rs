//! A node of a cluster: Pods as containers, through a container runtime, with an address of each family.
//!
//! Data takes the same way as everywhere: `kubelet` watches the Pods of this node, `pods` keeps an index of them and of what the
//! runtime has, plans what each Pod's sandbox and containers should be now, brings it about through [`cri`], and tells the API.

pub mod certificates;
pub mod cni;
pub mod cri;
pub mod environment;
pub mod kubelet;
pub mod netexec;
pub mod pods;
pub mod probes;
pub mod server;
pub mod volumes;
