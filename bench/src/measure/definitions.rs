//! Definitions that projects ship: how long they take to be served, and what they weigh.

use super::SETTLE;
use crate::{client::Connection, system::System};
use anyhow::{Context, bail};
use serde_json::Value;
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// Definitions of which the time until they are established is told apart.
pub(crate) const FIRST: usize = 30;

/// How long all of them may take to be established after the last was created.
const PATIENCE: Duration = Duration::from_secs(60);

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// What was measured of one system.
pub(crate) struct Defined {
    /// How many it took; those it refuses are told apart.
    pub(crate) taken: usize,
    /// From the first create until the first thirty are established.
    pub(crate) first: Duration,
    /// The same for all the others.
    pub(crate) rest: Duration,
    /// CPU time for all.
    pub(crate) cpu: Duration,
    /// Bytes of memory before and after.
    pub(crate) memory: [u64; 2],
}

/// Every definition in the JSON files below a folder, one of each name, in the order of the files' names.
pub(crate) fn read(folder: &Path) -> anyhow::Result<Vec<Value>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|ending| ending == "json") => files.push(path),
                false => {}
            }
        }
    }
    files.sort();
    let mut found: Vec<Value> = Vec::new();
    for file in files {
        let object: Value =
            serde_json::from_slice(&std::fs::read(&file)?).with_context(|| format!("{}: not JSON", file.display()))?;
        let is_new = found.iter().all(|known| known["metadata"]["name"] != object["metadata"]["name"]);
        if object["kind"] == "CustomResourceDefinition" && is_new {
            found.push(object);
        }
    }
    if found.is_empty() {
        bail!("{}: no CustomResourceDefinition in any .json file below it", folder.display());
    }
    Ok(found)
}

/// Creates all of them on one connection.
pub(crate) async fn measure(system: &mut System, definitions: &[Value]) -> anyhow::Result<Defined> {
    super::ready::wait(system).await?;
    tokio::time::sleep(SETTLE).await;
    let before = system.resident()?;
    let cpu = system.cpu()?;
    let mut connection = system.target.connect().await?;
    let (first, rest) = definitions.split_at(FIRST.min(definitions.len()));
    let (start, mut taken) = (Instant::now(), 0);
    taken += create(&mut connection, first).await?;
    let first = start.elapsed();
    let start = Instant::now();
    taken += create(&mut connection, rest).await?;
    let rest = start.elapsed();
    let cpu = system.cpu()? - cpu;
    tokio::time::sleep(SETTLE).await;
    Ok(Defined { taken, first, rest, cpu, memory: [before, system.resident()?] })
}

/// Creates some, waits until all that were taken are established, and says how many these are.
async fn create(connection: &mut Connection, definitions: &[Value]) -> anyhow::Result<usize> {
    let mut waiting = Vec::new();
    for definition in definitions {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        match connection.create(PATH, definition).await {
            Ok(_) => waiting.push(format!("{PATH}/{name}")),
            Err(refused) => crate::progress(&format!("{name} is refused: {refused:#}")),
        }
    }
    let (taken, end) = (waiting.len(), Instant::now() + PATIENCE);
    while let Some(path) = waiting.last() {
        let object: Value = serde_json::from_slice(&connection.read(path).await?)?;
        let conditions = object["status"]["conditions"].as_array();
        if conditions.into_iter().flatten().any(|one| one["type"] == "Established" && one["status"] == "True") {
            waiting.pop();
        } else if Instant::now() > end {
            bail!("{path} and {} others are not established within {PATIENCE:?}", waiting.len() - 1);
        } else {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    Ok(taken)
}
