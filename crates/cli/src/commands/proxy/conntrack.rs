//! The kernel's limits on connections that it remembers: set once at the start, with kube-proxy's flags and values.
//!
//! What cannot be set is told and left: a container may not be allowed to, and Services work without.

use crate::flag::{DefaultFlag, Flag, count, duration, flags, switch};
use runtime::config::Settings;
use std::{io, path::Path, thread, time::Duration};

const FOLDER: &str = "/proc/sys/net/netfilter";
flags! {
    pub(super) FLAGS:
    MAX_PER_CORE: DefaultFlag<u64> = count("conntrack-max-per-core", "connections to remember for each core, at least; 0 leaves the limit as it is").accepted("a whole number").or("32768");
    MIN: DefaultFlag<u64> = count("conntrack-min", "connections to remember, at least, however few cores there are").accepted("a whole number").or("131072");
    ESTABLISHED: DefaultFlag<Duration> = timeout("conntrack-tcp-timeout-established", "how long idle TCP connections are remembered; 0s leaves it as it is").or("24h");
    CLOSE_WAIT: DefaultFlag<Duration> = timeout("conntrack-tcp-timeout-close-wait", "how long half-closed TCP connections are remembered; 0s leaves it as it is").or("1h");
    BE_LIBERAL: DefaultFlag<bool> = switch("conntrack-tcp-be-liberal", "take TCP packets outside of the window for valid").or("false");
    UDP: DefaultFlag<Duration> = timeout("conntrack-udp-timeout", "how long UDP flows without an answer are remembered; 0s leaves it as it is").or("0s");
    UDP_STREAM: DefaultFlag<Duration> = timeout("conntrack-udp-timeout-stream", "how long UDP flows are remembered; 0s leaves it as it is").or("0s");
}

const fn timeout(name: &'static str, help: &'static str) -> Flag<Duration> {
    duration(name, help).accepted("a length of time such as 24h; 0s leaves it as it is")
}

/// What the flags say.
pub(super) struct ConntrackOptions {
    max_per_core: u64,
    min: u64,
    established: Duration,
    close_wait: Duration,
    be_liberal: bool,
    udp: Duration,
    udp_stream: Duration,
}

/// A setting of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Exactly(u64),
    AtLeast(u64),
}

pub(super) fn options(given: &mut Settings) -> ConntrackOptions {
    ConntrackOptions {
        max_per_core: given.get(&MAX_PER_CORE),
        min: given.get(&MIN),
        established: given.get(&ESTABLISHED),
        close_wait: given.get(&CLOSE_WAIT),
        be_liberal: given.get(&BE_LIBERAL),
        udp: given.get(&UDP),
        udp_stream: given.get(&UDP_STREAM),
    }
}

/// Sets what is to be set.
pub(super) fn apply(options: &ConntrackOptions) {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    for (name, wanted) in wanted(options, cores) {
        if let Err(error) = set(&Path::new(FOLDER).join(name), wanted) {
            tracing::warn!(setting = name, ?wanted, %error, "cannot set this; it stays as it is");
        }
    }
}

fn wanted(options: &ConntrackOptions, cores: u64) -> Vec<(&'static str, Wanted)> {
    let ConntrackOptions { max_per_core, min, established, close_wait, be_liberal, udp, udp_stream } = options;
    let mut list = Vec::new();
    // The kernel's limit is a C int.
    let most = max_per_core.saturating_mul(cores).max(*min).min(i32::MAX.unsigned_abs().into());
    if *max_per_core > 0 {
        list.push(("nf_conntrack_max", Wanted::AtLeast(most)));
    }
    for (name, time) in [
        ("nf_conntrack_tcp_timeout_established", established),
        ("nf_conntrack_tcp_timeout_close_wait", close_wait),
        ("nf_conntrack_udp_timeout", udp),
        ("nf_conntrack_udp_timeout_stream", udp_stream),
    ] {
        if !time.is_zero() {
            list.push((name, Wanted::Exactly(time.as_secs().max(1))));
        }
    }
    if *be_liberal {
        list.push(("nf_conntrack_tcp_be_liberal", Wanted::Exactly(1)));
    }
    list
}

/// Writes only what is different: in many containers these files can be read alone.
fn set(file: &Path, wanted: Wanted) -> io::Result<()> {
    let now = std::fs::read_to_string(file)?;
    let now: u64 = now.trim().parse().map_err(io::Error::other)?;
    let value = match wanted {
        Wanted::Exactly(value) if now != value => value,
        Wanted::AtLeast(value) if now < value => value,
        _ => return Ok(()),
    };
    std::fs::write(file, value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(flags: &[(&str, &str)]) -> ConntrackOptions {
        let flags = flags.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Settings::new("proxy").flags(flags).read(|given| Some(options(given))).unwrap()
    }

    #[test]
    fn the_values_are_those_of_kube_proxy() {
        let found = wanted(&read(&[]), 8);
        assert_eq!(
            found,
            [
                ("nf_conntrack_max", Wanted::AtLeast(262_144)),
                ("nf_conntrack_tcp_timeout_established", Wanted::Exactly(86_400)),
                ("nf_conntrack_tcp_timeout_close_wait", Wanted::Exactly(3600)),
            ]
        );
        assert_eq!(wanted(&read(&[]), 2)[0].1, Wanted::AtLeast(131_072));
        let nothing = [
            ("conntrack-max-per-core", "0"),
            ("conntrack-tcp-timeout-established", "0s"),
            ("conntrack-tcp-timeout-close-wait", "0s"),
        ];
        assert_eq!(wanted(&read(&nothing), 8), []);
        let more = [("conntrack-udp-timeout", "90s"), ("conntrack-tcp-be-liberal", "true")];
        let found = wanted(&read(&[&nothing[..], &more].concat()), 8);
        assert_eq!(
            found,
            [("nf_conntrack_udp_timeout", Wanted::Exactly(90)), ("nf_conntrack_tcp_be_liberal", Wanted::Exactly(1))]
        );
    }

    #[test]
    fn only_what_is_different_is_written_and_a_limit_is_never_lowered() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("setting");
        for (now, wanted, after) in [
            ("10\n", Wanted::AtLeast(20), "20"),
            ("30\n", Wanted::AtLeast(20), "30\n"),
            ("30\n", Wanted::Exactly(20), "20"),
            ("20\n", Wanted::Exactly(20), "20\n"),
        ] {
            std::fs::write(&file, now).unwrap();
            set(&file, wanted).unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), after);
        }
        assert!(set(&folder.path().join("missing"), Wanted::Exactly(1)).is_err());
    }
}
