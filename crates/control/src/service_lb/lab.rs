//! The provider `lab`: load balancer addresses of each family from a pool, for bare metal and labs.
//!
//! An address is all there is to it: the proxy on every node serves it. What a Service has got is written in its status
//! and read from there after a restart.

use crate::endpointslice::families::families;
use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Node, Service};
use net::{Cidr, DualStack, Family, HasFamily, MaskError, NodeBlocks, NodeCidrPool, legacy::parse_stored_ip};
use parking_lot::Mutex;
use runtime::cloud::{Answer, CloudError, CloudProvider, LoadBalancers};
use std::{collections::HashMap, net::IpAddr, sync::Arc, time::Duration};

/// The class of Services that want the lab though another provider is the default.
pub const CLASS: &str = "twinstack.dev/lab";

/// When to look again for an address in a pool that is full, should nobody have told of one that was given back.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Hands out the addresses of `--load-balancer-ip-range`.
#[derive(Debug)]
pub struct Lab {
    pools: DualStack<NodeCidrPool>,
    /// By the Service's UID.
    given: Mutex<HashMap<String, Vec<IpAddr>>>,
}

impl Lab {
    /// A pool for each range; an IPv6 range has at most 65536 addresses. The first address of a range, and the last of an
    /// IPv4 range, are left out: they mean the network itself.
    pub fn new(ranges: DualStack<Cidr>) -> Result<Self, MaskError> {
        let pools = ranges.try_map(|family, range| NodeBlocks::new(range, family.bits()).map(NodeCidrPool::new))?;
        for (pool, range) in pools.iter().zip(ranges.iter()).filter(|(_, range)| range.size() > 2) {
            let last = (range.family() == Family::V4).then(|| range.last());
            for ip in std::iter::once(range.first()).chain(last) {
                if let Some(host) = Cidr::host(ip) {
                    // Inside the range by construction.
                    let _ = pool.withhold(host);
                }
            }
        }
        Ok(Self { pools, given: Mutex::default() })
    }

    fn holds(&self, ip: IpAddr) -> bool {
        self.pools.get(ip.family()).is_some_and(|pool| pool.space().cluster().contains(ip))
    }

    fn give(&self, service: &Service) -> Result<Vec<IpAddr>, CloudError> {
        let spec = service.spec.as_ref();
        let wanted = families(service);
        let required = spec.and_then(|spec| spec.ip_family_policy.as_deref()) == Some("RequireDualStack");
        let has = |family: &Family| self.pools.get(*family).is_some();
        let usable: Vec<Family> = wanted.iter().filter(has).collect();
        if usable.is_empty() || (required && usable.len() < wanted.iter().count()) {
            return Err(CloudError::Refused(format!(
                "the Service wants {wanted}, but --load-balancer-ip-range has only {}",
                self.pools.families()
            )));
        }
        let uid = service.metadata.uid.clone().unwrap_or_default();
        let mut given = self.given.lock();
        let before = given.get(&uid).cloned().unwrap_or_default();
        let requested = spec.and_then(|spec| spec.load_balancer_ip.as_deref()).filter(|ip| !ip.is_empty());
        let requested = match requested.map(|text| (text, parse_stored_ip(text))) {
            None => None,
            Some((_, Ok(ip))) if self.holds(ip) => Some(ip),
            Some((text, _)) => {
                return Err(CloudError::Refused(format!(
                    "loadBalancerIP {text} is not inside --load-balancer-ip-range"
                )));
            }
        };
        let mut addresses = Vec::new();
        let mut reserved = Vec::new();
        for family in usable {
            let Some(pool) = self.pools.get(family) else { continue };
            let fixed = requested.filter(|ip| ip.family() == family);
            let kept =
                before.iter().copied().find(|ip| ip.family() == family && fixed.is_none_or(|fixed| fixed == *ip));
            if let Some(ip) = kept {
                addresses.push(ip);
                continue;
            }
            let reservation = match fixed.and_then(Cidr::host) {
                Some(host) => pool.reserve(host),
                None => pool.reserve_any(),
            };
            let reservation = reservation.map_err(|_| CloudError::Exhausted {
                reason: match fixed {
                    Some(ip) => format!("the load balancer address {ip} is taken"),
                    None => format!(
                        "no load balancer address of {family} is free in {}; delete a Service that has one, or widen --load-balancer-ip-range",
                        pool.space().cluster()
                    ),
                },
                after: PATIENCE,
            })?;
            reserved.push(reservation);
            addresses.extend(reserved.last().map(|reservation: &net::Reservation<Cidr>| reservation.first()));
        }
        for reservation in reserved {
            reservation.commit();
        }
        for old in before.iter().filter(|ip| !addresses.contains(ip)) {
            self.free(*old);
        }
        given.insert(uid, addresses.clone());
        Ok(addresses)
    }

    fn free(&self, ip: IpAddr) {
        if let (Some(pool), Some(host)) = (self.pools.get(ip.family()), Cidr::host(ip)) {
            pool.release(host);
        }
    }
}

impl CloudProvider for Lab {
    fn name(&self) -> &str {
        "lab"
    }

    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        Some(self)
    }
}

impl LoadBalancers for Lab {
    fn exists<'a>(&'a self, service: &'a Service) -> Answer<'a, bool> {
        let uid = service.metadata.uid.as_deref().unwrap_or_default();
        let exists = self.given.lock().contains_key(uid);
        Box::pin(async move { Ok(exists) })
    }

    fn ensure<'a>(&'a self, service: &'a Service, _nodes: &'a [Arc<Node>]) -> Answer<'a, LoadBalancerStatus> {
        let given = self.give(service);
        Box::pin(async move {
            let ingress = |ip: &IpAddr| LoadBalancerIngress {
                ip: Some(ip.to_string()),
                ip_mode: Some("VIP".to_owned()),
                ..LoadBalancerIngress::default()
            };
            Ok(LoadBalancerStatus { ingress: Some(given?.iter().map(ingress).collect()) })
        })
    }

    fn update_nodes<'a>(&'a self, _service: &'a Service, _nodes: &'a [Arc<Node>]) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn delete<'a>(&'a self, service: &'a Service) -> Answer<'a, ()> {
        let uid = service.metadata.uid.as_deref().unwrap_or_default();
        let given = self.given.lock().remove(uid).unwrap_or_default();
        given.into_iter().for_each(|ip| self.free(ip));
        Box::pin(async { Ok(()) })
    }

    fn adopt(&self, service: &Service) {
        let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let ingress = status.into_iter().flat_map(|status| status.ingress.iter().flatten());
        let ips = ingress.filter_map(|ingress| parse_stored_ip(ingress.ip.as_deref()?).ok());
        let ours: Vec<IpAddr> = ips.filter(|ip| self.holds(*ip)).collect();
        for ip in &ours {
            if let (Some(pool), Some(host)) = (self.pools.get(ip.family()), Cidr::host(*ip)) {
                // It is inside: that was asked above.
                let _ = pool.occupy(host);
            }
        }
        if let Some(uid) = service.metadata.uid.clone().filter(|_| !ours.is_empty()) {
            self.given.lock().insert(uid, ours);
        }
    }
}
