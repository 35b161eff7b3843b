//! Which UDP flows lead to endpoints that they should not lead to any more. Pure; `run` makes the kernel forget them.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use kernel::conntrack::Flow;

use crate::plan::Frontend;
use crate::track::Protocol;

/// A UDP frontend whose endpoints changed, and those it has now; none when it is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpChange {
    /// What clients send to.
    pub frontend: Frontend,
    /// Where they may be translated to.
    pub endpoints: HashSet<SocketAddr>,
}

/// The flows to forget.
pub fn stale<'a>(flows: &'a [Flow], changes: &'a [UdpChange]) -> impl Iterator<Item = &'a Flow> {
    let by_frontend: HashMap<Frontend, &HashSet<SocketAddr>> =
        changes.iter().map(|change| (change.frontend, &change.endpoints)).collect();
    flows.iter().filter(move |flow| {
        let protocol = Protocol::Udp;
        let (ip, port) = (flow.to.ip(), flow.to.port());
        let at_address = by_frontend.get(&Frontend::Address { ip, protocol, port });
        // A flow to such a port that was not translated is somebody else's: the port may be one of another machine.
        let at_node_port =
            by_frontend.get(&Frontend::NodePort { protocol, port }).filter(|_| flow.from.ip() != flow.to.ip());
        at_address.or(at_node_port).is_some_and(|endpoints| !endpoints.contains(&flow.from))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_flows_of_changed_frontends_to_other_endpoints_are_forgotten() {
        for (service, endpoint, gone) in [("10.0.0.1", "10.1.0.1", "10.1.0.2"), ("fd00::1", "fd01::1", "fd01::2")] {
            let at = |ip: &str, port| SocketAddr::new(ip.parse().unwrap(), port);
            let endpoints: HashSet<SocketAddr> = [at(endpoint, 53)].into();
            let address = Frontend::Address { ip: at(service, 0).ip(), protocol: Protocol::Udp, port: 53 };
            let node_port = Frontend::NodePort { protocol: Protocol::Udp, port: 30053 };
            let changes = [address, node_port].map(|frontend| UdpChange { frontend, endpoints: endpoints.clone() });
            let flows = [
                Flow::new(at(service, 53), at(endpoint, 53)),
                Flow::new(at(service, 53), at(gone, 53)),
                Flow::new(at(service, 53), at(service, 53)),
                Flow::new(at(service, 54), at(gone, 53)),
                Flow::new(at(gone, 30053), at(gone, 53)),
                Flow::new(at(endpoint, 30053), at(gone, 53)),
            ];
            let forgotten: Vec<&Flow> = stale(&flows, &changes).collect();
            assert_eq!(forgotten, [&flows[1], &flows[2], &flows[5]]);
        }
    }
}
