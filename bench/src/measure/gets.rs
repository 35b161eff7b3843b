//! GETs of single Services, over several connections, each answered before the next is sent on it.

use super::{CONNECTIONS, PATH, creates};
use crate::system::System;
use futures::future::try_join_all;
use std::time::{Duration, Instant};

/// How long is counted.
const TIME: Duration = Duration::from_secs(3);

/// GETs per second; `services` are there.
pub(super) async fn rate(system: &System, services: usize) -> anyhow::Result<f64> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(system.target.connect().await?);
    }
    let start = Instant::now();
    let get = |(mut connection, mut number): (crate::client::Connection, usize)| async move {
        let mut count = 0_usize;
        while start.elapsed() < TIME {
            connection.read(&format!("{PATH}/{}", creates::name(number % services))).await?;
            // Far enough to come by all of them in no order that a cache likes.
            number += 7_919;
            count += 1;
        }
        anyhow::Ok(count)
    };
    let counts = try_join_all(connections.into_iter().zip((0..).step_by(617)).map(get)).await?;
    Ok(counts.iter().sum::<usize>() as f64 / start.elapsed().as_secs_f64())
}
