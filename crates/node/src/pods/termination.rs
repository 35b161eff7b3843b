//! What a container left as its last words: its termination message file, or the end of its log.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

/// As upstream: the longest message, and how much of a log stands in for one.
const LONGEST: u64 = 4096;
const LOG_LINES: usize = 80;
const LOG_BYTES: u64 = 2048;

/// The message of a container that ended.
pub(super) fn message(file: Option<&Path>, policy: &str, code: i32, log: &Path) -> Option<String> {
    // A file that is gone has nothing to say.
    let written = file.and_then(|file| head(file).ok()).filter(|text| !text.is_empty());
    if written.is_none() && policy == "FallbackToLogsOnError" && code != 0 {
        return tail(log).ok().filter(|text| !text.is_empty());
    }
    written
}

fn head(file: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(file)?.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last lines of a log, without the runtime's words before each.
fn tail(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let size = file.metadata()?.len();
    // Each line has some forty bytes of the runtime before it.
    file.seek(SeekFrom::Start(size.saturating_sub(LOG_BYTES * 8)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<[&str; 2]> = text.lines().filter_map(content).collect();
    let from = lines.len().saturating_sub(LOG_LINES);
    let mut text: String = lines[from..].iter().flatten().copied().collect();
    let over = text.len().saturating_sub(LOG_BYTES as usize);
    text.drain(..text.ceil_char_boundary(over));
    Ok(text)
}

/// What a container wrote, and the end of its line: `2026-01-01T00:00:00.000000000Z stdout F text`. With `P` the line goes on, or
/// was never ended.
fn content(line: &str) -> Option<[&str; 2]> {
    let mut words = line.splitn(4, ' ').skip(2);
    let end = if words.next()? == "P" { "" } else { "\n" };
    Some([words.next()?, end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_stands_in_where_it_may() {
        let folder = tempfile::tempdir().unwrap();
        let (file, log) = (folder.path().join("message"), folder.path().join("0.log"));
        std::fs::write(&log, "2026-01-01T00:00:00Z stderr F no such file\n2026-01-01T00:00:01Z stdout F bye\n")
            .unwrap();
        std::fs::write(&file, "").unwrap();
        let told = |policy, code| message(Some(&file), policy, code, &log);
        assert_eq!(told("File", 1), None);
        assert_eq!(told("FallbackToLogsOnError", 0), None);
        assert_eq!(told("FallbackToLogsOnError", 1).as_deref(), Some("no such file\nbye\n"));
        std::fs::write(
            &log,
            "2026-01-01T00:00:00Z stdout F a\n2026-01-01T00:00:00Z stdout P b\n2026-01-01T00:00:01Z stdout P c\n",
        )
        .unwrap();
        assert_eq!(told("FallbackToLogsOnError", 1).as_deref(), Some("a\nbc"));
        std::fs::write(&file, "DONE").unwrap();
        assert_eq!(message(Some(&file), "FallbackToLogsOnError", 1, &log).as_deref(), Some("DONE"));
    }
}
