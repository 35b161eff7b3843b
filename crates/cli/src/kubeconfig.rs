//! `--kubeconfig`: how a component reaches the API.

use crate::{
    flag::{Flag, flag},
    read,
};
use runtime::config::Settings;
use std::path::PathBuf;

pub(crate) const FLAG: Flag =
    flag("kubeconfig", "FILE", "", "how to reach the API; the pod's service account when not given");

/// Reads it; none for a pod's service account.
pub(crate) fn read(given: &mut Settings) -> Option<PathBuf> {
    given.optional(FLAG.name, "a file", read::path)
}
