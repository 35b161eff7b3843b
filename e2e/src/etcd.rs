//! A real etcd in a folder of its own.

use crate::{Process, free_port, wait_for};
use std::{path::PathBuf, process::Command, time::Duration};
use tempfile::TempDir;

/// A running etcd; it stops and its folder goes with the handle.
pub struct Etcd {
    _process: Process,
    _folder: TempDir,
    url: String,
}

impl Etcd {
    /// Starts one on free ports of loopback; none when the machine has no etcd, which is noted.
    pub fn start() -> Option<Self> {
        let Some(program) = program() else {
            crate::skip("two servers on etcd", "scripts/need test, or put etcd on the PATH");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder can be made");
        let (client, peer) = (free_port(), free_port());
        let (url, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let data = folder.path().join("data").display().to_string();
        let words = [
            "--data-dir",
            &data,
            "--listen-client-urls",
            &url,
            "--advertise-client-urls",
            &url,
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
            "--initial-cluster",
            &format!("default={peer}"),
        ];
        let process = Process::start(program, &words, &folder.path().join("etcd.log"));
        let address = url.trim_start_matches("http://").to_owned();
        let ready = wait_for(Duration::from_secs(90), || std::net::TcpStream::connect(&address).ok());
        assert!(ready.is_some(), "etcd did not start:\n{}", process.output());
        Some(Self { _process: process, _folder: folder, url })
    }

    /// Where clients find it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The value of a key as text, through etcd's JSON gateway.
    pub fn get(&self, key: &str) -> String {
        String::from_utf8(self.get_bytes(key)).unwrap_or_default()
    }

    /// The value of a key as it is.
    pub fn get_bytes(&self, key: &str) -> Vec<u8> {
        use base64::{Engine, engine::general_purpose::STANDARD};
        let body = format!(r#"{{"key":"{}"}}"#, STANDARD.encode(key));
        let output = Command::new("curl").args(["-s", "-d", &body, &format!("{}/v3/kv/range", self.url)]).output();
        let answer: serde_json::Value = serde_json::from_slice(&output.expect("curl runs").stdout).expect("JSON");
        let value = answer["kvs"][0]["value"].as_str().unwrap_or_default();
        STANDARD.decode(value).unwrap_or_default()
    }
}

fn program() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let tools = std::env::var_os("TWINSTACK_TOOLS").map(PathBuf::from);
    std::env::split_paths(&folders).chain(tools).map(|folder| folder.join("etcd")).find(|path| path.is_file())
}
