//! `fsGroup`: a volume belongs to a group, which may read it, and write it where it is not read-only.

use rustix::fs::{AtFlags, CWD, Gid, chownat};
use std::{
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

const WRITABLE: u32 = 0o660;
const READABLE: u32 = 0o440;
const SEARCHABLE: u32 = 0o110;
/// What is made in a folder later belongs to the group as well.
const SET_GROUP: u32 = 0o2000;

/// When all of a volume is looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Always,
    /// Only if its root is not as it should be.
    OnRootMismatch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ownership {
    pub(super) group: u32,
    pub(super) read_only: bool,
    pub(super) change: Change,
}

impl Ownership {
    pub(super) fn apply(self, root: &Path) -> io::Result<()> {
        if self.change == Change::OnRootMismatch && self.holds(root) {
            return Ok(());
        }
        self.walk(root)
    }

    fn mask(self) -> u32 {
        if self.read_only { READABLE } else { WRITABLE }
    }

    fn holds(self, root: &Path) -> bool {
        fs::metadata(root).is_ok_and(|root| {
            let wanted = self.mask() | SEARCHABLE | SET_GROUP;
            root.is_dir() && root.gid() == self.group && root.mode() & wanted == wanted
        })
    }

    /// The root comes last: it says that all below is done.
    fn walk(self, path: &Path) -> io::Result<()> {
        let metadata = fs::symlink_metadata(path)?;
        if metadata.is_dir() {
            for entry in fs::read_dir(path)? {
                self.walk(&entry?.path())?;
            }
        }
        let group = Gid::from_raw(self.group);
        chownat(CWD, path, None, Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        if metadata.is_symlink() {
            return Ok(());
        }
        let mut mode = metadata.mode() & 0o7777 | self.mask();
        if metadata.is_dir() {
            mode |= SEARCHABLE | SET_GROUP;
        }
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
    }
}
