//! Access logs for standard output: HAProxy, which has none of its own, sends them to a socket here.

use std::{
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::net::UnixDatagram;
use tokio_util::sync::CancellationToken;

/// The longest line HAProxy can be told to send.
const LONGEST: usize = 65_535;

/// How often it is looked whether the socket is still where HAProxy looks for it.
const LOOK: Duration = Duration::from_secs(5);

/// Opens the socket; HAProxy finds it when it writes its first line.
pub(super) fn open(path: &Path) -> std::io::Result<UnixDatagram> {
    // A socket without an owner stays behind when a process is killed.
    let _ = std::fs::remove_file(path);
    UnixDatagram::bind(path)
}

/// Prints what arrives until it is told to stop. A socket whose file was removed is opened again.
pub(super) async fn print(mut socket: UnixDatagram, path: PathBuf, stop: CancellationToken) -> std::io::Result<()> {
    let mut line = vec![0; LONGEST];
    loop {
        let length = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            received = socket.recv(&mut line) => received?,
            () = tokio::time::sleep(LOOK) => {
                if !path.exists() && let Ok(again) = open(&path) {
                    socket = again;
                }
                continue;
            }
        };
        let text = String::from_utf8_lossy(&line[..length]);
        // Nobody reads it: nothing to be done about that.
        let _ = writeln!(std::io::stdout().lock(), "{}", message(text.trim_end()));
    }
}

/// Without what syslog puts before it.
fn message(line: &str) -> &str {
    line.split_once("]: ").map_or(line, |(_, message)| message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syslogs_own_words_are_left_out() {
        assert_eq!(message("<142>Nov 15 15:00:00 haproxy[12]: [fd00::1]:80 x"), "[fd00::1]:80 x");
        assert_eq!(message("bare"), "bare");
    }
}
