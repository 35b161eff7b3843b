//! The binary under test: built once, then started as often as needed.

use std::{
    path::PathBuf,
    process::{Command, Output},
    sync::OnceLock,
};

/// Path of `twinstack`: built from this tree, or named by `TWINSTACK`.
pub fn twinstack() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(named) = std::env::var_os("TWINSTACK").filter(|path| !path.is_empty()) {
            return PathBuf::from(named);
        }
        let output = Command::new(env!("CARGO"))
            // The whole workspace, and one small test, so that crates have the features with which the tests were built,
            // those of dev-dependencies among them, and nothing is built twice.
            .args(["build", "--quiet", "--locked", "--workspace", "--bins", "--test", "cli", "--message-format=json"])
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .output()
            .expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let messages = String::from_utf8_lossy(&output.stdout);
        let path = messages
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .filter(|message| message["target"]["name"] == "twinstack")
            .find_map(|message| Some(PathBuf::from(message.get("executable")?.as_str()?)));
        path.expect("cargo says where the binary is")
    })
    .clone()
}

/// Runs `twinstack` with these words and waits for its end.
pub fn run(words: &[&str]) -> Output {
    Command::new(twinstack()).args(words).output().expect("the binary runs")
}
