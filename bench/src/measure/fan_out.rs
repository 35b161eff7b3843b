//! Watch fan-out: many watchers on connections of their own, one writer, until all watchers have all events.

use crate::{client::Connection, system::System};
use anyhow::{Context, bail};
use futures::{
    future::try_join_all,
    stream::{StreamExt, TryStreamExt},
};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::json;
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

/// How many watch.
pub(crate) const WATCHERS: usize = 1_000;

/// How many changes each of them gets.
pub(crate) const EVENTS: usize = 100;

/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(40);

/// Connections made at the same time.
const CONNECTING: usize = 32;

const PATH: &str = "/api/v1/namespaces/default/configmaps";

/// What it took.
#[derive(Clone, Copy)]
pub(crate) struct FanOut {
    /// From the first write until the last watcher has the last event.
    pub(crate) took: Duration,
    /// CPU time of the server meanwhile.
    pub(crate) cpu: Duration,
}

/// Measures it, with the watchers' connections made before.
pub(super) async fn measure(system: &System) -> anyhow::Result<FanOut> {
    let mut writer = system.target.connect().await?;
    let list: serde_json::Value = serde_json::from_slice(&writer.read(PATH).await?)?;
    let revision = list["metadata"]["resourceVersion"].as_str().context("a list without resourceVersion")?;
    let path = format!("{PATH}?watch=true&resourceVersion={revision}");
    let watchers: Vec<_> = futures::stream::iter((0..WATCHERS).map(|_| watch(system, &path)))
        .buffer_unordered(CONNECTING)
        .try_collect()
        .await?;
    let cpu = system.cpu()?;
    let start = Instant::now();
    let write = async {
        for number in 0..EVENTS {
            let object = json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": { "name": format!("event-{number}") },
                "data": { "text": "x".repeat(500) },
            });
            writer.create(PATH, &object).await?;
        }
        anyhow::Ok(())
    };
    let had = AtomicUsize::new(0);
    let read = try_join_all(watchers.into_iter().map(|watcher| read(watcher, &had)));
    let all = async { futures::try_join!(write, read) };
    match tokio::time::timeout(PATIENCE, all).await {
        Ok(done) => {
            done?;
            Ok(FanOut { took: start.elapsed(), cpu: system.cpu()? - cpu })
        }
        Err(_) => bail!(
            "{WATCHERS} watchers did not have {EVENTS} events each within {PATIENCE:?}, but {} in all",
            had.into_inner()
        ),
    }
}

async fn watch(system: &System, path: &str) -> anyhow::Result<(Connection, Incoming)> {
    let mut connection = system.target.connect().await?;
    let body = connection.watch(path).await?;
    Ok((connection, body))
}

/// Reads until all events are there: each is one line.
async fn read((_connection, mut body): (Connection, Incoming), had: &AtomicUsize) -> anyhow::Result<()> {
    let mut lines = 0;
    while lines < EVENTS {
        let frame = body.frame().await.context("the watch ended too early")??;
        let new = frame.data_ref().map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count());
        had.fetch_add(new, Ordering::Relaxed);
        lines += new;
    }
    Ok(())
}
