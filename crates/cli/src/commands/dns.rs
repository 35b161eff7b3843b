//! `twinstack dns`: a DNS server that executes a Corefile.

use super::Command;
use crate::{
    component,
    flag::{Flag, flag},
    read,
};
use dns::server::LONGEST_STOP;
use runtime::config::Settings;
use std::path::PathBuf;

pub(super) const COMMAND: Command = Command {
    name: "dns",
    about: "answer DNS queries as a Corefile says",
    more: "Understands the configuration of CoreDNS: server blocks with plugins, snippets, imports and environment variables. \
           Plugins run in CoreDNS's order, whatever the order of the lines; one that is not known is refused. \
           SIGUSR1, or the plugin reload, takes up a changed file without losing a query; a broken one is refused and the \
           old one goes on.",
    example: "printf '.:1053 {\\n  hosts {\\n    192.0.2.1 a.test\\n    2001:db8::1 a.test\\n  }\\n}\\n' > Corefile\n\
              twinstack dns --conf Corefile",
    flags: &[FLAGS],
    positional: None,
    long_running: true,
    run,
};

const FLAGS: &[Flag] = &[
    flag("conf", "FILE", "Corefile", "the Corefile"),
    flag("dns.port", "PORT", "53", "port of server blocks that name none"),
    flag("threads", "COUNT", "one per core", "threads for UDP, each with sockets of its own"),
];

/// What the flags say.
fn settings(given: &mut Settings) -> dns::server::Settings {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = |text: &str| text.parse().ok().filter(|count| (1..=1024).contains(count)).ok_or("is out of range");
    dns::server::Settings {
        conf: given.or("conf", PathBuf::from("Corefile"), "a file", read::path),
        port: given.or("dns.port", 53, "a port", str::parse),
        threads: given.or("threads", cores, "a number from 1 to 1024", threads),
    }
}

fn run(given: Settings) -> anyhow::Result<()> {
    let (log, settings) = given.read(|given| Some((component::log(given), settings(given))))?;
    // As long as the longest `lameduck`; it ends when everything has stopped.
    component::run_within(&log, LONGEST_STOP, async |admin, tasks| {
        let started = dns::server::start_within(settings, LONGEST_STOP, admin, &tasks).await?;
        for address in &started.addresses {
            tracing::info!(%address, "listening");
        }
        tracing::info!("DNS server is ready");
        Ok(())
    })
}
