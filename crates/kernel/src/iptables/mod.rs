//! iptables and ip6tables: what to change as a list of steps per table, each table changed at one moment or not at all.
//!
//! Rules are text in iptables' own language, because that is what is documented and what operators see.

mod fake;
mod real;
mod saved;
mod sysctl;
mod transaction;
mod variant;

use net::Family;
use std::collections::BTreeMap;

pub use fake::FakeIptables;
pub use real::RealIptables;
pub use saved::target;
pub use sysctl::tcp_is_liberal;
pub use transaction::{Operation, Table, Transaction};
pub use variant::{Variant, detect, installed};

use crate::process::ProcessError;

/// Chains with their rules, in the words of `iptables-save` and without the chain's name.
pub type Chains = BTreeMap<String, Vec<String>>;

/// What the proxy asks of iptables. `RealIptables` runs the programs, `FakeIptables` keeps tables in memory; both are public.
pub trait Iptables: Send + Sync {
    /// Changes table after table. A table is changed as a whole or not at all; those before a failure stay changed.
    fn commit(&self, transaction: &Transaction) -> Result<(), IptablesError>;

    /// All chains of a table; none when the kernel does not have the table.
    fn save(&self, family: Family, table: Table) -> Result<Chains, IptablesError>;

    /// The rules of one chain, or `None` when it is not there.
    fn rules(&self, family: Family, table: Table, chain: &str) -> Result<Option<Vec<String>>, IptablesError>;

    /// Lets packets from and to 127.0.0.0/8 be routed (the sysctl `route_localnet`), if they are not yet.
    fn route_loopback(&self) -> Result<(), IptablesError>;
}

/// Why nothing, or not everything, was done.
#[derive(Debug, thiserror::Error)]
pub enum IptablesError {
    /// A program could not be run, or it refused.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A rule that cannot stand on a line.
    #[error("the rule {0:?} is not one line of printable text")]
    Text(String),
    /// A setting of the kernel.
    #[error("cannot write {path}: {source}")]
    Sysctl { path: &'static str, source: std::io::Error },
    /// The fake found what the kernel would have refused.
    #[error("{0}")]
    Refused(String),
}
