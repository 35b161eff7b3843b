//! What Twinstack asks of Linux, and every program it starts. Components call it through small traits; its README follows.
#![doc = include_str!("../README.md")]

pub mod conntrack;
mod netlink;
pub mod netns;
pub mod nft;
pub mod process;
