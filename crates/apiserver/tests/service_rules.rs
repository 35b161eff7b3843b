//! Replays every recorded Service request: with upstream's rules each answer is the recorded one; with the default rules
//! an answer differs only where a named rule of the dual-stack proposal says so.
//!
//! The recording is described in testdata/README.md.

mod support;

use api::families::RuleSet;
use apiserver::{
    ApiServer,
    services::{Services, Settings},
    testing::Lab,
};
use net::flags::service_ranges;
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    sync::Arc,
};
use support::{Reply, ask, lines};

const SHAPES: [(&str, &str); 4] = [
    ("v4", "10.96.0.0/16"),
    ("v6", "fd00:96::/108"),
    ("v4v6", "10.96.0.0/16,fd00:96::/108"),
    ("v6v4", "fd00:96::/108,10.96.0.0/16"),
];
const COLLECTION: &str = "/api/v1/namespaces/default/services";
const ONE: &str = "/api/v1/namespaces/default/services/s";
const MERGE: [(&str, &str); 1] = [("content-type", "application/merge-patch+json")];

async fn server(range: &str, rules: RuleSet) -> Arc<ApiServer> {
    let mut lab = Lab::new();
    lab.server.services = Services::new(Settings { ranges: service_ranges(range).unwrap(), rules, ..Settings::default() });
    lab.start().await
}

/// The addresses that a request names.
fn named(row: &Value) -> BTreeSet<String> {
    let steps = row["steps"].as_array().into_iter().flatten();
    let specs = std::iter::once(&row["create"]).chain(steps);
    specs
        .flat_map(|spec| {
            let list = spec["clusterIPs"].as_array().into_iter().flatten();
            std::iter::once(&spec["clusterIP"]).chain(list).filter_map(Value::as_str).map(str::to_owned)
        })
        .collect()
}

/// The answer in the words of the recording.
fn answer(reply: &Reply, named: &BTreeSet<String>) -> Value {
    let object = reply.json();
    if reply.status >= 300 {
        let causes = object["details"]["causes"].as_array().into_iter().flatten();
        let causes: BTreeSet<String> =
            causes.map(|cause| json!([cause["field"].as_str().unwrap_or_default(), cause["reason"]]).to_string()).collect();
        let causes: Vec<Value> = causes.iter().map(|cause| serde_json::from_str(cause).unwrap()).collect();
        return json!({"status": reply.status, "reason": object["reason"], "causes": causes});
    }
    let spec = &object["spec"];
    let shown = |ip: &Value| match ip.as_str() {
        Some(text) if text.is_empty() || text == "None" || named.contains(text) => ip.clone(),
        Some(text) if text.contains(':') => "v6".into(),
        Some(_) => "v4".into(),
        None => ip.clone(),
    };
    let port = |port: &Value| if port.as_i64().unwrap_or_default() == 0 { Value::Null } else { "set".into() };
    let ports = spec["ports"].as_array().into_iter().flatten().map(|entry| port(&entry["nodePort"]));
    let mut fields = Map::new();
    for field in ["type", "ipFamilyPolicy", "ipFamilies", "internalTrafficPolicy", "externalTrafficPolicy"] {
        fields.insert(field.into(), spec[field].clone());
    }
    for field in ["allocateLoadBalancerNodePorts", "sessionAffinity"] {
        fields.insert(field.into(), spec[field].clone());
    }
    fields.insert("clusterIP".into(), shown(&spec["clusterIP"]));
    fields.insert(
        "clusterIPs".into(),
        spec["clusterIPs"].as_array().map_or(Value::Null, |list| list.iter().map(shown).collect::<Vec<_>>().into()),
    );
    fields.insert("nodePorts".into(), ports.collect::<Vec<_>>().into());
    fields.insert("healthCheckNodePort".into(), port(&spec["healthCheckNodePort"]));
    json!({"status": reply.status, "spec": fields})
}

/// Runs one row and returns the answers, by the names that the recording gives them.
async fn run(server: &Arc<ApiServer>, row: &Value) -> Map<String, Value> {
    let named = named(row);
    let mut answers = Map::new();
    let body = json!({"metadata": {"name": "s"}, "spec": row["create"]}).to_string();
    let reply = ask(server, "POST", COLLECTION, &[], body).await;
    let created = reply.status == 201;
    answers.insert("create".into(), answer(&reply, &named));
    if created {
        for (i, step) in row["steps"].as_array().into_iter().flatten().enumerate() {
            let reply = ask(server, "PATCH", ONE, &MERGE, json!({"spec": step}).to_string()).await;
            answers.insert(format!("step{i}"), answer(&reply, &named));
        }
        assert_eq!(ask(server, "DELETE", ONE, &[], "").await.status, 200);
    }
    answers
}

/// A recorded error lists causes only where there are any.
fn recorded(row: &Value) -> Map<String, Value> {
    let mut want = row["got"].as_object().unwrap().clone();
    for answer in want.values_mut().filter(|answer| answer["status"].as_u64() >= Some(300)) {
        let causes = answer["causes"].as_array().into_iter().flatten();
        let causes: BTreeSet<String> = causes.map(ToString::to_string).collect();
        answer["causes"] = causes.iter().map(|cause| serde_json::from_str(cause).unwrap()).collect::<Vec<Value>>().into();
    }
    want
}

fn rows(shape: &str) -> Vec<Value> {
    ["create", "update"].iter().flat_map(|set| lines(&format!("service-rules/{set}-{shape}.jsonl.gz"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn with_upstream_rules_every_recorded_answer_is_given() {
    let (mut count, mut differing, mut report) = (0, 0, String::new());
    for (shape, range) in SHAPES {
        let server = server(range, RuleSet::Upstream).await;
        for row in rows(shape) {
            let (got, want) = (run(&server, &row).await, recorded(&row));
            count += 1;
            if got != want {
                differing += 1;
                if differing <= 10 {
                    let _ = writeln!(report, "{shape} {} {}\n  want {}\n  got  {}", row["create"], row["steps"], json!(want), json!(got));
                }
            }
        }
    }
    assert_eq!(count, 13_452);
    assert_eq!(differing, 0, "{report}");
}
