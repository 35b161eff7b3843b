//! `/metrics/resource` and `/metrics/cadvisor`: what metrics-server and Prometheus read, with upstream's names.

use super::stats::{ContainerUsage, Machine, PodUsage};
use std::fmt::{Display, Write};

/// A text in Prometheus' format.
#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a text cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// `at` in nanoseconds; 0 leaves it to whoever reads.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display, at: i64) {
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value:?}")).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let at = if at > 0 { format!(" {}", at / 1_000_000) } else { String::new() };
        let _ = writeln!(self.0, "{name}{labels} {value}{at}");
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

type OfContainer = fn(&ContainerUsage) -> f64;

/// What metrics-server reads.
pub(super) fn resource(machine: &Machine, pods: &[PodUsage]) -> String {
    let mut text = Text::default();
    let containers: [(&str, &str, &str, OfContainer); 3] = [
        (
            "container_cpu_usage_seconds_total",
            "counter",
            "[STABLE] Cumulative cpu time consumed by the container in core-seconds",
            |one| seconds(one.usage.cpu),
        ),
        (
            "container_memory_working_set_bytes",
            "gauge",
            "[STABLE] Current working set of the container in bytes",
            |one| one.usage.working_set as f64,
        ),
        (
            "container_start_time_seconds",
            "gauge",
            "[STABLE] Start time of the container since unix epoch in seconds",
            |one| one.started as f64 / 1e9,
        ),
    ];
    for (name, kind, help, value) in containers {
        text.family(name, kind, help);
        for pod in pods {
            for one in &pod.containers {
                let labels = [("container", one.name.as_str()), ("namespace", &pod.namespace), ("pod", &pod.name)];
                let at = if name.contains("start_time") { 0 } else { one.usage.at };
                text.sample(name, &labels, value(one), at);
            }
        }
    }
    text.family(
        "node_cpu_usage_seconds_total",
        "counter",
        "[STABLE] Cumulative cpu time consumed by the node in core-seconds",
    );
    text.sample("node_cpu_usage_seconds_total", &[], seconds(machine.usage.cpu), machine.usage.at);
    text.family("node_memory_working_set_bytes", "gauge", "[STABLE] Current working set of the node in bytes");
    text.sample("node_memory_working_set_bytes", &[], machine.usage.working_set, machine.usage.at);
    text.family(
        "pod_cpu_usage_seconds_total",
        "counter",
        "[STABLE] Cumulative cpu time consumed by the pod in core-seconds",
    );
    for pod in pods {
        let labels = [("namespace", pod.namespace.as_str()), ("pod", &pod.name)];
        text.sample("pod_cpu_usage_seconds_total", &labels, seconds(pod.usage.cpu), pod.usage.at);
    }
    text.family("pod_memory_working_set_bytes", "gauge", "[STABLE] Current working set of the pod in bytes");
    for pod in pods {
        let labels = [("namespace", pod.namespace.as_str()), ("pod", &pod.name)];
        text.sample("pod_memory_working_set_bytes", &labels, pod.usage.working_set, pod.usage.at);
    }
    text.family(
        "resource_scrape_error",
        "gauge",
        "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise",
    );
    text.sample("resource_scrape_error", &[], 0, 0);
    text.0
}

/// What dashboards read.
pub(super) fn cadvisor(machine: &Machine, pods: &[PodUsage]) -> String {
    let mut text = Text::default();
    let containers: [(&str, &str, &str, OfContainer); 8] = [
        ("container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed in seconds.", |one| {
            seconds(one.usage.cpu)
        }),
        (
            "container_memory_usage_bytes",
            "gauge",
            "Current memory usage in bytes, including all memory regardless of when it was accessed.",
            |one| one.usage.memory as f64,
        ),
        ("container_memory_working_set_bytes", "gauge", "Current working set in bytes.", |one| {
            one.usage.working_set as f64
        }),
        ("container_memory_rss", "gauge", "Size of RSS in bytes.", |one| one.usage.rss as f64),
        (
            "container_fs_usage_bytes",
            "gauge",
            "Number of bytes that are consumed by the container on this filesystem.",
            |one| one.layer_bytes as f64,
        ),
        ("container_fs_inodes_total", "gauge", "Number of inodes that the container's layer uses.", |one| {
            one.layer_inodes as f64
        }),
        ("container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds.", |one| {
            one.started as f64 / 1e9
        }),
        ("container_last_seen", "gauge", "Last time a container was seen by the exporter.", |one| {
            (one.usage.at / 1_000_000_000) as f64
        }),
    ];
    for (name, kind, help, value) in containers {
        text.family(name, kind, help);
        for pod in pods {
            for one in &pod.containers {
                let mut labels = vec![("container", one.name.as_str())];
                if name.contains("cpu_usage") {
                    labels.push(("cpu", "total"));
                }
                labels.extend([
                    ("id", one.id.as_str()),
                    ("image", &one.image),
                    ("name", &one.id),
                    ("namespace", &pod.namespace),
                    ("pod", &pod.name),
                ]);
                text.sample(name, &labels, value(one), one.usage.at);
            }
        }
    }
    type Counter = fn(&super::stats::Traffic) -> u64;
    let network: [(&str, Counter); 4] = [
        ("container_network_receive_bytes_total", |one| one.received),
        ("container_network_receive_errors_total", |one| one.receive_errors),
        ("container_network_transmit_bytes_total", |one| one.sent),
        ("container_network_transmit_errors_total", |one| one.send_errors),
    ];
    for (name, value) in network {
        text.family(name, "counter", "Cumulative count of a Pod's network, by interface.");
        for pod in pods {
            for one in &pod.traffic {
                let labels = [("interface", one.interface.as_str()), ("namespace", &pod.namespace), ("pod", &pod.name)];
                text.sample(name, &labels, value(one), pod.usage.at);
            }
        }
    }
    text.family("machine_cpu_cores", "gauge", "Number of logical CPU cores.");
    text.sample("machine_cpu_cores", &[], machine.processors, 0);
    text.family("machine_memory_bytes", "gauge", "Amount of memory installed on the machine.");
    text.sample("machine_memory_bytes", &[], machine.memory, 0);
    text.0
}

#[cfg(test)]
mod tests {
    use super::{super::stats::Usage, *};

    #[test]
    fn samples_have_the_labels_that_are_asked_for() {
        let usage = Usage { at: 2_000_000_000, cpu: 1_500_000_000, working_set: 10, ..Usage::default() };
        let one =
            ContainerUsage { id: "x".into(), name: "c".into(), usage: usage.clone(), ..ContainerUsage::default() };
        let pod =
            PodUsage { name: "p".into(), namespace: "n".into(), usage, containers: vec![one], ..PodUsage::default() };
        let machine = Machine { processors: 2, ..Machine::default() };
        let text = resource(&machine, std::slice::from_ref(&pod));
        for line in [
            "container_cpu_usage_seconds_total{container=\"c\",namespace=\"n\",pod=\"p\"} 1.5 2000\n",
            "pod_memory_working_set_bytes{namespace=\"n\",pod=\"p\"} 10 2000\n",
            "node_cpu_usage_seconds_total 0\n",
            "resource_scrape_error 0\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        let text = cadvisor(&machine, &[pod]);
        let line = "container_cpu_usage_seconds_total{container=\"c\",cpu=\"total\",id=\"x\",image=\"\",name=\"x\",namespace=\"n\",pod=\"p\"} 1.5 2000\n";
        assert!(text.contains(line) && text.contains("machine_cpu_cores 2\n"), "{text}");
    }
}
