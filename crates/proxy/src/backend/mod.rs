//! Bringing plans into the kernel, one room per mechanism.

pub mod nft;
