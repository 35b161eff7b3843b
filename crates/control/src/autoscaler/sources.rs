//! Each metric of an autoscaler: asked, counted, and told.

use super::{
    Autoscalers, Scale, ask,
    count::{self, Basis, Proposal, milli},
};
use crate::framework::Key;
use api::{
    kinds::quantity::{self, Amount},
    object::Fields,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// What the metrics of an autoscaler want together.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// The most that any of them asks for.
    pub(super) replicas: i32,
    /// Which one that was.
    pub(super) metric: String,
    /// What was measured, in the order of the metrics.
    pub(super) statuses: Vec<Value>,
    /// Reason and message of each metric that could not be had.
    pub(super) failures: Vec<(&'static str, String)>,
    first: Option<String>,
    count: usize,
}

impl Wanted {
    /// Metrics that could not be had matter when all are so, and when the others would shrink the target. Then: a reason, a message,
    /// and the sentence for everything.
    pub(super) fn verdict(&self, current: i32) -> Result<(), (&'static str, String, String)> {
        let failed = self.failures.len();
        let matters = failed >= self.count || (failed > 0 && self.replicas < current);
        match (&self.failures.first(), &self.first) {
            (Some((reason, why)), Some(first)) if matters => {
                let all = format!("invalid metrics ({failed} invalid out of {}), first error is: {first}", self.count);
                Err((*reason, why.clone(), all))
            }
            _ => Ok(()),
        }
    }
}

/// A metric that was had: what it wants, its name for people, its status.
struct Had {
    proposal: Proposal,
    name: String,
    status: Value,
}

/// One that was not: the reason, what went wrong, and in which words it is told with the others.
struct Failed {
    reason: &'static str,
    why: String,
    told: String,
}

impl Autoscalers {
    pub(super) async fn wanted(&self, key: &Key, value: &Value, scale: &Scale, pods: &[Pod]) -> Wanted {
        let duration = |duration| SignedDuration::try_from(duration).unwrap_or_default();
        let basis = Basis {
            pods,
            current: scale.replicas,
            tolerances: self.tolerances(value),
            initialization: duration(self.options.cpu_initialization_period),
            readiness_delay: duration(self.options.initial_readiness_delay),
            now: Timestamp::now(),
        };
        let metrics = value.list_at("spec.metrics");
        let mut wanted = Wanted { count: metrics.len(), ..Wanted::default() };
        for metric in metrics {
            match self.metric(key, metric, scale, basis).await {
                Ok(had) => {
                    if wanted.replicas == 0 || had.proposal.replicas > wanted.replicas {
                        (wanted.replicas, wanted.metric) = (had.proposal.replicas, had.name);
                    }
                    wanted.statuses.push(had.status);
                }
                Err(failed) => {
                    wanted.first.get_or_insert(failed.told);
                    wanted.failures.push((failed.reason, failed.why));
                    wanted.statuses.push(json!({"type": ""}));
                }
            }
        }
        wanted
    }

    async fn metric(&self, key: &Key, metric: &Value, scale: &Scale, basis: Basis<'_>) -> Result<Had, Failed> {
        match metric.str_at("type") {
            "Resource" => self.resource_metric(key, metric.at("resource"), "", scale, basis).await,
            "ContainerResource" => {
                let source = metric.at("containerResource");
                self.resource_metric(key, source, source.str_at("container"), scale, basis).await
            }
            "Pods" => {
                let source = metric.at("pods");
                let got = self.pods_metric(key, source, scale, basis).await;
                got.map_err(|why| Failed {
                    reason: "FailedGetPodsMetric",
                    told: format!("failed to get pods metric value: {why}"),
                    why,
                })
            }
            "Object" => {
                let got = self.object_metric(key, metric.at("object"), scale, basis).await;
                got.map_err(|why| Failed {
                    reason: "FailedGetObjectMetric",
                    told: format!("failed to get object metric value: {why}"),
                    why,
                })
            }
            "External" => {
                let source = metric.at("external");
                let name = source.str_at("metric.name");
                let got = self.external_metric(key, source, scale, basis).await;
                got.map_err(|why| Failed {
                    reason: "FailedGetExternalMetric",
                    told: format!("failed to get {name} external metric value: {why}"),
                    why,
                })
            }
            other => {
                let why = format!("unknown metric source type {other:?}");
                Err(Failed { reason: "InvalidMetricSourceType", told: why.clone(), why })
            }
        }
    }

    async fn resource_metric(
        &self,
        key: &Key,
        source: &Value,
        container: &str,
        scale: &Scale,
        basis: Basis<'_>,
    ) -> Result<Had, Failed> {
        let (name, target) = (source.str_at("name"), source.at("target"));
        let fail = |why: String| match container {
            "" => Failed {
                reason: "FailedGetResourceMetric",
                told: format!("failed to get {name} resource metric value: {why}"),
                why,
            },
            container => Failed {
                reason: "FailedGetContainerResourceMetric",
                told: format!("failed to get {container} container metric value: {why}"),
                why,
            },
        };
        let metrics = ask::resource(&self.client, &key.namespace, &scale.selector, name, container).await;
        let metrics = metrics.map_err(|why| format!("unable to get metrics for resource {name}: {why}"));
        let (proposal, title) = match (
            target.at("averageValue").as_str().and_then(milli),
            target.int_at("averageUtilization"),
        ) {
            (Some(wanted), _) => {
                let counted = metrics.and_then(|metrics| count::by_usage(basis, metrics, name, wanted));
                (counted.map_err(|why| fail(format!("failed to get {name} usage: {why}")))?, format!("{name} resource"))
            }
            (None, Some(percent)) => {
                let counted =
                    metrics.and_then(|metrics| count::by_utilization(basis, metrics, name, container, percent));
                let counted = counted.map_err(|why| fail(format!("failed to get {name} utilization: {why}")))?;
                let of = if container.is_empty() { "resource" } else { "container resource" };
                (counted, format!("{name} {of} utilization (percentage of request)"))
            }
            (None, None) => {
                return Err(fail(
                    "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set"
                        .to_owned(),
                ));
            }
        };
        let mut current = json!({"averageValue": shown(proposal.milli, name == "memory")});
        if let Some(percent) = proposal.percent {
            current.set("averageUtilization", percent);
        }
        let status = match container {
            "" => json!({"type": "Resource", "resource": {"name": name, "current": current}}),
            container => json!({"type": "ContainerResource",
                "containerResource": {"name": name, "container": container, "current": current}}),
        };
        Ok(Had { proposal, name: title, status })
    }

    async fn pods_metric(&self, key: &Key, source: &Value, scale: &Scale, basis: Basis<'_>) -> Result<Had, String> {
        let (metric, name) = (source.at("metric"), source.str_at("metric.name"));
        let metrics = ask::pods(&self.client, &key.namespace, &scale.selector, metric).await;
        let metrics = metrics.map_err(|why| format!("unable to get metric {name}: {why}"))?;
        let target = target(source, "averageValue").ok_or("no averageValue is set")?;
        let proposal = count::by_usage(basis, metrics, "", target)?;
        let current = json!({"averageValue": shown(proposal.milli, false)});
        let status = json!({"type": "Pods", "pods": {"metric": metric, "current": current}});
        Ok(Had { proposal, name: format!("pods metric {name}"), status })
    }

    async fn object_metric(&self, key: &Key, source: &Value, scale: &Scale, basis: Basis<'_>) -> Result<Had, String> {
        let (object, metric) = (source.at("describedObject"), source.at("metric"));
        let (kind, object_name, name) = (object.str_at("kind"), object.str_at("name"), metric.str_at("name"));
        let group = object.str_at("apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
        let resource = self.resource(group, kind).await?.ok_or_else(|| format!("no matches for kind {kind:?}"))?;
        let place = (resource.group.as_str(), resource.plural.as_str());
        let value = ask::object(&self.client, &key.namespace, place, object_name, metric)
            .await
            .map_err(|why| format!("unable to get metric {name} on {kind} {}/{object_name}: {why}", key.namespace))?;
        let (proposal, title, current) = counted(source, value, scale, basis, "object")?;
        let title = if title { format!("{kind} metric {name}") } else { outside(metric) };
        let status =
            json!({"type": "Object", "object": {"describedObject": object, "metric": metric, "current": current}});
        Ok(Had { proposal, name: title, status })
    }

    async fn external_metric(&self, key: &Key, source: &Value, scale: &Scale, basis: Basis<'_>) -> Result<Had, String> {
        let metric = source.at("metric");
        let value = ask::external(&self.client, &key.namespace, metric).await.map_err(|why| {
            format!("unable to get external metric {}/{}: {why}", key.namespace, metric.str_at("name"))
        })?;
        let (proposal, _, current) = counted(source, value, scale, basis, "external")?;
        let status = json!({"type": "External", "external": {"metric": metric, "current": current}});
        Ok(Had { proposal, name: outside(metric), status })
    }
}

/// Counts by the value or by each pod's share of it, as the target says; whether by the value, and what is shown of it.
fn counted(
    source: &Value,
    value: i64,
    scale: &Scale,
    basis: Basis<'_>,
    what: &str,
) -> Result<(Proposal, bool, Value), String> {
    let by_value = source.str_at("target.type") == "Value" || target(source, "averageValue").is_none();
    if let Some(wanted) = target(source, "value").filter(|_| by_value) {
        let proposal = count::by_value(basis, value, wanted)?;
        return Ok((proposal, true, json!({"value": shown(proposal.milli, false)})));
    }
    if let Some(wanted) = target(source, "averageValue") {
        let proposal = count::by_share(basis, value, wanted, scale.running);
        return Ok((proposal, false, json!({"averageValue": shown(proposal.milli, false)})));
    }
    Err(format!("invalid {what} metric source: neither a value target nor an average value target was set"))
}

fn target(source: &Value, field: &str) -> Option<i64> {
    source.at("target").at(field).as_str().and_then(milli)
}

fn outside(metric: &Value) -> String {
    let selector = metric.at("selector");
    let text = if selector.is_null() { "nil".to_owned() } else { api::kinds::selector::text(selector) };
    format!("external metric {}({text})", metric.str_at("name"))
}

/// Thousandths as an amount.
fn shown(milli: i64, binary: bool) -> String {
    quantity::text(Amount { nanos: i128::from(milli) * 1_000_000, binary }.nanos, binary)
}
