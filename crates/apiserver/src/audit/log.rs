//! Where audit events go: one JSON line each, written by a thread of its own, to a file that may be rotated or to stdout.
//!
//! The queue is bounded. When the disk is slower than the requests, events are dropped and counted rather than requests
//! held up; `dropped` is a metric.

use prometheus_client::metrics::counter::Counter;
use runtime::metrics::Metrics;
use serde_json::Value;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    thread::JoinHandle,
};

/// Events waiting for the disk: about half a second of the busiest server at 1 kB each.
const QUEUE: usize = 10_000;

/// Where to, and how long a file may grow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `--audit-log-path=-`.
    Stdout,
    /// `--audit-log-path`.
    File {
        /// The file that is written to; older ones get `.1`, `.2`, ...
        path: PathBuf,
        /// Rotate before the file grows past this many bytes (`--audit-log-maxsize`).
        max_bytes: Option<u64>,
        /// How many older files are kept (`--audit-log-maxbackup`).
        backups: usize,
    },
}

impl Target {
    /// From the value of `--audit-log-path`, without rotation.
    pub fn from_flag(path: &str) -> Self {
        match path {
            "-" => Self::Stdout,
            path => Self::File { path: path.into(), max_bytes: None, backups: 0 },
        }
    }
}

/// The log. Dropping it writes what is still waiting.
#[derive(Debug)]
pub struct Log {
    queue: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
    dropped: Counter,
}

impl Log {
    /// Opens the target and starts the thread.
    pub fn open(target: Target) -> io::Result<Self> {
        let sink: Box<dyn Sink> = match target {
            Target::Stdout => Box::new(io::stdout()),
            Target::File { path, max_bytes, backups } => Box::new(Rotating::open(path, max_bytes, backups)?),
        };
        let (queue, lines) = sync_channel(QUEUE);
        let dropped = Counter::default();
        let lost = dropped.clone();
        let thread = std::thread::Builder::new().name("audit".into()).spawn(move || write_all(&lines, sink, &lost))?;
        Ok(Self { queue: Some(queue), thread: Some(thread), dropped })
    }

    /// Queues an event. Never waits.
    pub fn write(&self, event: &Value) {
        let mut line = event.to_string().into_bytes();
        line.push(b'\n');
        let sent = self.queue.as_ref().is_some_and(|queue| queue.try_send(line).is_ok());
        if !sent {
            self.dropped.inc();
        }
    }

    /// How many events never reached the disk.
    pub fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    /// Shows the lost events under upstream's name.
    pub fn register(&self, metrics: &Metrics) {
        metrics.register("apiserver_audit_error", "audit events that never reached the disk", self.dropped.clone());
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // The thread ends when the queue has no sender and no line.
        drop(self.queue.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the audit log thread broke");
        }
    }
}

trait Sink: Send {
    fn line(&mut self, line: &[u8]) -> io::Result<()>;
    fn settle(&mut self) -> io::Result<()>;
}

impl Sink for io::Stdout {
    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        self.write_all(line)
    }
    fn settle(&mut self) -> io::Result<()> {
        self.flush()
    }
}

/// Writes until the queue is closed; flushes whenever it runs empty.
fn write_all(lines: &Receiver<Vec<u8>>, mut sink: Box<dyn Sink>, lost: &Counter) {
    let mut failing = false;
    loop {
        let next = match lines.try_recv() {
            Ok(line) => Some(line),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                note(sink.settle(), &mut failing, lost, 0);
                lines.recv().ok()
            }
        };
        let Some(line) = next else { break };
        note(sink.line(&line), &mut failing, lost, 1);
    }
    note(sink.settle(), &mut failing, lost, 0);
}

/// Counts a failed write and tells of the first in a row.
fn note(result: io::Result<()>, failing: &mut bool, lost: &Counter, events: u64) {
    match result {
        Ok(()) => *failing &= events == 0,
        Err(error) => {
            lost.inc_by(events);
            if !std::mem::replace(failing, true) {
                tracing::error!(%error, "audit events cannot be written");
            }
        }
    }
}

struct Rotating {
    path: PathBuf,
    max_bytes: Option<u64>,
    backups: usize,
    file: BufWriter<File>,
    size: u64,
}

impl Rotating {
    fn open(path: PathBuf, max_bytes: Option<u64>, backups: usize) -> io::Result<Self> {
        let (file, size) = append_to(&path)?;
        Ok(Self { path, max_bytes, backups, file, size })
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file.flush()?;
        let older = |number: usize| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..self.backups).rev() {
            if older(number).exists() {
                fs::rename(older(number), older(number + 1))?;
            }
        }
        match self.backups {
            0 => fs::remove_file(&self.path)?,
            _ => fs::rename(&self.path, older(1))?,
        }
        (self.file, self.size) = append_to(&self.path)?;
        Ok(())
    }
}

/// Opens for appending, readable by the owner alone: who did what is nobody else's business.
fn append_to(path: &Path) -> io::Result<(BufWriter<File>, u64)> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let size = file.metadata()?.len();
    Ok((BufWriter::new(file), size))
}

impl Sink for Rotating {
    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        let after = self.size + line.len() as u64;
        if self.size > 0 && self.max_bytes.is_some_and(|most| after > most) {
            self.rotate()?;
        }
        self.file.write_all(line)?;
        self.size += line.len() as u64;
        Ok(())
    }

    fn settle(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn events_are_lines_in_order_in_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/audit.log");
        for round in 0..2 {
            let log = Log::open(Target::from_flag(path.to_str().unwrap())).unwrap();
            for number in 0..100 {
                log.write(&json!({"n": round * 100 + number}));
            }
            assert_eq!(log.dropped(), 0);
        }
        let text = fs::read_to_string(&path).unwrap();
        let numbers: Vec<i64> =
            text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["n"].as_i64().unwrap()).collect();
        assert_eq!(numbers, (0..200).collect::<Vec<_>>(), "a second start appends");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_full_file_is_rotated_and_old_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let target = Target::File { path: path.clone(), max_bytes: Some(20), backups: 2 };
        let log = Log::open(target).unwrap();
        for number in 0..7 {
            // Eight bytes with the line's end: two fit into twenty.
            log.write(&json!({"n": number}));
        }
        drop(log);
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("audit.log"), "{\"n\":6}\n");
        assert_eq!(read("audit.log.1"), "{\"n\":4}\n{\"n\":5}\n");
        assert_eq!(read("audit.log.2"), "{\"n\":2}\n{\"n\":3}\n");
        assert!(!folder.path().join("audit.log.3").exists());
    }

    #[test]
    fn a_full_queue_drops_and_counts_instead_of_waiting() {
        let (queue, lines) = sync_channel(1);
        let log = Log { queue: Some(queue), thread: None, dropped: Counter::default() };
        for _ in 0..3 {
            log.write(&json!({}));
        }
        assert_eq!(log.dropped(), 2);
        drop(lines);
        log.write(&json!({}));
        assert_eq!(log.dropped(), 3);
    }

    #[test]
    fn a_path_that_cannot_be_written_is_an_error_at_start() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Log::open(Target::from_flag(folder.path().to_str().unwrap())).is_err());
        assert_eq!(Target::from_flag("-"), Target::Stdout);
    }
}
