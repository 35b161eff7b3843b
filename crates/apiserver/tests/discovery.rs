//! Discovery against what a real server says of the groups that are served here.

mod support;

use serde_json::Value;
use support::{ask, testdata};

#[tokio::test]
async fn what_is_served_is_described_as_upstream_does() {
    let recorded: Value = serde_json::from_slice(&std::fs::read(testdata("api/discovery.json")).unwrap()).unwrap();
    let server = apiserver::testing::server().await;
    let mut differences = Vec::new();
    // Groups and resources that nothing here acts on are not served, so that kubectl tells the truth.
    let groups = ask(&server, "GET", "/apis", &[], "").await.json();
    let served: Vec<String> = groups["groups"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|group| group["versions"].as_array().unwrap())
        .map(|version| format!("/apis/{}", version["groupVersion"].as_str().unwrap()))
        .collect();
    for (path, want) in recorded.as_object().unwrap() {
        if path.starts_with("/apis/") && !served.contains(path) {
            continue;
        }
        let got = ask(&server, "GET", path, &[], "").await.json();
        match path.as_str() {
            "/version" => assert_eq!((&got["major"], &got["minor"]), (&want["major"], &want["minor"])),
            "/api" => assert_eq!(got["versions"], want["versions"]),
            "/apis" => {
                for group in got["groups"].as_array().unwrap() {
                    let known = want["groups"].as_array().unwrap().iter().find(|known| known["name"] == group["name"]);
                    if known != Some(group) {
                        differences.push(format!("{path}: {group} instead of {known:?}"));
                    }
                }
            }
            _ => {
                for resource in got["resources"].as_array().unwrap_or_else(|| panic!("{path}: {got}")) {
                    let known =
                        want["resources"].as_array().unwrap().iter().find(|known| known["name"] == resource["name"]);
                    if known != Some(resource) {
                        differences
                            .push(format!("{path}:\n  got  {resource}\n  want {}", known.unwrap_or(&Value::Null)));
                    }
                }
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
