//! Network namespaces for tests and labs, through `ip netns`: by name, or with a handle that takes its namespace along.

use crate::process::{self, Printed, ProcessError};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::{
    fs::File,
    io,
    os::fd::AsFd,
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

/// A namespace with a name of its own; loopback is up.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes one. Its name holds `part` and is no other's, of this process or another. Fails without root, and where the
    /// kernel or a container forbids it.
    pub fn new(part: &str) -> Result<Self, ProcessError> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("twinstack-{part}-{}-{number}", std::process::id());
        create(&name)?;
        Ok(Self { name })
    }

    /// Its name, for `ip netns exec` and `ip link set netns`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs a program in it to its end.
    pub fn run(&self, program: &str, words: &[&str], input: &str) -> Result<Printed, ProcessError> {
        run(&self.name, program, words, input)
    }

    /// Moves the calling thread into it, for good. Threads and programs that it starts from then on are in it as well.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn enter(&self) -> io::Result<()> {
        enter(&self.name)
    }

    /// Runs `work` on a thread of its own in it. Sockets that it opens stay in the namespace wherever they are used.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        within(&self.name, work)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Processes in it are ended by their own handles; a namespace that is gone already is as wanted.
        let _ = delete(&self.name);
    }
}

/// Makes a namespace of this name, with loopback up. It stays until somebody deletes it.
pub fn create(name: &str) -> Result<(), ProcessError> {
    process::run("ip", &["netns", "add", name], "")?;
    process::run("ip", &["-n", name, "link", "set", "lo", "up"], "").map(drop)
}

/// Takes the name away; the namespace ends with the last process in it.
pub fn delete(name: &str) -> Result<(), ProcessError> {
    process::run("ip", &["netns", "delete", name], "").map(drop)
}

/// The names that begin like this.
pub fn beginning(prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort();
    names
}

/// The processes in a namespace; none where there is none.
pub fn processes(name: &str) -> Vec<u32> {
    let printed = process::run("ip", &["netns", "pids", name], "");
    let text = printed.map(|printed| printed.stdout).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// Runs a program in it to its end.
pub fn run(name: &str, program: &str, words: &[&str], input: &str) -> Result<Printed, ProcessError> {
    let mut all = vec!["netns", "exec", name, program];
    all.extend(words);
    process::run("ip", &all, input)
}

/// Moves the calling thread into it, for good.
///
/// # Errors
/// When the namespace cannot be entered.
pub fn enter(name: &str) -> io::Result<()> {
    let file = File::open(format!("/run/netns/{name}"))?;
    Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Runs `work` on a thread of its own in it.
///
/// # Errors
/// When the namespace cannot be entered.
pub fn within<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let inside = || enter(name).map(|()| work());
    thread::scope(|scope| scope.spawn(inside).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}
