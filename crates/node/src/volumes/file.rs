//! Files that are put into a volume: what the kinds that project objects have in common.

use std::{collections::BTreeMap, fmt};

/// By their path in the volume.
pub type Files = BTreeMap<String, File>;

/// One of them.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    pub data: Vec<u8>,
    pub mode: u32,
    /// Who owns it, if not root.
    pub owner: Option<u32>,
}

/// What files hold may be secret.
impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File({} bytes, {:o}, {:?})", self.data.len(), self.mode, self.owner)
    }
}

/// A file with these permissions.
pub(super) fn file(data: impl Into<Vec<u8>>, mode: i32) -> File {
    File { data: data.into(), mode: u32::try_from(mode).unwrap_or_default() & 0o777, owner: None }
}

/// What the API fills in; static Pods have not been there.
pub(super) const DEFAULT_MODE: i32 = 0o644;

/// Whether a path stays inside, and leaves the names alone that begin with two dots.
pub(super) fn inside(path: &str) -> Result<(), String> {
    if path.is_empty() || path.starts_with('/') {
        return Err(format!("path {path:?} must be relative"));
    }
    if path.split('/').any(|part| part == "..") || path.starts_with("..") {
        return Err(format!("path {path:?} must not contain or begin with \"..\""));
    }
    Ok(())
}
