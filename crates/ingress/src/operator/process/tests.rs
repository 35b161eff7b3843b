//! Slices for a router that is a process, and a process that is looked after.

use super::{Process, Processes, Wanted, endpoints::slices};
use crate::operator::plan::environment::Ports;
use runtime::{health::Health, metrics::Metrics, task::Tasks};
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

const PORTS: Ports = Ports { http: 10080, https: 10443, stats: 11936 };

fn process(addresses: &[&str]) -> Process {
    Process {
        program: PathBuf::from("twinstack"),
        words: Vec::new(),
        directory: PathBuf::new(),
        ports: PORTS,
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        node: Some("n1".to_owned()),
        load_balancer_class: None,
    }
}

#[test]
fn a_slice_for_each_family_that_both_sides_have() {
    let (v4, v6) = ("192.0.2.1", "2001:db8::1");
    for (families, addresses, expected) in [
        (json!(["IPv4"]), vec![v4, v6], vec![v4]),
        (json!(["IPv6"]), vec![v4, v6], vec![v6]),
        (json!(["IPv4", "IPv6"]), vec![v4, v6], vec![v4, v6]),
        (json!(["IPv6", "IPv4"]), vec![v6, v4], vec![v4, v6]),
        (json!(["IPv4", "IPv6"]), vec![v6], vec![v6]),
        (json!(["IPv4"]), vec![], vec![]),
    ] {
        let service = serde_json::from_value(json!({
            "metadata": {"name": "router-internal-default", "uid": "1"},
            "spec": {"ipFamilies": families, "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}, {"name": "metrics", "port": 1936}]},
        }))
        .unwrap();
        let made = slices(&process(&addresses), &service, "default", PORTS, true);
        let shown: Vec<&Value> = made.iter().map(|slice| &slice["endpoints"][0]["addresses"][0]).collect();
        assert_eq!(shown, expected, "{families} {addresses:?}");
        for slice in &made {
            let ports: Vec<&Value> = slice["ports"].as_array().unwrap().iter().map(|port| &port["port"]).collect();
            assert_eq!(ports, [10080, 10443, 11936]);
            assert_eq!(slice["endpoints"][0]["nodeName"], "n1");
            assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "router-internal-default");
        }
    }
}

/// A program that ends at once is never called ready, and is started again.
#[tokio::test]
async fn a_process_that_ends_is_not_ready() {
    let tasks = Tasks::new(&Metrics::new(), &Health::new());
    let processes = Processes::new(&tasks);
    let folder = tempfile::tempdir().unwrap();
    let wanted = Wanted {
        program: PathBuf::from("/bin/sh"),
        words: vec!["-c".to_owned(), format!("echo >> {}/started; exit 3", folder.path().display())],
        variables: Vec::new(),
        // Nobody listens there.
        stats: 1,
        pid_file: folder.path().join("pid"),
    };
    processes.shared.entries.lock().insert("default".to_owned(), super::Entry::new(wanted));
    let deadline = Instant::now() + Duration::from_secs(60);
    let starts = || std::fs::read_to_string(folder.path().join("started")).unwrap_or_default().lines().count();
    while starts() < 2 {
        assert!(Instant::now() < deadline, "it is not started again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let operand = processes.operand("default");
    assert_eq!((operand.is_available, operand.available), (Some(false), 0));
    assert_eq!(processes.operand("other").is_available, None);
    processes.stop("default");
    tasks.stop(Duration::from_secs(10)).await;
}
