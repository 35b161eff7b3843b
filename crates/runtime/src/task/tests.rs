//! Tasks that end, fail, panic and are stopped.

use super::*;
use crate::metrics::TextFormat;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::mpsc;

const PATIENCE: Duration = Duration::from_secs(20);

struct Fixture {
    tasks: Tasks,
    metrics: Metrics,
    health: Health,
}

fn fixture() -> Fixture {
    let (metrics, health) = (Metrics::new(), Health::new());
    let backoff = Backoff { first: Duration::from_millis(1), cap: Duration::from_millis(5) };
    Fixture { tasks: Tasks::with_backoff(&metrics, &health, backoff), metrics, health }
}

impl Fixture {
    fn shows(&self, line: &str) -> bool {
        self.metrics.render(TextFormat::Classic).body.lines().any(|found| found == line)
    }

    fn readyz(&self) -> String {
        self.health.answer("/readyz", "verbose").unwrap().body
    }
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it never happened")
}

#[tokio::test]
async fn a_task_that_panics_or_fails_comes_back_and_its_neighbour_does_not_notice() {
    let fixture = fixture();
    let (report, mut reports) = mpsc::channel(1);
    let runs = Arc::new(AtomicU32::new(0));
    fixture.tasks.restarting("shaky", move |stop| {
        let (report, run) = (report.clone(), runs.fetch_add(1, Ordering::Relaxed));
        async move {
            match run {
                0 => panic!("first"),
                1 => Err("second"),
                _ => {
                    report.send(run).await.unwrap();
                    stop.cancelled().await;
                    Ok(())
                }
            }
        }
    });
    let starts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&starts);
    fixture.tasks.restarting("steady", move |stop| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            stop.cancelled().await;
            Ok::<_, BoxError>(())
        }
    });

    assert_eq!(soon(reports.recv()).await, Some(2), "it runs for the third time");
    assert_eq!(starts.load(Ordering::Relaxed), 1);
    assert!(fixture.shows("twinstack_task_restarts_total{task=\"shaky\"} 2"));
    assert!(fixture.shows("twinstack_task_restarts_total{task=\"steady\"} 0"));
    assert!(fixture.shows("twinstack_task_running{task=\"shaky\"} 1"));
    assert!(fixture.readyz().contains("[+]task-shaky ok\n[+]task-steady ok\n"), "{}", fixture.readyz());

    assert!(fixture.tasks.stop(PATIENCE).await.is_empty());
    assert!(fixture.shows("twinstack_task_running{task=\"shaky\"} 0"));
    assert!(!fixture.readyz().contains("task-"), "checks go with their tasks");
}

#[tokio::test]
async fn a_task_that_waits_for_its_restart_is_not_ready() {
    let (metrics, health) = (Metrics::new(), Health::new());
    let long = Backoff { first: Duration::from_secs(3600), cap: Duration::from_secs(3600) };
    let tasks = Tasks::with_backoff(&metrics, &health, long);
    tasks.restarting("broken", |_| async { Err("no luck") });
    soon(async {
        while health.answer("/readyz", "").unwrap().status == 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let one = health.answer("/readyz/task-broken", "").unwrap();
    assert_eq!(one.body, "internal server error: waits to be restarted after: no luck\n");
    assert_eq!(health.answer("/livez", "").unwrap().status, 200);
    assert!(tasks.stop(PATIENCE).await.is_empty(), "the wait for a restart ends at once");
}

#[tokio::test]
async fn a_panic_in_the_synchronous_part_is_caught_as_well() {
    let fixture = fixture();
    let runs = AtomicU32::new(0);
    let (report, mut reports) = mpsc::channel(1);
    fixture.tasks.restarting("early", move |_| {
        assert!(runs.fetch_add(1, Ordering::Relaxed) > 0, "before the future is there");
        let report = report.clone();
        async move { report.send(()).await }
    });
    assert_eq!(soon(reports.recv()).await, Some(()));
    assert!(fixture.tasks.stop(PATIENCE).await.is_empty());
}

#[tokio::test]
async fn the_failure_of_a_task_that_runs_once_is_reported() {
    for (name, expected) in [("errs", "no disk"), ("panics", "panic: no 7")] {
        let fixture = fixture();
        fixture.tasks.once("quiet", |_| async { Ok::<_, BoxError>(()) });
        fixture.tasks.once(name, move |_| async move {
            assert!(name == "errs", "no {}", 7);
            Err("no disk")
        });
        let failure = soon(fixture.tasks.failed()).await;
        assert_eq!(failure.to_string(), format!("task {name} failed: {expected}"));
        assert!(fixture.tasks.stop(PATIENCE).await.is_empty());
    }
}

#[tokio::test]
async fn servers_are_told_to_stop_before_workers() {
    let fixture = fixture();
    let (order, mut stopped) = mpsc::unbounded_channel();
    let note = order.clone();
    fixture.tasks.once("worker", |stop| async move {
        stop.cancelled().await;
        note.send("worker")
    });
    fixture.tasks.serve("server", |stop| async move {
        stop.cancelled().await;
        order.send("server")
    });
    assert!(fixture.tasks.stop(PATIENCE).await.is_empty());
    assert_eq!((stopped.recv().await, stopped.recv().await), (Some("server"), Some("worker")));
}

#[tokio::test]
async fn who_does_not_stop_is_aborted_and_named() {
    struct Dropped(mpsc::UnboundedSender<()>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let fixture = fixture();
    let (sender, mut dropped) = mpsc::unbounded_channel();
    let guard = Dropped(sender);
    fixture.tasks.once("deaf", |_| async move {
        std::future::pending::<()>().await;
        drop(guard);
        Ok::<_, BoxError>(())
    });
    fixture.tasks.once("polite", |stop| async move {
        stop.cancelled().await;
        Ok::<_, BoxError>(())
    });
    assert_eq!(fixture.tasks.stop(Duration::from_millis(500)).await, ["deaf"]);
    assert_eq!(soon(dropped.recv()).await, Some(()), "what it held is dropped");
    assert!(fixture.tasks.stop(PATIENCE).await.is_empty(), "nothing is left");
}

#[tokio::test]
async fn a_group_ends_before_the_others_and_with_them() {
    let Fixture { tasks, .. } = fixture();
    let waits = |tasks: &Tasks, name: &str| {
        let (done, ended) = tokio::sync::oneshot::channel();
        tasks.once(name, move |stop| async move {
            stop.cancelled().await;
            done.send(()).map_err(|()| "nobody listens")
        });
        ended
    };
    let mut outside = waits(&tasks, "outside");
    for _ in 0..2 {
        let group = tasks.group();
        let inside = waits(&group, "inside");
        assert!(soon(group.stop(PATIENCE)).await.is_empty());
        soon(inside).await.unwrap();
        assert!(outside.try_recv().is_err(), "the others go on");
    }
    let last = waits(&tasks.group(), "inside");
    assert!(soon(tasks.stop(PATIENCE)).await.is_empty());
    soon(last).await.unwrap();
    soon(outside).await.unwrap();
}

#[tokio::test]
async fn a_failure_in_a_group_is_one_of_the_process() {
    let Fixture { tasks, .. } = fixture();
    tasks.group().once("inside", |_| async { Err("broken") });
    assert_eq!(soon(tasks.failed()).await.to_string(), "task inside failed: broken");
}
