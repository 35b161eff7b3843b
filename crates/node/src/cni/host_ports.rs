//! Ports of the node that lead to Pods, of both families: rules that are written anew when a Pod with such a port comes or goes.

use crate::pods::HostPorts;
use k8s_openapi::api::core::v1::Pod;
use kernel::nft::{Nft, Operation, Transaction, word};
use kube::ResourceExt;
use net::{Family, HasFamily};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

const TABLE: &str = "twinstack-host-ports";
const PREROUTING: &str = "prerouting";
const OUTPUT: &str = "output";
const POSTROUTING: &str = "postrouting";

/// Rules in nftables.
pub struct NftHostPorts {
    nft: Arc<dyn Nft>,
    ports: Mutex<BTreeMap<String, Vec<HostPort>>>,
}

/// A port of the node, and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HostPort {
    protocol: &'static str,
    port: u16,
    /// On this address of the node alone.
    on: Option<IpAddr>,
    to: SocketAddr,
}

impl NftHostPorts {
    pub fn new(nft: Arc<dyn Nft>) -> Self {
        Self { nft, ports: Mutex::default() }
    }

    fn change(&self, uid: &str, ports: Vec<HostPort>) -> Result<(), String> {
        let mut all = self.ports.lock();
        if all.get(uid).map(Vec::as_slice).unwrap_or_default() == ports.as_slice() {
            return Ok(());
        }
        let before = all.clone();
        if ports.is_empty() {
            all.remove(uid);
        } else {
            all.insert(uid.to_owned(), ports);
        }
        for family in Family::BOTH {
            if let Err(error) = self.nft.commit(&transaction(family, all.values().flatten())) {
                *all = before;
                return Err(format!("host ports: {error}"));
            }
        }
        Ok(())
    }
}

impl HostPorts for NftHostPorts {
    fn set(&self, pod: &Pod, ips: &[IpAddr]) -> Result<(), String> {
        self.change(&pod.uid().unwrap_or_default(), ports(pod, ips))
    }

    fn clear(&self, uid: &str) -> Result<(), String> {
        self.change(uid, Vec::new())
    }
}

/// The host ports of a Pod, for each of its families. On the node's own network there is nothing to lead anywhere.
fn ports(pod: &Pod, ips: &[IpAddr]) -> Vec<HostPort> {
    let Some(spec) = pod.spec.as_ref().filter(|spec| spec.host_network != Some(true)) else { return Vec::new() };
    let sidecars = spec.init_containers.iter().flatten().filter(|one| one.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|one| one.ports.iter().flatten());
    let mut found = Vec::new();
    for port in ports {
        let number = |number: i32| u16::try_from(number).ok().filter(|number| *number > 0);
        let (Some(host), Some(own)) = (port.host_port.and_then(number), number(port.container_port)) else { continue };
        let protocol = match port.protocol.as_deref() {
            Some("UDP") => "udp",
            Some("SCTP") => "sctp",
            _ => "tcp",
        };
        let on: Option<IpAddr> = port.host_ip.as_deref().and_then(|ip| ip.parse().ok());
        // Every address of a family is what is meant by none.
        let anywhere = on.is_none_or(|on: IpAddr| on.is_unspecified());
        for ip in ips {
            if on.is_none_or(|on| on.family() == ip.family()) {
                let on = on.filter(|_| !anywhere);
                found.push(HostPort { protocol, port: host, on, to: SocketAddr::new(*ip, own) });
            }
        }
    }
    found
}

fn transaction<'a>(family: Family, ports: impl Iterator<Item = &'a HostPort>) -> Transaction {
    let mut steps = Transaction::new(family, TABLE);
    let ports: Vec<_> = ports.filter(|port| port.to.ip().family() == family).collect();
    steps.push(Operation::AddTable);
    if ports.is_empty() {
        steps.push(Operation::DeleteTable);
        return steps;
    }
    let word = word(family);
    // After those of the proxy: a Service comes before a host port, as upstream's order has it.
    for (chain, hook) in [
        (PREROUTING, "type nat hook prerouting priority -95"),
        (OUTPUT, "type nat hook output priority -95"),
        (POSTROUTING, "type nat hook postrouting priority 95"),
    ] {
        steps.push(Operation::AddChain { chain: chain.to_owned(), hook: Some(hook) });
        steps.push(Operation::FlushChain { chain: chain.to_owned() });
    }
    let mut rule = |chain: &str, rule: String| steps.push(Operation::AddRule { chain: chain.to_owned(), rule });
    for HostPort { protocol, port, on, to } in ports {
        let place = on.map_or_else(|| "fib daddr type local".to_owned(), |on| format!("{word} daddr {on}"));
        let lead = format!("{place} {protocol} dport {port} dnat to {to}");
        rule(PREROUTING, lead.clone());
        rule(OUTPUT, lead);
        // A Pod that asks for itself, and the node's loopback, would be answered past us.
        let ip = to.ip();
        let loopback = match family {
            Family::V4 => "127.0.0.0/8",
            Family::V6 => "::1",
        };
        for from in [ip.to_string(), loopback.to_owned()] {
            rule(
                POSTROUTING,
                format!(
                    "{word} saddr {from} {word} daddr {ip} {protocol} dport {} ct status dnat masquerade",
                    to.port()
                ),
            );
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(ports: serde_json::Value) -> Pod {
        objects::from_value(
            &json!({"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [{"name": "c", "ports": ports}]}}),
        )
        .unwrap()
    }

    #[test]
    fn a_host_port_leads_to_the_pod_on_each_family() {
        let ips: Vec<IpAddr> = ["10.0.0.2", "fd00::2"].map(|ip| ip.parse().unwrap()).into();
        let all = ports(&pod(json!([{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}])), &ips);
        assert_eq!(all.len(), 2);
        let text = transaction(Family::V6, all.iter()).text();
        assert!(text.contains("prerouting fib daddr type local tcp dport 8080 dnat to [fd00::2]:80\n"), "{text}");
        assert!(
            text.contains("postrouting ip6 saddr fd00::2 ip6 daddr fd00::2 tcp dport 80 ct status dnat masquerade\n"),
            "{text}"
        );
        let one =
            ports(&pod(json!([{"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "192.0.2.1"}])), &ips);
        assert_eq!(one.len(), 1);
        assert!(
            transaction(Family::V4, one.iter())
                .text()
                .contains("ip daddr 192.0.2.1 udp dport 53 dnat to 10.0.0.2:53\n")
        );
        assert_eq!(
            transaction(Family::V6, one.iter()).text(),
            "add table ip6 twinstack-host-ports\ndelete table ip6 twinstack-host-ports\n"
        );
    }
}
