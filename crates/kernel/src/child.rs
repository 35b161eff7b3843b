//! A program that runs beside this one and is told to end with its handle.

use rustix::process::{Pid, Signal, kill_process};
use std::{
    io,
    path::Path,
    process::{Command, Stdio},
};

/// A running program. Dropped, it is told to end (SIGTERM) and not waited for.
#[derive(Debug)]
pub struct Child {
    inner: std::process::Child,
}

impl Child {
    /// Starts a program with these variables over its own; what it prints goes where ours goes.
    pub fn start(program: &Path, words: &[String], variables: &[(String, String)]) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(words).envs(variables.iter().map(|(name, value)| (name, value))).stdin(Stdio::null());
        Ok(Self { inner: command.spawn()? })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.inner.id()
    }

    /// How it ended, in words, if it has.
    pub fn ended(&mut self) -> Option<String> {
        match self.inner.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(status.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Tells it to end.
    pub fn terminate(&self) {
        terminate(self.inner.id());
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.terminate();
        }
    }
}

/// Tells a process to end. That it is gone already is fine.
pub fn terminate(id: u32) {
    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // Nothing to tell to what is gone.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// The command line of a process, words apart by spaces; nothing if there is none of that id.
pub fn command_line(id: u32) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{id}/cmdline")).ok().filter(|bytes| !bytes.is_empty())?;
    let words: Vec<_> = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    Some(words.join(" ").trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_its_variables_and_ends_with_its_handle() {
        let words = ["-c".to_owned(), "test \"$COLOUR\" = green".to_owned()];
        let mut child =
            Child::start(Path::new("/bin/sh"), &words, &[("COLOUR".to_owned(), "green".to_owned())]).unwrap();
        let ended = loop {
            if let Some(ended) = child.ended() {
                break ended;
            }
            std::thread::yield_now();
        };
        assert_eq!(ended, "exit status: 0");
        let long = ["600".to_owned()];
        let mut child = Child::start(Path::new("sleep"), &long, &[]).unwrap();
        assert!(child.ended().is_none());
        child.terminate();
        while child.ended().is_none() {
            std::thread::yield_now();
        }
        assert!(command_line(std::process::id()).is_some());
        assert_eq!(command_line(0), None);
        assert!(Child::start(Path::new("/nonexistent"), &[], &[]).is_err());
    }
}
