//! From a path to something that can run, and whether it differs from what does.

use crate::{
    compile::{self, Instance, Lasting},
    corefile::{self, Disk, Problem},
};
use std::path::{Path, PathBuf};

/// A Corefile that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        error: std::io::Error,
    },
    /// It says something that is not understood.
    #[error(transparent)]
    Problem(#[from] Problem),
    /// It has no server block.
    #[error("{}: there is no server block in it", .0.display())]
    Empty(PathBuf),
}

/// Reads a Corefile and sets everything up, without starting it.
pub(super) fn load(path: &Path, port: u16, lasting: &Lasting) -> Result<Instance, LoadError> {
    let text = std::fs::read_to_string(path).map_err(|error| LoadError::Read { path: path.to_owned(), error })?;
    let file = corefile::parse(&path.to_string_lossy(), &text, &Disk)?;
    if file.blocks.is_empty() {
        return Err(LoadError::Empty(path.to_owned()));
    }
    let folder = path.parent().unwrap_or_else(|| Path::new("")).to_owned();
    Ok(compile::compile(&file, folder, port, lasting)?)
}

/// What a change is noticed by: the file with its imports, without layout and comments. `None` when it cannot be read.
pub(super) fn fingerprint(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    match corefile::parse(&path.to_string_lossy(), &text, &Disk) {
        Ok(file) => Some(file.to_string()),
        // A broken file differs from a good one, and from itself only when it changes.
        Err(problem) => Some(format!("{problem}\n{text}")),
    }
}
