//! Brings a volume about in the file system: folders, memory, files, binds. Blocking; called off the runtime's threads.

use super::{
    atomic,
    file::Files,
    host_path,
    ownership::{Change, Ownership},
};
use kernel::mount;
use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// One volume, with everything that is needed for it.
#[derive(Clone, Debug)]
pub(super) enum SetUp {
    /// Lives as long as the Pod.
    EmptyDir { at: PathBuf, medium: Medium },
    /// Files of the cluster. Those that may be secret never reach a disk.
    Files { at: PathBuf, files: Files, in_memory: bool },
    /// A place on the node, used as it is.
    HostPath { path: PathBuf, kind: String },
    /// A folder of the node that is shown to the Pod in a place of its own.
    Local { path: PathBuf, at: PathBuf, read_only: bool },
    /// Nothing to do here: a driver or the runtime has it.
    Elsewhere,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    Disk,
    /// At most so many bytes.
    Memory(Option<u64>),
    /// Pages of this size, in bytes.
    HugePages(u64),
}

/// Who may use it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Group {
    pub(super) id: Option<u32>,
    pub(super) on_root_mismatch: bool,
}

impl Group {
    fn apply(self, root: &Path, read_only: bool) -> io::Result<()> {
        let change = if self.on_root_mismatch { Change::OnRootMismatch } else { Change::Always };
        self.id.map_or(Ok(()), |group| Ownership { group, read_only, change }.apply(root))
    }
}

impl SetUp {
    /// Done again, it changes what has to change and no more.
    pub(super) fn apply(&self, group: Group, stamp: &str) -> Result<(), String> {
        let text = |error: io::Error| error.to_string();
        match self {
            Self::EmptyDir { at, medium } => empty_dir(at, medium, group).map_err(text),
            Self::Files { at, files, in_memory } => {
                let medium = if *in_memory { Medium::Memory(None) } else { Medium::Disk };
                empty_dir(at, &medium, Group::default()).map_err(text)?;
                // A few files: always looked through.
                let always = Group { on_root_mismatch: false, ..group };
                atomic::write(at, files, stamp, |fresh| always.apply(fresh, true)).map(drop).map_err(text)
            }
            Self::HostPath { path, kind } => host_path::check(path, kind),
            Self::Local { path, at, read_only } => local(path, at, *read_only, group),
            Self::Elsewhere => Ok(()),
        }
    }
}

fn empty_dir(at: &Path, medium: &Medium, group: Group) -> io::Result<()> {
    let mounted = *medium != Medium::Disk && mount::is_mounted(at)?;
    // What is there belongs to the Pod: its modes are not touched again.
    if mounted || *medium == Medium::Disk && at.exists() {
        return Ok(());
    }
    fs::create_dir_all(at)?;
    match medium {
        Medium::Disk => {}
        Medium::Memory(None) => mount::tmpfs(at, "")?,
        Medium::Memory(Some(size)) => mount::tmpfs(at, &format!("size={size}"))?,
        Medium::HugePages(size) => mount::file_system("hugetlbfs", at, &format!("pagesize={size}"))?,
    }
    fs::set_permissions(at, fs::Permissions::from_mode(0o777))?;
    group.apply(at, false)
}

fn local(path: &Path, at: &Path, read_only: bool, group: Group) -> Result<(), String> {
    if !path.exists() {
        return Err(format!("path {:?} does not exist", path.display().to_string()));
    }
    let text = |error: io::Error| error.to_string();
    if mount::is_mounted(at).map_err(text)? {
        return Ok(());
    }
    fs::create_dir_all(at).map_err(text)?;
    mount::bind(path, at, read_only).map_err(text)?;
    if read_only { Ok(()) } else { group.apply(at, false).map_err(text) }
}

/// Removes a Pod's folder with all that is mounted in it. What cannot be unmounted keeps everything: a mount that is left may be
/// somebody's data.
pub(super) fn tear_down(folder: &Path) -> io::Result<()> {
    for point in mount::below(folder)? {
        mount::detach(&point)?;
    }
    if let Some(point) = mount::below(folder)?.first() {
        return Err(io::Error::other(format!("{} is still mounted", point.display())));
    }
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
