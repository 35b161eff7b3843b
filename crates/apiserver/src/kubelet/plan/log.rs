//! `pods/NAME/log`: parameters checked, then asked of the kubelet.

use super::{
    container, node,
    query::{Parameters, Unreadable, Writer, encode},
    target::{Plan, Security, Target},
};
use crate::kubelet::settings::Settings;
use api::{
    error::{ApiError, FieldError},
    object::{Fields, timestamp},
    path::Path,
};
use serde_json::Value;

/// What of a log is wanted.
#[derive(Debug)]
struct LogOptions {
    since_seconds: Option<i64>,
    since_time: Option<jiff::Timestamp>,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
    stream: Option<String>,
}

/// The names of a log's two halves and of both.
const STREAMS: [&str; 3] = ["All", "Stdout", "Stderr"];

impl LogOptions {
    fn new(parameters: &Parameters) -> Result<Self, ApiError> {
        let mut unreadable = Unreadable::default();
        let mut number = |key| unreadable.read(parameters, key, "a whole number", |text| text.parse().ok());
        let (since_seconds, tail_lines, limit_bytes) =
            (number("sinceSeconds"), number("tailLines"), number("limitBytes"));
        let time = "a time as in 2006-01-02T15:04:05Z";
        let since_time = unreadable.read(parameters, "sinceTime", time, |text| text.parse().ok());
        unreadable.done()?;
        let stream = parameters.first("stream").map(str::to_owned);
        Ok(Self { since_seconds, since_time, tail_lines, limit_bytes, stream })
    }

    fn errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut least = |field: &str, value: Option<i64>, least: i64, must: &str| {
            if let Some(value) = value.filter(|value| *value < least) {
                errors.push(FieldError::invalid(&Path::new(field), value, must));
            }
        };
        least("tailLines", self.tail_lines, 0, "must be greater than or equal to 0");
        least("limitBytes", self.limit_bytes, 1, "must be greater than 0");
        if self.since_time.is_none() {
            least("sinceSeconds", self.since_seconds, 1, "must be greater than 0");
        } else if self.since_seconds.is_some() {
            let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden(&Path::new("sinceTime"), why));
        }
        if let Some(stream) = &self.stream {
            if !STREAMS.contains(&stream.as_str()) {
                errors.push(FieldError::not_supported(&Path::new("stream"), stream.as_str(), &STREAMS));
            } else if stream != "All" && self.tail_lines.is_some() {
                let why = "`tailLines` and specific `stream` are mutually exclusive for now";
                errors.push(FieldError::forbidden(&Path::new("tailLines"), why));
            }
        }
        errors
    }
}

