//! `twinstack proxy` with a real kernel, in network namespaces.

mod iptables;
mod matrix;
mod nftables;
mod owners;
mod udp;
