//! A node: containerd, kubelet and proxy in a network namespace, each started again when it ends.

use crate::{Home, NodeLayout, Tools, containerd, tools::path_with};
use kernel::child::Child;
use runtime::{atomic_file, task::Tasks};
use std::{
    fs, io,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::time::sleep;

/// How often it is looked whether a program still runs, or answers by now.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a runtime may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// A log that has grown past this begins anew with the next start.
const LONGEST_LOG: u64 = 16 << 20;

/// One node of a lab.
#[derive(Clone, Debug)]
pub struct Node {
    home: Home,
    pub layout: NodeLayout,
    tools: Tools,
}

/// What kubelets and proxies of all nodes are told.
#[derive(Clone, Debug)]
pub struct NodeFlags {
    /// The program that has them as commands.
    pub program: PathBuf,
    pub cluster_cidr: String,
    pub cluster_dns: String,
    pub cluster_domain: String,
    pub client_ca: PathBuf,
    /// Archives that are looked into before any registry.
    pub images: PathBuf,
}

impl Node {
    /// Of this layout, in this lab.
    #[must_use]
    pub fn new(home: &Home, layout: &NodeLayout, tools: &Tools) -> Self {
        Self { home: home.clone(), layout: layout.clone(), tools: tools.clone() }
    }

    fn run(&self) -> PathBuf {
        self.home.run.join(&self.layout.name)
    }

    fn data(&self) -> PathBuf {
        self.home.data.join(&self.layout.name)
    }

    fn socket(&self) -> PathBuf {
        self.run().join("containerd.sock")
    }

    /// The cgroup of all that this node runs.
    fn cgroup(&self) -> String {
        format!("/{}", self.home.namespace(&self.layout.name))
    }

    /// Where the kubelet finds who it is.
    #[must_use]
    pub fn kubelet_kubeconfig(&self) -> PathBuf {
        self.run().join("kubelet.kubeconfig")
    }

    /// The same for the proxy.
    #[must_use]
    pub fn proxy_kubeconfig(&self) -> PathBuf {
        self.run().join("proxy.kubeconfig")
    }

    /// Makes folders, and starts the runtime, which is kept running.
    pub fn start_runtime(&self, tasks: &Tasks) -> io::Result<()> {
        for folder in [self.run(), self.run().join("net.d"), self.data()] {
            fs::create_dir_all(folder)?;
        }
        let config = self.run().join("containerd.toml");
        let text = containerd::configuration(&self.tools, &self.data().join("containerd"), &self.run());
        atomic_file::write(&config, text.as_bytes(), atomic_file::PUBLIC)?;
        let words = vec!["--config".to_owned(), config.display().to_string()];
        self.keep(tasks, "containerd", self.tools.containerd.clone(), words);
        Ok(())
    }

    /// Waits until the runtime answers.
    pub async fn runtime_answers(&self) -> io::Result<()> {
        let start = tokio::time::Instant::now();
        loop {
            match UnixStream::connect(self.socket()) {
                Ok(_) => return Ok(()),
                Err(error) if start.elapsed() > PATIENCE => {
                    let log = self.home.log(&self.layout.name, "containerd");
                    return Err(io::Error::other(format!(
                        "containerd does not answer ({error}); see {}",
                        log.display()
                    )));
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// Starts the kubelet and the proxy, which are kept running.
    pub fn start_agents(&self, tasks: &Tasks, flags: &NodeFlags) {
        self.keep(tasks, "kubelet", flags.program.clone(), self.kubelet_words(flags));
        self.keep(tasks, "proxy", flags.program.clone(), self.proxy_words(flags));
    }

    fn kubelet_words(&self, flags: &NodeFlags) -> Vec<String> {
        let flag = |name: &str, value: &Path| format!("--{name}={}", value.display());
        let ips: Vec<String> = self.layout.addresses.iter().map(ToString::to_string).collect();
        vec![
            "kubelet".to_owned(),
            flag("kubeconfig", &self.kubelet_kubeconfig()),
            flag("client-ca-file", &flags.client_ca),
            format!("--hostname-override={}", self.layout.name),
            format!("--node-ip={}", ips.join(",")),
            format!("--container-runtime-endpoint=unix://{}", self.socket().display()),
            flag("root-dir", &self.data().join("kubelet")),
            flag("pod-logs-dir", &self.data().join("pods")),
            flag("cni-conf-dir", &self.run().join("net.d")),
            flag("image-dir", &flags.images),
            format!("--cgroup-root={}", self.cgroup()),
            format!("--cluster-cidr={}", flags.cluster_cidr),
            format!("--cluster-dns={}", flags.cluster_dns),
            format!("--cluster-domain={}", flags.cluster_domain),
            // Nodes of a lab share the machine: what it is short of is not theirs to mend by ending Pods.
            "--eviction-hard=memory.available<50Mi,nodefs.available<1%,nodefs.inodesFree<1%".to_owned(),
            "--image-gc-high-threshold=100".to_owned(),
        ]
    }

    fn proxy_words(&self, flags: &NodeFlags) -> Vec<String> {
        vec![
            "proxy".to_owned(),
            format!("--kubeconfig={}", self.proxy_kubeconfig().display()),
            format!("--hostname-override={}", self.layout.name),
            format!("--cluster-cidr={}", flags.cluster_cidr),
        ]
    }

    /// Runs a program of this node, and again whenever it ends.
    fn keep(&self, tasks: &Tasks, part: &'static str, program: PathBuf, words: Vec<String>) {
        let name = format!("{} {part}", self.layout.name);
        let log = self.home.log(&self.layout.name, part);
        if fs::metadata(&log).is_ok_and(|about| about.len() > LONGEST_LOG) {
            // The old one is worth less than the room.
            let _ = fs::remove_file(&log);
        }
        let namespace = self.home.namespace(&self.layout.name);
        let variables = vec![("PATH".to_owned(), path_with(&self.tools.shim))];
        let all = Arc::new((namespace, program, words, variables, log, name.clone()));
        tasks.restarting(&name, move |stop| {
            let all = Arc::clone(&all);
            async move {
                let (namespace, program, words, variables, log, name) = &*all;
                let mut child = Child::start_in(namespace, program, words, variables, log)?;
                tracing::debug!(part = name, id = child.id(), "started");
                loop {
                    tokio::select! {
                        // Its handle tells it to end.
                        () = stop.cancelled() => return Ok::<_, io::Error>(()),
                        () = sleep(PAUSE) => {}
                    }
                    if let Some(how) = child.ended() {
                        return Err(io::Error::other(format!("it ended ({how}); see {}", log.display())));
                    }
                }
            }
        });
    }
}
