//! What operators and routers say in conditions about IngressControllers, DNS, its records, and Routes.

use super::{About, Finding, Severity};
use crate::Snapshot;
use serde_json::Value;

pub(super) fn check(snapshot: &Snapshot) -> Vec<Finding> {
    snapshot.custom.iter().flat_map(one).collect()
}

fn one(object: &Value) -> Vec<Finding> {
    let status = &object["status"];
    let found = match object["kind"].as_str().unwrap_or_default() {
        "IngressController" => conditions(&status["conditions"], ingress_controller),
        "DNS" => conditions(&status["conditions"], dns),
        "DNSRecord" => each(&status["zones"]).flat_map(|zone| conditions(&zone["conditions"], record)).collect(),
        "Route" => each(&status["ingress"]).flat_map(|router| conditions(&router["conditions"], route)).collect(),
        _ => Vec::new(),
    };
    found
        .into_iter()
        .map(|(severity, problem, why)| Finding { severity, about: about(object), problem, why, mend: String::new() })
        .collect()
}

/// How bad a condition is, by its type and whether it holds; nothing if it is as it should be.
type Judge = fn(&str, bool) -> Option<Severity>;

fn ingress_controller(kind: &str, holds: bool) -> Option<Severity> {
    match (kind, holds) {
        ("Available", false) | ("Degraded", true) => Some(Severity::Error),
        ("LoadBalancerProgressing", true) => Some(Severity::Warning),
        ("DNSReady" | "LoadBalancerReady", false) => Some(Severity::Error),
        ("LoadBalancerDualStack", false) => Some(Severity::Hint),
        _ => None,
    }
}

fn dns(kind: &str, holds: bool) -> Option<Severity> {
    match (kind, holds) {
        ("Available", false) | ("Degraded", true) => Some(Severity::Error),
        ("TemplateConfigurationValid", false) | ("AAAAFilterDualStackWarning", true) => Some(Severity::Warning),
        _ => None,
    }
}

fn record(kind: &str, holds: bool) -> Option<Severity> {
    match (kind, holds) {
        ("Published", false) | ("Failed", true) => Some(Severity::Error),
        _ => None,
    }
}

fn route(kind: &str, holds: bool) -> Option<Severity> {
    (kind == "Admitted" && !holds).then_some(Severity::Error)
}

/// Severity, problem and reason of each that is not as it should be.
fn conditions(list: &Value, judge: Judge) -> Vec<(Severity, String, String)> {
    let one = |condition: &Value| {
        let text = |name: &str| condition[name].as_str().unwrap_or_default();
        let holds = match text("status") {
            "True" => true,
            "False" => false,
            _ => return None,
        };
        let severity = judge(text("type"), holds)?;
        Some((
            severity,
            format!("{} is {}: {}", text("type"), text("status"), text("reason")),
            text("message").to_owned(),
        ))
    };
    each(list).filter_map(one).collect()
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn about(object: &Value) -> About {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    About {
        kind: text(&object["kind"]).to_lowercase(),
        namespace: text(&metadata["namespace"]),
        name: text(&metadata["name"]),
    }
}
