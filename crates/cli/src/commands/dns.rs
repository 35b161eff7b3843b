//! `twinstack dns`: a DNS server that executes a Corefile.

use super::Command;
use crate::{
    component,
    flag::{DefaultFlag, Flag, file, flags, port, switch},
    read,
};
use anyhow::Context;
use dns::server::LONGEST_STOP;
use runtime::config::Settings;
use std::path::PathBuf;

pub(crate) const COMMAND: Command = Command {
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
    DNS_PORT: DefaultFlag<u16> = port("dns.port", "port of server blocks that name none").short('p').or("53");
    PIDFILE: Flag<PathBuf> = file("pidfile", "a file for the process id, for as long as it runs");
    PLUGINS: DefaultFlag<bool> = switch("plugins", "list the plugins and end").or("false");
    QUIET: DefaultFlag<bool> = switch("quiet", "do not say at start where it listens").or("false");
    THREADS: DefaultFlag<usize> = threads("threads", "threads for UDP, each with sockets of its own");
}

/// Threads that answer over UDP.
pub(super) const fn threads(name: &'static str, help: &'static str) -> DefaultFlag<usize> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    Flag::new(name, "COUNT", "a number from 1 to 1024", read::threads, help).or_else("one per core", cores)
}

/// What the flags say.
struct DnsSettings {
    server: dns::server::Settings,
    pidfile: Option<PathBuf>,
    plugins: bool,
    quiet: bool,
}

fn settings(given: &mut Settings) -> DnsSettings {
    DnsSettings {
        server: dns::server::Settings {
            conf: given.get(&CONF),
            port: given.get(&DNS_PORT),
            threads: given.get(&THREADS),
        },
        pidfile: given.optional(&PIDFILE),
        plugins: given.get(&PLUGINS),
        quiet: given.get(&QUIET),
    }
}

/// A file with the number of this process; it goes with it.
struct Pidfile(PathBuf);

impl Pidfile {
    fn write(path: PathBuf) -> anyhow::Result<Self> {
        let text = format!("{}\n", std::process::id());
        std::fs::write(&path, text).with_context(|| format!("--pidfile: {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Pidfile {
    fn drop(&mut self) {
        // Whoever took it away knows why.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn run(given: Settings) -> anyhow::Result<()> {
    let (log, settings) = given.read(|given| Some((component::log(given), settings(given))))?;
    let DnsSettings { server, pidfile, plugins, quiet } = settings;
    if plugins {
        dns::plugin::names().for_each(|name| anstream::println!("dns.{name}"));
        return Ok(());
    }
    let _pidfile = pidfile.map(Pidfile::write).transpose()?;
    // As long as the longest `lameduck`; it ends when everything has stopped.
    component::run_within(&log, LONGEST_STOP, async |admin, tasks| {
        let started = dns::server::start_within(server, LONGEST_STOP, admin, &tasks).await?;
        for address in started.addresses.iter().filter(|_| !quiet) {
            tracing::info!(%address, "listening");
        }
        tracing::info!("DNS server is ready");
        Ok(())
    })
}
