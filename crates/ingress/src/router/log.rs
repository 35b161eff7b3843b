//! Access logs for standard output, and for sockets that HAProxy does not see: it sends them to a socket here.

use super::{haproxy::Layout, settings::LogTo};
use std::{io::Write, os::unix::fs::PermissionsExt, time::Duration};
use tokio::net::UnixDatagram;
use tokio_util::sync::CancellationToken;

/// The longest line HAProxy can be told to send.
const LONGEST: usize = 65_535;

/// How often it is looked whether the socket is still where HAProxy looks for it.
const LOOK: Duration = Duration::from_secs(5);

/// Opens the socket; HAProxy finds it when it writes its first line, and nobody else may.
pub(super) fn open(layout: &Layout) -> std::io::Result<UnixDatagram> {
    let path = layout.log();
    layout.make_sockets()?;
    // A socket without an owner stays behind when a process is killed.
    let _ = std::fs::remove_file(&path);
    let socket = UnixDatagram::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    if let Some(jail) = layout.jail() {
        std::os::unix::fs::chown(&path, Some(jail.uid), Some(jail.gid))?;
    }
    Ok(socket)
}

/// Passes on what arrives until it is told to stop. A socket whose file was removed is opened again.
pub(super) async fn pass_on(
    mut socket: UnixDatagram,
    layout: Layout,
    to: LogTo,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let mut line = vec![0; LONGEST];
    let outward = UnixDatagram::unbound()?;
    let path = layout.log();
    loop {
        let length = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            received = socket.recv(&mut line) => received?,
            () = tokio::time::sleep(LOOK) => {
                if !path.exists() && layout.folder().is_dir() && let Ok(again) = open(&layout) {
                    socket = again;
                }
                continue;
            }
        };
        // Nobody reads it: nothing to be done about that.
        match &to {
            LogTo::Stdout => {
                let text = String::from_utf8_lossy(&line[..length]);
                let _ = writeln!(std::io::stdout().lock(), "{}", message(text.trim_end()));
            }
            LogTo::Syslog(path) => drop(outward.send_to(&line[..length], path).await),
        }
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
