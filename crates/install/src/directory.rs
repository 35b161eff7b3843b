//! Putting the files in place: all of them or none.
//!
//! Everything is written into a new directory beside the target, which then takes its place with one rename (two when
//! there is an old one to move aside). What fails half-way leaves the target as it was.

use crate::{
    Cluster,
    plan::{MARKER, plan},
    secrets,
};
use runtime::atomic_file::{self, PUBLIC};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// What to do about a directory that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// Leave it alone, unless it is empty.
    No,
    /// Replace it if it is one of ours; its authority and signing key are kept.
    Ours,
}

/// Why nothing was written. The target is as it was.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Something is there that is not empty.
    #[error("{}: is not empty; choose another --output, or give --force to replace what init wrote there", path.display())]
    NotEmpty {
        /// The target.
        path: PathBuf,
    },
    /// Something is there that init did not write.
    #[error("{}: was not written by init, so --force does not replace it; choose another --output", path.display())]
    NotOurs {
        /// The target.
        path: PathBuf,
    },
    /// The machine refused.
    #[error("{}: {problem}", path.display())]
    Machine {
        /// What was being written.
        path: PathBuf,
        /// What came of it.
        problem: String,
    },
}

/// Writes the directory.
pub fn write(
    cluster: &Cluster,
    version: &str,
    target: &Path,
    overwrite: Overwrite,
    now: SystemTime,
) -> Result<(), WriteError> {
    let old = existing(target, overwrite)?;
    let failed = |problem: &dyn ToString| WriteError::Machine { path: target.to_owned(), problem: problem.to_string() };
    let beside = Beside::new(target).map_err(|error| failed(&error))?;
    fill(cluster, version, &beside.path, old.as_deref(), now).map_err(|problem| failed(&problem))?;
    beside.take_the_place_of(target).map_err(|error| failed(&error))
}

/// The old directory if there is one that may be replaced.
fn existing(target: &Path, overwrite: Overwrite) -> Result<Option<PathBuf>, WriteError> {
    let path = target.to_owned();
    let entries = match fs::read_dir(target) {
        Ok(entries) => entries.count(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(WriteError::Machine { path, problem: error.to_string() }),
    };
    match overwrite {
        _ if entries == 0 => Ok(None),
        Overwrite::No => Err(WriteError::NotEmpty { path }),
        Overwrite::Ours if target.join(MARKER).is_file() => Ok(Some(path)),
        Overwrite::Ours => Err(WriteError::NotOurs { path }),
    }
}

fn fill(cluster: &Cluster, version: &str, directory: &Path, old: Option<&Path>, now: SystemTime) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    for file in plan(cluster, version) {
        let path = directory.join(&file.path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(text)?;
        }
        atomic_file::write(&path, file.text.as_bytes(), PUBLIC).map_err(text)?;
    }
    let pki = directory.join("pki");
    atomic_file::private_directory(&pki).map_err(text)?;
    for name in ["ca.crt", "ca.key", "sa.key"] {
        let kept = old.map(|old| old.join("pki").join(name)).filter(|path| path.is_file());
        if let Some(kept) = kept {
            // Copies the mode as well.
            fs::copy(kept, pki.join(name)).map_err(text)?;
        }
    }
    secrets::write(cluster, directory, now).map_err(|error| error.to_string())
}

/// A directory beside the target, gone with the handle unless it took the target's place.
struct Beside {
    path: PathBuf,
}

impl Beside {
    fn new(target: &Path) -> io::Result<Self> {
        let path = neighbour(target, "new")?;
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent)?;
        }
        // What a crashed run with the same id left behind must not get in the way.
        if path.symlink_metadata().is_ok() {
            fs::remove_dir_all(&path)?;
        }
        atomic_file::private_directory(&path)?;
        Ok(Self { path })
    }

    fn take_the_place_of(self, target: &Path) -> io::Result<()> {
        if target.symlink_metadata().is_err() {
            return fs::rename(&self.path, target);
        }
        let aside = neighbour(target, "old")?;
        fs::rename(target, &aside)?;
        if let Err(error) = fs::rename(&self.path, target) {
            fs::rename(&aside, target)?;
            return Err(error);
        }
        fs::remove_dir_all(&aside)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _gone_after_a_rename = fs::remove_dir_all(&self.path);
    }
}

fn neighbour(target: &Path, word: &str) -> io::Result<PathBuf> {
    let unnamed = || io::Error::new(io::ErrorKind::InvalidInput, "names no directory");
    let name = target.file_name().ok_or_else(unnamed)?;
    Ok(target.with_file_name(format!(".{}.{}.{word}", name.to_string_lossy(), std::process::id())))
}