/// Where the log of `pod` is. `node` is the node that the Pod names, if there is such a node.
pub fn plan(pod: &Value, node: Option<&Value>, parameters: &Parameters, settings: &Settings) -> Result<Plan, ApiError> {
    let options = LogOptions::new(parameters)?;
    let name = pod.str_at("metadata.name");
    let errors = options.errors();
    if !errors.is_empty() {
        return Err(ApiError::invalid("PodLogOptions", "", name, &errors));
    }
    let container = container::choose(pod, parameters.first("container"))?;
    let node_name = pod.str_at("spec.nodeName");
    if node_name.is_empty() {
        return Ok(Plan::Nothing);
    }
    let node = node.ok_or_else(|| ApiError::not_found("nodes", "", node_name))?;
    let mut query = Writer::default();
    for flag in ["follow", "previous", "timestamps"] {
        if parameters.flag(flag) {
            query.add(flag, "true");
        }
    }
    let numbers = [
        ("sinceSeconds", options.since_seconds),
        ("tailLines", options.tail_lines),
        ("limitBytes", options.limit_bytes),
    ];
    for (key, value) in numbers {
        if let Some(value) = value {
            query.add(key, &value.to_string());
        }
    }
    if let Some(time) = options.since_time {
        query.add("sinceTime", &timestamp(time));
    }
    // A kubelet without this feature refuses the parameter; both streams are what it sends anyway.
    if let Some(stream) = options.stream.filter(|stream| stream != "All") {
        query.add("stream", &stream);
    }
    let security = match parameters.flag("insecureSkipTLSVerifyBackend") {
        true => Security::KubeletUnverified,
        false => Security::Kubelet,
    };
    let path =
        ["/containerLogs", &encode(pod.str_at("metadata.namespace")), &encode(name), &encode(container)].join("/");
    Ok(Plan::Log(Target { to: node::kubelet(node, settings)?, security, path: query.after(&path) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ask(query: &str, node_name: &str) -> Result<Plan, ApiError> {
        let pod = json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"nodeName": node_name, "containers": [{"name": "c"}]}});
        let node = json!({"status": {"addresses": [{"type": "InternalIP", "address": "2001:db8::1"}]}});
        plan(&pod, (node_name == "n").then_some(&node), &Parameters::new(query), &Settings::default())
    }

    #[test]
    fn parameters_are_passed_on() {
        for (query, security, want) in [
            ("", Security::Kubelet, "/containerLogs/ns/p/c"),
            (
                "container=c&follow=true&previous=false&timestamps",
                Security::Kubelet,
                "/containerLogs/ns/p/c?follow=true&timestamps=true",
            ),
            (
                "tailLines=0&limitBytes=10&sinceSeconds=5&stream=All",
                Security::Kubelet,
                "/containerLogs/ns/p/c?sinceSeconds=5&tailLines=0&limitBytes=10",
            ),
            (
                "sinceTime=2026-01-02T03%3A04%3A05%2B01%3A00&insecureSkipTLSVerifyBackend=true&stream=Stderr",
                Security::KubeletUnverified,
                "/containerLogs/ns/p/c?sinceTime=2026-01-02T02%3A04%3A05Z&stream=Stderr",
            ),
        ] {
            let Ok(Plan::Log(target)) = ask(query, "n") else { panic!("{query}") };
            assert_eq!((target.path.as_str(), target.security), (want, security));
            assert_eq!(target.to[0].to_string(), "[2001:db8::1]:10250");
        }
    }

    #[test]
    fn a_pod_that_is_nowhere_has_no_log_yet_and_a_missing_node_is_named() {
        assert_eq!(ask("", ""), Ok(Plan::Nothing));
        let error = ask("", "gone").unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (404, "nodes \"gone\" not found"));
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        for (query, code, want) in [
            (
                "tailLines=-1&limitBytes=0&sinceSeconds=0",
                422,
                "PodLogOptions \"p\" is invalid: [tailLines: Invalid value: -1: must be greater than or equal to 0, limitBytes: Invalid value: 0: must be greater than 0, sinceSeconds: Invalid value: 0: must be greater than 0]",
            ),
            (
                "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z",
                422,
                "PodLogOptions \"p\" is invalid: sinceTime: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
            ),
            (
                "stream=Stdout&tailLines=1",
                422,
                "PodLogOptions \"p\" is invalid: tailLines: Forbidden: `tailLines` and specific `stream` are mutually exclusive for now",
            ),
            (
                "stream=stdout",
                422,
                "PodLogOptions \"p\" is invalid: stream: Unsupported value: \"stdout\": supported values: \"All\", \"Stdout\", \"Stderr\"",
            ),
            (
                "tailLines=ten&sinceTime=yesterday",
                400,
                "tailLines: \"ten\" is not accepted; give a whole number; sinceTime: \"yesterday\" is not accepted; give a time as in 2006-01-02T15:04:05Z",
            ),
            ("container=x", 400, "container x is not valid for pod p"),
        ] {
            let error = ask(query, "n").unwrap_err();
            assert_eq!((error.code, error.message.as_str()), (code, want));
        }
    }
}
