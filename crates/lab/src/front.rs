//! Which node the machine's packets for Services and load balancers go through: one that answers its health check, as a load balancer
//! outside of a cluster would choose; for Services that keep traffic local, one that has an endpoint.

use crate::{Network, network::batch};
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service};
use net::{Cidr, DualStack};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Where every proxy says how it is.
const PROXY_HEALTH: u16 = 10256;
/// How often nodes are asked, and how long they may take.
const PERIOD: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(1);

/// A Service that keeps traffic local: its addresses, and where nodes say whether they have an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Local {
    addresses: Vec<IpAddr>,
    port: u16,
}

/// What leads into the cluster from the machine.
pub struct Front {
    network: Arc<Network>,
    balancers: Vec<Cidr>,
    /// By the Service's UID.
    local: Mutex<BTreeMap<String, Local>>,
}

impl Front {
    /// For the addresses of Services, and of load balancers from these blocks.
    pub fn new(network: Arc<Network>, balancers: Vec<Cidr>) -> Self {
        Self { network, balancers, local: Mutex::default() }
    }

    /// Takes note of a load balancer.
    pub fn serve(&self, service: &Service, status: &LoadBalancerStatus) {
        let spec = service.spec.as_ref();
        let keeps = spec.and_then(|spec| spec.external_traffic_policy.as_deref()) == Some("Local");
        let port = spec.and_then(|spec| spec.health_check_node_port).and_then(|port| u16::try_from(port).ok());
        let ingress = status.ingress.iter().flatten();
        let addresses: Vec<IpAddr> = ingress.filter_map(|one| one.ip.as_deref()?.parse().ok()).collect();
        let uid = service.metadata.uid.clone().unwrap_or_default();
        match port.filter(|port| keeps && *port > 0) {
            Some(port) => drop(self.local.lock().insert(uid, Local { addresses, port })),
            None => drop(self.local.lock().remove(&uid)),
        }
    }

    /// A load balancer is gone.
    pub fn forget(&self, service: &Service) {
        self.local.lock().remove(service.metadata.uid.as_deref().unwrap_or_default());
    }

    /// Keeps routes where they lead somewhere, for ever.
    pub async fn follow(&self) {
        // What was led where last; the network was made with the first node in front of all.
        let first = self.network.layout.nodes.first().map(|node| node.addresses);
        let mut all = first;
        let mut before: BTreeMap<IpAddr, DualStack<IpAddr>> = BTreeMap::new();
        loop {
            tokio::time::sleep(PERIOD).await;
            let healthy = self.healthy(PROXY_HEALTH, all).await.or(all);
            if healthy != all
                && let Some(to) = healthy
            {
                let lines = self.network.layout.ranges.services.iter().chain(&self.balancers);
                let lines = lines.filter_map(|range| self.network.machine_route(range, &to)).collect();
                if run(lines).await {
                    all = healthy;
                }
            }
            let mut now = BTreeMap::new();
            let local: Vec<Local> = self.local.lock().values().cloned().collect();
            for Local { addresses, port } in local {
                let last = addresses.first().and_then(|ip| before.get(ip)).copied();
                if let Some(to) = self.healthy(port, last).await {
                    now.extend(addresses.into_iter().map(|ip| (ip, to)));
                }
            }
            let line = |(ip, to): (&IpAddr, &DualStack<IpAddr>)| self.network.machine_route(&Cidr::host(*ip)?, to);
            let mut lines: Vec<String> =
                now.iter().filter(|(ip, to)| before.get(*ip) != Some(to)).filter_map(line).collect();
            let interface = self.network.home.interface();
            let gone = before.keys().filter(|ip| !now.contains_key(*ip));
            lines.extend(gone.map(|ip| format!("route delete {ip} dev {interface}")));
            if run(lines).await {
                before = now;
            }
        }
    }

    /// The node that was chosen last if it is well, or the first that is.
    async fn healthy(&self, port: u16, last: Option<DualStack<IpAddr>>) -> Option<DualStack<IpAddr>> {
        let others = self.network.layout.nodes.iter().map(|node| node.addresses).filter(|one| Some(*one) != last);
        for addresses in last.into_iter().chain(others) {
            if tokio::time::timeout(PATIENCE, ok(SocketAddr::new(*addresses.primary(), port))).await == Ok(true) {
                return Some(addresses);
            }
        }
        None
    }
}

/// Whether a node answers a health check with 200.
async fn ok(at: SocketAddr) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(at).await?;
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await?;
        std::io::Result::Ok(&head == b"HTTP/1.1 200")
    };
    ask.await.unwrap_or(false)
}

async fn run(lines: Vec<String>) -> bool {
    if lines.is_empty() {
        return true;
    }
    let done = tokio::task::spawn_blocking(move || batch(None, &lines)).await;
    match done {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            tracing::warn!(%error, "the machine's routes into the lab cannot be changed");
            false
        }
        Err(_) => false,
    }
}
