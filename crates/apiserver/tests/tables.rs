//! Tables as `kubectl get` sees them, against the columns and cells that a real server gave.

mod support;

use serde_json::{Value, json};
use support::{ask, testdata};

const UID_LABEL: &str = "batch.kubernetes.io/controller-uid=";

#[tokio::test]
async fn every_recorded_table_comes_out_the_same() {
    let recorded: Vec<Value> = serde_json::from_slice(&std::fs::read(testdata("api/tables.json")).unwrap()).unwrap();
    let server = apiserver::testing::server().await;
    let mut differences = Vec::new();
    for (index, table) in recorded.iter().enumerate() {
        let namespace = format!("tables-{index}");
        ask(&server, "POST", "/api/v1/namespaces", &[], json!({"metadata": {"name": namespace}}).to_string()).await;
        let path = table["path"].as_str().unwrap().replace("{ns}", &namespace);
        for object in table["objects"].as_array().unwrap() {
            let body = object["object"].to_string().replace("\"tables\"", &format!("\"{namespace}\""));
            let made = ask(&server, "POST", &path, &[], body).await;
            assert!(made.status == 201 || made.status == 409, "{path}: {}", String::from_utf8_lossy(&made.bytes));
            if !object["status"].is_null() {
                let name = object["object"]["metadata"]["name"].as_str().unwrap();
                let patch = json!({"status": object["status"]}).to_string();
                let headers = [("content-type", "application/merge-patch+json")];
                let patched = ask(&server, "PATCH", &format!("{path}/{name}/status"), &headers, patch).await;
                assert_eq!(patched.status, 200, "{path}/{name}: {}", String::from_utf8_lossy(&patched.bytes));
            }
        }
        let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
        let got = ask(&server, "GET", &path, &accept, "").await.json();
        let columns: Vec<Value> = got["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| json!({"name": c["name"], "type": c["type"], "format": c["format"], "priority": c["priority"]}))
            .collect();
        if json!(columns) != table["columns"] {
            differences.push(format!("{path} columns\n  want {}\n  got  {}", table["columns"], json!(columns)));
        }
        for (name, want) in table["cells"].as_object().unwrap() {
            let rows = got["rows"].as_array().unwrap();
            let row = rows.iter().find(|row| row["object"]["metadata"]["name"] == name.as_str());
            let got: Vec<Value> = row
                .map(|row| row["cells"].as_array().unwrap().iter().zip(want.as_array().unwrap()).map(ages).collect())
                .unwrap_or_default();
            if json!(got) != *want {
                differences.push(format!("{path}/{name}\n  want {want}\n  got  {}", json!(got)));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// An age can be anything where the recording shows that there is one.
fn ages((got, want): (&Value, &Value)) -> Value {
    if want == "AGE" {
        return want.clone();
    }
    match (got.as_str(), want.as_str()) {
        (Some(got), Some(want)) if want.contains("(AGO)") => {
            let open = got.rfind('(').unwrap_or(got.len());
            format!("{}(AGO)", &got[..open]).into()
        }
        // A Job finds its pods by its own uid.
        (Some(got), Some(want)) if [got, want].iter().all(|text| text.starts_with(UID_LABEL)) => want.into(),
        _ => got.clone(),
    }
}
