//! An API server whose state can be put back, at an address that stays.

use e2e::{Process, haproxy::tool, twinstack, wait_for};
use std::{
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(120);
const RANGES: &str = "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112";
const ETCD: &str = "http://127.0.0.1:2379";

/// Where an API server keeps its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Embedded,
    Etcd,
    KubeApiserver,
}

pub(crate) struct Api {
    store: Store,
    folder: PathBuf,
    /// Program and words.
    words: Vec<String>,
    port: u16,
    server: Option<Process>,
    etcd: Option<Process>,
}

impl Api {
    /// Runs in the namespace of this thread; nothing when a program is missing.
    pub(crate) fn new(store: Store, folder: &Path) -> Option<Self> {
        let mut words = vec![twinstack().display().to_string()];
        words.extend(["apiserver", "--bind-address=127.0.0.1,::1", "--secure-port=6443", RANGES].map(str::to_owned));
        words.push(format!("--data-dir={}", folder.join("data").display()));
        if store != Store::Embedded && tool("etcd").is_none() {
            e2e::skip("API servers on etcd that come and go", "scripts/need test, or put etcd on the PATH");
            return None;
        }
        if store == Store::Etcd {
            words.push(format!("--etcd-servers={ETCD}"));
        }
        let mut api = Self { store, folder: folder.to_owned(), words, port: 6443, server: None, etcd: None };
        api.start();
        if store == Store::KubeApiserver {
            // Ours has made the keys.
            api.kill();
            let at = SocketAddr::from(([127, 0, 0, 1], 6444));
            let peer = folder.join("peer");
            api.words = vec![std::env::var("KUBE_APISERVER").expect("checked")];
            api.words.extend(e2e::kube_apiserver_words(&peer, &folder.join("data/pki"), at, ETCD, RANGES));
            api.words.extend(["--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"].map(str::to_owned));
            api.port = at.port();
            api.start();
        }
        Some(api)
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        match self.store {
            Store::KubeApiserver => self.folder.join("peer/kubeconfig"),
            Store::Embedded | Store::Etcd => self.folder.join("data/admin.kubeconfig"),
        }
    }

    /// Starts what does not run, and waits until it is ready.
    pub(crate) fn start(&mut self) {
        if self.store != Store::Embedded && self.etcd.is_none() {
            let program = tool("etcd").expect("checked");
            let data = self.folder.join("etcd").display().to_string();
            let etcd = Process::start(program, &["--data-dir", &data], &self.folder.join("etcd.log"));
            wait(&etcd, || TcpStream::connect("127.0.0.1:2379").ok());
            self.etcd = Some(etcd);
        }
        let server = self.server.take().unwrap_or_else(|| {
            let words: Vec<&str> = self.words[1..].iter().map(String::as_str).collect();
            Process::start(&self.words[0], &words, &self.folder.join("apiserver.log"))
        });
        let url = format!("https://127.0.0.1:{}/readyz", self.port);
        wait(&server, || {
            let output = Command::new("curl").args(["-sk", "-o", "/dev/null", "-w", "%{http_code}", &url]).output();
            (output.ok()?.stdout == b"200").then_some(())
        });
        self.server = Some(server);
    }

    /// Ends etcd at once; the API server stays.
    pub(crate) fn kill_etcd(&mut self) {
        self.etcd = None;
    }

    /// Ends the server in order.
    pub(crate) fn terminate(&mut self) {
        let ended = self.server.take().and_then(|mut server| server.terminate(PATIENCE));
        assert!(ended.is_some(), "it ends when it is told to");
    }

    /// Ends everything at once.
    pub(crate) fn kill(&mut self) {
        self.server = None;
        self.etcd = None;
    }

    /// From now on nothing passes on the connections that are open: their clients will not even hear that they end.
    pub(crate) fn cut(&self) {
        let port = self.port;
        let output =
            Command::new("ss").args(["-Htn", "state", "established", &format!("( dport = :{port} )")]).output();
        let output = output.expect("ss runs").stdout;
        let local = |line: &str| line.split_whitespace().nth(2)?.rsplit(':').next().map(str::to_owned);
        let clients: Vec<String> = String::from_utf8_lossy(&output).lines().filter_map(local).collect();
        assert!(clients.len() > 10, "components have connections: {clients:?}");
        let rules = format!(
            "table inet cut {{\n set gone {{ type inet_service; elements = {{ {} }}; }}\n chain input {{\n \
             type filter hook input priority -10;\n tcp sport @gone tcp dport {port} drop\n tcp sport {port} tcp dport @gone drop\n }}\n}}\n",
            clients.join(", ")
        );
        let file = self.folder.join("cut.nft");
        std::fs::write(&file, rules).expect("a file");
        assert!(Command::new("nft").arg("-f").arg(&file).status().is_ok_and(|status| status.success()));
    }

    /// Keeps the objects as they are.
    pub(crate) fn snapshot(&self) {
        assert!(!self.is_open(), "a copy of what is written at the same time is no snapshot");
        copy(&self.state(), &self.folder.join("snapshot"));
    }

    /// Puts the objects back to what was kept.
    pub(crate) fn restore(&self) {
        assert!(!self.is_open(), "somebody has the files open");
        std::fs::remove_dir_all(self.state()).expect("it can be removed");
        copy(&self.folder.join("snapshot"), &self.state());
    }

    /// Whether somebody writes the files.
    fn is_open(&self) -> bool {
        if self.store == Store::Embedded { self.server.is_some() } else { self.etcd.is_some() }
    }

    fn state(&self) -> PathBuf {
        self.folder.join(if self.store == Store::Embedded { "data" } else { "etcd" })
    }

    pub(crate) fn log(&self) -> String {
        self.server.as_ref().map(Process::output).unwrap_or_default()
    }
}

fn wait<T>(process: &Process, ready: impl FnMut() -> Option<T>) {
    assert!(wait_for(PATIENCE, ready).is_some(), "it does not get ready:\n{}", process.output());
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(done.is_ok_and(|status| status.success()), "{} cannot be copied", from.display());
}
