//! A file that is read again whenever it has changed, for plugins that keep more in files than in the Corefile.

use crate::compile::Job;
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Looks at the file every so often and has it read when its time or length is another one, until that succeeds once.
pub(crate) fn file(
    name: &str,
    path: PathBuf,
    every: Duration,
    read: impl Fn(&Path) -> io::Result<()> + Send + Sync + 'static,
) -> Job {
    let read = Arc::new(read);
    let run = move |stop: CancellationToken| {
        let (path, read) = (path.clone(), Arc::clone(&read));
        let work = async move {
            let mut seen = stamp(&path);
            loop {
                tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    () = tokio::time::sleep(every) => {}
                }
                let now = stamp(&path);
                if now != seen && read(&path).is_ok() {
                    seen = now;
                }
            }
        };
        Box::pin(work) as futures::future::BoxFuture<'static, _>
    };
    Job { name: name.to_owned(), run: Box::new(run) }
}

fn stamp(path: &Path) -> Option<(std::time::SystemTime, u64)> {
    std::fs::metadata(path).and_then(|file| Ok((file.modified()?, file.len()))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_read_until_it_can_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights");
        std::fs::write(&path, "a").unwrap();
        let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let job = file("test", path.clone(), Duration::from_millis(1), move |path| {
            let text = std::fs::read_to_string(path)?;
            sender.send(text.clone()).map_err(|_| io::ErrorKind::BrokenPipe)?;
            if text == "broken" { Err(io::ErrorKind::InvalidData.into()) } else { Ok(()) }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let stop = CancellationToken::new();
            let changes = async {
                // The job has seen the file by now: it is polled first.
                std::fs::write(&path, "broken").unwrap();
                assert_eq!(seen.recv().await.as_deref(), Some("broken"));
                // Refused, and so read again.
                assert_eq!(seen.recv().await.as_deref(), Some("broken"));
                std::fs::write(&path, "good one").unwrap();
                while seen.recv().await.as_deref() != Some("good one") {}
                stop.cancel();
            };
            let (ended, ()) = futures::join!((job.run)(stop.clone()), changes);
            assert!(ended.is_ok());
            assert!(seen.try_recv().is_err(), "what was taken up is not read again");
        });
    }
}
