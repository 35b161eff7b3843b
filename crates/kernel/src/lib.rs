//! What Twinstack asks of Linux, and every program it starts. Components call it through small traits; its README follows.
#![doc = include_str!("../README.md")]

#[allow(unsafe_code)]
pub mod allocations;
#[doc(hidden)]
pub mod answers;
pub mod child;
pub mod conntrack;
pub mod dummy;
pub mod ipset;
pub mod iptables;
pub mod ipvs;
pub mod limits;
pub mod mount;
mod netlink;
pub mod netns;
pub mod nft;
pub mod process;
pub mod udp;
