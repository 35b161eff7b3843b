//! Network namespaces for tests and labs, through `ip netns`. Each is gone with its handle.

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
        process::run("ip", &["netns", "add", &name], "")?;
        let made = Self { name };
        made.run("ip", &["link", "set", "lo", "up"], "")?;
        Ok(made)
    }

    /// Its name, for `ip netns exec` and `ip link set netns`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs a program in it to its end.
    pub fn run(&self, program: &str, words: &[&str], input: &str) -> Result<Printed, ProcessError> {
        let mut all = vec!["netns", "exec", &self.name, program];
        all.extend(words);
        process::run("ip", &all, input)
    }

    /// Moves the calling thread into it, for good. Threads and programs that it starts from then on are in it as well.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn enter(&self) -> io::Result<()> {
        let file = File::open(format!("/run/netns/{}", self.name))?;
        Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// Runs `work` on a thread of its own in it. Sockets that it opens stay in the namespace wherever they are used.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let inside = || self.enter().map(|()| work());
        thread::scope(|scope| scope.spawn(inside).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Processes in it are ended by their own handles; a namespace that is gone already is as wanted.
        let _ = process::run("ip", &["netns", "delete", &self.name], "");
    }
}
