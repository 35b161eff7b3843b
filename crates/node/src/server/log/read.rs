//! Reads a log from its end or its beginning, and goes on as it grows, through rotations.

use super::{line::Shown, options::LogOptions};
use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use runtime::http::{Body, BoxError};
use runtime::task::beside;
use std::{
    io::{self, SeekFrom},
    os::unix::fs::MetadataExt,
    path::PathBuf,
    time::Duration,
};
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncSeekExt},
    sync::mpsc,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

/// How often a log that is followed is looked at. Reading at the end of a file costs one call.
const LOOK: Duration = Duration::from_millis(100);
/// Looks at the end of the file before it is asked whether anything can follow.
const LOOKS_PER_QUESTION: u32 = 5;
const BLOCK: usize = 32 * 1024;

type Piece = Result<Frame<Bytes>, BoxError>;

/// The part of a log that is wanted, as a body. `goes_on` says whether anything can still be written.
pub(in crate::server) async fn stream(
    path: PathBuf,
    options: LogOptions,
    goes_on: impl Fn() -> bool + Send + Sync + 'static,
    stop: CancellationToken,
) -> io::Result<Body> {
    let mut file = File::open(&path).await?;
    if let Some(lines) = options.tail {
        let start = tail_start(&mut file, lines).await?;
        file.seek(SeekFrom::Start(start)).await?;
    }
    let (sender, receiver) = mpsc::channel::<Piece>(4);
    // Ends with the log, or when nobody reads it any more.
    beside("read-log", async move {
        let mut reader = Reader { path, file, shown: Shown::new(&options), pending: Vec::new(), sender };
        let done = stop.run_until_cancelled(reader.run(options.follow, goes_on)).await;
        if let Some(Err(error)) = done {
            let _ = reader.sender.send(Err(error.into())).await;
        }
    });
    let pieces = futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|piece| (piece, receiver))
    });
    Ok(StreamBody::new(pieces).boxed_unsync())
}

struct Reader {
    path: PathBuf,
    file: File,
    shown: Shown,
    /// A line whose end is not there yet.
    pending: Vec<u8>,
    sender: mpsc::Sender<Piece>,
}

impl Reader {
    async fn run(&mut self, follow: bool, goes_on: impl Fn() -> bool) -> io::Result<()> {
        let mut looks = 0;
        loop {
            match self.read().await? {
                Read::Enough => return Ok(()),
                Read::Some => {
                    looks = 0;
                    continue;
                }
                Read::End => {}
            }
            if !follow || self.sender.is_closed() {
                return Ok(());
            }
            if self.rotated().await? {
                continue;
            }
            looks += 1;
            if looks % LOOKS_PER_QUESTION == 0 && !goes_on() {
                // What was written between the last look and the end.
                while let Read::Some = self.read().await? {}
                return Ok(());
            }
            sleep(LOOK).await;
        }
    }

    /// Reads a block and sends what is whole of it.
    async fn read(&mut self) -> io::Result<Read> {
        let mut block = vec![0; BLOCK];
        let count = self.file.read(&mut block).await?;
        if count == 0 {
            return Ok(Read::End);
        }
        self.pending.extend_from_slice(&block[..count]);
        let mut out = Vec::new();
        let mut enough = false;
        let mut begin = 0;
        while let Some(end) = self.pending[begin..].iter().position(|byte| *byte == b'\n') {
            let line = &self.pending[begin..begin + end];
            begin += end + 1;
            if !self.shown.add(line, &mut out) {
                enough = true;
                break;
            }
        }
        self.pending.drain(..begin);
        if !out.is_empty() && self.sender.send(Ok(Frame::data(out.into()))).await.is_err() {
            return Ok(Read::Enough);
        }
        Ok(if enough { Read::Enough } else { Read::Some })
    }

    /// Goes on with the file that is in this place now, if it is another. All of the old one has been read.
    async fn rotated(&mut self) -> io::Result<bool> {
        let own = self.file.metadata().await?.ino();
        match tokio::fs::metadata(&self.path).await {
            Ok(there) if there.ino() != own => {
                // Written to the old one after the last read and before it was moved away.
                while let Read::Some = self.read().await? {}
                self.file = File::open(&self.path).await?;
                Ok(true)
            }
            // Moved away, and the next one is not there yet.
            _ => Ok(false),
        }
    }
}

enum Read {
    Some,
    End,
    /// Nobody wants more.
    Enough,
}

/// Where the last so many lines begin.
async fn tail_start(file: &mut File, lines: u64) -> io::Result<u64> {
    let mut at = file.seek(SeekFrom::End(0)).await?;
    if lines == 0 {
        return Ok(at);
    }
    let mut left = lines;
    let mut last = true;
    while at > 0 {
        let size = at.min(BLOCK as u64);
        at -= size;
        file.seek(SeekFrom::Start(at)).await?;
        let mut block = vec![0; size as usize];
        file.read_exact(&mut block).await?;
        for (index, byte) in block.iter().enumerate().rev() {
            // The end of the last line is not the beginning of one.
            if *byte == b'\n' && !std::mem::take(&mut last) {
                left -= 1;
                if left == 0 {
                    return Ok(at + index as u64 + 1);
                }
            }
            last = false;
        }
    }
    Ok(0)
}

/// Only for tests of this file and its neighbours.
#[cfg(test)]
pub(super) async fn whole(path: &std::path::Path, options: LogOptions) -> String {
    let body = stream(path.to_owned(), options, || false, CancellationToken::new()).await.unwrap();
    String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        io::Write,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
    };

    fn line(text: &str) -> String {
        format!("2026-01-02T03:04:05Z stdout F {text}\n")
    }

    #[tokio::test]
    async fn the_last_lines_are_found_from_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        // More than a block.
        let many: String = (0..5000).map(|number| line(&number.to_string())).collect();
        fs::write(&path, many).unwrap();
        for (tail, want) in [(Some(2), "4998\n4999\n"), (Some(0), ""), (Some(1), "4999\n")] {
            assert_eq!(whole(&path, LogOptions { tail, ..LogOptions::default() }).await, want);
        }
        assert_eq!(whole(&path, LogOptions { tail: Some(9000), ..LogOptions::default() }).await.lines().count(), 5000);
        assert_eq!(whole(&path, LogOptions { tail: Some(1500), ..LogOptions::default() }).await.lines().count(), 1500);
        assert_eq!(whole(&path, LogOptions::default()).await.lines().next(), Some("0"));
    }

    #[tokio::test]
    async fn a_followed_log_is_read_through_a_rotation_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        fs::write(&path, line("one")).unwrap();
        let runs = Arc::new(AtomicBool::new(true));
        let goes_on = {
            let runs = Arc::clone(&runs);
            move || runs.load(Ordering::Relaxed)
        };
        let options = LogOptions { follow: true, ..LogOptions::default() };
        let mut body = stream(path.clone(), options, goes_on, CancellationToken::new()).await.unwrap();
        let mut next = async || {
            let frame = body.frame().await?.unwrap();
            Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
        };
        assert_eq!(next().await.as_deref(), Some("one\n"));
        let mut old = fs::OpenOptions::new().append(true).open(&path).unwrap();
        fs::rename(&path, folder.path().join("0.log.old")).unwrap();
        old.write_all(line("two").as_bytes()).unwrap();
        fs::write(&path, line("three")).unwrap();
        assert_eq!(next().await.as_deref(), Some("two\n"));
        assert_eq!(next().await.as_deref(), Some("three\n"));
        runs.store(false, Ordering::Relaxed);
        assert_eq!(next().await, None);
    }
}
