//! The process dies and another goes on; health is told.

use super::cluster::{Cluster, LEASE, MANAGED, NAMED, PATIENCE, TARGET};
use e2e::{account, free_port, wait_for};
use serde_json::{Value, json};

#[test]
fn it_is_killed_and_another_goes_on_and_health_is_told() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.source("[Global]\nVPC = vpc-1\n");
    let ports = [free_port(), free_port()];
    let start = |name: &str, port: u16| {
        let port = format!("--secure-port={port}");
        let flags: Vec<&str> = LEASE.into_iter().chain([port.as_str()]).collect();
        cluster.sync(name, &flags)
    };
    let holds = |part: &'static str| {
        move |target: &Value| target["data"]["cloud.conf"].as_str().is_some_and(|text| text.contains(part))
    };
    let mut first = start("first", ports[0]);
    cluster.until(&first, "made", holds("vpc-1"));
    let mut second = start("second", ports[1]);
    for host in ["127.0.0.1", "[::1]"] {
        for port in ports {
            for (path, part) in [("/healthz", "ok"), ("/livez", "ok"), ("/readyz", "ok"), ("/metrics", "# TYPE")] {
                let server = format!("--server=https://{host}:{port}");
                let words = [server.as_str(), "--insecure-skip-tls-verify", "get", "--raw", path];
                let answer = wait_for(PATIENCE, || Some(cluster.kubectl.run(&words)).filter(|answer| answer.success));
                let answer = answer.unwrap_or_else(|| panic!("{server}{path}: {}", cluster.kubectl.run(&words).stderr));
                assert!(answer.stdout.contains(part), "{server}{path}: {}", answer.stdout);
            }
        }
    }
    assert!(!second.output().contains("leads"), "one of them works: {}", second.output());
    // Killed with a change that nobody has seen; the other has it when it leads.
    first.kill();
    cluster.source("[Global]\nVPC = vpc-2\n");
    cluster.until(&second, "the second goes on", holds("vpc-2"));
    // Nobody runs: everything changes.
    assert!(second.terminate(PATIENCE).unwrap().success(), "{}", second.output());
    cluster.source("[Global]\nVPC = vpc-3\n");
    cluster.kubectl.ok(&["-n", TARGET, "delete", "configmap", "cloud-conf"]);
    let third = start("third", ports[0]);
    let made = cluster.until(&third, "the third goes on", holds("vpc-3"));
    // Nothing to do is nothing done.
    drop(third);
    let fourth = start("fourth", ports[0]);
    let leads = wait_for(PATIENCE, || fourth.output().contains("leads").then_some(()));
    assert!(leads.is_some(), "{}", fourth.output());
    cluster.put(NAMED, "unrelated", &json!({"a": "b"}));
    cluster.source("[Global]\nVPC = vpc-3 ; the same\n");
    cluster.put(MANAGED, "marker", &json!({"a": "b"}));
    cluster.source("[Global]\nVPC = vpc-4\n");
    let after = cluster.until(&fourth, "the fourth goes on", holds("vpc-4"));
    assert_eq!(fourth.output().matches("cloud-config written").count(), 1, "{}", fourth.output());
    assert_eq!(after["metadata"]["uid"], made["metadata"]["uid"]);
    for sync in [&first, &second, &fourth] {
        account::nothing_was_forbidden(&sync.output());
    }
}
