//! From a signal to the end of the process. Awaited by every command in `cli` once its parts run.
//!
//! SIGTERM or SIGINT: `/readyz` fails, listeners close and drain, tasks are told, and after the grace what is left is
//! aborted. A second signal ends it at once.

use crate::{
    health::Health,
    task::{Failure, Tasks},
};
use futures::stream::{self, Stream, StreamExt};
use std::{io, time::Duration};
use tokio::signal::unix::{SignalKind, signal};

/// How long a graceful stop may take. Kubernetes gives a pod 30 s and then kills it; systemd gives 90 s.
pub const GRACE: Duration = Duration::from_secs(10);

/// The two signals that ask for an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, from a supervisor.
    Terminate,
    /// SIGINT, from a terminal.
    Interrupt,
}

impl Signal {
    const fn number(self) -> u8 {
        match self {
            Self::Interrupt => 2,
            Self::Terminate => 15,
        }
    }
}

/// How the process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Everything stopped by itself in time.
    Clean,
    /// These tasks did not, and were aborted.
    Aborted(Vec<String>),
    /// A second signal came before the first had done its work.
    Forced(Signal),
    /// A task failed that must not.
    Failed(Failure),
}

impl Ending {
    /// For [`std::process::ExitCode`]: 0, 1 when something was lost, and as a shell would show it when it was forced.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::Aborted(_) | Self::Failed(_) => 1,
            Self::Forced(signal) => 128 + signal.number(),
        }
    }
}

/// The signals of this process. From the first call on they no longer kill it.
pub fn signals() -> io::Result<impl Stream<Item = Signal> + Unpin> {
    let of = |kind, name| -> io::Result<_> {
        let source = signal(kind)?;
        Ok(stream::unfold(source, move |mut source| async move { source.recv().await.map(|()| (name, source)) })
            .boxed())
    };
    Ok(stream::select(of(SignalKind::terminate(), Signal::Terminate)?, of(SignalKind::interrupt(), Signal::Interrupt)?))
}

/// Waits for a signal or for a task that must not fail, then stops everything within `grace`.
pub async fn wait(
    mut signals: impl Stream<Item = Signal> + Unpin,
    health: &Health,
    tasks: &Tasks,
    grace: Duration,
) -> Ending {
    let failure = tokio::select! {
        signal = next(&mut signals) => {
            tracing::info!(?signal, ?grace, "stopping");
            None
        }
        failure = tasks.failed() => {
            tracing::error!(%failure, "stopping");
            Some(failure)
        }
    };
    health.shut_down();
    let aborted = tokio::select! {
        aborted = tasks.stop(grace) => aborted,
        signal = next(&mut signals) => {
            tracing::warn!(?signal, "second signal; stopping at once");
            tasks.abort();
            return Ending::Forced(signal);
        }
    };
    match failure {
        Some(failure) => Ending::Failed(failure),
        None if aborted.is_empty() => Ending::Clean,
        None => Ending::Aborted(aborted),
    }
}

/// The next signal; never, once there can be none.
async fn next(signals: &mut (impl Stream<Item = Signal> + Unpin)) -> Signal {
    match signals.next().await {
        Some(signal) => signal,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{http::BoxError, metrics::Metrics};

    fn parts() -> (Health, Tasks) {
        let health = Health::new();
        let tasks = Tasks::new(&Metrics::new(), &health);
        (health, tasks)
    }

    #[tokio::test]
    async fn a_signal_fails_readyz_before_tasks_are_told() {
        let (health, tasks) = parts();
        let (seen, mut ready_when_told) = tokio::sync::mpsc::channel(1);
        let asked = health.clone();
        tasks.serve("server", |stop| async move {
            stop.cancelled().await;
            seen.send(asked.answer("/readyz", "").unwrap().status).await
        });
        let ending = wait(stream::iter([Signal::Terminate]), &health, &tasks, GRACE).await;
        assert_eq!((&ending, ending.exit_code()), (&Ending::Clean, 0));
        assert_eq!(ready_when_told.recv().await, Some(500));
        assert_eq!(health.answer("/livez", "").unwrap().status, 200);
    }

    #[tokio::test]
    async fn a_second_signal_ends_it_at_once() {
        let (health, tasks) = parts();
        tasks.once("deaf", |_| std::future::pending::<Result<(), BoxError>>());
        let forever = Duration::from_secs(3600);
        let ending = wait(stream::iter([Signal::Terminate, Signal::Interrupt]), &health, &tasks, forever).await;
        assert_eq!((&ending, ending.exit_code()), (&Ending::Forced(Signal::Interrupt), 130));
    }

    #[tokio::test]
    async fn tasks_that_do_not_listen_are_aborted_and_told_of() {
        let (health, tasks) = parts();
        tasks.once("deaf", |_| std::future::pending::<Result<(), BoxError>>());
        let ending = wait(stream::iter([Signal::Interrupt]), &health, &tasks, Duration::from_millis(10)).await;
        assert_eq!((&ending, ending.exit_code()), (&Ending::Aborted(vec!["deaf".to_owned()]), 1));
    }

    #[tokio::test]
    async fn a_failed_task_ends_the_process() {
        let (health, tasks) = parts();
        tasks.once("store", |_| async { Err("disk full") });
        let ending = wait(stream::pending(), &health, &tasks, GRACE).await;
        let failure = Failure { task: "store".to_owned(), reason: "disk full".to_owned() };
        assert_eq!((ending.exit_code(), ending), (1, Ending::Failed(failure)));
    }

    #[tokio::test]
    async fn real_signals_arrive() {
        let (health, tasks) = parts();
        let signals = signals().unwrap();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM).unwrap();
        assert_eq!(wait(signals, &health, &tasks, GRACE).await, Ending::Clean);
    }
}
