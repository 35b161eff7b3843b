//! What a node's kubelet measures, for metrics.

use super::{
    exchange,
    plan::{
        node,
        target::{Security, Target},
    },
    reach::Via,
};
use crate::ApiServer;
use http::Request;
use http_body_util::{BodyExt, Limited};
use runtime::http::empty;
use serde_json::Value;

/// `/stats/summary` of one node.
pub(crate) struct Summary(pub(crate) Value);

/// A node with a thousand Pods says less.
const LONGEST: usize = 16 << 20;

/// Asks; nothing if there is no answer that can be read.
pub(crate) async fn summary(server: &ApiServer, of: &Value) -> Option<Summary> {
    let to = node::kubelet(of, &server.kubelets.settings).ok()?;
    let target = Target { to, security: Security::Kubelet, path: "/stats/summary?only_cpu_and_memory=true".to_owned() };
    let answer = exchange::exchange(&server.kubelets, &target, Via::Kubelet, Request::new(empty())).await;
    let response = answer.inspect_err(|trouble| tracing::debug!(?trouble, "a kubelet was not measured")).ok()?;
    if !response.status().is_success() {
        tracing::debug!(status = %response.status(), "a kubelet does not say what it measures");
        return None;
    }
    let body = Limited::new(response.into_body(), LONGEST).collect().await.ok()?.to_bytes();
    serde_json::from_slice(&body).ok().map(Summary)
}
