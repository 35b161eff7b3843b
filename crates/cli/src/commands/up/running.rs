//! What a running `up` keeps in its data folder, by which `up -d` and `down` find it: a lock, and a note that says which process it is.

use anyhow::{Context, bail};
use runtime::atomic_file;
use serde_json::{Value, json};
use std::{
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
};

/// The claim of one process on a data folder. Dropped, the note goes; the kernel gives the lock back when its holder is killed.
#[derive(Debug)]
pub(super) struct Claim {
    note: NoteFile,
    _lock: File,
}

impl Claim {
    /// Makes this process the only `up` in the folder.
    pub(super) fn take(folder: &Path) -> anyhow::Result<Self> {
        atomic_file::close_directory(folder).with_context(|| format!("the data folder {}", folder.display()))?;
        let Some(lock) = lock(folder)? else {
            let process = note(folder).map(|note| format!(" (process {})", note.process)).unwrap_or_default();
            bail!(
                "another `twinstack up`{process} has the data folder {}; `twinstack down` stops it, --data-dir chooses another",
                folder.display()
            );
        };
        let note = NoteFile(folder.join("up.json"));
        note.write(None)?;
        Ok(Self { note, _lock: lock })
    }

    pub(super) fn note(&self) -> NoteFile {
        self.note.clone()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Without the lock it means nothing.
        let _ = std::fs::remove_file(&self.note.0);
    }
}

/// Where it is noted what runs.
#[derive(Clone, Debug)]
pub(super) struct NoteFile(pub(super) PathBuf);

impl NoteFile {
    /// Notes this process, and once everything serves what there is to say of that.
    pub(super) fn write(&self, text: Option<&str>) -> io::Result<()> {
        let note = json!({"process": std::process::id(), "text": text});
        atomic_file::write(&self.0, note.to_string().as_bytes(), atomic_file::PRIVATE)
    }
}

/// What runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) process: u32,
    /// Once everything serves.
    pub(crate) text: Option<String>,
}

/// The `up` that runs with this data folder.
pub(crate) fn find(folder: &Path) -> anyhow::Result<Option<Note>> {
    if !folder.exists() || lock(folder)?.is_some() {
        return Ok(None);
    }
    let found = note(folder).with_context(|| format!("{} does not say which process it is", folder.display()))?;
    Ok(Some(found))
}

/// What is noted there, be it true or not: looking at the lock could be in the way of a process that begins.
pub(super) fn note(folder: &Path) -> Option<Note> {
    let note: Value = serde_json::from_slice(&std::fs::read(folder.join("up.json")).ok()?).ok()?;
    let process = note["process"].as_u64().and_then(|id| id.try_into().ok())?;
    Some(Note { process, text: note["text"].as_str().map(str::to_owned) })
}

/// None when somebody else has it.
fn lock(folder: &Path) -> anyhow::Result<Option<File>> {
    let path = folder.join("up.lock");
    let file = File::options().create(true).append(true).open(&path).with_context(|| path.display().to_string())?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error).with_context(|| path.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_for_one_process_which_is_found_while_it_has_it() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(find(&folder.path().join("not-there")).unwrap(), None);
        let claim = Claim::take(folder.path()).unwrap();
        let process = std::process::id();
        assert_eq!(find(folder.path()).unwrap(), Some(Note { process, text: None }));
        let refused = Claim::take(folder.path()).unwrap_err().to_string();
        assert!(refused.contains(&format!("(process {process})")) && refused.contains("twinstack down"), "{refused}");
        claim.note().write(Some("it serves")).unwrap();
        assert_eq!(find(folder.path()).unwrap(), Some(Note { process, text: Some("it serves".to_owned()) }));
        drop(claim);
        assert_eq!(find(folder.path()).unwrap(), None);
        drop(Claim::take(folder.path()).unwrap());
    }
}
