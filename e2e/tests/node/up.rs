//! `twinstack up --nodes 2` as a process, on a machine that is a namespace: a cluster that answers, survives and leaves nothing.

use super::url;
use e2e::{
    Process,
    node_lab::{PATIENCE, Shape, missing, shell},
    twinstack, wait_for,
};
use kernel::{netns::Namespace, process::ProcessError};
use serde_json::{Value, json};
use std::{net::IpAddr, path::Path, time::Duration};

pub(super) const SERVICES: [&str; 2] = ["10.96.0.0/16", "fd00:10:96::/112"];
const WEB: &str = "mkdir -p /www; echo hello from web > /www/index.html; exec httpd -f -p 8080 -h /www";

/// The machine, and `up` on it.
struct Up {
    machine: Namespace,
    process: Process,
    shape: Shape,
    folder: tempfile::TempDir,
}

impl Up {
    fn start(shape: Shape) -> Option<Self> {
        if let Some(enable) = missing() {
            e2e::skip("a cluster in one command", enable);
            return None;
        }
        let machine = Namespace::new("machine").expect("a namespace");
        let folder = tempfile::tempdir().expect("a folder");
        let process = launch(&machine, shape, folder.path());
        let up = Self { machine, process, shape, folder };
        up.comes_up();
        Some(up)
    }

    #[track_caller]
    fn comes_up(&self) {
        let up = wait_for(PATIENCE, || self.process.output().contains("Twinstack is up.").then_some(()));
        let output = self.process.output();
        assert!(up.is_some() && output.contains("  nodes       node-1 ("), "{}", self.logs());
    }

    fn kubectl(&self, words: &[&str], input: &str) -> Result<String, ProcessError> {
        let config = format!("--kubeconfig={}", self.data().join("admin.kubeconfig").display());
        let cache = format!("--cache-dir={}", self.folder.path().join("kubectl").display());
        let mut all = vec![config.as_str(), cache.as_str()];
        all.extend(words);
        self.machine.run("kubectl", &all, input).map(|printed| printed.stdout)
    }

    fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }

    #[track_caller]
    fn until<T>(&self, words: &[&str], good: impl Fn(&Value) -> Option<T>) -> T {
        let mut last = String::new();
        let mut all = words.to_vec();
        all.extend(["-o", "json"]);
        let found = wait_for(PATIENCE, || {
            last = self.kubectl(&all, "").unwrap_or_else(|error| error.to_string());
            good(&serde_json::from_str(&last).ok()?)
        });
        found.unwrap_or_else(|| panic!("kubectl {words:?}: {last}\n{}", self.logs()))
    }

    fn logs(&self) -> String {
        let events = self.kubectl(&["get", "events,pods", "-A"], "").unwrap_or_default();
        let tail = |text: String| -> String {
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(25)..].join("\n")
        };
        let mut text = format!("{}\n{events}", tail(self.process.output()));
        for part in ["node-1/kubelet", "node-1/proxy", "node-1/containerd", "node-2/kubelet"] {
            let log = self.data().join("lab").join(part).with_extension("log");
            text += &format!("\n== {part}\n{}", tail(std::fs::read_to_string(log).unwrap_or_default()));
        }
        text
    }

    /// A Deployment of two behind a Service with a load balancer, and somebody who asks.
    fn deploy(&self) {
        let container = shell("web", WEB);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
                "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}},
            }},
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {
                "type": "LoadBalancer", "ipFamilyPolicy": "PreferDualStack", "selector": {"app": "web"},
                "ports": [{"port": 8000, "targetPort": 8080}],
            }},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [shell("client", "sleep 100000")]}},
        ]});
        self.kubectl(&["apply", "-f", "-"], &list.to_string()).unwrap_or_else(|error| panic!("{error}"));
    }

    /// The cluster and load balancer addresses of the Service, of all families of the cluster each.
    #[track_caller]
    fn addresses(&self) -> Vec<IpAddr> {
        let families = self.shape.of(&[4, 6]).len();
        self.until(&["get", "service", "web"], |service| {
            let ip = |value: &Value| value.as_str()?.parse().ok();
            let own = service["spec"]["clusterIPs"].as_array()?.iter().filter_map(ip);
            let ingress = service["status"]["loadBalancer"]["ingress"].as_array()?;
            let all: Vec<IpAddr> = own.chain(ingress.iter().filter_map(|one| ip(&one["ip"]))).collect();
            (all.len() == 2 * families).then_some(all)
        })
    }

    /// Both Pods are there, and everybody gets an answer at every address.
    #[track_caller]
    fn everybody_gets_answers(&self) {
        self.until(&["get", "deployment", "web"], |web| (web["status"]["availableReplicas"] == 2).then_some(()));
        self.until(&["get", "pod", "client"], |pod| {
            (pod["status"]["containerStatuses"][0]["ready"] == true).then_some(())
        });
        for ip in self.addresses() {
            let ask = format!("printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {ip} 8000");
            let mut last = String::new();
            let pod = wait_for(PATIENCE, || {
                let answer = self.kubectl(&["exec", "client", "--", "sh", "-c", &ask], "");
                last = answer.unwrap_or_else(|error| error.to_string());
                last.contains("hello from web").then_some(())
            });
            assert!(pod.is_some(), "a Pod asks {ip}: {last}\n{}", self.logs());
            self.machine_gets_an_answer(ip);
        }
    }

    #[track_caller]
    fn machine_gets_an_answer(&self, ip: IpAddr) {
        let answer = wait_for(PATIENCE, || {
            let printed = self.machine.run("curl", &["-sS", "--max-time", "5", &url(&ip, 8000)], "").ok()?;
            printed.stdout.contains("hello from web").then_some(())
        });
        assert!(answer.is_some(), "the machine asks {ip}\n{}", self.logs());
    }

    /// Ends it as a service manager does; nothing of it is left.
    #[track_caller]
    fn ends_and_leaves_nothing(mut self) {
        let id = self.id();
        let ended = self.process.terminate(Duration::from_secs(60));
        assert!(ended.is_some_and(|status| status.success()), "{}", self.process.output());
        let left = left(&self.machine, &id, &self.data());
        assert_eq!(left, Vec::<String>::new(), "{}", self.process.output());
    }

    /// What tells this lab from others: its interface is named after it.
    #[track_caller]
    fn id(&self) -> String {
        let links = self.machine.run("ip", &["-o", "link"], "").expect("ip runs").stdout;
        let at = links.find("twin-").unwrap_or_else(|| panic!("the lab has no interface: {links}"));
        links[at + 5..at + 11].to_owned()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // A test that failed has not ended it; one that was killed has left things.
        let _ = self.process.terminate(Duration::from_secs(60));
        e2e::run(&["lab", "down", "--data-dir", &self.data().display().to_string()]);
    }
}

