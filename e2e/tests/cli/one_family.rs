//! Machines that lack a family, as containers of CI do: everything uses what is there, says what is missing, and names nothing that does not
//! serve.

use e2e::{Kubectl, Process, dns, twinstack, wait_for};
use kernel::netns::Namespace;
use std::{
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    path::Path,
    time::Duration,
};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(120);

/// A machine, and what it lacks.
struct Machine {
    name: &'static str,
    /// Takes a family away.
    without: &'static [&'static str],
    loopbacks: &'static [&'static str],
    missing: Option<&'static str>,
}

const MACHINES: [Machine; 3] = [
    Machine { name: "whole", without: &["true"], loopbacks: &["127.0.0.1", "::1"], missing: None },
    Machine {
        name: "without-ipv6",
        without: &["sysctl", "-w", "net.ipv6.conf.all.disable_ipv6=1"],
        loopbacks: &["127.0.0.1"],
        missing: Some("this machine has no IPv6 (::1)"),
    },
    Machine {
        name: "without-ipv4",
        without: &["ip", "addr", "del", "127.0.0.1/8", "dev", "lo"],
        loopbacks: &["::1"],
        missing: Some("this machine has no IPv4 (127.0.0.1)"),
    },
];

impl Machine {
    /// A namespace like it; none where the machine of the tests allows no namespaces, which is noted.
    fn make(&self) -> Option<Namespace> {
        let Ok(space) = Namespace::new(self.name) else {
            e2e::skip(
                "machines of one family",
                "run as root on a machine with namespaces and ip (apt-get install iproute2)",
            );
            return None;
        };
        space.run(self.without[0], &self.without[1..], "").expect("a family can be taken away");
        Some(space)
    }

    /// Its loopback addresses with this port.
    fn sockets(&self, port: u16) -> Vec<SocketAddr> {
        let address = |text: &&str| SocketAddr::new(text.parse::<IpAddr>().expect("an address"), port);
        self.loopbacks.iter().map(address).collect()
    }
}

fn start(space: &Namespace, words: &[&str], log: &Path) -> Process {
    let program = twinstack().display().to_string();
    let all = [&["netns", "exec", space.name(), &program], words].concat();
    Process::start("ip", &all, log)
}

/// The text behind a name in the banner, without the time that stands behind what serves.
fn row(output: &str, name: &str) -> Option<String> {
    let start = format!("  {name:<12}");
    let text = output.lines().find_map(|line| line.strip_prefix(&start))?;
    let timed = text.rsplit_once("  ").filter(|(_, time)| time.ends_with(" s"));
    Some(timed.map_or(text, |(place, _)| place).to_owned())
}

fn joined(sockets: &[SocketAddr], prefix: &str) -> String {
    sockets.iter().map(|socket| format!("{prefix}{socket}")).collect::<Vec<_>>().join(", ")
}

/// The servers that a kubeconfig names.
fn servers(kubeconfig: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(kubeconfig).expect("a kubeconfig");
    let servers = text.lines().filter_map(|line| line.trim().strip_prefix("server: "));
    servers.map(|server| server.trim_matches('"').to_owned()).collect()
}

fn urls(sockets: &[SocketAddr]) -> Vec<String> {
    sockets.iter().map(|socket| format!("https://{socket}")).collect()
}

fn kubectl(space: &Namespace, folder: &TempDir, kubeconfig: &Path) {
    for kubectl in Kubectl::all(kubeconfig, folder.path()) {
        let program = kubectl.program().display().to_string();
        let (config, cache) = (format!("--kubeconfig={}", kubeconfig.display()), folder.path().join("cache"));
        let cache = format!("--cache-dir={}", cache.display());
        let printed = space.run(&program, &[&config, &cache, "get", "namespaces", "-o", "name"], "");
        let printed = printed.expect("kubectl gets through by the kubeconfig's first context");
        assert!(printed.stdout.contains("namespace/kube-system"), "{}", printed.stdout);
    }
}

