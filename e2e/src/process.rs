//! A child process that ends with its handle.

use std::{
    ffi::OsStr,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// A running program. Its output goes into a file that failing tests can show.
pub struct Process {
    child: Child,
    log: PathBuf,
}

/// What a process has used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU time, of those that it waited for too.
    pub cpu: Duration,
    /// Memory that it holds, in bytes.
    pub resident: u64,
}

impl Process {
    /// Starts a program; stdout and stderr go into `log`.
    pub fn start(program: impl AsRef<OsStr>, words: &[&str], log: &Path) -> Self {
        let file = File::create(log).expect("the log file can be made");
        let errors = file.try_clone().expect("a file handle can be copied");
        let mut command = Command::new(program);
        let child = command.args(words).stdin(Stdio::null()).stdout(file).stderr(errors).spawn();
        Self { child: child.expect("the program starts"), log: log.to_owned() }
    }

    /// What it has printed so far.
    pub fn output(&self) -> String {
        let mut text = String::new();
        let read = File::open(&self.log).and_then(|mut file| file.read_to_string(&mut text));
        read.map(|_| text).unwrap_or_default()
    }

    /// Process id.
    /// What it has used so far; of nothing, when it has ended.
    pub fn usage(&self) -> Usage {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", self.id())).unwrap_or_default();
        let (stat, status) = (read("stat"), read("status"));
        let fields = stat.rsplit_once(") ").map(|(_, fields)| fields).unwrap_or_default();
        // User and kernel time, own and of children, in hundredths of a second.
        let ticks: u64 = fields.split(' ').skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        let resident = line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) << 10;
        Usage { cpu: Duration::from_millis(ticks * 10), resident }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM and waits for the end.
    pub fn terminate(&mut self, within: Duration) -> Option<ExitStatus> {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        self.ended(within)
    }

    /// Ends it at once, as a power cut would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// How it ended, if it does within this time.
    pub fn ended(&mut self, within: Duration) -> Option<ExitStatus> {
        wait_for(within, || self.child.try_wait().ok().flatten())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Asks again and again until there is an answer, or the time is over; less often the longer it takes, so that asking does not hold it up.
#[allow(clippy::disallowed_methods, reason = "the one place where tests wait for other processes")]
pub fn wait_for<T>(within: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        let passed = start.elapsed();
        if passed > within {
            return None;
        }
        std::thread::sleep((passed / 20).clamp(Duration::from_millis(20), Duration::from_secs(2)));
    }
}
