//! `twinstack up -d --demo`: a cluster in the background with an application that answers on both families, by its load balancer and by name,
//! until `down` ends it and `reset` forgets it.

use super::up::{SERVICES, left};
use e2e::{
    dns,
    node_lab::{PATIENCE, Shape, missing},
    twinstack, wait_for,
};
use kernel::{netns::Namespace, process::ProcessError};
use serde_json::json;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

const HOST: &str = "hello.apps.lab.test";
const LOOPBACK: [&str; 2] = ["127.0.0.1", "::1"];

/// The machine, and where `up` keeps its state.
struct Machine {
    space: Namespace,
    folder: tempfile::TempDir,
}

impl Machine {
    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The program, as somebody on the machine runs it.
    fn run(&self, words: &[&str]) -> Result<String, ProcessError> {
        let (network, program) = (format!("--net=/run/netns/{}", self.space.name()), twinstack().display().to_string());
        let data = format!("--data-dir={}", self.data().display());
        let mut all = vec![network.as_str(), "--", &program];
        all.extend(words);
        all.push(&data);
        kernel::process::run("nsenter", &all, "").map(|printed| printed.stdout)
    }

    fn kubectl(&self, words: &[&str], input: &str) -> String {
        let config = format!("--kubeconfig={}", self.data().join("admin.kubeconfig").display());
        let cache = format!("--cache-dir={}", self.folder.path().join("kubectl").display());
        let mut all = vec![config.as_str(), cache.as_str()];
        all.extend(words);
        self.space.run("kubectl", &all, input).unwrap_or_else(|error| panic!("kubectl {words:?}: {error}")).stdout
    }

    /// What curl gets for a URL at an address of the router.
    fn curl(&self, ip: &str, words: &[&str]) -> Result<String, ProcessError> {
        let bracketed = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
        let at = [10080, 10443].map(|port| format!("{HOST}:{port}:{bracketed}"));
        let mut all = vec!["-sS", "--fail", "--max-time", "5", "--resolve", &at[0], "--resolve", &at[1]];
        all.extend(words);
        self.space.run("curl", &all, "").map(|printed| printed.stdout)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Of a test that failed.
        let _ = self.run(&["down"]);
    }
}

/// The addresses that the line `demo` names, with the ports.
fn urls(banner: &str) -> Vec<String> {
    let line = banner.lines().find_map(|line| line.trim().strip_prefix("demo")).unwrap_or_default();
    let words = line.split([' ', ',']).filter(|word| word.starts_with("http://"));
    words.map(str::to_owned).collect()
}

/// By load balancer, by name, redirected to TLS with the authority that is published.
#[track_caller]
fn the_application_answers(machine: &Machine, shape: Shape, banner: &str) {
    let urls = urls(banner);
    assert_eq!(urls.len(), shape.of(&[4, 6]).len() + 1, "one for each family and one by name: {banner}");
    for url in urls.iter().filter(|url| !url.contains(HOST)) {
        let answer =
            machine.space.run("curl", &["-sS", "--fail", "--max-time", "5", "-g", &format!("{url}/hostname")], "");
        assert!(answer.is_ok_and(|answer| answer.stdout.starts_with("hello-")), "{url}");
    }
    let redirected = json!({"apiVersion": "route.openshift.io/v1", "kind": "Route", "metadata": {"name": "hello"},
        "spec": {"tls": {"termination": "edge", "insecureEdgeTerminationPolicy": "Redirect"}}});
    let by_name = format!("http://{HOST}:10080/hostname");
    for (ip, rtype) in LOOPBACK.into_iter().zip([dns::A, dns::AAAA]) {
        let server: SocketAddr = SocketAddr::new(ip.parse().expect("an address"), 10053);
        let asked = || dns::udp(server, &dns::question(HOST, rtype, false), Duration::from_secs(5));
        let answer = machine.space.within(asked).expect("the namespace");
        assert_eq!(answer.expect("an answer").data(), [ip]);
        let answer = machine.curl(ip, &[&by_name]).unwrap_or_else(|error| panic!("{by_name} by {ip}: {error}"));
        assert!(answer.starts_with("hello-"), "{answer}");
    }
    machine.kubectl(&["-n", "demo", "patch", "route", "hello", "--type=merge", "-p", &redirected.to_string()], "");
    let map = ["-n", "openshift-config-managed", "get", "configmap", "default-ingress-cert"];
    let bundle = machine.kubectl(&[&map[..], &["-o", r"jsonpath={.data.ca-bundle\.crt}"]].concat(), "");
    let file = machine.folder.path().join("ca.crt");
    std::fs::write(&file, bundle).expect("written");
    for ip in LOOPBACK {
        let words = ["--cacert", &file.display().to_string(), "-L", "-w", " %{url_effective}", &by_name];
        let mut last = String::new();
        let secure = wait_for(PATIENCE, || {
            last = machine.curl(ip, &words).unwrap_or_else(|error| error.to_string());
            last.ends_with(&format!(" https://{HOST}:10443/hostname")).then_some(())
        });
        assert!(secure.is_some() && last.starts_with("hello-"), "{ip}: {last}");
    }
}

#[test]
fn a_cluster_in_the_background_has_a_demo_that_answers_until_it_is_taken_down() {
    if let Some(enable) = missing().or_else(e2e::haproxy::missing) {
        e2e::skip("a cluster in the background", enable);
        return;
    }
    for shape in Shape::ALL {
        let machine = Machine {
            space: Namespace::new("background").expect("a namespace"),
            folder: tempfile::tempdir().expect("a folder"),
        };
        let services = format!("--service-cluster-ip-range={}", shape.list(SERVICES));
        let banner = machine.run(&["up", "-d", "--demo", &services]).unwrap_or_else(|error| panic!("{error}"));
        the_application_answers(&machine, shape, &banner);
        let links = machine.space.run("ip", &["-o", "link"], "").expect("ip runs").stdout;
        let at = links.find("twin-").unwrap_or_else(|| panic!("the lab has no interface: {links}"));
        let id = links[at + 5..at + 11].to_owned();
        let again = machine.run(&["up", "--detach", &services]).expect("that it runs is no mistake");
        assert!(again.contains("It runs already"), "{again}");
        let refused = machine.run(&["up", &services]).expect_err("one at a time").to_string();
        assert!(refused.contains("`twinstack down` stops it"), "{refused}");

        let ended = machine.run(&["down"]).unwrap_or_else(|error| panic!("{error}"));
        assert!(ended.contains("has ended"), "{ended}");
        assert_eq!(left(&machine.space, &id, &machine.data()), Vec::<String>::new());
        assert!(machine.run(&["down"]).expect("no mistake").contains("nothing runs"));
        forgotten_when_asked_to(&machine, &machine.data());
    }
}

fn forgotten_when_asked_to(machine: &Machine, data: &Path) {
    let refused = machine.run(&["reset"]).expect_err("it wants a yes").to_string();
    assert!(refused.contains("--yes") && data.exists(), "{refused}");
    machine.run(&["reset", "--yes"]).unwrap_or_else(|error| panic!("{error}"));
    assert!(!data.exists());
    std::fs::create_dir(data).expect("a folder");
    std::fs::write(data.join("mine"), "").expect("a file");
    let refused = machine.run(&["reset", "--yes"]).expect_err("it is not a cluster's").to_string();
    assert!(refused.contains("is no data folder") && data.join("mine").exists(), "{refused}");
}