#[test]
fn up_serves_on_what_is_there_and_its_banner_names_that_alone() {
    for machine in &MACHINES {
        let Some(space) = machine.make() else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let data_dir = format!("--data-dir={}", data.display());
        let up = start(&space, &["up", "--nodes=0", &data_dir], &folder.path().join("up.log"));
        let ready = wait_for(PATIENCE, || up.output().contains("Twinstack is up").then_some(()));
        assert!(ready.is_some(), "{}: it did not come up:\n{}", machine.name, up.output());
        let output = up.output();
        let (api, dns) = (machine.sockets(6443), machine.sockets(10053));
        assert_eq!(row(&output, "API"), Some(joined(&api, "https://")), "{}:\n{output}", machine.name);
        assert_eq!(row(&output, "DNS"), Some(joined(&dns, "")), "{}:\n{output}", machine.name);
        assert_eq!(row(&output, "missing").as_deref(), machine.missing, "{}:\n{output}", machine.name);
        let banner = &output[output.find("Twinstack is up").unwrap_or_default()..];
        assert!(!banner.contains("10080"), "no router was asked for:\n{banner}");
        let kubeconfig = data.join("admin.kubeconfig");
        assert_eq!(servers(&kubeconfig), urls(&api), "{}", machine.name);
        kubectl(&space, &folder, &kubeconfig);
        // Everything that the banner names is there, also for the question that it suggests.
        let question = dns::question("kubernetes.default.svc.cluster.local", dns::A, true);
        space
            .within(|| {
                for socket in &api {
                    TcpStream::connect(socket).unwrap_or_else(|error| panic!("{}: {socket}: {error}", machine.name));
                }
                for socket in &dns {
                    for answer in [
                        dns::udp(*socket, &question, Duration::from_secs(10)),
                        dns::tcp(*socket, &question, Duration::from_secs(10)),
                    ] {
                        let answer = answer.unwrap_or_else(|| panic!("{}: {socket} does not answer", machine.name));
                        assert_eq!(answer.data(), ["10.96.0.1"], "{}: {socket}", machine.name);
                    }
                }
            })
            .expect("the namespace can be entered");
    }
}

#[test]
fn an_api_server_on_every_address_is_found_by_what_is_there() {
    for machine in &MACHINES {
        let Some(space) = machine.make() else { return };
        for bind in ["::", "0.0.0.0,::"] {
            let folder = tempfile::tempdir().expect("a folder");
            let data = folder.path().join("data");
            let words = [
                "apiserver".to_owned(),
                format!("--data-dir={}", data.display()),
                format!("--bind-address={bind}"),
                "--secure-port=6443".to_owned(),
            ];
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let server = start(&space, &words, &folder.path().join("apiserver.log"));
            let ready = wait_for(PATIENCE, || server.output().contains("API server is ready").then_some(()));
            assert!(ready.is_some(), "{} {bind}:\n{}", machine.name, server.output());
            let mut expected = urls(&machine.sockets(6443));
            if bind == "::" {
                expected.sort_by_key(|url| !url.contains("[::1]"));
            }
            let kubeconfig = data.join("admin.kubeconfig");
            assert_eq!(servers(&kubeconfig), expected, "{} {bind}", machine.name);
            kubectl(&space, &folder, &kubeconfig);
        }
    }
}

#[test]
fn a_part_whose_port_is_taken_is_told_to_be_missing_with_the_reason() {
    let Some(space) = MACHINES[0].make() else { return };
    let taken = space.within(|| TcpListener::bind("[::1]:10053")).expect("the namespace can be entered");
    let _taken = taken.expect("the port is free");
    let folder = tempfile::tempdir().expect("a folder");
    let data_dir = format!("--data-dir={}", folder.path().join("data").display());
    let up = start(&space, &["up", "--nodes=0", &data_dir], &folder.path().join("up.log"));
    let ready = wait_for(PATIENCE, || up.output().contains("Twinstack is up").then_some(()));
    assert!(ready.is_some(), "it did not come up:\n{}", up.output());
    let output = up.output();
    let dns = row(&output, "DNS").unwrap_or_default();
    assert!(dns.starts_with("not serving: ") && dns.contains("::1 port 10053"), "{dns}\n{output}");
    assert!(!output.contains("\n  dig "), "{output}");
}

#[test]
fn dns_answers_on_what_is_there() {
    for machine in &MACHINES {
        let Some(space) = machine.make() else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let conf = folder.path().join("Corefile");
        let text = ".:1053 {\n  hosts {\n    192.0.2.1 a.test\n  }\n  prometheus\n  health localhost:8080\n}\n";
        std::fs::write(&conf, text).expect("a file");
        let conf = format!("--conf={}", conf.display());
        let server = start(&space, &["dns", &conf], &folder.path().join("dns.log"));
        let ready = wait_for(PATIENCE, || server.output().contains("DNS server is ready").then_some(()));
        assert!(ready.is_some(), "{}:\n{}", machine.name, server.output());
        let question = dns::question("a.test", dns::A, true);
        space
            .within(|| {
                for socket in machine.sockets(1053) {
                    let answer = dns::udp(socket, &question, Duration::from_secs(10)).expect("an answer");
                    assert_eq!(answer.data(), ["192.0.2.1"], "{}: {socket}", machine.name);
                }
                let first = machine.sockets(0)[0].ip();
                for port in [9153, 8080] {
                    TcpStream::connect((first, port))
                        .unwrap_or_else(|error| panic!("{}: {port}: {error}", machine.name));
                }
            })
            .expect("the namespace can be entered");
    }
}
