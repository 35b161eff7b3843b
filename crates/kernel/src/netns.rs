//! Network namespaces for tests and labs, through `ip netns`. Each is gone with its handle.

use crate::process::{self, Printed, ProcessError};

/// A namespace with a name of its own; loopback is up.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes one. Fails without root, and where the kernel or a container forbids it.
    pub fn new(name: &str) -> Result<Self, ProcessError> {
        process::run("ip", &["netns", "add", name], "")?;
        let made = Self { name: name.to_owned() };
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
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Processes in it are ended by their own handles; a namespace that is gone already is as wanted.
        let _ = process::run("ip", &["netns", "delete", &self.name], "");
    }
}
