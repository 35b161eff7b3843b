//! Durable creates: dual-stack Services over several connections, each answered before the next is sent on it.

use super::{CONNECTIONS, PATH, SERVICES};
use crate::system::System;
use anyhow::ensure;
use futures::future::try_join_all;
use serde_json::{Value, json};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

/// A block that takes longer than this is ended, and the figures are those of what was made.
const PATIENCE: Duration = Duration::from_secs(70);

/// What a number of Services in a row cost.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    /// How many there were before.
    pub(crate) before: usize,
    /// How many were made.
    pub(crate) services: usize,
    /// Time for all of them.
    pub(crate) took: Duration,
    /// CPU time of the server for all of them.
    pub(crate) cpu: Duration,
}

impl Block {
    /// Services made per second.
    pub(crate) fn rate(&self) -> f64 {
        self.services as f64 / self.took.as_secs_f64()
    }

    /// CPU time of the server for one Service.
    pub(crate) fn cpu_each(&self) -> Duration {
        self.cpu.div_f64(self.services.max(1) as f64)
    }
}

/// The name of a Service by its number.
pub(super) fn name(number: usize) -> String {
    format!("service-{number:06}")
}

/// Makes the next block, where `before` are there already.
pub(super) async fn block(system: &System, before: usize) -> anyhow::Result<Block> {
    let next = AtomicUsize::new(before);
    let made = AtomicUsize::new(0);
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(system.target.connect().await?);
    }
    let cpu = system.cpu()?;
    let start = Instant::now();
    let create = |mut connection: crate::client::Connection| {
        let (next, made) = (&next, &made);
        async move {
            while start.elapsed() < PATIENCE {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= before + SERVICES {
                    break;
                }
                let answer = connection.create(PATH, &service(number)).await?;
                made.fetch_add(1, Ordering::Relaxed);
                if number == before {
                    is_dual_stack(&serde_json::from_slice(&answer)?)?;
                }
            }
            anyhow::Ok(())
        }
    };
    try_join_all(connections.into_iter().map(create)).await?;
    Ok(Block { before, services: made.into_inner(), took: start.elapsed(), cpu: system.cpu()? - cpu })
}

fn service(number: usize) -> Value {
    let name = name(number);
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": {
            "ipFamilyPolicy": "RequireDualStack",
            "selector": { "app": name },
            "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }],
        },
    })
}

/// A server that gave one address only would have done half the work.
fn is_dual_stack(service: &Value) -> anyhow::Result<()> {
    let addresses = &service["spec"]["clusterIPs"];
    ensure!(addresses.as_array().is_some_and(|addresses| addresses.len() == 2), "clusterIPs: {addresses}, want two");
    Ok(())
}
