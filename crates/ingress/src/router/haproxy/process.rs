//! Checking, starting, replacing and stopping HAProxy.
//!
//! HAProxy runs as a daemon of its own: it goes on when the router ends, and the next router takes over from it as from any
//! earlier generation. A new one takes the listening sockets from the old one and then tells it to finish, so no connection is
//! refused or cut.

use super::{Layout, Socket};
use kernel::process::{self, ProcessError};
use rustix::process::{Pid, Signal, WaitOptions, kill_process};
use std::{fs, io};

/// Why HAProxy is not running what it should.
#[derive(Debug, thiserror::Error)]
pub enum HaproxyError {
    /// The old one goes on.
    #[error("the new configuration is refused, the last one stays: {0}")]
    Refused(ProcessError),
    /// The old one goes on, if there is one.
    #[error("cannot start: {0}")]
    Start(ProcessError),
    /// Files could not be written.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// What the router asks of HAProxy's process.
pub trait Haproxy: Send {
    /// Checks a generation's files.
    fn check(&mut self, number: u64) -> Result<(), HaproxyError>;
    /// Starts a generation in place of what runs.
    fn start(&mut self, number: u64) -> Result<(), HaproxyError>;
    /// Whether one runs.
    fn is_running(&self) -> bool;
}

/// The real one.
#[derive(Clone, Debug)]
pub struct Process {
    program: String,
    layout: Layout,
    /// The one that was started last: it is still known when its file is gone.
    last: Option<i32>,
}

impl Process {
    /// `program` is the path or name of HAProxy.
    pub fn new(program: &str, layout: Layout) -> Self {
        Self { program: program.to_owned(), layout, last: None }
    }

    /// The process that serves now, whoever started it.
    pub fn pid(&self) -> Option<i32> {
        let folder = format!("{}/", self.layout.folder().display());
        // A number that was given to another program since must not be signalled.
        let is_ours = |pid: &i32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).contains(&folder)
        };
        [self.written_pid(), self.last].into_iter().flatten().find(is_ours)
    }

    fn written_pid(&self) -> Option<i32> {
        fs::read_to_string(self.layout.pid()).ok()?.trim().parse().ok()
    }

    /// Whether HAProxy was built with this, such as `LUA`. One that cannot be asked says so when it is started.
    pub fn has(&self, feature: &str) -> bool {
        let words = |version: &process::Printed| {
            version.stdout.contains(&format!("+{feature}")) || version.stdout.contains(&format!("USE_{feature}"))
        };
        process::run(&self.program, &["-vv"], "").as_ref().map_or(true, words)
    }

    /// The highest number of a generation that is there, to go on from.
    pub fn last_generation(&self) -> u64 {
        let names = fs::read_dir(self.layout.folder()).into_iter().flatten().flatten();
        let number = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix("generation-")?.parse().ok();
        names.filter_map(number).max().unwrap_or(0)
    }

    /// Removes the files of all generations but this one.
    pub fn forget_generations_but(&self, kept: u64) {
        let names = fs::read_dir(self.layout.folder()).into_iter().flatten().flatten();
        for entry in names {
            let number =
                entry.file_name().to_str().and_then(|name| name.strip_prefix("generation-")?.parse::<u64>().ok());
            if number.is_some_and(|number| number != kept) {
                // What cannot be removed now is tried again after the next replacement.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// As the first process of a container, takes leave of earlier generations that have ended. Elsewhere the system does.
    pub fn reap(&self) {
        if rustix::process::getpid().is_init() {
            while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        }
    }

    /// Lets connections end and then ends.
    pub fn finish(&self) {
        self.signal(Signal::USR1);
    }

    /// Ends at once.
    pub fn end(&self) {
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        // One that has just ended needs no signal.
        let _ = self.pid().and_then(Pid::from_raw).map(|pid| kill_process(pid, signal));
    }
}

impl Haproxy for Process {
    fn check(&mut self, number: u64) -> Result<(), HaproxyError> {
        let config = self.layout.config(number).display().to_string();
        process::run(&self.program, &["-c", "-q", "-f", &config], "").map(|_| ()).map_err(HaproxyError::Refused)
    }

    fn start(&mut self, number: u64) -> Result<(), HaproxyError> {
        let text = |path: std::path::PathBuf| path.display().to_string();
        let (config, pid_file, admin) =
            (text(self.layout.config(number)), text(self.layout.pid()), text(self.layout.admin()));
        let old = self.pid().map(|pid| pid.to_string());
        let mut words = vec!["-D", "-f", &config, "-p", &pid_file];
        if let Some(old) = &old {
            // The sockets come from the old one only if it answers.
            if Socket::new(&self.layout.admin()).ask("show info").is_ok() {
                words.extend(["-x", &admin]);
            }
            words.extend(["-sf", old]);
        }
        process::run(&self.program, &words, "").map_err(HaproxyError::Start)?;
        self.last = self.written_pid();
        Ok(())
    }

    fn is_running(&self) -> bool {
        self.pid().is_some()
    }
}
