//! Pods that nobody will ever end: their node is gone, they were deleted before they had one, or there are too many of
//! those that have ended.

use super::HousekeepingOptions;
use crate::{
    framework::{Context, Result, Store},
    workloads::{disrupted, pods},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Client, ResourceExt,
    api::{DeleteParams, Preconditions},
};
use runtime::client::Api;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

/// A node that comes back within this time finds its pods again.
const QUARANTINE: Duration = Duration::from_secs(40);

/// Runs until it is dropped.
pub(super) async fn run(context: Context) -> Result<()> {
    let options = context.options().housekeeping.clone();
    let (pods, nodes): (Store<Pod>, Store<Node>) = (context.store(), context.store());
    context.synced(&[&pods, &nodes]).await;
    let mut missing: HashMap<String, Instant> = HashMap::new();
    let mut ticks = tokio::time::interval(options.pod_gc_period);
    loop {
        ticks.tick().await;
        let pods = pods.all();
        let nodes: HashSet<String> = nodes.all().iter().map(|node| node.name_any()).collect();
        let used =
            pods.iter().map(|pod| pods::node_name(pod)).filter(|node| !node.is_empty() && !nodes.contains(*node));
        let absent: HashSet<&str> = used.collect();
        missing.retain(|node, _| absent.contains(node.as_str()));
        for node in &absent {
            missing.entry((*node).to_owned()).or_insert_with(Instant::now);
        }
        let gone: HashSet<&str> =
            missing.iter().filter(|(_, since)| since.elapsed() >= QUARANTINE).map(|(node, _)| node.as_str()).collect();
        for pod in plan(&pods, &gone, &options) {
            if let Err(error) = remove(context.client(), pod).await {
                tracing::warn!(
                    pod = pod.name_any(),
                    error = &error as &dyn std::error::Error,
                    "not deleted; tried again"
                );
            }
        }
    }
}

/// The pods to delete. `gone` are nodes that have been missing for long enough.
fn plan<'a>(pods: &'a [Arc<Pod>], gone: &HashSet<&str>, options: &HousekeepingOptions) -> Vec<&'a Pod> {
    let mut doomed: Vec<&Pod> = Vec::new();
    let mut ended: Vec<&Pod> = Vec::new();
    for pod in pods.iter().map(|pod| &**pod) {
        let node = pods::node_name(pod);
        let deleted = pod.metadata.deletion_timestamp.is_some();
        if gone.contains(node) || (node.is_empty() && deleted) {
            doomed.push(pod);
        } else if pods::is_finished(pod) {
            ended.push(pod);
        }
    }
    if options.terminated_pod_gc_threshold > 0 {
        let created = |pod: &&Pod| pod.metadata.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0);
        ended.sort_by_key(created);
        let surplus = ended.len().saturating_sub(options.terminated_pod_gc_threshold);
        doomed.extend(ended.into_iter().take(surplus));
    }
    doomed
}

async fn remove(client: Client, pod: &Pod) -> kube::Result<()> {
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions { uid: pod.uid(), resource_version: None }),
        ..DeleteParams::default()
    };
    let api: Api<Pod> = Api::namespaced(client, &pod.namespace().unwrap_or_default());
    let told = match pods::node_name(pod) {
        _ if pods::is_finished(pod) => Ok(()),
        "" => disrupted::fail(&api, pod).await,
        _ => {
            let marked = disrupted::mark(&api, pod, "DeletionByPodGC", "PodGC: node no longer exists").await;
            if marked.is_ok() { disrupted::fail(&api, pod).await } else { marked }
        }
    };
    match told {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return Ok(()),
        told => told?,
    }
    match api.delete(&pod.name_any(), &params).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        answer => answer.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    #[test]
    fn what_nobody_ends_is_deleted() {
        let pod = |name: &str, node: &str, phase: &str, deleted: bool, created: &str| -> Arc<Pod> {
            let deleted = if deleted { json!("2026-01-01T00:00:00Z") } else { Value::Null };
            Arc::new(
                from_value(
                    json!({"metadata": {"name": name, "deletionTimestamp": deleted, "creationTimestamp": created},
                    "spec": {"nodeName": node, "containers": []}, "status": {"phase": phase}}),
                )
                .unwrap(),
            )
        };
        let pods = [
            pod("fine", "here", "Running", false, "2026-01-01T00:00:00Z"),
            pod("lost", "gone", "Running", false, "2026-01-01T00:00:00Z"),
            pod("waiting", "", "Pending", false, "2026-01-01T00:00:00Z"),
            pod("cancelled", "", "Pending", true, "2026-01-01T00:00:00Z"),
            pod("new", "here", "Succeeded", false, "2026-01-03T00:00:00Z"),
            pod("old", "here", "Failed", false, "2026-01-01T00:00:00Z"),
            pod("middle", "here", "Succeeded", false, "2026-01-02T00:00:00Z"),
        ];
        let gone = HashSet::from(["gone"]);
        for (threshold, expected) in [
            (0, vec!["lost", "cancelled"]),
            (3, vec!["lost", "cancelled"]),
            (1, vec!["lost", "cancelled", "old", "middle"]),
        ] {
            let options =
                HousekeepingOptions { terminated_pod_gc_threshold: threshold, ..HousekeepingOptions::default() };
            let names: Vec<String> = plan(&pods, &gone, &options).iter().map(|pod| pod.name_any()).collect();
            assert_eq!(names, expected, "{threshold}");
        }
    }
}
