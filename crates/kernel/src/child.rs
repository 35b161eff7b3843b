//! A program that runs beside this one and is told to end with its handle.

use crate::netns;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::File,
    io,
    os::unix::process::CommandExt,
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

    /// Starts a program in a network namespace; what it prints goes into `log`, after what is there. Signals of our terminal are not
    /// for it.
    pub fn start_in(
        namespace: &str,
        program: &Path,
        words: &[String],
        variables: &[(String, String)],
        log: &Path,
    ) -> io::Result<Self> {
        let mut command = logged(program, words, log)?;
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        Ok(Self { inner: netns::within(namespace, || command.spawn())?? })
    }

    /// Starts a program that may go on without this one; what it prints goes into `log`. Signals of our terminal are not for it.
    pub fn start_apart(program: &Path, words: &[String], log: &Path) -> io::Result<Self> {
        Ok(Self { inner: logged(program, words, log)?.spawn()? })
    }

    /// Lets it go on when this process ends.
    pub fn leave(self) {
        std::mem::forget(self);
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

fn logged(program: &Path, words: &[String], log: &Path) -> io::Result<Command> {
    let output = File::options().create(true).append(true).open(log)?;
    let errors = output.try_clone()?;
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
    Ok(command)
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
    send(id, Signal::TERM);
}

/// Ends a process at once. That it is gone already is fine.
pub fn kill(id: u32) {
    send(id, Signal::KILL);
}

fn send(id: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // Nothing to tell to what is gone.
        let _ = kill_process(pid, signal);
    }
}

/// Whether there is such a process and it still runs: one that has ended and that nobody asked for its result is none.
pub fn is_alive(id: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Becomes another program, in a network namespace; returns only if that is not possible.
pub fn become_in(namespace: &str, program: &str, words: &[String]) -> io::Error {
    match netns::enter(namespace) {
        Ok(()) => Command::new(program).args(words).exec(),
        Err(error) => error,
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
