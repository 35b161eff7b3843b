//! Servers under measurement: processes on one core, looked at through `/proc`, killed when dropped.

use crate::Result;
use kernel::udp::{Inbox, Outbox};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::{
    fs,
    net::{SocketAddr, UdpSocket},
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// A process that answers on an address.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
    log: PathBuf,
}

/// Whose server it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The bare loop.
    Echo,
    /// Ours.
    Twinstack,
    /// CoreDNS at this path.
    Peer(PathBuf),
}

impl Kind {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Echo => "echo loop",
            Self::Twinstack => "twinstack",
            Self::Peer(_) => "CoreDNS",
        }
    }

    /// Starts it on the first core; `{PORT}` in the Corefile becomes a free port.
    pub(crate) fn start(&self, corefile: &str, folder: &Path) -> Result<Process> {
        let port = free_port()?;
        let conf = folder.join(format!("{port}.Corefile"));
        fs::write(&conf, corefile.replace("{PORT}", &port.to_string()))?;
        let mut command = match self {
            Self::Peer(path) => {
                let mut command = Command::new(path);
                command.arg("-conf").arg(&conf);
                command
            }
            own => {
                let mut command = Command::new(std::env::current_exe()?);
                match own {
                    Self::Echo => command.arg("echo").env("PORT", port.to_string()),
                    _ => command.arg("serve").arg(&conf),
                };
                command
            }
        };
        let log = folder.join(format!("{port}.log"));
        let output = fs::File::create(&log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        // A child has the cores of the thread that starts it.
        let all = sched_getaffinity(None)?;
        sched_setaffinity(None, &only(first(&all)))?;
        let child = command.spawn();
        sched_setaffinity(None, &all)?;
        Ok(Process { child: child?, address: SocketAddr::from(([127, 0, 0, 1], port)), log })
    }
}

fn first(cores: &CpuSet) -> usize {
    (0..CpuSet::MAX_CPU).find(|core| cores.is_set(*core)).unwrap_or(0)
}

fn only(core: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(core);
    set
}

/// Keeps this thread off the core of the servers, if there is another one.
pub(crate) fn leave_the_first_core() -> Result<()> {
    let mut all = sched_getaffinity(None)?;
    if all.count() > 1 {
        all.unset(first(&all));
        sched_setaffinity(None, &all)?;
    }
    Ok(())
}

/// A port that is free for UDP and TCP at this moment.
fn free_port() -> Result<u16> {
    for _ in 0..64 {
        let tcp = std::net::TcpListener::bind("127.0.0.1:0")?;
        let port = tcp.local_addr()?.port();
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err("no port is free".into())
}

impl Process {
    /// CPU time of all its threads so far.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let mut nanoseconds = 0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let text = fs::read_to_string(thread?.path().join("schedstat"))?;
            nanoseconds += text.split(' ').next().unwrap_or_default().parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Memory it has in use, in bytes.
    pub(crate) fn resident(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
    }

    /// Fails if it has ended, with what it said.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("it ended ({status}):\n{}", fs::read_to_string(&self.log)?).into()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has already ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The least that any server must do: take a batch, mark each packet as an answer, send it back.
pub(crate) fn echo() -> Result<()> {
    let port: u16 = std::env::var("PORT")?.parse()?;
    let socket = UdpSocket::bind(("127.0.0.1", port))?;
    let (mut inbox, mut outbox) = (Inbox::new(1472), Outbox::new(64 << 10));
    loop {
        inbox.receive(socket.as_fd())?;
        for (packet, peer) in inbox.packets() {
            let mut answer = [0; 512];
            let length = packet.len().min(answer.len());
            answer[..length].copy_from_slice(&packet[..length]);
            answer[2] |= 0x80;
            _ = outbox.push(&answer[..length], &peer);
        }
        outbox.send(socket.as_fd());
    }
}

/// The DNS server, as the command starts it.
pub(crate) fn serve(corefile: &Path) -> Result<()> {
    use runtime::{admin::Admin, health::Health, metrics::Metrics, task::Tasks};
    runtime::tls::install_provider();
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    threads.block_on(async {
        let admin = Admin { health: Health::new(), metrics: Metrics::new() };
        let tasks = Tasks::new(&admin.metrics, &admin.health);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let settings = dns::server::Settings { conf: corefile.to_owned(), port: 53, threads: cores };
        let _started = dns::server::start(settings, admin, &tasks).await?;
        std::future::pending::<Result<()>>().await
    })
}
