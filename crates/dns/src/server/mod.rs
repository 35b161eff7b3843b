//! Packets in, packets out: sockets, threads, connections, the HTTP endpoints, and the change from one Corefile to
//! another.

pub mod addresses;
mod answer;
mod doh;
mod http;
mod reload;
mod sockets;
mod supervise;
mod tcp;
mod udp;

pub(crate) use doh::{MEDIA as DOH_MEDIA, PATH as DOH_PATH};
pub use supervise::{LONGEST_STOP, Settings, StartError, Started, start, start_within};

#[cfg(test)]
pub(crate) use answer::finish;
#[cfg(test)]
pub(crate) use answer::resolve;
#[cfg(test)]
pub(crate) use doh::tests::start as start_secure;

/// The machine's name.
pub(crate) fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "localhost".to_owned() } else { name.trim().to_owned() }
}
