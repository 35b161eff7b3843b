//! `--release-version`: whose feature gates count.

use crate::flag::{Flag, flag};
use runtime::config::Settings;
use std::convert::Infallible;

#[rustfmt::skip]
pub(crate) const FLAG: Flag = flag(
    "release-version", "VERSION", "",
    "the version whose feature gates count, where the FeatureGate lists several; without it a gate must be open for all of them",
);

/// Reads it, if it is known.
pub(crate) fn read(given: &mut Settings) -> Option<String> {
    given.optional(FLAG.name, "a version", |text| Ok::<_, Infallible>(text.to_owned()))
}
