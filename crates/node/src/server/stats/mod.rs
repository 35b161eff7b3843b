//! What containers, Pods and the node use, as the runtime and the kernel count it. `/stats/summary` and the metrics are made from it.

mod machine;
mod rate;
mod summary;

pub(super) use machine::Machine;
pub(super) use rate::Rates;
pub(super) use summary::summary;

use crate::{
    cri::{
        CriError, Runtime,
        proto::{
            ContainerStats, CpuUsage, ListContainerStatsRequest, ListPodSandboxStatsRequest, MemoryUsage, NetworkUsage,
            UInt64Value,
        },
    },
    volumes::{VolumeUsage, Volumes},
};
use k8s_openapi::api::core::v1::Pod;
use std::{collections::BTreeMap, sync::Arc};

/// Processor time and memory at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// In nanoseconds since 1970.
    pub(super) at: i64,
    /// Nanoseconds of one processor, since the start.
    pub(super) cpu: u64,
    /// Billionths of a processor, lately; if it is known.
    pub(super) cpu_rate: Option<u64>,
    pub(super) memory: u64,
    pub(super) working_set: u64,
    pub(super) rss: u64,
    pub(super) page_faults: u64,
    pub(super) major_page_faults: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ContainerUsage {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) image: String,
    /// In nanoseconds since 1970; 0 if it is not known.
    pub(super) started: i64,
    pub(super) usage: Usage,
    pub(super) layer_bytes: u64,
    pub(super) layer_inodes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) interface: String,
    pub(super) received: u64,
    pub(super) receive_errors: u64,
    pub(super) sent: u64,
    pub(super) send_errors: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PodUsage {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
    pub(super) started: String,
    pub(super) usage: Usage,
    pub(super) containers: Vec<ContainerUsage>,
    pub(super) traffic: Vec<Traffic>,
    pub(super) volumes: Vec<VolumeUsage>,
    pub(super) processes: Option<u64>,
}

/// Everything that is known of what runs here.
pub(super) async fn pods(
    runtime: &Runtime,
    known: &[Arc<Pod>],
    volumes: Option<&Arc<Volumes>>,
    rates: &Rates,
) -> Result<Vec<PodUsage>, CriError> {
    let containers = runtime.call(ListContainerStatsRequest::default()).await?.stats;
    // Older runtimes do not have it; what is missing then is told as missing.
    let sandboxes =
        runtime.call(ListPodSandboxStatsRequest::default()).await.map(|answer| answer.stats).unwrap_or_default();
    let mut found: BTreeMap<String, PodUsage> = BTreeMap::new();
    for pod in known {
        let metadata = &pod.metadata;
        let uid = metadata.uid.clone().unwrap_or_default();
        let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0.to_string());
        let usage = PodUsage {
            name: metadata.name.clone().unwrap_or_default(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            uid: uid.clone(),
            started: started.unwrap_or_default(),
            ..PodUsage::default()
        };
        found.insert(uid, usage);
    }
    for stats in &containers {
        let Some(attributes) = &stats.attributes else { continue };
        let label = |name: &str| attributes.labels.get(name).cloned().unwrap_or_default();
        let Some(pod) = found.get_mut(&label("io.kubernetes.pod.uid")) else { continue };
        let mut container = of_container(stats, &attributes.id, label("io.kubernetes.container.name"));
        container.usage.cpu_rate = rates.rate(&attributes.id, container.usage.at, container.usage.cpu);
        pod.containers.push(container);
    }
    for stats in sandboxes {
        let (Some(attributes), Some(linux)) = (stats.attributes, stats.linux) else { continue };
        let uid = attributes.metadata.map(|metadata| metadata.uid).unwrap_or_default();
        let Some(pod) = found.get_mut(&uid) else { continue };
        pod.usage = of_usage(linux.cpu.as_ref(), linux.memory.as_ref());
        pod.usage.cpu_rate = rates.rate(&attributes.id, pod.usage.at, pod.usage.cpu);
        pod.traffic = linux.network.as_ref().map(of_network).unwrap_or_default();
        pod.processes = linux.process.and_then(|process| process.process_count).map(|count| count.value);
    }
    let mut pods: Vec<PodUsage> = found.into_values().filter(|pod| !pod.containers.is_empty()).collect();
    for pod in &mut pods {
        pod.containers.sort_by(|one, other| one.name.cmp(&other.name));
        if pod.usage == Usage::default() {
            pod.usage = sum(&pod.containers);
        }
        describe(pod, known);
    }
    rates.forget_others();
    Ok(match volumes {
        Some(volumes) => counted(pods, known, Arc::clone(volumes)).await,
        None => pods,
    })
}

