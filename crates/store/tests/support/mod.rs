//! What the tests of this crate share: a real etcd of their own, and waiting with a bound.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::Write,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use store::{EtcdConfig, EtcdTls, OpenError, Retention, Store};
use tempfile::TempDir;

/// The longest any test waits for something that should happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for `done`, or fails with `what`.
pub(crate) async fn eventually(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let end = tokio::time::Instant::now() + PATIENCE;
    while !done().await {
        assert!(tokio::time::Instant::now() < end, "did not happen: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The address family that an etcd listens on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loopback {
    V4,
    V6,
}

/// An etcd on loopback with a directory of its own; killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    program: PathBuf,
    directory: TempDir,
    pub(crate) client_url: String,
    peer_url: String,
    tls: Option<EtcdTls>,
    process: Option<Child>,
}

impl Server {
    /// `None` if there is no etcd here, which [`skipped`] then tells.
    pub(crate) fn start(loopback: Loopback) -> Option<Self> {
        Self::start_with(loopback, None)
    }

    /// The same with certificates: the files of the server, and what clients need.
    pub(crate) fn start_with(loopback: Loopback, tls: Option<(&[(&str, &str)], EtcdTls)>) -> Option<Self> {
        let Some(program) = find_etcd() else {
            skipped("no etcd on the PATH, in TWINSTACK_TOOLS or named by ETCD; apt-get install -y etcd-server");
            return None;
        };
        let directory = tempfile::tempdir().unwrap();
        let (files, tls) = tls.map_or((&[][..], None), |(files, tls)| (files, Some(tls)));
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let scheme = if tls.is_some() { "https" } else { "http" };
        let [client, peer] = free_addresses(loopback);
        let (client_url, peer_url) = (format!("{scheme}://{client}"), format!("http://{peer}"));
        let mut server = Self { program, directory, client_url, peer_url, tls, process: None };
        server.run();
        Some(server)
    }

    pub(crate) fn run(&mut self) {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .arg("--data-dir")
            .arg(self.directory.path().join("data"))
            .args(["--name", "one", "--logger", "zap", "--log-level", "error"])
            .args(["--listen-client-urls", &self.client_url, "--advertise-client-urls", &self.client_url])
            .args(["--listen-peer-urls", &self.peer_url, "--initial-advertise-peer-urls", &self.peer_url])
            .args(["--initial-cluster", &format!("one={}", self.peer_url)])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if self.tls.is_some() {
            for (flag, file) in
                [("--cert-file", "server.crt"), ("--key-file", "server.key"), ("--trusted-ca-file", "ca.crt")]
            {
                command.arg(flag).arg(self.directory.path().join(file));
            }
            command.arg("--client-cert-auth");
        }
        self.process = Some(command.spawn().unwrap());
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Forgets everything it ever stored. To be called while it is down.
    pub(crate) fn wipe(&self) {
        std::fs::remove_dir_all(self.directory.path().join("data")).unwrap();
    }

    /// Keeps a copy of what it stores. To be called while it is down, as the next one.
    pub(crate) fn keep(&self) {
        self.copy("data", "kept");
    }

    /// Puts back what was kept.
    pub(crate) fn restore(&self) {
        self.wipe();
        self.copy("kept", "data");
    }

    fn copy(&self, from: &str, to: &str) {
        let [from, to] = [from, to].map(|name| self.directory.path().join(name));
        assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    }

    pub(crate) fn config(&self, prefix: &str) -> EtcdConfig {
        EtcdConfig {
            endpoints: vec![self.client_url.clone()],
            prefix: prefix.into(),
            tls: self.tls.clone(),
            retention: Retention::default(),
            transform: std::sync::Arc::new(store::AsItIs),
            form: store::as_it_is,
        }
    }

    /// A store on it; waits for it to come up.
    pub(crate) async fn store(&self, prefix: &str) -> Store {
        connect(self.config(prefix)).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Opens a store on an etcd that may still be starting.
pub(crate) async fn connect(config: EtcdConfig) -> Store {
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        match Store::etcd(config.clone()).await {
            Ok(store) => return store,
            Err(OpenError::Etcd { .. }) if tokio::time::Instant::now() < end => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// The etcd to use. A full path, since the server is started without our environment.
fn find_etcd() -> Option<PathBuf> {
    let named = std::env::var_os("ETCD").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(std::env::var_os("TWINSTACK_TOOLS").map(PathBuf::from));
    let candidates: Vec<_> = named.into_iter().chain(folders.map(|folder| folder.join("etcd"))).collect();
    candidates.into_iter().find(|candidate| candidate.is_file())
}

/// Notes in the file named by `TWINSTACK_SKIPPED` that the running test could not do its work, and why.
fn skipped(reason: &str) {
    let thread = std::thread::current();
    let line = format!("{}: {reason}\n", thread.name().unwrap_or("store"));
    eprint!("skipped: {line}");
    if let Some(path) = std::env::var_os("TWINSTACK_SKIPPED") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the list of skipped tests can be written");
    }
}

/// Two addresses that nobody listens on, nor by chance will before they are used: below the ports that the kernel gives to whoever asks for any, none
/// twice, and in other processes others.
fn free_addresses(loopback: Loopback) -> [String; 2] {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let host = match loopback {
        Loopback::V4 => IpAddr::from(Ipv4Addr::LOCALHOST),
        Loopback::V6 => IpAddr::from(Ipv6Addr::LOCALHOST),
    };
    let free = || {
        let number = std::process::id().wrapping_mul(97).wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed));
        let port = 10_000 + u16::try_from(number % 10_000).unwrap();
        TcpListener::bind((host, port)).ok().map(|listener| listener.local_addr().unwrap().to_string())
    };
    let mut free = std::iter::repeat_with(free).take(10_000).flatten();
    [free.next().unwrap(), free.next().unwrap()]
}