fn launch(machine: &Namespace, shape: Shape, folder: &Path) -> Process {
    let network = format!("--net=/run/netns/{}", machine.name());
    let program = twinstack().display().to_string();
    let data = format!("--data-dir={}", folder.join("data").display());
    let services = format!("--service-cluster-ip-range={}", shape.list(SERVICES));
    let words = [&network, "--", &program, "up", "--nodes=2", &data, &services];
    Process::start("nsenter", &words, &folder.join("up.log"))
}

/// Everything that belongs to a lab and should be gone with it.
pub(super) fn left(machine: &Namespace, id: &str, data: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let spaces = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    found.extend(spaces.map(|one| one.path().display().to_string()).filter(|path| path.contains(id)));
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let data = data.display().to_string();
    found.extend(mounts.lines().filter(|line| line.contains(id) || line.contains(&data)).map(str::to_owned));
    for tree in std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
        for group in std::fs::read_dir(tree.path()).into_iter().flatten().flatten() {
            found.extend(Some(group.path().display().to_string()).filter(|path| path.contains(id)));
        }
    }
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        found.extend(Some(line).filter(|line| line.contains(&data) || line.contains(&format!("/run/twinstack/{id}"))));
    }
    let links = machine.run("ip", &["-o", "link"], "").expect("ip runs").stdout;
    found.extend(links.lines().filter(|line| line.contains("twin-")).map(str::to_owned));
    found.extend(Some(format!("/run/twinstack/{id}")).filter(|path| Path::new(path).exists()));
    found
}

#[test]
fn one_command_makes_a_cluster_that_answers_survives_a_kill_and_leaves_nothing() {
    let Some(mut up) = Up::start(Shape::V4V6) else { return };
    up.deploy();
    up.everybody_gets_answers();
    // Names, by the cluster's DNS, which are Pods behind a Service of both families.
    for family in ["10.96.", "fd00:10:96:"] {
        let mut last = String::new();
        let named = wait_for(PATIENCE, || {
            let answer =
                up.kubectl(&["exec", "client", "--", "nslookup", "web.default.svc.cluster.local", "10.96.0.10"], "");
            last = answer.unwrap_or_else(|error| error.to_string());
            last.lines().filter(|line| !line.contains("10.96.0.10")).any(|line| line.contains(family)).then_some(())
        });
        assert!(named.is_some(), "{last}\n{}", up.logs());
    }
    // Whatever happens to the program, Services go on.
    let addresses = up.addresses();
    up.process.kill();
    for ip in &addresses {
        up.machine_gets_an_answer(*ip);
    }
    // The next one cleans up, and everything comes back where it was.
    up.process = launch(&up.machine, up.shape, up.folder.path());
    up.comes_up();
    up.everybody_gets_answers();
    assert_eq!(up.addresses(), addresses);
    up.ends_and_leaves_nothing();
}

#[test]
fn clusters_of_every_other_shape_answer_too() {
    for shape in [Shape::V6V4, Shape::V4, Shape::V6] {
        let Some(up) = Up::start(shape) else { return };
        up.deploy();
        up.everybody_gets_answers();
        up.ends_and_leaves_nothing();
    }
}
