//! A router process that runs: started here, or left by an operator that was killed and taken over from it.

use super::Wanted;
use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine, engine::general_purpose::STANDARD};
use kernel::child::{self, Child};
use std::{
    io,
    path::{Path, PathBuf},
};

/// One that runs. Dropped, it is told to end and not waited for.
#[derive(Debug)]
pub(super) enum Running {
    /// By this operator.
    Started(Child),
    /// By an earlier one.
    Adopted(Found),
}

/// A process that somebody else started, with the command line by which it was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) id: u32,
    line: String,
}

impl Running {
    /// Starts it. What it is started with is written down before, so that nobody can find one of which that is not known.
    pub(super) fn start(wanted: &Wanted) -> io::Result<Self> {
        std::fs::write(&wanted.record, fingerprint(wanted))?;
        Ok(Self::Started(Child::start(&wanted.program, &wanted.words, &wanted.variables)?))
    }

    /// Its process id.
    pub(super) fn id(&self) -> u32 {
        match self {
            Self::Started(child) => child.id(),
            Self::Adopted(found) => found.id,
        }
    }

    /// How it ended, in words, if it has.
    pub(super) fn ended(&mut self) -> Option<String> {
        match self {
            Self::Started(child) => child.ended(),
            Self::Adopted(found) => found.is_gone().then(|| "nobody saw how".to_owned()),
        }
    }

    /// Tells it to end.
    pub(super) fn terminate(&self) {
        match self {
            Self::Started(child) => child.terminate(),
            Self::Adopted(found) => found.terminate(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A `Child` does so by itself.
        if let Self::Adopted(found) = self {
            found.terminate();
        }
    }
}

impl Found {
    /// The process with this command line, if there is one.
    pub(super) fn look_for(program: &Path, words: &[String]) -> Option<Self> {
        let line = format!("{} {}", program.display(), words.join(" "));
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        // What it starts itself looks like it for a moment.
        let oldest = ids.filter(|id| child::command_line(*id).as_ref() == Some(&line)).min();
        Some(Self { id: oldest?, line })
    }

    /// Whether it was started as it would be now, from the program that is installed now.
    pub(super) fn is_as(&self, wanted: &Wanted) -> bool {
        let program = std::fs::read_link(format!("/proc/{}/exe", self.id));
        let same_program = matches!((program, wanted.program.canonicalize()), (Ok(runs), Ok(wanted)) if runs == wanted);
        same_program && std::fs::read_to_string(&wanted.record).is_ok_and(|text| text == fingerprint(wanted))
    }

    /// Tells it to end.
    pub(super) fn terminate(&self) {
        if !self.is_gone() {
            child::terminate(self.id);
        }
    }

    /// The number may be another process's by now.
    fn is_gone(&self) -> bool {
        child::command_line(self.id).as_ref() != Some(&self.line)
    }
}

/// Stands for all that a process is started with. There are passwords among it.
fn fingerprint(wanted: &Wanted) -> String {
    let Wanted { program, words, variables, health: _, record: _ } = wanted;
    STANDARD.encode(digest(&SHA256, format!("{program:?} {words:?} {variables:?}").as_bytes()))
}

/// A folder that one operator at a time has: two would end each other's routers. Held as long as this lives, also if the
/// process is killed.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: std::fs::File,
}

impl Folder {
    /// Takes it, unless another operator has it.
    pub(super) fn take(path: &Path) -> Result<Self, String> {
        let problem = |error: &dyn std::fmt::Display| format!("cannot use the folder {}: {error}", path.display());
        runtime::atomic_file::private_directory(path).map_err(|error| problem(&error))?;
        let file = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(path.join("lock"));
        let lock = file.map_err(|error| problem(&error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(std::fs::TryLockError::WouldBlock) => {
                Err(problem(&"another ingress operator has it; give each its own with --operand-data-dir"))
            }
            Err(std::fs::TryLockError::Error(error)) => Err(problem(&error)),
        }
    }

    /// Whether it is this one.
    pub(super) fn is(&self, path: &Path) -> bool {
        self.path == path
    }
}
