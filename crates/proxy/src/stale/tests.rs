//! Which flows are forgotten, change by change.

use super::*;
use crate::plan::{Route, Sources, To};
use parking_lot::Mutex;

/// A kernel with these flows, on a machine with these addresses.
struct Flows {
    own: Vec<IpAddr>,
    flows: Mutex<Vec<Flow>>,
}

impl Conntrack for Flows {
    fn udp_flows(&self, _: Family) -> io::Result<Vec<Flow>> {
        Ok(self.flows.lock().clone())
    }

    fn forget(&self, _: Family, gone: &[&Flow]) -> io::Result<()> {
        self.flows.lock().retain(|flow| !gone.contains(&flow));
        Ok(())
    }

    fn own_addresses(&self, _: Family) -> io::Result<BTreeSet<IpAddr>> {
        Ok(self.own.iter().copied().collect())
    }
}

const NODE_PORT: Frontend = Frontend::NodePort { protocol: Protocol::Udp, port: 30053 };

fn plan(frontends: &[Frontend], serving: &[SocketAddr]) -> ServicePlan {
    let route = |frontend: &Frontend| Route {
        frontend: *frontend,
        sources: Sources::Everyone,
        to: To::Reject,
        serving: serving.into(),
    };
    ServicePlan { routes: frontends.iter().map(route).collect(), ..ServicePlan::default() }
}

#[test]
fn a_flow_is_forgotten_when_it_leads_to_no_endpoint_of_a_frontend_that_changed() {
    for (service, node, other_machine, pods) in [
        ("10.0.0.1", "192.168.0.1", "192.168.0.9", ["10.1.0.1", "10.1.0.2"]),
        ("fd00::1", "fd09::1", "fd09::9", ["fd01::1", "fd01::2"]),
    ] {
        let family = if service.contains(':') { Family::V6 } else { Family::V4 };
        let at = |ip: &str, port| SocketAddr::new(ip.parse().unwrap(), port);
        let [first, second] = pods.map(|pod| at(pod, 53));
        let address = Frontend::Address { ip: at(service, 0).ip(), protocol: Protocol::Udp, port: 53 };
        let all = [
            Flow::new(at(service, 53), first),
            Flow::new(at(service, 53), second),
            Flow::new(at(service, 53), at(service, 53)),
            Flow::new(at(service, 54), second),
            Flow::new(at(node, 30053), first),
            Flow::new(at(node, 30053), second),
            Flow::new(at(node, 30053), at(node, 30053)),
            Flow::new(SocketAddr::new(family.loopback(), 30053), second),
            Flow::new(at(other_machine, 30053), at(other_machine, 30053)),
        ];
        let kernel = Flows { own: vec![at(node, 0).ip()], flows: Mutex::new(all.to_vec()) };
        let left = || {
            let left = kernel.flows.lock();
            all.iter().enumerate().filter(|(_, flow)| left.contains(flow)).map(|(at, _)| at).collect::<Vec<_>>()
        };
        let name = Name::new("a", "dns");
        let mut frontends = UdpFrontends::default();
        assert!(frontends.look(&kernel, family).is_none(), "nothing changed");

        frontends.set(&name, &plan(&[address, NODE_PORT], &[first, second]));
        assert_eq!(frontends.look(&kernel, family).unwrap().unwrap(), 2, "never translated");
        assert_eq!(left(), [0, 1, 3, 4, 5, 7, 8]);
        frontends.set(&name, &plan(&[address, NODE_PORT], &[first, second]));
        assert!(frontends.look(&kernel, family).is_none(), "nothing new");

        frontends.set(&name, &plan(&[address, NODE_PORT], &[first]));
        kernel.flows.lock().push(all[6].clone());
        frontends.look(&kernel, family).unwrap().unwrap();
        assert_eq!(left(), [0, 3, 4, 8]);
        kernel.flows.lock().push(all[2].clone());
        assert_eq!(frontends.look_again(&kernel, family).unwrap().unwrap(), 1, "came in after the first look");
        assert!(frontends.look_again(&kernel, family).is_none());

        frontends.set(&name, &ServicePlan::default());
        frontends.look(&kernel, family).unwrap().unwrap();
        assert_eq!(left(), [3, 8]);
    }
}

#[test]
fn a_frontend_changes_hands_in_either_order() {
    let at = |text: &str| -> SocketAddr { text.parse().unwrap() };
    let (old, new) = (Name::new("a", "old"), Name::new("a", "new"));
    let address = Frontend::Address { ip: at("10.0.0.1:0").ip(), protocol: Protocol::Udp, port: 53 };
    for old_first in [true, false] {
        let flows =
            vec![Flow::new(at("10.0.0.1:53"), at("10.1.0.1:53")), Flow::new(at("10.0.0.1:53"), at("10.1.0.2:53"))];
        let kernel = Flows { own: Vec::new(), flows: Mutex::new(flows.clone()) };
        let mut frontends = UdpFrontends::default();
        frontends.set(&old, &plan(&[address], &[at("10.1.0.1:53"), at("10.1.0.2:53")]));
        frontends.look(&kernel, Family::V4);
        let mut steps = [(&old, ServicePlan::default()), (&new, plan(&[address], &[at("10.1.0.2:53")]))];
        if !old_first {
            steps.reverse();
        }
        steps.iter().for_each(|(name, plan)| frontends.set(name, plan));
        frontends.look(&kernel, Family::V4);
        assert_eq!(*kernel.flows.lock(), flows[1..]);
    }
}

#[test]
fn what_is_not_there_any_more_after_a_failure_is_looked_at() {
    let at = |text: &str| -> SocketAddr { text.parse().unwrap() };
    let address = Frontend::Address { ip: at("[fd00::1]:0").ip(), protocol: Protocol::Udp, port: 53 };
    let flow = Flow::new(at("[fd00::1]:53"), at("[fd01::1]:53"));
    let kernel = Flows { own: Vec::new(), flows: Mutex::new(vec![flow]) };
    let mut frontends = UdpFrontends::default();
    frontends.set(&Name::new("a", "dns"), &plan(&[address], &[at("[fd01::1]:53")]));
    frontends.look(&kernel, Family::V6);
    assert_eq!(kernel.flows.lock().len(), 1);
    frontends.all_due(|_| false);
    frontends.look(&kernel, Family::V6);
    assert!(kernel.flows.lock().is_empty());
}
