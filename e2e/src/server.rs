//! `twinstack apiserver` in a folder of its own.

use crate::{Kubectl, Process, twinstack, wait_for};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

/// A running API server; it stops and its folder goes with the handle.
pub struct Server {
    process: Process,
    folder: TempDir,
    words: Vec<String>,
}

impl Server {
    /// Starts one on a free port of loopback with these further flags, and waits until it is ready.
    pub fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let data = folder.path().join("data");
        let mut words: Vec<String> =
            ["apiserver", "--bind-address=127.0.0.1,::1", "--secure-port=0"].map(String::from).into();
        words.push(format!("--data-dir={}", data.display()));
        words.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let process = launch(folder.path(), &words);
        let server = Self { process, folder, words };
        server.wait_ready();
        server
    }

    /// Kills it and starts it again on the same data.
    pub fn crash_and_restart(&mut self) {
        self.process.kill();
        let _ = std::fs::remove_file(self.kubeconfig());
        self.process = launch(self.folder.path(), &self.words);
        self.wait_ready();
    }

    /// Kills it and starts it again on the same data, where it must not come up: what it says instead.
    pub fn crash_and_fail(&mut self) -> String {
        self.process.kill();
        self.process = launch(self.folder.path(), &self.words);
        let ended = self.process.ended(Duration::from_secs(90));
        assert!(ended.is_some_and(|status| !status.success()), "the API server runs:\n{}", self.process.output());
        self.process.output()
    }

    fn wait_ready(&self) {
        let ready = wait_for(Duration::from_secs(90), || {
            self.process.output().contains("API server is ready").then_some(()).filter(|()| self.kubeconfig().exists())
        });
        assert!(ready.is_some(), "the API server did not become ready:\n{}", self.process.output());
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("data/admin.kubeconfig")
    }

    /// A folder for the test's own files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        self.process.output()
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Every kubectl on this machine, pointed at this server.
    pub fn kubectls(&self) -> Vec<Kubectl> {
        Kubectl::all(&self.kubeconfig(), self.folder.path())
    }
}

fn launch(folder: &Path, words: &[String]) -> Process {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Process::start(twinstack(), &words, &folder.join("apiserver.log"))
}
