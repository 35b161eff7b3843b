//! What every long-running command does around its own work: logging, threads, signals, a graceful end.

use crate::flag::{CONFIG, LOG_FORMAT, LOG_LEVEL};
use kube::Client;
use runtime::{
    admin::Admin,
    config::Settings,
    health::Health,
    log::{self, Format, Level},
    metrics::Metrics,
    shutdown::{self, Ending},
    task::Tasks,
    watch::{report, view},
};
use std::time::Duration;

/// How to log.
pub(crate) struct Log {
    format: Format,
    level: Level,
}

/// Reads the flags of `flag::COMMON`.
pub(crate) fn log(given: &mut Settings) -> Log {
    // Read by `args` already; asked for here so that it is known.
    given.optional(&CONFIG);
    Log { format: given.get(&LOG_FORMAT), level: given.get(&LOG_LEVEL) }
}

/// Shows in a Lease that this process sees the API, for `doctor`.
pub(crate) fn report(client: Client, component: &'static str, namespace: String, tasks: &Tasks) {
    tasks.once("sign-of-life", move |stop| async move {
        report::report(client, component, &namespace, stop).await;
        Ok::<_, std::convert::Infallible>(())
    });
}

/// Says what was given and changes nothing.
pub(crate) fn remark(lines: &[String]) {
    for line in lines {
        anstream::eprintln!("\x1b[1;33mwarning:\x1b[0m {line}");
    }
}

/// Starts the parts, then waits for a signal or a failure and stops everything.
pub(crate) fn run(log: &Log, start: impl AsyncFnOnce(Admin, Tasks) -> anyhow::Result<()>) -> anyhow::Result<()> {
    run_within(log, shutdown::GRACE, start)
}

/// The same for what needs longer to stop.
pub(crate) fn run_within(
    log: &Log,
    grace: Duration,
    start: impl AsyncFnOnce(Admin, Tasks) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    log::init(log.format, &log.level)?;
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ending = threads.block_on(async {
        let signals = shutdown::signals()?;
        let admin = Admin { health: Health::new(), metrics: Metrics::new() };
        let tasks = Tasks::new(&admin.metrics, &admin.health);
        view::show(&admin);
        let health = admin.health.clone();
        start(admin, tasks.clone()).await?;
        Ok::<_, anyhow::Error>(shutdown::wait(signals, &health, &tasks, grace).await)
    })?;
    // What is still blocked then is nobody's loss.
    threads.shutdown_background();
    match ending {
        Ending::Clean => Ok(()),
        Ending::Failed(failure) => Err(anyhow::anyhow!("{failure}")),
        Ending::Aborted(tasks) => Err(anyhow::anyhow!("these did not stop in time: {}", tasks.join(", "))),
        Ending::Forced(_) => Err(anyhow::anyhow!("stopped by a second signal")),
    }
}
