//! Mistakes in a HorizontalPodAutoscaler, in the words of autoscaling/v2.

use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        names, quantity, resources,
    },
    object::Fields,
    path::Path,
};
use serde_json::Value;

/// The longest period of a policy.
const PERIOD_MAX: i64 = 1800;
/// The longest time for which the past counts.
const WINDOW_MAX: i64 = 3600;

/// All mistakes; what an update leaves as it was may be as wrong as it was before the rule came.
pub(super) fn validate(autoscaler: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let (path, spec) = (Path::new("spec"), autoscaler.at("spec"));
    let (least, most) = (spec.int_at("minReplicas"), spec.int_at("maxReplicas").unwrap_or_default());
    check::not_negative(&mut errors, &path, spec, "minReplicas");
    if most == 0 {
        errors.push(FieldError::required(&path.child("maxReplicas"), "a number greater than 0"));
    } else if most < 0 {
        errors.push(FieldError::invalid(&path.child("maxReplicas"), most, "must be 1 or more"));
    }
    if least.is_some_and(|least| most < least) {
        errors.push(FieldError::invalid(&path.child("maxReplicas"), most, "must not be less than minReplicas"));
    }
    let target = spec.at("scaleTargetRef");
    let kept = old.is_some_and(|old| {
        let before = old.at("spec.scaleTargetRef");
        ["apiVersion", "kind"].iter().all(|field| before.str_at(field) == target.str_at(field))
    });
    let version = match () {
        () if kept => Version::Any,
        () if target.str_at("kind") == "ReplicationController" => Version::Readable,
        () => Version::WithGroup,
    };
    reference(&mut errors, &path.child("scaleTargetRef"), target, version);
    metrics(&mut errors, &path.child("metrics"), spec, old);
    for direction in ["scaleUp", "scaleDown"] {
        let rules = spec.at("behavior").at(direction);
        if rules.is_object() {
            scaling(&mut errors, &path.child("behavior").child(direction), rules);
        }
    }
    errors
}

/// What an apiVersion must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Any,
    Readable,
    WithGroup,
}

fn reference(errors: &mut Errors, path: &Path, target: &Value, version: Version) {
    for field in ["kind", "name"] {
        check::required_segment(errors, &path.child(field), target.str_at(field));
    }
    let (at, text) = (path.child("apiVersion"), target.str_at("apiVersion"));
    if version != Version::Any && !is_readable(text) {
        errors.push(FieldError::invalid(&at, text, "must be a group and a version, such as 'apps/v1'"));
    } else if version == Version::WithGroup && !text.contains('/') {
        errors.push(FieldError::invalid(&at, text, "must name the API group too, such as 'apps/v1'"));
    }
}

fn is_readable(version: &str) -> bool {
    version.matches('/').count() <= 1
}

fn metrics(errors: &mut Errors, path: &Path, spec: &Value, old: Option<&Value>) {
    let all = spec.list_at("metrics");
    let was_wrong = old.is_some_and(|old| {
        let objects = old.list_at("spec.metrics").iter().filter(|metric| metric.str_at("type") == "Object");
        objects.into_iter().any(|metric| !is_readable(metric.str_at("object.describedObject.apiVersion")))
    });
    for (i, metric) in all.iter().enumerate() {
        source(errors, &path.index(i), metric, if was_wrong { Version::Any } else { Version::Readable });
    }
    let beyond_pods = all.iter().any(|metric| matches!(metric.str_at("type"), "Object" | "External"));
    if spec.int_at("minReplicas") == Some(0) && !beyond_pods {
        let text = "minReplicas 0 needs a metric of type Object or External, for no pod is there to be measured";
        errors.push(FieldError::forbidden(path, text));
    }
}

/// Types of metrics and the field of each, in the order in which they are checked.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

fn source(errors: &mut Errors, path: &Path, metric: &Value, version: Version) {
    let kind = metric.str_at("type");
    let accepted = ["ContainerResource", "External", "Object", "Pods", "Resource"];
    if kind.is_empty() {
        errors.push(FieldError::required(&path.child("type"), format!("one of {}", accepted.join(", "))));
    }
    let wanted = SOURCES.iter().find(|(name, _)| *name == kind).map(|(_, field)| *field);
    if wanted.is_none() {
        errors.push(FieldError::not_supported(&path.child("type"), kind, &accepted));
    }
    let present: Vec<&str> =
        SOURCES.iter().map(|(_, field)| *field).filter(|field| !metric.at(field).is_null()).collect();
    if let Some(field) = present.first() {
        let (at, source) = (path.child(field), metric.at(field));
        match *field {
            "object" => {
                reference(errors, &at.child("describedObject"), source.at("describedObject"), version);
                identifier(errors, &at, source);
                target(errors, &at.child("target"), source.at("target"), &["value", "averageValue"], true);
            }
            "external" => {
                identifier(errors, &at, source);
                target(errors, &at.child("target"), source.at("target"), &["value", "averageValue"], false);
            }
            "pods" => {
                identifier(errors, &at, source);
                target(errors, &at.child("target"), source.at("target"), &["averageValue"], true);
            }
            _ => resource(errors, &at, field, source),
        }
    }
    if let Some(wanted) = wanted.filter(|wanted| !present.contains(wanted)) {
        errors.push(FieldError::required(&path.child(wanted), format!("what is measured by type {kind}")));
    }
    for field in present.iter().filter(|field| present.len() != 1 && Some(**field) != wanted) {
        errors.push(FieldError::forbidden(&path.child(field), "only the field of the given type may be there"));
    }
}

