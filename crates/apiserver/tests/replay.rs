//! Replays recorded API traffic: what a real kube-apiserver answered, this one must answer too.
//!
//! The recording is described in testdata/README.md. A recorded 500 is a weakness of that server: any 4xx is accepted in its
//! place, and what follows in that script does not matter.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use apiserver::ApiServer;
use serde_json::{Value, json};
use std::{collections::HashMap, fmt::Write, sync::Arc};
use support::{Reply, ask, lines};

/// Scripts in which this server answers differently on purpose.
const ON_PURPOSE: &[(&str, &str)] =
    &[("write/nodeport-ports-10", "the recording server had given port 30001 to something else before")];

#[tokio::test(flavor = "multi_thread")]
async fn fixed_scripts_are_answered_as_recorded() {
    replay("api/fixed.jsonl.gz").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_scripts_are_answered_as_recorded() {
    replay("api/random.jsonl.gz").await;
}

async fn replay(file: &str) {
    let server = apiserver::testing::server().await;
    let mut report = String::new();
    let (mut differing, mut steps) = (0, 0);
    for (index, script) in lines(file).iter().enumerate() {
        let name = script["name"].as_str().unwrap();
        if ON_PURPOSE.iter().any(|(known, _)| *known == name) {
            continue;
        }
        let namespace = format!("replay-{index}");
        let body = json!({"metadata": {"name": namespace}}).to_string();
        assert_eq!(ask(&server, "POST", "/api/v1/namespaces", &[], body).await.status, 201);
        steps += script["steps"].as_array().unwrap().len();
        let mut outcome = run(&server, script, &namespace).await;
        if outcome.is_err() {
            // Entries of managedFields are ordered by the second in which they were written, and a second may have ended
            // between two steps.
            let namespace = format!("replay-{index}-again");
            let body = json!({"metadata": {"name": namespace}}).to_string();
            assert_eq!(ask(&server, "POST", "/api/v1/namespaces", &[], body).await.status, 201);
            outcome = run(&server, script, &namespace).await;
        }
        if let Err(difference) = outcome {
            differing += 1;
            if differing <= 20 {
                let _ = writeln!(report, "## {name}\n{difference}");
            }
        }
    }
    assert!(steps > 500, "the recording is there");
    assert_eq!(differing, 0, "{differing} scripts differ\n{report}");
}

async fn run(server: &Arc<ApiServer>, script: &Value, namespace: &str) -> Result<(), String> {
    let mut kept: HashMap<String, Value> = HashMap::new();
    let pairs = script["steps"].as_array().unwrap().iter().zip(script["got"].as_array().unwrap());
    for (number, (step, want)) in pairs.enumerate() {
        let fill = |text: &str| fill(text, namespace, &kept);
        let path = fill(step["path"].as_str().unwrap());
        let body = match &step["body"] {
            Value::Null => String::new(),
            Value::String(text) => fill(text),
            other => fill(&other.to_string()),
        };
        let method = step["method"].as_str().unwrap();
        let kind = step["type"].as_str().unwrap_or("application/json");
        let reply = ask(server, method, &path, &[("content-type", kind), ("user-agent", "oracle")], body.clone()).await;
        if want["status"] == 500 {
            return match reply.status {
                400..=499 => Ok(()),
                other => Err(format!("step {number}: a 4xx was expected in place of the recorded 500, got {other}")),
            };
        }
        if let Some(name) = step["keep"].as_str() {
            kept.insert(name.to_owned(), reply.json());
        }
        let got = normalise(&reply, step, want);
        if got != *want {
            return Err(format!(
                "step {number}: {method} {path} {kind}\n  sent {}\n{}  answer: {}",
                cut(&body),
                differences("", want, &got),
                cut(&String::from_utf8_lossy(&reply.bytes))
            ));
        }
    }
    Ok(())
}

fn fill(text: &str, namespace: &str, kept: &HashMap<String, Value>) -> String {
    let mut text = text.replace("{ns}", namespace);
    for (name, reply) in kept {
        for (word, path) in [("rv", "resourceVersion"), ("uid", "uid"), ("continue", "continue")] {
            let value = reply["metadata"][path].as_str().unwrap_or_default();
            text = text.replace(&format!("{{{name}.{word}}}"), value);
        }
    }
    text
}

/// The answer in the words of the recording.
fn normalise(reply: &Reply, step: &Value, want: &Value) -> Value {
    let mut got = json!({"status": reply.status});
    let object = reply.json();
    if object["kind"] == "Status" || want.get("reason").is_some() {
        got["reason"] = object["reason"].clone();
    }
    let mut causes: Vec<Value> = object["details"]["causes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|cause| json!([cause["field"].as_str().unwrap_or_default(), cause["reason"]]))
        .collect();
    if !causes.is_empty() {
        causes.sort_by_key(ToString::to_string);
        got["causes"] = causes.into();
    }
    match step["want"].as_str() {
        Some("names") if reply.status < 300 => {
            let mut names: Vec<&str> = object["items"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|i| i["metadata"]["name"].as_str())
                .collect();
            names.sort_unstable();
            got["names"] = json!(names);
            got["more"] = object["metadata"]["continue"].is_string().into();
        }
        Some(_) => {}
        None if object.is_null() => got["object"] = json!({}),
        None if reply.status < 300 && object["kind"] != "Status" => got["object"] = shown(object),
        None => {}
    }
    let warnings = reply.headers.get_all("warning").iter().count();
    if warnings > 0 {
        got["warnings"] = warnings.into();
    }
    got
}

fn shown(mut object: Value) -> Value {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "namespace"] {
            metadata.remove(field);
        }
        if metadata.contains_key("generateName") {
            metadata.insert("name".into(), "GENERATED".into());
        }
        for entry in metadata.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
            entry.as_object_mut().map(|entry| entry.remove("time"));
        }
    }
    if ["Pod", "Deployment", "Service", "Namespace"].contains(&kind.as_str()) {
        object.as_object_mut().map(|object| object.remove("status"));
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        if kind == "Service" {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
            for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                if port.get("nodePort").is_some() {
                    port["nodePort"] = "set".into();
                }
            }
        }
        if kind == "Pod" {
            for field in
                ["tolerations", "volumes", "serviceAccount", "serviceAccountName", "priority", "preemptionPolicy"]
            {
                spec.remove(field);
            }
        }
    }
    object
}

/// Where two values differ, one line each.
fn differences(path: &str, want: &Value, got: &Value) -> String {
    match (want, got) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            keys.into_iter()
                .filter(|key| a.get(*key) != b.get(*key))
                .map(|key| {
                    differences(
                        &format!("{path}/{key}"),
                        a.get(key).unwrap_or(&Value::Null),
                        b.get(key).unwrap_or(&Value::Null),
                    )
                })
                .collect()
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .filter(|(_, (a, b))| a != b)
            .map(|(i, (a, b))| differences(&format!("{path}/{i}"), a, b))
            .collect(),
        _ => format!("  {path}\n    want {}\n    got  {}\n", cut(&want.to_string()), cut(&got.to_string())),
    }
}

fn cut(text: &str) -> String {
    text.chars().take(600).collect()
}
