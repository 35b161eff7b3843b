//! Pods reach each other, their nodes and the world on each family, and are reached on host ports.

use super::{lab, nothing_is_left, url};
use e2e::{
    node_lab::{Lab, Outside, PATIENCE, Shape, items, server_pod},
    twinstack,
};
use serde_json::json;
use std::net::IpAddr;

/// What a Pod gets from there, as its container sees it. `wget` of a static busybox looks names of ports up, and dies of it.
#[track_caller]
fn ask_from_pod(lab: &Lab, pod: &str, ip: &IpAddr, port: u16) -> String {
    let line = format!("printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 10 {ip} {port}");
    let answer = lab.kubectl(&["exec", pod, "--", "sh", "-c", &line], "");
    let answer = answer.unwrap_or_else(|error| panic!("{pod} gets nothing from {ip}: {error}\n{}", lab.logs()));
    answer.lines().last().unwrap_or_default().trim().to_owned()
}

/// The network of a Pod, for programs of this machine.
fn network_of(lab: &Lab, pod: &str, node: usize) -> String {
    let status = lab.get(&["get", "pod", pod]).unwrap_or_default()["status"]["containerStatuses"][0].clone();
    let id = status["containerID"].as_str().unwrap_or_default().trim_start_matches("containerd://").to_owned();
    let tasks = lab.nodes[node].ctr(&["tasks", "list"]);
    let line = tasks.lines().find(|line| line.starts_with(&id)).unwrap_or_else(|| panic!("{id}: {tasks}"));
    format!("--net=/proc/{}/ns/net", line.split_whitespace().nth(1).expect("a process"))
}

/// By UDP, from one Pod to others: each hears its sender's own address.
#[track_caller]
fn datagrams_arrive(lab: &Lab, (from, own): (&str, &[IpAddr]), to: &[(&str, &[IpAddr], usize)]) {
    let (program, client) = (twinstack().display().to_string(), network_of(lab, from, 0));
    for (pod, ips, node) in to {
        let network = network_of(lab, pod, *node);
        let words = [network.as_str(), "--", &program, "netexec", "--http-port=0", "--tcp-port=0", "--udp-port=8081"];
        let server = e2e::Process::start("nsenter", &words, &lab.folder().join(format!("udp-{pod}.log")));
        for (ip, own) in ips.iter().zip(own) {
            let line = format!(
                "exec 3<>/dev/udp/{ip}/8081; echo clientip >&3; timeout 5 dd bs=64 count=1 status=none <&3; true"
            );
            let heard = e2e::wait_for(PATIENCE, || {
                let words = [client.as_str(), "--", "bash", "-c", &line];
                let said = lab.network.node(0).run("nsenter", &words, "").ok()?.stdout;
                (!said.is_empty()).then_some(said)
            });
            let heard = heard.unwrap_or_else(|| panic!("{ip} says nothing: {}\n{}", server.output(), lab.logs()));
            let sender: std::net::SocketAddr = heard.trim().parse().unwrap_or_else(|_| panic!("{heard}"));
            assert_eq!(sender.ip(), *own);
        }
    }
}

#[track_caller]
fn everybody_reaches_everybody(plugin: &str) {
    let Some(lab) = lab(Shape::V4V6, 2, &[&format!("--cni={plugin}")]) else { return };
    // Between nodes somebody else makes routes; here it is the test.
    for number in 0..2 {
        let node = lab.get(&["get", "node", &format!("n{number}")]).expect("it works");
        for range in items(&node["spec"]["podCIDRs"]).iter().filter_map(|one| one.as_str()) {
            lab.network.route(1 - number, range, number);
        }
    }
    for (name, node) in [("a", "n0"), ("b", "n0"), ("c", "n1")] {
        let mut pod = server_pod(name);
        pod["spec"]["nodeName"] = json!(node);
        lab.apply(&pod);
    }
    let [a, b, c] = ["a", "b", "c"].map(|name| lab.ready(name));
    let list = |ips: &[IpAddr]| ips.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    for (from, to) in [("a", &b), ("a", &c), ("a", &a)] {
        for ip in to {
            assert_eq!(ask_from_pod(&lab, from, ip, 8080), list(to), "{from} to {ip}");
        }
    }
    datagrams_arrive(&lab, ("a", &a), &[("b", &b, 0), ("c", &c, 1)]);
    // A node to a Pod of another node.
    for ip in &c {
        let answer =
            lab.network.node(0).run("curl", &["-sS", "--max-time", "10", &url(ip, 8080)], "").expect("it works");
        assert_eq!(answer.stdout.trim(), list(&c));
    }
    // The world knows nodes alone: what a Pod sends there has its node's address.
    let servers: Vec<_> = Outside::ADDRESSES.iter().map(|ip| who_asks(&lab, ip)).collect();
    for (server, own) in servers.into_iter().zip(&lab.nodes[0].addresses) {
        let (address, thread) = server;
        ask_from_pod(&lab, "a", &address.parse().expect("an address"), 8000);
        assert_eq!(thread.join().expect("it ends"), *own);
    }
    for name in ["a", "b", "c"] {
        lab.delete(name);
    }
    nothing_is_left(&lab, 0);
    nothing_is_left(&lab, 1);
}

/// Answers one request outside of the cluster, and says who asked.
fn who_asks(lab: &Lab, address: &str) -> (String, std::thread::JoinHandle<String>) {
    use std::io::{Read, Write};
    let ip: IpAddr = address.parse().expect("an address");
    let listener = lab
        .network
        .outside()
        .within(|| std::net::TcpListener::bind((ip, 8000)))
        .expect("the namespace")
        .expect("a listener");
    let thread = std::thread::spawn(move || {
        let (mut stream, from) = listener.accept().expect("it works");
        let mut buffer = [0; 1024];
        let _ = stream.read(&mut buffer).expect("it works");
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nhello\n").expect("it works");
        from.ip().to_string()
    });
    (address.to_owned(), thread)
}

#[test]
fn pods_on_a_bridge_reach_each_other_and_the_world() {
    everybody_reaches_everybody("bridge");
}

#[test]
fn pods_on_cables_reach_each_other_and_the_world() {
    everybody_reaches_everybody("ptp");
}

#[test]
fn a_host_port_is_open_on_both_families_and_on_the_nodes_network_there_is_none_needed() {
    let Some(lab) = lab(Shape::V6V4, 1, &[]) else { return };
    let mut pod = server_pod("port");
    pod["spec"]["containers"][0]["ports"][0]["hostPort"] = json!(8081);
    lab.apply(&pod);
    lab.ready("port");
    for ip in &lab.nodes[0].addresses {
        let ip: IpAddr = ip.parse().expect("it works");
        let answer = lab.network.hub().run("curl", &["-sS", "--max-time", "10", &url(&ip, 8081)], "");
        answer.unwrap_or_else(|error| panic!("{error}\n{}", lab.logs()));
    }
    let mut host = server_pod("host");
    host["spec"]["hostNetwork"] = json!(true);
    lab.apply(&host);
    let ips = lab.ready("host");
    let own: Vec<IpAddr> = lab.nodes[0].addresses.iter().map(|ip| ip.parse().expect("it works")).collect();
    assert_eq!(ips, own);
    lab.delete("host");
    lab.delete("port");
    nothing_is_left(&lab, 0);
    let ip: IpAddr = lab.nodes[0].addresses[0].parse().expect("it works");
    assert!(
        lab.network.hub().run("curl", &["-sS", "--max-time", "3", &url(&ip, 8081)], "").is_err(),
        "the port is closed"
    );
}
