//! A HorizontalPodAutoscaler as a row: what is scaled, by what, between which bounds.

use crate::{kinds::columns, object::Fields};
use serde_json::Value;

/// How many metrics are shown.
const SHOWN: usize = 2;

pub(super) fn cells(autoscaler: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let target = autoscaler.at("spec.scaleTargetRef");
    let least = autoscaler.int_at("spec.minReplicas").map_or_else(|| "<unset>".to_owned(), |least| least.to_string());
    vec![
        columns::name(autoscaler),
        format!("{}/{}", target.str_at("kind"), target.str_at("name")).into(),
        metrics(autoscaler).into(),
        least.into(),
        columns::number(autoscaler, "spec.maxReplicas"),
        columns::number(autoscaler, "status.currentReplicas"),
        columns::age(autoscaler, now),
    ]
}

fn metrics(autoscaler: &Value) -> String {
    let specs = autoscaler.list_at("spec.metrics");
    let statuses = autoscaler.list_at("status.currentMetrics");
    let texts: Vec<String> = specs.iter().enumerate().map(|(i, spec)| metric(spec, statuses.get(i))).collect();
    match texts.len() {
        0 => "<none>".to_owned(),
        count if count > SHOWN => format!("{} + {} more...", texts[..SHOWN].join(", "), count - SHOWN),
        _ => texts.join(", "),
    }
}

fn metric(spec: &Value, status: Option<&Value>) -> String {
    let field = match spec.str_at("type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (source, target) = (spec.at(field), spec.at(field).at("target"));
    let current = |which: &str| {
        let seen = status.map_or(&Value::Null, |status| status.at(field).at("current"));
        columns::or(seen.str_at(which), "<unknown>")
    };
    let average = target.at("averageValue").as_str();
    match (field, average) {
        ("external" | "object", Some(wanted)) => format!("{}/{wanted} (avg)", current("averageValue")),
        ("external" | "object", None) => format!("{}/{}", current("value"), target.str_at("value")),
        ("pods", _) => format!("{}/{}", current("averageValue"), average.unwrap_or_default()),
        (_, Some(wanted)) => format!("{}: {}/{wanted}", source.str_at("name"), current("averageValue")),
        (_, None) => {
            let percent = |value: &Value, instead: &str| {
                value.int_at("averageUtilization").map_or_else(|| instead.to_owned(), |percent| format!("{percent}%"))
            };
            let seen = status.map_or(&Value::Null, |status| status.at(field).at("current"));
            format!("{}: {}/{}", source.str_at("name"), percent(seen, "<unknown>"), percent(target, "<auto>"))
        }
    }
}
