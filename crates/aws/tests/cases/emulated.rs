//! The account that the cases are tried on: one in memory.

use aws::{account::Account, memory::Example};
use std::sync::Arc;

pub(crate) use aws::memory::Memory as Emulated;

/// Each case takes no time: all combinations are tried.
pub(crate) const EVERY_COMBINATION: bool = true;

/// The example account.
pub(crate) fn start(example: Example) -> Arc<Emulated> {
    Arc::new(Emulated::new(example.state()))
}

/// How the controller asks it.
pub(crate) fn account(cloud: &Arc<Emulated>) -> Account {
    Account::from(Arc::clone(cloud))
}
