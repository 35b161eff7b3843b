//! `up -d`: the same command as a process of its own, waited for until it serves.

use super::{DETACH, running};
use anyhow::{Context, bail};
use kernel::child::Child;
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// Longer than `up` itself waits for its parts.
const PATIENCE: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(50);
/// Lines of the log that are shown when it does not come up.
const TAIL: usize = 15;

/// Starts it in the background and prints what it says when it serves. One that runs already is left alone.
#[allow(clippy::disallowed_methods, reason = "this process does nothing but wait")]
pub(super) fn detach(folder: &Path) -> anyhow::Result<()> {
    if let Some(note) = running::find(folder)? {
        anstream::println!("It runs already, as process {}.\n{}", note.process, note.text.unwrap_or_default());
        return Ok(());
    }
    runtime::atomic_file::close_directory(folder).with_context(|| format!("the data folder {}", folder.display()))?;
    let log = folder.join("up.log");
    let program = std::env::current_exe().context("this program does not know where it is")?;
    let words = foreground(std::env::args().skip(1));
    // What the last one had to say is of no use to anybody.
    let _ = std::fs::remove_file(&log);
    let mut child = Child::start_apart(&program, &words, &log).with_context(|| log.display().to_string())?;
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let note = running::note(folder).filter(|note| note.process == child.id());
        if let Some(text) = note.and_then(|note| note.text) {
            anstream::println!("{text}\nIt runs in the background; its log is {}.", log.display());
            child.leave();
            return Ok(());
        }
        if let Some(how) = child.ended() {
            bail!("it has ended ({how}) before it served; the end of {}:\n{}", log.display(), tail(&log));
        }
        std::thread::sleep(PAUSE);
    }
    bail!("it has not come up within {} s; the end of {}:\n{}", PATIENCE.as_secs(), log.display(), tail(&log))
}

/// The same words, for a process that stays what it is.
fn foreground(words: impl Iterator<Item = String>) -> Vec<String> {
    let long = format!("--{}", DETACH.name);
    let asks = |word: &String| word == "-d" || *word == long || word.starts_with(&format!("{long}="));
    words.filter(|word| !asks(word)).chain([format!("{long}=false")]).collect()
}

fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_in_the_background_does_not_detach_again() {
        for given in ["up -d --nodes 2", "up --nodes 2 --detach", "up --detach=true --nodes 2", "up --nodes 2"] {
            let words = foreground(given.split(' ').map(str::to_owned));
            assert_eq!(words, ["up", "--nodes", "2", "--detach=false"], "{given}");
        }
    }
}
