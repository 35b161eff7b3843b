//! Watches and lists at revisions that are gone, where a watch is told by an event and a list by its status, as kube-apiserver does
//! it; and at revisions that have not come yet.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use apiserver::testing;
use serde_json::{Value, json};
use support::ask;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn a_watch_at_a_revision_that_is_gone_is_told_by_an_event() {
    let server = testing::server().await;
    for name in ["a", "b", "c"] {
        let map = json!({"metadata": {"name": name}}).to_string();
        assert_eq!(ask(&server, "POST", MAPS, &[("content-type", "application/json")], map).await.status, 201);
    }
    let page = ask(&server, "GET", &format!("{MAPS}?limit=1"), &[], "").await.json();
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    let old: u64 = page["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    assert_eq!(ask(&server, "DELETE", &format!("{MAPS}/a"), &[], "").await.status, 200);
    let now = server.store.known_revision();
    server.store.compact(now).await.unwrap();

    for accept in ["application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"] {
        let path = format!("{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=30&resourceVersion={old}");
        let reply = ask(&server, "GET", &path, &[("accept", accept)], "").await;
        assert_eq!(reply.status, 200, "{accept}");
        // One event, and the stream is over before its time.
        let lines: Vec<Value> =
            reply.bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!("too old resource version: {old} ({now})"), "reason": "Expired", "code": 410});
        assert_eq!(lines, [json!({"type": "ERROR", "object": status})], "{accept}");
    }

    for query in [format!("continue={token}"), format!("resourceVersion={old}&resourceVersionMatch=Exact")] {
        let reply = ask(&server, "GET", &format!("{MAPS}?limit=1&{query}"), &[], "").await;
        assert_eq!((reply.status, &reply.json()["reason"]), (410, &json!("Expired")), "{query}");
    }
}

#[tokio::test]
async fn a_revision_of_another_history_is_not_waited_for() {
    let server = testing::server().await;
    let make = async |name: &str| {
        let map = json!({"metadata": {"name": name}}).to_string();
        assert_eq!(ask(&server, "POST", MAPS, &[("content-type", "application/json")], map).await.status, 201);
    };
    make("a").await;
    for query in ["watch=1&timeoutSeconds=30", "limit=500"] {
        let ahead = server.store.known_revision() + 3;
        let path = format!("{MAPS}?{query}&resourceVersion={ahead}");
        let asked = ask(&server, "GET", &path, &[], "");
        // Were it waited for, it would come.
        let writes = async {
            for at in 0..4 {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                make(&format!("{}-{at}", query.len())).await;
            }
        };
        let (reply, ()) = tokio::join!(asked, writes);
        assert_eq!((reply.status, &reply.json()["reason"]), (504, &json!("Timeout")), "{query}");
    }
}