/// Image and start of containers, from the Pod's status.
fn describe(usage: &mut PodUsage, known: &[Arc<Pod>]) {
    let Some(pod) = known.iter().find(|pod| pod.metadata.uid.as_deref() == Some(&usage.uid)) else { return };
    let status = pod.status.as_ref();
    let all: Vec<_> = status
        .into_iter()
        .flat_map(|status| {
            [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses]
        })
        .flatten()
        .flatten()
        .collect();
    for container in &mut usage.containers {
        let Some(status) = all.iter().find(|status| status.name == container.name) else { continue };
        container.image = status.image.clone();
        let running = status.state.as_ref().and_then(|state| state.running.as_ref());
        let started = running.and_then(|running| running.started_at.as_ref());
        container.started = started.and_then(|time| i64::try_from(time.0.as_nanosecond()).ok()).unwrap_or_default();
    }
}

async fn counted(mut pods: Vec<PodUsage>, known: &[Arc<Pod>], volumes: Arc<Volumes>) -> Vec<PodUsage> {
    let known = known.to_vec();
    // Files are counted: not on a thread that others wait for.
    let counting = tokio::task::spawn_blocking(move || {
        for usage in &mut pods {
            if let Some(pod) = known.iter().find(|pod| pod.metadata.uid.as_deref() == Some(&usage.uid)) {
                usage.volumes = volumes.usage(pod);
            }
        }
        pods
    });
    counting.await.unwrap_or_default()
}

fn value(value: Option<&UInt64Value>) -> u64 {
    value.map_or(0, |value| value.value)
}

fn of_usage(cpu: Option<&CpuUsage>, memory: Option<&MemoryUsage>) -> Usage {
    let of_memory = |pick: fn(&MemoryUsage) -> Option<&UInt64Value>| value(memory.and_then(pick));
    let working_set = of_memory(|memory| memory.working_set_bytes.as_ref());
    Usage {
        at: cpu.map_or(0, |cpu| cpu.timestamp),
        cpu: value(cpu.and_then(|cpu| cpu.usage_core_nano_seconds.as_ref())),
        cpu_rate: cpu.and_then(|cpu| cpu.usage_nano_cores.as_ref()).map(|rate| rate.value),
        // Older runtimes count the working set alone.
        memory: of_memory(|memory| memory.usage_bytes.as_ref()).max(working_set),
        working_set,
        rss: of_memory(|memory| memory.rss_bytes.as_ref()),
        page_faults: of_memory(|memory| memory.page_faults.as_ref()),
        major_page_faults: of_memory(|memory| memory.major_page_faults.as_ref()),
    }
}

fn of_container(stats: &ContainerStats, id: &str, name: String) -> ContainerUsage {
    let layer = stats.writable_layer.as_ref();
    ContainerUsage {
        id: id.to_owned(),
        name,
        usage: of_usage(stats.cpu.as_ref(), stats.memory.as_ref()),
        layer_bytes: value(layer.and_then(|layer| layer.used_bytes.as_ref())),
        layer_inodes: value(layer.and_then(|layer| layer.inodes_used.as_ref())),
        ..ContainerUsage::default()
    }
}

fn of_network(network: &NetworkUsage) -> Vec<Traffic> {
    let all = network.default_interface.iter().chain(&network.interfaces);
    let mut found: Vec<Traffic> = Vec::new();
    for one in all {
        if found.iter().any(|known| known.interface == one.name) {
            continue;
        }
        found.push(Traffic {
            interface: one.name.clone(),
            received: value(one.rx_bytes.as_ref()),
            receive_errors: value(one.rx_errors.as_ref()),
            sent: value(one.tx_bytes.as_ref()),
            send_errors: value(one.tx_errors.as_ref()),
        });
    }
    found
}

fn sum(containers: &[ContainerUsage]) -> Usage {
    let all = containers.iter().map(|container| &container.usage);
    all.fold(Usage::default(), |sum, one| Usage {
        at: sum.at.max(one.at),
        cpu: sum.cpu + one.cpu,
        cpu_rate: match (sum.cpu_rate, one.cpu_rate) {
            (None, None) => None,
            (first, second) => Some(first.unwrap_or_default() + second.unwrap_or_default()),
        },
        memory: sum.memory + one.memory,
        working_set: sum.working_set + one.working_set,
        rss: sum.rss + one.rss,
        page_faults: sum.page_faults + one.page_faults,
        major_page_faults: sum.major_page_faults + one.major_page_faults,
    })
}
