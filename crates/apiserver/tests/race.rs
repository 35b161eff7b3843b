//! Many writers at once: every patch counts, of two updates one is told that it came too late, and nobody is told twice.

mod support;

use serde_json::json;
use std::sync::Arc;
use support::ask;
use tokio::task::JoinSet;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(flavor = "multi_thread")]
async fn patches_are_made_anew_until_they_fit() {
    let server = apiserver::testing::server().await;
    ask(&server, "POST", MAPS, &[], json!({"metadata": {"name": "a"}}).to_string()).await;
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let server = Arc::clone(&server);
        writers.spawn(async move {
            for turn in 0..10 {
                let patch = json!({"data": {format!("{writer}-{turn}"): "x"}}).to_string();
                let headers = [("content-type", "application/merge-patch+json")];
                let reply = ask(&server, "PATCH", &format!("{MAPS}/a"), &headers, patch).await;
                assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.bytes));
            }
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.expect("no writer failed");
    }
    let data = ask(&server, "GET", &format!("{MAPS}/a"), &[], "").await.json()["data"].clone();
    assert_eq!(data.as_object().map(serde_json::Map::len), Some(80));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_updates_from_one_version_one_wins() {
    let server = apiserver::testing::server().await;
    let made = ask(&server, "POST", MAPS, &[], json!({"metadata": {"name": "a"}}).to_string()).await.json();
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let (server, mut object) = (Arc::clone(&server), made.clone());
        object["data"] = json!({"writer": writer.to_string()});
        writers.spawn(async move { ask(&server, "PUT", &format!("{MAPS}/a"), &[], object.to_string()).await.status });
    }
    let mut codes = writers.join_all().await;
    codes.sort_unstable();
    assert_eq!(codes, [200, 409, 409, 409, 409, 409, 409, 409]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_given_once_and_a_generated_one_never_twice() {
    let server = apiserver::testing::server().await;
    let mut writers = JoinSet::new();
    for _ in 0..8 {
        let server = Arc::clone(&server);
        writers.spawn(async move {
            ask(&server, "POST", MAPS, &[], json!({"metadata": {"name": "b"}}).to_string()).await.status
        });
    }
    let mut codes = writers.join_all().await;
    codes.sort_unstable();
    assert_eq!(codes, [201, 409, 409, 409, 409, 409, 409, 409]);
    let mut writers = JoinSet::new();
    for _ in 0..32 {
        let server = Arc::clone(&server);
        writers.spawn(async move {
            let reply = ask(&server, "POST", MAPS, &[], json!({"metadata": {"generateName": "g-"}}).to_string()).await;
            reply.json()["metadata"]["name"].as_str().expect("a name").to_owned()
        });
    }
    let mut names = writers.join_all().await;
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 32);
}
