//! `health`: `/health` for whoever decides on restarts.

use super::only;
use crate::{
    compile::{Building, HttpPath, Job, JobError},
    corefile::{Directive, Problem, Token},
    fetch,
    metrics::Counters,
    text,
};
use futures::future::BoxFuture;
use runtime::listen::Machine;
use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// How often this server looks at itself, and how long that may take.
const EVERY: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    serve(line, 8080, None, HttpPath::Health, building)?;
    for line in line.lines() {
        match line.name.text.as_str() {
            "lameduck" => building.whole.lameduck = text::duration(line.one()?)?,
            _ => return Err(line.unknown(&["lameduck"])),
        }
    }
    if let Some(address) = building.whole.http.iter().find(|(_, paths)| paths.contains(&HttpPath::Health)) {
        let (address, counters) = (reachable(*address.0), Arc::clone(&building.lasting.counters));
        building.whole.jobs.push(watch(address, counters));
    }
    Ok(())
}

/// Where this machine reaches what listens everywhere.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip().is_unspecified() {
        true => SocketAddr::new(Machine::look().loopback(), address.port()),
        false => address,
    }
}

/// Asks once a second how long an answer takes: a process that is short of time is slow here first.
fn watch(address: SocketAddr, counters: Arc<Counters>) -> Job {
    let run = move |stop: CancellationToken| {
        let counters = Arc::clone(&counters);
        let work = async move {
            let mut ticks = tokio::time::interval(EVERY);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            // The first one comes at once, before anything listens.
            ticks.tick().await;
            loop {
                tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    _ = ticks.tick() => {}
                }
                let begun = Instant::now();
                match tokio::time::timeout(PATIENCE, fetch::text(address, "/health")).await {
                    Ok(Ok(_)) => counters.health.observe(begun.elapsed().as_nanos() as u64),
                    _ => _ = counters.health_failures.inc(),
                }
            }
        };
        Box::pin(work) as BoxFuture<'static, Result<(), JobError>>
    };
    Job { name: "dns-health".to_owned(), run: Box::new(run) }
}

/// Adds an HTTP path at the address that a line gives, or at a default one.
pub(crate) fn serve(
    line: &Directive,
    port: u16,
    host: Option<IpAddr>,
    path: HttpPath,
    building: &mut Building<'_>,
) -> Result<(), Problem> {
    let default = SocketAddr::new(host.unwrap_or_else(|| Ipv6Addr::UNSPECIFIED.into()), port);
    let address = match line.args.as_slice() {
        [] => default,
        [address] => parse(address)?,
        [_, more, ..] => return Err(Problem::at(more, "one address is enough")),
    };
    let paths = building.whole.http.entry(address).or_default();
    if !paths.contains(&path) {
        paths.push(path);
    }
    Ok(())
}

/// `:8080`, `host:8080`; without a host both families are served.
fn parse(token: &Token) -> Result<SocketAddr, Problem> {
    let refused = || Problem::at(token, "accepted: an address and port such as 127.0.0.1:8080, [::1]:8080 or :8080");
    let text = token.text.as_str();
    let (host, port) = text.rsplit_once(':').ok_or_else(refused)?;
    let port = port.parse().map_err(|_| refused())?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let host = match host {
        "" => Ipv6Addr::UNSPECIFIED.into(),
        "localhost" => Machine::look().loopback(),
        host => host.parse().map_err(|_| refused())?,
    };
    Ok(SocketAddr::new(host, port))
}

#[cfg(test)]
mod tests {
    use crate::testing;

    #[test]
    fn addresses_of_both_families_are_read() {
        for (text, expected) in [
            ("health", "[::]:8080"),
            ("health :8181", "[::]:8181"),
            ("health 127.0.0.1:1", "127.0.0.1:1"),
            ("health [::1]:1", "[::1]:1"),
            ("health localhost:1 {\n lameduck 3s\n }", "127.0.0.1:1"),
        ] {
            let built = testing::build(&format!(". {{\n {text}\n}}")).unwrap();
            let addresses: Vec<String> = built.http.keys().map(ToString::to_string).collect();
            assert_eq!(addresses, [expected], "{text}");
        }
        assert_eq!(
            testing::refused(". {\n health nowhere\n}"),
            "Corefile:2:9: \"nowhere\": plugin health: accepted: an address and port such as 127.0.0.1:8080, [::1]:8080 or :8080"
        );
    }
}
