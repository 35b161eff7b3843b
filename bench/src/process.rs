//! A server under measurement: started with its log in a file, looked at through `/proc`, killed when dropped.

use anyhow::{Context, bail};
use std::{
    ffi::OsStr,
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// Linux counts CPU time in hundredths of a second wherever Rust runs.
const TICK: Duration = Duration::from_millis(10);

pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program`; what it says goes to a file in `folder`.
    pub(crate) fn start<A: AsRef<OsStr>>(
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let log = folder.join(format!("{name}.log"));
        let output = File::create(&log).with_context(|| log.display().to_string())?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { name, child, log })
    }

    /// Fails if it has ended.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        bail!("{} ended ({status})", self.name)
    }

    /// The last lines of its log, and whether it has ended.
    pub(crate) fn last_words(&mut self) -> String {
        let state = self.check().err().map_or_else(|| format!("{} runs", self.name), |ended| ended.to_string());
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        format!("{state}; the end of its log:\n{}", lines[lines.len().saturating_sub(10)..].join("\n"))
    }

    /// Memory it has in use, in bytes (`VmRSS`).
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kilobytes << 10)
    }

    /// CPU time it has used so far, in user and kernel mode.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name in brackets may contain anything; the fields after it are counted from the third.
        let (_, fields) = stat.rsplit_once(") ").context("no name in stat")?;
        let fields: Vec<_> = fields.split(' ').collect();
        let [user, system] = [11, 12].map(|index| fields.get(index).and_then(|field| field.parse::<u32>().ok()));
        Ok(TICK * (user.context("no user time")? + system.context("no system time")?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has already ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
