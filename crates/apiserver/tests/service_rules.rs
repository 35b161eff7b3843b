//! Replays every recorded Service request: with upstream's rules each answer is the recorded one; with the default rules
//! an answer differs only where a named rule of the dual-stack proposal says so.
//!
//! The recording is described in testdata/README.md.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

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
    lab.server.services =
        Services::new(Settings { ranges: service_ranges(range).unwrap(), rules, ..Settings::default() });
    lab.start().await
}

/// The addresses that the requests of a row name.
fn named(row: &Value) -> BTreeSet<String> {
    let steps = row["steps"].as_array().into_iter().flatten();
    std::iter::once(&row["create"]).chain(steps).flat_map(addresses).collect()
}

fn addresses(spec: &Value) -> BTreeSet<String> {
    let list = spec["clusterIPs"].as_array().into_iter().flatten();
    std::iter::once(&spec["clusterIP"]).chain(list).filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The answer in the words of the recording.
fn answer(reply: &Reply, named: &BTreeSet<String>) -> Value {
    let object = reply.json();
    if reply.status >= 300 {
        let causes = object["details"]["causes"].as_array().into_iter().flatten();
        let causes: BTreeSet<String> = causes
            .map(|cause| json!([cause["field"].as_str().unwrap_or_default(), cause["reason"]]).to_string())
            .collect();
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

/// One answer: its name in the recording, what the request came to before it was sent, and what was answered.
struct Step {
    name: String,
    asked: Value,
    answer: Value,
}

/// Addresses are chosen by chance, and once in a few thousand rows chance takes the very one that a later step names:
/// then the row is run again.
async fn run(server: &Arc<ApiServer>, row: &Value) -> Vec<Step> {
    loop {
        if let Some(steps) = run_once(server, row).await {
            return steps;
        }
    }
}

async fn run_once(server: &Arc<ApiServer>, row: &Value) -> Option<Vec<Step>> {
    let named = named(row);
    let mut taken_by_chance = false;
    let mut look = |asked: &Value, stored: &Value| {
        let chosen = &addresses(stored) - &addresses(asked);
        taken_by_chance |= chosen.iter().any(|ip| named.contains(ip) && ip.parse::<std::net::IpAddr>().is_ok());
    };
    let body = json!({"metadata": {"name": "s"}, "spec": row["create"]}).to_string();
    let reply = ask(server, "POST", COLLECTION, &[], body).await;
    let mut stored = reply.json()["spec"].clone();
    look(&row["create"], &stored);
    let mut steps = vec![Step { name: "create".into(), asked: row["create"].clone(), answer: answer(&reply, &named) }];
    if reply.status != 201 {
        return Some(steps);
    }
    for (i, step) in row["steps"].as_array().into_iter().flatten().enumerate() {
        let mut asked = stored.clone();
        json_patch::merge(&mut asked, step);
        let reply = ask(server, "PATCH", ONE, &MERGE, json!({"spec": step}).to_string()).await;
        if reply.status == 200 {
            stored = reply.json()["spec"].clone();
            look(&asked, &stored);
        }
        steps.push(Step { name: format!("step{i}"), asked, answer: answer(&reply, &named) });
    }
    assert_eq!(ask(server, "DELETE", ONE, &[], "").await.status, 200);
    (!taken_by_chance).then_some(steps)
}

/// A recorded answer, its causes as a set.
fn recorded(row: &Value, name: &str) -> Option<Value> {
    let mut answer = row["got"].get(name)?.clone();
    if answer["status"].as_u64() >= Some(300) {
        let causes = answer["causes"].as_array().into_iter().flatten();
        let causes: BTreeSet<String> = causes.map(ToString::to_string).collect();
        answer["causes"] =
            causes.iter().map(|cause| serde_json::from_str(cause).unwrap()).collect::<Vec<Value>>().into();
    }
    Some(answer)
}

fn rows(shape: &str) -> Vec<Value> {
    ["create", "update"].iter().flat_map(|set| lines(&format!("service-rules/{set}-{shape}.jsonl.gz"))).collect()
}

/// Runs all rows of a shape; says how many there were, and which answers differ: the row, the step, the recorded answer,
/// and whether an earlier answer of the row differed.
async fn replay(shape: &'static str, range: &'static str, rules: RuleSet) -> (usize, Vec<Difference>) {
    let server = server(range, rules).await;
    let rows = rows(shape);
    let mut differences = Vec::new();
    for row in &rows {
        let mut after: Option<usize> = None;
        for step in run(&server, row).await {
            // A row that upstream refused to create has no recorded steps.
            let Some(want) = recorded(row, &step.name) else { continue };
            if step.answer != want {
                let text = format!(
                    "{shape} {} {} {}\n  want {want}\n  got  {}",
                    row["create"], row["steps"], step.name, step.answer
                );
                differences.push(Difference { step, want, text, after });
                after = Some(differences.len() - 1);
            }
        }
    }
    (rows.len(), differences)
}

struct Difference {
    step: Step,
    want: Value,
    text: String,
    /// An earlier difference in the same row, after which the Services are no longer the same.
    after: Option<usize>,
}

async fn replay_all(rules: RuleSet) -> (usize, Vec<Vec<Difference>>) {
    let mut tasks = tokio::task::JoinSet::new();
    for (shape, range) in SHAPES {
        tasks.spawn(replay(shape, range, rules));
    }
    let (counts, differences): (Vec<usize>, _) = tasks.join_all().await.into_iter().unzip();
    (counts.iter().sum(), differences)
}

#[tokio::test(flavor = "multi_thread")]
async fn with_upstream_rules_every_recorded_answer_is_given() {
    let (count, differences) = replay_all(RuleSet::Upstream).await;
    let texts: Vec<_> = differences.iter().flatten().map(|difference| difference.text.as_str()).collect();
    assert_eq!(count, 13_452);
    assert!(texts.is_empty(), "{} answers differ\n{}", texts.len(), texts[..texts.len().min(10)].join("\n"));
}

/// Its name, and whether a request is a case for it.
type Rule = (&'static str, fn(&Value) -> bool);

/// The rules of the proposal that go beyond upstream.
const RULES: [Rule; 4] = [
    ("two families or two addresses alone require both", |spec| {
        spec["ipFamilyPolicy"].is_null()
            && [&spec["ipFamilies"], &spec["clusterIPs"]].iter().any(|list| length(list) == 2)
    }),
    ("clusterIPs may stand without clusterIP", |spec| {
        spec["clusterIP"].as_str().unwrap_or_default().is_empty() && length(&spec["clusterIPs"]) > 0
    }),
    ("an ExternalName loses its family fields", |spec| {
        spec["type"] == "ExternalName" && (length(&spec["ipFamilies"]) > 0 || !spec["ipFamilyPolicy"].is_null())
    }),
    ("headless without selector keeps the family it was given", |spec| {
        let headless = spec["clusterIP"] == "None" || spec["clusterIPs"] == json!(["None"]);
        let selects = spec["selector"].as_object().is_some_and(|selector| !selector.is_empty());
        headless && !selects && length(&spec["ipFamilies"]) == 1 && spec["ipFamilyPolicy"] != "SingleStack"
    }),
];

fn length(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

#[tokio::test(flavor = "multi_thread")]
async fn with_default_rules_answers_differ_only_where_a_rule_says_so() {
    let (count, shapes) = replay_all(RuleSet::Seed).await;
    assert_eq!(count, 13_452);
    let mut by_rule: BTreeMap<&str, usize> = BTreeMap::new();
    let mut unexplained = Vec::new();
    for differences in &shapes {
        for difference in differences {
            let mut root = difference;
            while let Some(earlier) = root.after {
                root = &differences[earlier];
            }
            let accepted = difference.step.answer["status"].as_u64() < Some(300);
            let was_accepted = difference.want["status"].as_u64() < Some(300);
            let rule = RULES.iter().find(|(_, applies)| applies(&difference.step.asked));
            match rule.or_else(|| RULES.iter().find(|(_, applies)| applies(&root.step.asked))) {
                Some((rule, _)) if accepted || !was_accepted => *by_rule.entry(rule).or_default() += 1,
                _ => unexplained.push(difference.text.as_str()),
            }
        }
    }
    assert!(
        unexplained.is_empty(),
        "{} differences without a rule\n{}",
        unexplained.len(),
        unexplained[..unexplained.len().min(10)].join("\n")
    );
    let rules: Vec<&str> = by_rule.keys().copied().collect();
    let mut expected: Vec<&str> = RULES.iter().map(|(rule, _)| *rule).collect();
    expected.sort_unstable();
    assert_eq!(rules, expected, "{by_rule:?}");
}
