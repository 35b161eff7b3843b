//! `healthCheckNodePort`: load balancers ask a node whether it has endpoints of a Service with the external policy Local.
//!
//! Called by `run` after each sync with the Services that changed. One server per Service and family, in kube-proxy's words.

use crate::{
    health::ProxyHealth,
    plan::{NodePortAddresses, NodePortMatch},
    track::{Entry, Name, Node},
};
use http::{
    Request, Response, StatusCode,
    header::{CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS},
};
use net::{DualStack, Family, HasFamily};
use runtime::{
    http::{Body, Limits, Server, full},
    listen::{self, Hosts},
    task::Tasks,
};
use serde_json::json;
use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};
use tokio_util::sync::CancellationToken;

const WEIGHT: HeaderName = HeaderName::from_static("x-load-balancing-endpoint-weight");

/// The servers.
#[derive(Debug)]
pub(crate) struct HealthPorts {
    tasks: Tasks,
    health: ProxyHealth,
    listening: HashMap<(Name, Family), Listening>,
}

#[derive(Debug)]
struct Listening {
    port: u16,
    hosts: Vec<Hosts>,
    count: Arc<AtomicUsize>,
    stop: Vec<CancellationToken>,
}

impl HealthPorts {
    pub(crate) fn new(tasks: Tasks, health: ProxyHealth) -> Self {
        Self { tasks, health, listening: HashMap::new() }
    }

    /// Starts, changes or stops what a Service needs.
    pub(crate) fn set(&mut self, name: &Name, entry: Option<&Entry>, node: &Node, addresses: &NodePortAddresses) {
        for family in Family::BOTH {
            let wanted = entry.and_then(|entry| wanted(entry, family));
            let hosts = hosts(family, node, addresses);
            let key = (name.clone(), family);
            if let (Some((port, count)), Some(there)) = (wanted, self.listening.get(&key))
                && (there.port, &there.hosts) == (port, &hosts)
            {
                there.count.store(count, Ordering::Relaxed);
                continue;
            }
            if let Some(gone) = self.listening.remove(&key) {
                gone.stop.iter().for_each(CancellationToken::cancel);
            }
            if let Some((port, count)) = wanted {
                let started = self.start(name, port, hosts, count);
                self.listening.insert(key, started);
            }
        }
    }

    fn start(&self, name: &Name, port: u16, hosts: Vec<Hosts>, count: usize) -> Listening {
        let count = Arc::new(AtomicUsize::new(count));
        let mut stops = Vec::new();
        for host in &hosts {
            let listeners = match listen::tcp("nodeport-addresses", host, port) {
                Ok(listeners) => listeners,
                Err(error) => {
                    tracing::warn!(service = %name, %error, "healthCheckNodePort is not served");
                    continue;
                }
            };
            let server = Server { listeners, tls: None, limits: Limits::default() };
            let (answered, counted, health) = (name.clone(), Arc::clone(&count), self.health.clone());
            let service = tower::service_fn(move |_: Request<_>| {
                let healthy = health.answer("/livez", Instant::now()).is_some_and(|(status, _)| status == 200);
                ready(Ok::<_, Infallible>(answer(&answered, counted.load(Ordering::Relaxed), healthy)))
            });
            self.tasks.once(&format!("health port {port}"), |stop| {
                let stop = stop.child_token();
                stops.push(stop.clone());
                async move {
                    if let Err(error) = server.run(service, stop).await {
                        tracing::warn!(%error, port, "healthCheckNodePort is not served any more");
                    }
                    Ok::<_, Infallible>(())
                }
            });
        }
        Listening { port, hosts, count, stop: stops }
    }
}

/// The port, and how many endpoints on this node are ready; `None` when the Service has none in this family.
fn wanted(entry: &Entry, family: Family) -> Option<(u16, usize)> {
    let service = entry.service.as_ref()?;
    let port = service.health_check_port?;
    service.cluster_ips.iter().find(|ip| ip.family() == family)?;
    let slices = entry.slices.values().filter(|slice| slice.family == family);
    let here = slices.flat_map(|slice| &slice.endpoints).filter(|endpoint| endpoint.local && endpoint.ready);
    Some((port, here.map(|endpoint| endpoint.ip).collect::<HashSet<_>>().len()))
}

/// Where node ports are open, as far as the Node names the addresses.
fn hosts(family: Family, node: &Node, addresses: &NodePortAddresses) -> Vec<Hosts> {
    let one = |ip| Hosts::Each(DualStack::one(ip));
    match addresses.in_family(family, node) {
        NodePortMatch::All => vec![one(family.unspecified())],
        NodePortMatch::In(blocks) => {
            let open = node.addresses.iter().filter(|ip| blocks.iter().any(|block| block.contains(**ip)));
            open.map(|ip| one(*ip)).collect()
        }
    }
}

fn answer(name: &Name, count: usize, healthy: bool) -> Response<Body> {
    let body = json!({
        "service": {"namespace": &*name.namespace, "name": &*name.name},
        "localEndpoints": count,
        "serviceProxyHealthy": healthy,
    });
    let mut response = Response::new(full(body.to_string()));
    *response.status_mut() = if count > 0 && healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response.headers_mut().insert(WEIGHT, HeaderValue::from(count));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_says_how_many_endpoints_are_here() {
        let name = Name::new("a", "web");
        for (count, healthy, status) in [(2, true, 200), (0, true, 503), (2, false, 503)] {
            let answer = answer(&name, count, healthy);
            assert_eq!(answer.status().as_u16(), status);
            assert_eq!(answer.headers()[WEIGHT], count.to_string());
            assert_eq!(answer.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
        }
    }

    #[test]
    fn it_is_served_where_node_ports_are_open() {
        let addresses = ["192.168.0.1", "fd09::1"].map(|ip| ip.parse().unwrap()).to_vec();
        let node = Node { addresses, ..Node::default() };
        for (flag, v4, v6) in [
            ("primary", "192.168.0.1", "fd09::1"),
            ("all", "0.0.0.0", "::"),
            ("192.168.0.0/16", "192.168.0.1", ""),
            ("fd00::/8", "", "fd09::1"),
        ] {
            let flag: NodePortAddresses = flag.parse().unwrap();
            for (family, expected) in [(Family::V4, v4), (Family::V6, v6)] {
                let hosts: Vec<String> = hosts(family, &node, &flag).iter().map(Hosts::to_string).collect();
                assert_eq!(hosts.join(","), expected);
            }
        }
    }
}
