//! Every way in which a server can say that something was missed leads to a new list; an orderly end does not.

use super::*;
use crate::client::Api;
use futures::StreamExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::VecDeque, sync::Arc, time::Duration};

/// What the server does with one request.
enum Answer {
    List(u64, &'static [(&'static str, u64)]),
    /// Status and events; the stream then ends in order.
    Watch(u16, Vec<Value>),
    Refused,
}

use Answer::{List, Refused, Watch};

fn map(name: &str, version: u64) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns", "resourceVersion": version.to_string()}})
}

fn event(kind: &str, object: Value) -> Value {
    json!({"type": kind, "object": object})
}

fn gone() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410,
        "message": "too old resource version: 5 (7)"})
}

/// A client whose requests are answered one by one; what was asked is written down. After the last answer it waits.
fn client(answers: Vec<Answer>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (answers, noted) = (Arc::new(Mutex::new(VecDeque::from(answers))), Arc::clone(&asked));
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let version = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion="));
        let watches = query.contains("watch=true");
        noted.lock().push(if watches { format!("watch {}", version.unwrap_or_default()) } else { "list".to_owned() });
        let answer = answers.lock().pop_front();
        async move {
            let (status, text) = match answer {
                None => std::future::pending().await,
                Some(Refused) => return Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)),
                Some(List(version, items)) => {
                    assert!(!watches, "a list was expected");
                    let items: Vec<Value> = items.iter().map(|(name, version)| map(name, *version)).collect();
                    let metadata = json!({"resourceVersion": version.to_string()});
                    let list =
                        json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items});
                    (200, list.to_string())
                }
                Some(Watch(status, lines)) => {
                    assert!(watches, "a watch was expected");
                    (status, lines.iter().map(|line| format!("{line}\n")).collect())
                }
            };
            let body = Full::new(bytes::Bytes::from(text)).map_err(|never| match never {});
            let body = body.map_err(|error: std::io::Error| error);
            Ok(Response::builder().status(status).body(body).unwrap())
        }
    });
    (Client::new(service, "default"), asked)
}

/// What a watch tells until it has to wait, in words.
async fn reported(answers: Vec<Answer>) -> (Vec<String>, Vec<String>) {
    let count = answers.len() + 1;
    let (client, asked) = client(answers);
    let mut events = watch(Api::<ConfigMap>::all(client), Config::default()).boxed();
    let mut words = Vec::new();
    while asked.lock().len() < count {
        let Ok(event) = tokio::time::timeout(Duration::from_secs(20), events.next()).await else { break };
        words.push(match event.unwrap() {
            Ok(Event::Init) => "init".to_owned(),
            Ok(Event::InitApply(object)) => format!("+{}", object.name_any()),
            Ok(Event::InitDone) => "done".to_owned(),
            Ok(Event::Apply(object)) => object.name_any(),
            Ok(Event::Delete(object)) => format!("-{}", object.name_any()),
            Err(error) => match error {
                Error::WentBack { known, found } => format!("back {known} {found}"),
                error => format!("error {}", error.code().unwrap_or_default()),
            },
        });
        if asked.lock().len() + 1 == count && words.last().is_some_and(|word| word == "done") {
            break;
        }
    }
    (words, asked.lock().clone())
}

#[tokio::test]
async fn whatever_a_server_says_of_a_lost_version_everything_is_listed_again() {
    let first = || List(5, &[("a", 3), ("b", 5)]);
    let again = || List(9, &[("a", 3), ("c", 9)]);
    for (how, answer, word) in [
        ("a status", Watch(410, vec![gone()]), "error 410"),
        ("an event", Watch(200, vec![event("ERROR", gone())]), "error 410"),
        ("no connection", Refused, "error 0"),
        ("another status", Watch(500, vec![json!({"kind": "Status", "status": "Failure", "code": 500})]), "error 500"),
    ] {
        let (words, asked) = reported(vec![first(), answer, again()]).await;
        assert_eq!(words, ["init", "+a", "+b", "done", word, "init", "+a", "+c", "done"], "{how}");
        assert_eq!(asked, ["list", "watch 5", "list"], "{how}");
    }
}

#[tokio::test]
async fn a_watch_that_ends_in_order_goes_on_from_its_last_version() {
    let changes = vec![
        event("ADDED", map("c", 7)),
        event("DELETED", map("a", 8)),
        event("BOOKMARK", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"resourceVersion": "12"}})),
    ];
    let answers =
        vec![List(5, &[("a", 3)]), Watch(200, changes), Watch(200, vec![event("MODIFIED", map("c", 13))]), Refused];
    let (words, asked) = reported(answers).await;
    assert_eq!(words[..6], ["init", "+a", "done", "c", "-a", "c"]);
    assert_eq!(asked[..4], ["list", "watch 5", "watch 12", "watch 13"]);
    assert_eq!(asked.get(4).map(String::as_str), Some("list"), "the connection was refused");
}

#[tokio::test]
async fn versions_that_go_back_are_told() {
    let (words, _) = reported(vec![List(50, &[("a", 40)]), Refused, Refused, List(20, &[("a", 10)])]).await;
    let expected = ["init", "+a", "done", "error 0", "init", "error 0", "init", "back 50 20", "+a", "done"];
    assert_eq!(words, expected);
}

#[test]
fn a_resource_is_named_as_in_the_table_of_kinds() {
    for (url, name) in [
        ("/api/v1/services", "services"),
        ("/api/v1/namespaces/x/configmaps", "configmaps"),
        ("/apis/route.openshift.io/v1/routes", "routes.route.openshift.io"),
        ("/apis/apps/v1/namespaces/x/deployments", "deployments.apps"),
    ] {
        assert_eq!(stream::resource(url), name);
    }
}
