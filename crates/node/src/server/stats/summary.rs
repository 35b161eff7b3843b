//! `/stats/summary`, in upstream's shape.

use super::{ContainerUsage, Machine, PodUsage, Traffic, Usage, machine::Disk};
use jiff::Timestamp;
use serde_json::{Value, json};

fn time(nanoseconds: i64) -> String {
    let time = Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap_or_default();
    Timestamp::from_second(time.as_second()).unwrap_or_default().to_string()
}

fn cpu(usage: &Usage) -> Value {
    let mut cpu = json!({"time": time(usage.at), "usageCoreNanoSeconds": usage.cpu});
    if let Some(rate) = usage.cpu_rate {
        cpu["usageNanoCores"] = rate.into();
    }
    cpu
}

fn memory(usage: &Usage) -> Value {
    json!({
        "time": time(usage.at), "usageBytes": usage.memory, "workingSetBytes": usage.working_set, "rssBytes": usage.rss,
        "pageFaults": usage.page_faults, "majorPageFaults": usage.major_page_faults,
    })
}

fn network(at: i64, traffic: &[Traffic]) -> Value {
    let one = |one: &Traffic| json!({"name": one.interface, "rxBytes": one.received, "rxErrors": one.receive_errors, "txBytes": one.sent, "txErrors": one.send_errors});
    let mut network = traffic.first().map_or_else(|| json!({}), one);
    network["time"] = time(at).into();
    network["interfaces"] = traffic.iter().map(one).collect();
    network
}

fn file_system(at: i64, disk: &Disk, used: u64, inodes_used: u64) -> Value {
    json!({
        "time": time(at), "availableBytes": disk.available, "capacityBytes": disk.capacity, "usedBytes": used,
        "inodesFree": disk.inodes_free, "inodes": disk.inodes, "inodesUsed": inodes_used,
    })
}

fn container(one: &ContainerUsage, disk: &Disk) -> Value {
    let at = one.usage.at;
    json!({
        "name": one.name,
        "startTime": time(one.started),
        "cpu": cpu(&one.usage),
        "memory": memory(&one.usage),
        "rootfs": file_system(at, disk, one.layer_bytes, one.layer_inodes),
        "logs": file_system(at, disk, 0, 0),
    })
}

fn pod(one: &PodUsage, disk: &Disk) -> Value {
    let at = one.usage.at;
    let volumes: Vec<Value> = one
        .volumes
        .iter()
        .map(|volume| {
            json!({
                "time": time(at), "name": volume.name, "availableBytes": volume.available, "capacityBytes": volume.capacity,
                "usedBytes": volume.used, "inodesFree": volume.inodes_free, "inodes": volume.inodes, "inodesUsed": volume.inodes_used,
            })
        })
        .collect();
    let stored: u64 =
        one.containers.iter().map(|one| one.layer_bytes).chain(one.volumes.iter().map(|one| one.used)).sum();
    let inodes: u64 =
        one.containers.iter().map(|one| one.layer_inodes).chain(one.volumes.iter().map(|one| one.inodes_used)).sum();
    let mut value = json!({
        "podRef": {"name": one.name, "namespace": one.namespace, "uid": one.uid},
        "startTime": one.started,
        "containers": one.containers.iter().map(|one| container(one, disk)).collect::<Vec<_>>(),
        "cpu": cpu(&one.usage),
        "memory": memory(&one.usage),
        "network": network(at, &one.traffic),
        "volume": volumes,
        "ephemeral-storage": file_system(at, disk, stored, inodes),
    });
    if let Some(count) = one.processes {
        value["process_stats"] = json!({"process_count": count});
    }
    value
}

/// Everything at once.
pub(in crate::server) fn summary(node: &str, machine: &Machine, pods: &[PodUsage]) -> Value {
    let disk = machine.disk.clone().unwrap_or_default();
    let at = machine.usage.at;
    let used = disk.capacity.saturating_sub(disk.available);
    let fs = file_system(at, &disk, used, disk.inodes.saturating_sub(disk.inodes_free));
    let mut of_memory = memory(&machine.usage);
    of_memory["availableBytes"] = machine.available.into();
    json!({
        "node": {
            "nodeName": node,
            "startTime": time(machine.started * 1_000_000_000),
            "cpu": cpu(&machine.usage),
            "memory": of_memory,
            "network": network(at, &machine.traffic),
            "fs": fs,
            "runtime": {"imageFs": fs, "containerFs": fs},
            "rlimit": {"time": time(at), "maxpid": machine.most_processes, "curproc": machine.processes},
        },
        "pods": pods.iter().map(|one| pod(one, &disk)).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_is_upstreams() {
        let usage = Usage { at: 1_000_000_000, cpu: 5, cpu_rate: Some(7), working_set: 9, ..Usage::default() };
        let container =
            ContainerUsage { name: "c".into(), usage: usage.clone(), layer_bytes: 3, ..ContainerUsage::default() };
        let traffic = vec![Traffic { interface: "eth0".into(), received: 1, sent: 2, ..Traffic::default() }];
        let pod = PodUsage {
            name: "p".into(),
            namespace: "n".into(),
            uid: "u".into(),
            usage,
            containers: vec![container],
            traffic,
            ..PodUsage::default()
        };
        let value = summary("node-1", &Machine::default(), &[pod]);
        let pod = &value["pods"][0];
        assert_eq!(pod["podRef"], json!({"name": "p", "namespace": "n", "uid": "u"}));
        assert_eq!(pod["cpu"], json!({"time": "1970-01-01T00:00:01Z", "usageCoreNanoSeconds": 5, "usageNanoCores": 7}));
        assert_eq!(
            (&pod["containers"][0]["memory"]["workingSetBytes"], &pod["network"]["txBytes"]),
            (&json!(9), &json!(2))
        );
        assert_eq!(pod["ephemeral-storage"]["usedBytes"], json!(3));
        assert_eq!(value["node"]["nodeName"], json!("node-1"));
    }
}
