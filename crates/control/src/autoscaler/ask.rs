//! What is measured, asked of the APIs that others serve: metrics.k8s.io, custom.metrics.k8s.io, external.metrics.k8s.io.

use super::count::{PodMetric, PodMetrics, milli};
use api::{kinds::selector, object::Fields};
use http::Request;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::Value;

/// How long pods are measured for when nobody says.
const WINDOW: SignedDuration = SignedDuration::from_secs(60);
/// Versions of custom.metrics.k8s.io, the best first.
const CUSTOM: [&str; 2] = ["v1beta2", "v1beta1"];

/// Asks for a path.
pub(super) async fn get(client: &Client, path: &str) -> kube::Result<Value> {
    let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    let text = client.request_text(request).await?;
    serde_json::from_str(&text).map_err(kube::Error::SerdeError)
}

/// What pods, or one container of each, use of a resource.
pub(super) async fn resource(
    client: &Client,
    namespace: &str,
    pods: &str,
    resource: &str,
    container: &str,
) -> Result<PodMetrics, String> {
    let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods?labelSelector={}", escaped(pods));
    let list = get(client, &path).await;
    let list = list.map_err(|error| format!("unable to fetch metrics from resource metrics API: {}", told(&error)))?;
    if list.list_at("items").is_empty() {
        return Err("no metrics returned from resource metrics API".to_owned());
    }
    Ok(of_resource(&list, resource, container))
}

fn of_resource(list: &Value, resource: &str, container: &str) -> PodMetrics {
    let usage = |one: &Value| one.at("usage").get(resource).and_then(Value::as_str).and_then(milli);
    let items = list.list_at("items").iter().filter_map(|item| {
        let containers = item.list_at("containers");
        let used = if container.is_empty() {
            let all: Option<Vec<i64>> = containers.iter().map(usage).collect();
            all.filter(|all| !all.is_empty()).map(|all| all.iter().sum())
        } else {
            containers.iter().find(|one| one.str_at("name") == container).and_then(usage)
        };
        let window = api::go_duration::parse(item.str_at("window")).and_then(|window| window.try_into().ok());
        let metric = PodMetric { at: time(item), window: window.unwrap_or(WINDOW), milli: used? };
        Some((item.str_at("metadata.name").to_owned(), metric))
    });
    items.collect()
}

/// A metric that each pod has.
pub(super) async fn pods(client: &Client, namespace: &str, pods: &str, metric: &Value) -> Result<PodMetrics, String> {
    let place = format!("namespaces/{namespace}/pods/*/{}", metric.str_at("name"));
    let list = custom(client, &place, metric, Some(pods)).await?;
    if list.list_at("items").is_empty() {
        return Err("no metrics returned from custom metrics API".to_owned());
    }
    let items = list.list_at("items").iter().filter_map(|item| {
        let seconds = item.int_at("windowSeconds").or_else(|| item.int_at("window"));
        let window = seconds.map_or(WINDOW, SignedDuration::from_secs);
        let milli = milli(item.str_at("value"))?;
        Some((item.str_at("describedObject.name").to_owned(), PodMetric { at: time(item), window, milli }))
    });
    Ok(items.collect())
}

/// A metric of one object; `plural` and `group` are those of its kind.
pub(super) async fn object(
    client: &Client,
    namespace: &str,
    (group, plural): (&str, &str),
    name: &str,
    metric: &Value,
) -> Result<i64, String> {
    let kind = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
    let place = match kind.as_str() {
        "namespaces" => format!("namespaces/{namespace}/metrics/{}", metric.str_at("name")),
        kind => format!("namespaces/{namespace}/{kind}/{name}/{}", metric.str_at("name")),
    };
    let list = custom(client, &place, metric, None).await?;
    let value = list.list_at("items").first().and_then(|item| milli(item.str_at("value")));
    value.ok_or_else(|| "no metrics returned from custom metrics API".to_owned())
}

async fn custom(client: &Client, place: &str, metric: &Value, pods: Option<&str>) -> Result<Value, String> {
    let mut query = Vec::new();
    if let Some(pods) = pods {
        query.push(format!("labelSelector={}", escaped(pods)));
    }
    let by_metric = selector::text(metric.at("selector"));
    if !metric.at("selector").is_null() && !by_metric.is_empty() {
        query.push(format!("metricLabelSelector={}", escaped(&by_metric)));
    }
    let mut failed = String::new();
    for version in CUSTOM {
        let path = format!("/apis/custom.metrics.k8s.io/{version}/{place}?{}", query.join("&"));
        match get(client, path.trim_end_matches('?')).await {
            Ok(list) => return Ok(list),
            Err(error) => failed = told(&error),
        }
    }
    Err(format!("unable to fetch metrics from custom metrics API: {failed}"))
}

/// A number from outside the cluster: all that match, together.
pub(super) async fn external(client: &Client, namespace: &str, metric: &Value) -> Result<i64, String> {
    let name = metric.str_at("name");
    let mut path = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{name}");
    if !metric.at("selector").is_null() {
        path = format!("{path}?labelSelector={}", escaped(&selector::text(metric.at("selector"))));
    }
    let list = get(client, &path).await;
    let list = list.map_err(|error| format!("unable to fetch metrics from external metrics API: {}", told(&error)))?;
    let items = list.list_at("items");
    if items.is_empty() {
        return Err("no metrics returned from external metrics API".to_owned());
    }
    Ok(items.iter().filter_map(|item| milli(item.str_at("value"))).fold(0, i64::saturating_add))
}

/// An error as it is told in conditions.
pub(super) fn told(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => runtime::client::error_line(other),
    }
}

fn time(item: &Value) -> Timestamp {
    item.str_at("timestamp").parse().unwrap_or_default()
}

/// A text as a query has it.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte.into()),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_is_measured_when_all_its_containers_are() {
        let item = |name: &str, containers: Value| json!({"metadata": {"name": name}, "timestamp": "2026-01-01T00:00:00Z", "window": "30s", "containers": containers});
        let list = json!({"items": [
            item("a", json!([{"name": "x", "usage": {"cpu": "100m"}}, {"name": "y", "usage": {"cpu": "50m"}}])),
            item("b", json!([{"name": "x", "usage": {"cpu": "100m"}}, {"name": "y", "usage": {"memory": "1Mi"}}])),
            item("c", json!([])),
        ]});
        let seen = |container: &str| -> Vec<(String, i64)> {
            of_resource(&list, "cpu", container).into_iter().map(|(name, metric)| (name, metric.milli)).collect()
        };
        assert_eq!(seen(""), [("a".to_owned(), 150)]);
        assert_eq!(seen("x"), [("a".to_owned(), 100), ("b".to_owned(), 100)]);
        assert_eq!(of_resource(&list, "cpu", "")["a"].window, SignedDuration::from_secs(30));
        assert_eq!(escaped("app=web,tier in (a,b)"), "app%3Dweb%2Ctier%20in%20%28a%2Cb%29");
    }
}
