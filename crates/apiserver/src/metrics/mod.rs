//! metrics.k8s.io, built in: what nodes and Pods use now, asked of their kubelets when somebody asks here (`kubectl top`).
//!
//! Nothing is stored and nothing runs in between. The group is there as long as there is a Node, and gives way to anybody who
//! serves it otherwise (a definition, or an APIService that leads to a metrics-server).

mod discovery;
mod read;

pub(crate) use discovery::{groups, one_group, resources};

use crate::{
    ApiServer, Body, handle,
    kubelet::{self, Summary},
    request::{info::ResourceRequest, query::Query},
    select::labels::Labels,
};
use api::{error::ApiError, object::Fields};
use futures::future::join_all;
use http::Response;
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

pub(crate) const GROUP: &str = "metrics.k8s.io";
pub(crate) const VERSION: &str = "v1beta1";

/// Kubelets that are asked at a time.
const AT_ONCE: usize = 32;
/// How long one may take: a node that is gone must not hold up the others.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether there is anything to measure.
pub(crate) async fn available(server: &ApiServer) -> bool {
    let taken = server.registry().groups().iter().any(|group| group == GROUP)
        || server.aggregation.remotes().iter().any(|remote| remote.group == GROUP);
    !taken && server.store.list("minions/", None, Some(1), None).await.is_ok_and(|page| !page.entries.is_empty())
}

/// Whether a request is for this room.
pub(crate) fn is_asked(asked: &ResourceRequest) -> bool {
    asked.group == GROUP && asked.version == VERSION && matches!(asked.resource.as_str(), "nodes" | "pods")
}

/// Answers it. The caller may do this: the engine has asked.
pub(crate) async fn serve(
    server: &ApiServer,
    asked: &ResourceRequest,
    query: &Query,
) -> Result<Response<Body>, ApiError> {
    if !matches!(asked.verb, "get" | "list") || !asked.subresource.is_empty() {
        return Err(ApiError::method_not_allowed(asked.verb, &asked.resource, GROUP));
    }
    let labels = Labels::parse(query.get("labelSelector"))?;
    let nodes = server.objects("minions").await?;
    let answer = match asked.resource.as_str() {
        "nodes" => of_nodes(server, asked, nodes, &labels).await?,
        _ => of_pods(server, asked, nodes, &labels).await?,
    };
    Ok(handle::full(200, "application/json", answer.to_string().into()))
}

async fn of_nodes(
    server: &ApiServer,
    asked: &ResourceRequest,
    mut nodes: Vec<Value>,
    labels: &Labels,
) -> Result<Value, ApiError> {
    nodes.retain(|node| {
        let wanted = asked.name.is_empty() || node.str_at("metadata.name") == asked.name;
        wanted && labels.matches(&labels_of(node))
    });
    let summaries = summaries(server, &nodes).await;
    let found = nodes.iter().zip(&summaries).filter_map(|(node, summary)| read::node(node, summary.as_ref()?));
    listed("NodeMetrics", asked, found.collect())
}

async fn of_pods(
    server: &ApiServer,
    asked: &ResourceRequest,
    mut nodes: Vec<Value>,
    labels: &Labels,
) -> Result<Value, ApiError> {
    let folder = if asked.namespace.is_empty() { "pods".to_owned() } else { format!("pods/{}", asked.namespace) };
    let mut pods = server.objects(&folder).await?;
    pods.retain(|pod| {
        let wanted = asked.name.is_empty() || pod.str_at("metadata.name") == asked.name;
        wanted && labels.matches(&labels_of(pod))
    });
    nodes.retain(|node| pods.iter().any(|pod| pod.str_at("spec.nodeName") == node.str_at("metadata.name")));
    let summaries: Vec<Value> = summaries(server, &nodes).await.into_iter().flatten().collect();
    listed("PodMetrics", asked, pods.iter().filter_map(|pod| read::pod(pod, &summaries)).collect())
}

/// What each kubelet says, in the order of the nodes; nothing of those that do not answer.
async fn summaries(server: &ApiServer, nodes: &[Value]) -> Vec<Option<Value>> {
    let mut found = Vec::with_capacity(nodes.len());
    for some in nodes.chunks(AT_ONCE) {
        let asks: Vec<_> = some.iter().map(|node| summary(server, node)).collect();
        found.extend(join_all(asks).await);
    }
    found
}

async fn summary(server: &ApiServer, node: &Value) -> Option<Value> {
    let Summary(summary) = tokio::time::timeout(PATIENCE, kubelet::summary(server, node)).await.ok()??;
    Some(summary)
}

fn labels_of(object: &Value) -> BTreeMap<String, String> {
    let labels = object.map_at("metadata.labels").into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// One, or all of them in order.
fn listed(kind: &str, asked: &ResourceRequest, mut items: Vec<Value>) -> Result<Value, ApiError> {
    let api_version = format!("{GROUP}/{VERSION}");
    if !asked.name.is_empty() {
        let mut one = items.pop().ok_or_else(|| ApiError::not_found(&asked.resource, GROUP, &asked.name))?;
        (one["kind"], one["apiVersion"]) = (kind.into(), api_version.into());
        return Ok(one);
    }
    let name = |one: &Value| (one.str_at("metadata.namespace").to_owned(), one.str_at("metadata.name").to_owned());
    items.sort_by_key(name);
    Ok(json!({"kind": format!("{kind}List"), "apiVersion": api_version, "metadata": {}, "items": items}))
}
