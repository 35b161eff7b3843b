//! `twinstack dns`: a DNS server that executes a Corefile.

use super::Command;
use crate::{
    component,
    flag::{DefaultFlag, Flag, file, flags, port},
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
    check: |given| {
        settings(given);
        Some(())
    },
    run,
};

flags! {
    FLAGS:
    CONF: DefaultFlag<PathBuf> = file("conf", "the Corefile").or("Corefile");
    DNS_PORT: DefaultFlag<u16> = port("dns.port", "port of server blocks that name none").or("53");
    THREADS: DefaultFlag<usize> = threads("threads", "threads for UDP, each with sockets of its own");
}

/// Threads that answer over UDP.
pub(super) const fn threads(name: &'static str, help: &'static str) -> DefaultFlag<usize> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    Flag::new(name, "COUNT", "a number from 1 to 1024", read::threads, help).or_else("one per core", cores)
}

/// What the flags say.
fn settings(given: &mut Settings) -> dns::server::Settings {
    dns::server::Settings { conf: given.get(&CONF), port: given.get(&DNS_PORT), threads: given.get(&THREADS) }
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
