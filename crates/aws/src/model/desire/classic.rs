//! A classic load balancer, its group, and what nodes let in.

use super::{FEWER_RULES, NodeRules, Parts};
use crate::{
    account::{ClassicAttributes, ClassicHealthCheck, ClassicListener, Peer, Protocol, Rule},
    model::{
        Balancer, Classic, Groups, ManagedGroup,
        annotations::name,
        health,
        request::{Port, Request},
        rules::{self, OWN_GROUP, fullness},
    },
};
use net::Family;
use std::collections::BTreeSet;

impl Parts<'_> {
    pub(super) fn classic(&mut self) -> (Balancer, Groups, NodeRules) {
        let request = self.request;
        let annotations = &request.annotations;
        let groups = self.classic_groups();
        let peers: BTreeSet<String> = match &groups {
            Groups::Managed(_) => [OWN_GROUP.to_owned()].into(),
            Groups::Given(given) => given.clone(),
            Groups::AsIs => BTreeSet::new(),
        };
        let everything = peers.into_iter().map(|group| Rule {
            protocol: Protocol::All,
            peer: Peer::Group(group),
            description: rules::classic_description(&request.owner.load_balancer()),
        });
        let node_rules = self.on_nodes(everything.collect());
        let log = &annotations.access_log;
        let check = health::classic(request, self.settings.shared_probe.as_ref());
        self.check_classic_timeout(&check);
        let classic = Classic {
            scheme: self.scheme,
            subnets: self.subnets.iter().map(|subnet| subnet.id.clone()).collect(),
            listeners: request.ports.iter().map(|port| (port.port, listener(request, port))).collect(),
            proxy_protocol: annotations.proxy_protocol,
            ssl_policy: annotations.ssl_policy.clone(),
            health_check: check,
            attributes: ClassicAttributes {
                cross_zone: annotations.cross_zone,
                access_log: log.enabled,
                access_log_interval: log.interval.filter(|_| log.enabled),
                access_log_bucket: log.bucket.clone().filter(|_| log.enabled),
                access_log_prefix: log.prefix.clone().filter(|_| log.enabled),
                draining: annotations.draining,
                idle_timeout: annotations.idle_timeout.unwrap_or(60),
            },
            instances: self.instances.iter().map(|instance| instance.id.clone()).collect(),
        };
        debug_assert_eq!(request.target_family, Family::V4);
        (Balancer::Classic(classic), groups, node_rules)
    }

    /// AWS takes only what is over before the next check begins.
    fn check_classic_timeout(&mut self, check: &ClassicHealthCheck) {
        let ClassicHealthCheck { timeout, interval, .. } = check;
        if timeout >= interval {
            self.mistakes.push(format!(
                "{}: {timeout} seconds must be less than the {interval} between two checks",
                name("healthcheck-timeout")
            ));
        }
    }

    fn classic_groups(&mut self) -> Groups {
        let annotations = &self.request.annotations;
        match (&annotations.groups, &self.settings.elb_group) {
            (Some(given), _) => Groups::Given(given.union(&annotations.extra_groups).cloned().collect()),
            (None, Some(group)) => {
                let mut given = annotations.extra_groups.clone();
                given.insert(group.clone());
                Groups::Given(given)
            }
            (None, None) => {
                let ingress = rules::ingress(self.request);
                self.limit("the load balancer's security group", fullness(&ingress), FEWER_RULES);
                Groups::Managed(ManagedGroup {
                    name: self.request.owner.classic_group(),
                    ingress,
                    egress: None,
                    egress_denied: false,
                    beside: annotations.extra_groups.clone(),
                })
            }
        }
    }
}

fn listener(request: &Request, port: &Port) -> ClassicListener {
    let backend = request.annotations.backend_protocol.as_deref();
    let (protocol, instance_protocol) = match (port.tls, backend) {
        (true, Some("https")) => ("HTTPS", "HTTPS"),
        (true, Some("http")) => ("HTTPS", "HTTP"),
        (true, Some("ssl")) => ("SSL", "SSL"),
        (true, _) => ("SSL", "TCP"),
        (false, Some("http")) => ("HTTP", "HTTP"),
        (false, _) => ("TCP", "TCP"),
    };
    ClassicListener {
        load_balancer_port: port.port,
        protocol: protocol.to_owned(),
        instance_port: port.node_port,
        instance_protocol: instance_protocol.to_owned(),
        certificate: request.annotations.certificates.first().cloned().filter(|_| port.tls),
    }
}
