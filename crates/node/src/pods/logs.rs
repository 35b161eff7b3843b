//! Logs of containers are turned over when they have grown: `0.log` becomes `0.log.20260101-000000`, older ones are packed, the oldest go.

use super::{Pods, observe::State};
use crate::cri::proto::ReopenContainerLogRequest;
use flate2::{Compression, write::GzEncoder};
use jiff::Timestamp;
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// As upstream's `containerLogMonitorInterval`.
const PERIOD: Duration = Duration::from_secs(10);

/// When a log is turned over, and how many of them are kept, the current one among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    pub size: u64,
    pub files: usize,
}

impl Pods {
    /// Looks at all logs now and then. Never ends.
    pub async fn rotate_logs(&self, limits: LogLimits) {
        loop {
            tokio::time::sleep(PERIOD).await;
            for (id, log) in self.index.logs(|state| state == State::Running) {
                if !fs::metadata(&log).is_ok_and(|file| file.len() > limits.size) {
                    continue;
                }
                let log_of = log.clone();
                let turned =
                    tokio::task::spawn_blocking(move || turn_over(&log_of, limits.files, Timestamp::now())).await;
                let turned = match turned {
                    Ok(turned) => turned,
                    Err(error) => Err(io::Error::other(error)),
                };
                if let Err(error) = turned {
                    tracing::warn!(log = %log.display(), %error, "a log cannot be turned over; tried again");
                    continue;
                }
                // Until it is told, the runtime writes into the old file, and nothing is lost.
                if let Err(error) = self.runtime.call(ReopenContainerLogRequest { container_id: id }).await {
                    tracing::warn!(log = %log.display(), %error, "the runtime does not open a new log");
                }
            }
        }
    }
}

/// Makes room for a new file of this name. Older ones than the last are packed: nobody writes to them any more.
fn turn_over(log: &Path, keep: usize, now: Timestamp) -> io::Result<()> {
    let mut old = turned(log)?;
    for file in &old {
        if file.extension().is_none_or(|end| end != "gz") {
            pack(file)?;
        }
    }
    old = turned(log)?;
    // The current one, and the one that it becomes, count too.
    let excess = (old.len() + 2).saturating_sub(keep.max(2));
    for file in old.iter().take(excess) {
        fs::remove_file(file)?;
    }
    let stamp = now.strftime("%Y%m%d-%H%M%S");
    fs::rename(log, with_end(log, &stamp.to_string()))
}

fn with_end(log: &Path, end: &str) -> PathBuf {
    let name = log.file_name().unwrap_or_default().to_string_lossy();
    log.with_file_name(format!("{name}.{end}"))
}

/// Earlier files of a log, oldest first.
fn turned(log: &Path) -> io::Result<Vec<PathBuf>> {
    let prefix = format!("{}.", log.file_name().unwrap_or_default().to_string_lossy());
    let Some(folder) = log.parent() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".tmp") {
            // Left by one that was stopped in the middle.
            fs::remove_file(entry.path())?;
        } else if name.starts_with(&prefix) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn pack(file: &Path) -> io::Result<()> {
    let part = with_end(file, "tmp");
    let mut packed = GzEncoder::new(File::create(&part)?, Compression::default());
    io::copy(&mut File::open(file)?, &mut packed)?;
    packed.finish()?.sync_all()?;
    fs::rename(&part, with_end(file, "gz"))?;
    fs::remove_file(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_logs_are_packed_and_the_oldest_go() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("0.log");
        for second in 0..5 {
            fs::write(&log, format!("round {second}\n")).unwrap();
            turn_over(&log, 3, Timestamp::from_second(second).unwrap()).unwrap();
        }
        let names: Vec<_> =
            turned(&log).unwrap().iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned()).collect();
        assert_eq!(names, ["0.log.19700101-000003.gz", "0.log.19700101-000004"]);
        assert!(!log.exists(), "the runtime makes the new one");
    }
}