fn resource(errors: &mut Errors, path: &Path, field: &str, source: &Value) {
    let name = source.str_at("name");
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), "the name of a resource, such as cpu"));
    } else if field == "containerResource" {
        resources::container_name(errors, &path.child("name"), name);
    }
    if field == "containerResource" {
        match source.str_at("container") {
            "" => errors.push(FieldError::required(&path.child("container"), "the name of a container")),
            container => check::dns_label(errors, &path.child("container"), container),
        }
    }
    target(errors, &path.child("target"), source.at("target"), &["averageUtilization", "averageValue"], false);
}

fn identifier(errors: &mut Errors, path: &Path, source: &Value) {
    let (at, name) = (path.child("metric").child("name"), source.str_at("metric.name"));
    if name.is_empty() {
        errors.push(FieldError::required(&at, "the name of a metric"));
    } else {
        check::all_of(errors, &at, name, names::path_segment(name));
    }
}

/// One of `fields` must be given; both only where `both` says so.
fn target(errors: &mut Errors, path: &Path, target: &Value, fields: &[&str], both: bool) {
    let kind = target.str_at("type");
    if kind.is_empty() {
        errors.push(FieldError::required(&path.child("type"), "one of Utilization, Value, AverageValue"));
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        errors.push(FieldError::invalid(&path.child("type"), kind, "must be Utilization, Value or AverageValue"));
    }
    for field in ["value", "averageValue"] {
        if let Some(text) = target.at(field).as_str()
            && quantity::nanos(text).is_none_or(|amount| amount <= 0)
        {
            errors.push(FieldError::invalid(&path.child(field), text, "must be more than 0"));
        }
    }
    if let Some(percent) = target.int_at("averageUtilization").filter(|percent| *percent < 1) {
        errors.push(FieldError::invalid(&path.child("averageUtilization"), percent, "must be 1 or more"));
    }
    let given = fields.iter().filter(|field| !target.at(field).is_null()).count();
    if given == 0 {
        // Where upstream reports it: at the share of each pod, or at the utilization of resources.
        let at = if fields[0] == "averageUtilization" { fields[0] } else { "averageValue" };
        errors.push(FieldError::required(&path.child(at), format!("one of {}", fields.join(", "))));
    }
    if given == 2 && !both {
        let at = if fields[0] == "averageUtilization" { "averageValue" } else { fields[0] };
        errors.push(FieldError::forbidden(&path.child(at), format!("only one of {}", fields.join(", "))));
    }
}

fn scaling(errors: &mut Errors, path: &Path, rules: &Value) {
    if let Some(seconds) = rules.int_at("stabilizationWindowSeconds") {
        check::in_range(errors, &path.child("stabilizationWindowSeconds"), seconds, 0, WINDOW_MAX);
    }
    if let Some(policy) = rules.at("selectPolicy").as_str() {
        check::one_of(errors, &path.child("selectPolicy"), policy, &["Disabled", "Max", "Min"]);
    }
    let (at, policies) = (path.child("policies"), rules.list_at("policies"));
    if policies.is_empty() {
        errors.push(FieldError::required(&at, "at least one policy"));
    }
    for (i, policy) in policies.iter().enumerate() {
        let at = at.index(i);
        check::one_of(errors, &at.child("type"), policy.str_at("type"), &["Percent", "Pods"]);
        if policy.int_at("value").unwrap_or_default() <= 0 {
            errors.push(FieldError::invalid(&at.child("value"), policy.at("value").clone(), "must be 1 or more"));
        }
        let period = policy.int_at("periodSeconds").unwrap_or_default();
        check::in_range(errors, &at.child("periodSeconds"), period, 1, PERIOD_MAX);
    }
    if let Some(text) = rules.at("tolerance").as_str()
        && quantity::nanos(text).is_some_and(|amount| amount < 0)
    {
        errors.push(FieldError::invalid(&path.child("tolerance"), text, "must be 0 or more"));
    }
}
