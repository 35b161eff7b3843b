//! kubectl, every version that the machine has.

use crate::Process;
use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// One kubectl with a kubeconfig and a cache of its own.
#[derive(Clone, Debug)]
pub struct Kubectl {
    program: PathBuf,
    /// `1.20`.
    pub version: String,
    kubeconfig: PathBuf,
    home: PathBuf,
}

/// What it printed, and whether it was content.
#[derive(Clone, Debug)]
pub struct Output {
    /// Exit code 0.
    pub success: bool,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Kubectl {
    /// All of them: on the PATH, fetched by `scripts/need`, and named by `KUBECTLS` (separated by colons); one per version.
    pub fn all(kubeconfig: &Path, home: &Path) -> Vec<Self> {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let tools = std::env::var_os("TWINSTACK_TOOLS").map(PathBuf::from);
        let on_path = std::env::split_paths(&folders).chain(tools).map(|folder| folder.join("kubectl"));
        let named = std::env::var_os("KUBECTLS").unwrap_or_default();
        let mut found = BTreeMap::new();
        for program in on_path.chain(std::env::split_paths(&named)) {
            if let Some(version) = version(&program) {
                // Each has a kubeconfig of its own, in which it may change the namespace.
                let own = home.join(format!("kubeconfig-{version}"));
                std::fs::copy(kubeconfig, &own).expect("the kubeconfig can be copied");
                let home = home.join(format!("home-{version}"));
                found.entry(version.clone()).or_insert(Self { program, home, version, kubeconfig: own });
            }
        }
        let list: Vec<_> = found.into_values().collect();
        if list.is_empty() {
            crate::skip("everything with kubectl", "scripts/need test, or put kubectl on the PATH");
        }
        list
    }

    pub fn program(&self) -> &Path {
        &self.program
    }

    pub fn run(&self, words: &[&str]) -> Output {
        self.run_with(words, "")
    }

    /// Runs it with standard input.
    pub fn run_with(&self, words: &[&str], input: &str) -> Output {
        self.command(words, &[], input)
    }

    fn command(&self, words: &[&str], environment: &[(&str, &str)], input: &str) -> Output {
        let mut child = Command::new(&self.program)
            .args(words)
            .envs(environment.iter().copied())
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", &self.home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        // kubectl may end without reading; that is its choice.
        let _ = child.stdin.take().map(|mut pipe| pipe.write_all(input.as_bytes()));
        let output = child.wait_with_output().expect("kubectl ends");
        Output {
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs it with an editor that applies a `sed` script.
    pub fn edit(&self, words: &[&str], script: &str) -> Output {
        let editor = format!("sed -i {script}");
        self.command(words, &[("EDITOR", &editor), ("KUBE_EDITOR", &editor)], "")
    }

    /// Starts it and goes on; it ends with the handle.
    pub fn background(&self, words: &[&str]) -> Process {
        let config = format!("--kubeconfig={}", self.kubeconfig.display());
        let mut all = vec![config.as_str()];
        all.extend(words);
        let log = self.home.with_extension(format!("{}.log", words.join("-").replace(['/', '='], "-")));
        Process::start(&self.program, &all, &log)
    }

    /// Merges into the status of an object of the current namespace, as its controller would. Old versions of kubectl have no
    /// `--subresource`, so this goes through `replace --raw`.
    pub fn patch_status(&self, api: &str, plural: &str, name: &str, patch: &str) {
        let namespace = self.ok(&["config", "view", "--minify", "-o", "jsonpath={..namespace}"]);
        let path = format!("{api}/namespaces/{namespace}/{plural}/{name}");
        let mut object: serde_json::Value =
            serde_json::from_str(&self.ok(&["get", "--raw", &path])).expect("an object");
        let patch: serde_json::Value = serde_json::from_str(patch).expect("a patch");
        object["status"] = patch["status"].clone();
        self.ok_with(&["replace", "--raw", &format!("{path}/status"), "-f", "-"], &object.to_string());
    }

    /// Runs it and expects success; the answer is what it printed.
    pub fn ok(&self, words: &[&str]) -> String {
        self.ok_with(words, "")
    }

    /// The same with standard input.
    pub fn ok_with(&self, words: &[&str], input: &str) -> String {
        let output = self.run_with(words, input);
        assert!(output.success, "kubectl {} {words:?}\n{}{}", self.version, output.stdout, output.stderr);
        output.stdout
    }

    /// Runs it and expects a refusal; the answer is what it complained of.
    pub fn fails(&self, words: &[&str], input: &str) -> String {
        let output = self.run_with(words, input);
        assert!(!output.success, "kubectl {} {words:?} should fail\n{}", self.version, output.stdout);
        output.stderr
    }
}

fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).args(["version", "--client", "-o", "json"]).output().ok()?;
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let part = |name: &str| Some(value["clientVersion"][name].as_str()?.trim_end_matches('+').to_owned());
    Some(format!("{}.{}", part("major")?, part("minor")?))
}
