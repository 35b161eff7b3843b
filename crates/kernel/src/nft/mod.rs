//! nftables: what to change as a list of operations, committed together or not at all.
//!
//! Rules and definitions are text in nft's own language, because that is what is documented and what operators see.

mod batch;
mod element;
mod fake;
mod list;
mod real;
mod transaction;

use net::Family;

pub use element::{Element, Part, Value};
pub use fake::FakeNft;
pub use real::RealNft;
pub use transaction::{Operation, SetKind, Transaction};

use crate::process::ProcessError;

/// What the proxy asks of nftables. `RealNft` runs nft, `FakeNft` keeps tables in memory; both are public.
pub trait Nft: Send + Sync {
    /// Does all of it at one moment, or nothing.
    fn commit(&self, transaction: &Transaction) -> Result<(), NftError>;

    /// The chains of a table and how many rules each has, or `None` when there is no such table or it has no chains. Never
    /// reads elements.
    fn chains(&self, family: Family, table: &str) -> Result<Option<Vec<Chain>>, NftError>;
}

/// A chain as it is in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    pub name: String,
    /// How many rules it has.
    pub rules: usize,
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum NftError {
    /// nft could not be run, or it refused.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The kernel refused.
    #[error("nftables: the kernel says: {0}")]
    Netlink(#[from] std::io::Error),
    /// The fake found what the kernel would have refused.
    #[error("{0}")]
    Refused(String),
}

/// `ip` or `ip6`: nft's word for a family, in table names and in matches.
#[must_use]
pub const fn word(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}
