//! A configuration file that is read again when it changes.

use super::{FileMistakes, ReloadMetrics};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(5);

/// The file of a flag, and what it said when the server began.
pub struct ConfigFile {
    path: PathBuf,
    text: String,
    metrics: ReloadMetrics,
}

impl ConfigFile {
    /// Reads it for the first time.
    pub fn load(path: &Path, metrics: ReloadMetrics) -> Result<Self, FileMistakes> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        Ok(Self { path: path.to_owned(), text, metrics })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Hands each new text to `take` until the server stops. What is not accepted changes nothing.
    pub async fn follow(&self, stop: CancellationToken, take: impl Fn(&str) -> Result<(), FileMistakes>) {
        let Self { path, text, metrics } = self;
        metrics.in_force(text);
        let mut known = Ok(text.clone());
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            let found = tokio::fs::read_to_string(path).await.map_err(|error| error.to_string());
            if found == known {
                continue;
            }
            let taken = found.as_ref().map_err(|why| why.clone().into()).and_then(|text| take(text));
            match (&found, taken) {
                (Ok(text), Ok(())) => {
                    tracing::info!(file = %path.display(), "the file has changed and was read again");
                    metrics.succeeded(text);
                }
                (_, Err(mistakes)) => {
                    tracing::warn!(file = %path.display(), %mistakes, "the file has changed and is not accepted; what it said before counts");
                    metrics.failed();
                }
                (Err(_), Ok(())) => {}
            }
            known = found;
        }
    }
}
