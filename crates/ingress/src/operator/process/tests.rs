//! Slices for a router that is a process, and a process that is looked after.

use super::{Process, Processes, Wanted, endpoints::slices, mode};
use crate::operator::plan::environment::Ports;
use net::DualStack;
use runtime::{health::Health, metrics::Metrics, task::Tasks};
use serde_json::{Value, json};
use std::{
    net::IpAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

const PORTS: Ports = Ports { http: 10080, https: 10443, stats: 11936 };

fn process(addresses: &[&str]) -> Process {
    Process {
        program: PathBuf::from("twinstack"),
        words: Vec::new(),
        directory: PathBuf::new(),
        kubeconfig: None,
        listen: None,
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

#[test]
fn a_router_listens_on_the_families_that_it_is_given() {
    for (given, expected) in [("127.0.0.1", "v4"), ("::1", "v6"), ("127.0.0.1,::1", "v4v6"), ("::1,127.0.0.1", "v4v6")]
    {
        let ips: Vec<IpAddr> = given.split(',').map(|ip| ip.parse().unwrap()).collect();
        let listen = match ips[..] {
            [one] => DualStack::one(one),
            _ => DualStack::pair(ips[0], ips[1]).unwrap(),
        };
        assert_eq!(mode(&listen), expected, "{given}");
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
        health: vec!["127.0.0.1:1".parse().unwrap(), "[::1]:1".parse().unwrap()],
        record: folder.path().join("started-with"),
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
    processes.stop(None, "default");
    tasks.stop(Duration::from_secs(10)).await;
}

/// What answers there would be taken for the router's own health.
#[test]
fn a_router_is_not_started_where_somebody_else_listens() {
    for host in ["127.0.0.1:0", "[::1]:0"] {
        let other = std::net::TcpListener::bind(host).unwrap();
        let place = other.local_addr().unwrap();
        let wanted = Wanted {
            program: PathBuf::from("/bin/sleep"),
            words: vec![format!("800.{}", place.port())],
            variables: Vec::new(),
            health: vec![place],
            record: PathBuf::from("/dev/null"),
        };
        let mut entry = super::Entry::new(wanted);
        let mut rounds_between = Vec::new();
        for _ in 0..3 {
            entry.keep_running();
            assert!(entry.child.is_none(), "{place}");
            assert_eq!(entry.message, format!("somebody else listens on {place}, which is to be the router's own"));
            rounds_between.push(entry.pause);
            entry.pause = 0;
        }
        assert_eq!(rounds_between, [4, 8, 16]);
        drop(other);
        entry.keep_running();
        assert!(entry.child.is_some(), "{}", entry.message);
    }
}

/// Waits until a process can be found by its command line: for a moment after its start it has none.
async fn shown(id: u32) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while kernel::child::command_line(id).is_none_or(|line| !line.starts_with("/bin/sleep ")) {
        assert!(Instant::now() < deadline, "it has no command line");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Goes round as the supervisor does until there is a process, and gives its number.
async fn settled(entry: &mut super::Entry) -> u32 {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        entry.keep_running();
        if let Some(child) = &entry.child {
            shown(child.id()).await;
            return child.id();
        }
        assert!(Instant::now() < deadline, "{}", entry.message);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// An operator that is killed leaves its routers running: the next one goes on with one that it would start the same, and replaces any other.
#[tokio::test]
async fn a_process_that_was_left_behind_is_taken_over_unless_its_settings_are_others() {
    let folder = tempfile::tempdir().unwrap();
    let wanted = |colour: &str| Wanted {
        program: PathBuf::from("/bin/sleep"),
        // Unlike that of any other test.
        words: vec![format!("600.{}", std::process::id())],
        variables: vec![("COLOUR".to_owned(), colour.to_owned())],
        health: vec!["127.0.0.1:1".parse().unwrap(), "[::1]:1".parse().unwrap()],
        record: folder.path().join("started-with"),
    };
    let mut first = super::Entry::new(wanted("green"));
    let id = settled(&mut first).await;
    // A kill runs nothing of what is dropped.
    std::mem::forget(first);
    let mut second = super::Entry::new(wanted("green"));
    assert_eq!(settled(&mut second).await, id);
    assert!(second.child.as_mut().unwrap().ended().is_none());
    std::mem::forget(second);
    let mut third = super::Entry::new(wanted("blue"));
    let other = settled(&mut third).await;
    assert_ne!(other, id);
    // That one too can be taken over, and is noticed to have ended.
    std::mem::forget(third);
    let mut fourth = super::Entry::new(wanted("blue"));
    assert_eq!(settled(&mut fourth).await, other);
    let mut child = fourth.child.take().unwrap();
    child.terminate();
    let deadline = Instant::now() + Duration::from_secs(60);
    while child.ended().is_none() {
        assert!(Instant::now() < deadline, "it does not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_folder_is_for_one_operator_and_what_was_left_in_it_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let tasks = Tasks::new(&Metrics::new(), &Health::new());
    let (processes, others) = (Processes::new(&tasks), Processes::new(&tasks));
    let word = format!("700.{}", std::process::id());
    let process = Process {
        program: PathBuf::from("/bin/sleep"),
        words: vec![word],
        directory: folder.path().join("new"),
        ..process(&[])
    };
    let mut left = kernel::child::Child::start(&process.program, &process.words, &[]).unwrap();
    shown(left.id()).await;
    processes.take_folder(&process.directory).unwrap();
    processes.take_folder(&process.directory).unwrap();
    let refused = others.take_folder(&process.directory).unwrap_err();
    assert!(refused.contains("another ingress operator has it"), "{refused}");
    others.stop(Some(&process), "default");
    assert_eq!(left.ended(), None, "not theirs to stop");
    processes.stop(Some(&process), "default");
    let deadline = Instant::now() + Duration::from_secs(60);
    while left.ended().is_none() {
        assert!(Instant::now() < deadline, "it does not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(processes);
    tasks.stop(Duration::from_secs(10)).await;
}
