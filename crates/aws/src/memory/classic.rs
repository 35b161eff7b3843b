//! Classic load balancers, with the refusals of their API.

use super::{HeldClassic, State, checked_name, checked_tags, invalid, not_found};
use crate::account::{
    AwsError, ClassicAttributes, ClassicHealthCheck, ClassicListener, ClassicLoadBalancer, ClassicPolicy, Kind,
    NewClassicLoadBalancer,
};
use std::collections::{BTreeMap, BTreeSet};

type Outcome<T> = Result<T, AwsError>;

impl State {
    pub(super) fn classic(&mut self, name: &str) -> Outcome<&mut HeldClassic> {
        self.classic.get_mut(name).ok_or_else(|| not_found(Kind::LoadBalancer, name))
    }

    fn classic_subnets(&self, ids: &BTreeSet<String>) -> Outcome<String> {
        let mut zones = BTreeSet::new();
        let mut vpc = String::new();
        for id in ids {
            let subnet = self.subnets.iter().find(|subnet| subnet.id == *id);
            let subnet = subnet.ok_or_else(|| not_found(Kind::Subnet, id))?;
            if !zones.insert(&subnet.zone) {
                return Err(invalid("InvalidConfigurationRequest", "several subnets in one zone"));
            }
            vpc.clone_from(&subnet.vpc);
        }
        if vpc.is_empty() { Err(invalid("ValidationError", "no subnets")) } else { Ok(vpc) }
    }

    fn classic_groups(&self, ids: &BTreeSet<String>, vpc: &str) -> Outcome<()> {
        for id in ids {
            let group = self.groups.get(id).ok_or_else(|| not_found(Kind::SecurityGroup, id))?;
            if group.vpc != vpc {
                return Err(invalid("InvalidSecurityGroup", format!("{id} belongs to another VPC")));
            }
        }
        if ids.is_empty() { Err(invalid("InvalidConfigurationRequest", "no security group")) } else { Ok(()) }
    }

    fn check_classic_listener(&self, listener: &ClassicListener) -> Outcome<()> {
        let tls = listener.protocol == "SSL" || listener.protocol == "HTTPS";
        match &listener.certificate {
            None if tls => Err(invalid("InvalidConfigurationRequest", "a TLS listener needs a certificate")),
            Some(arn) if !self.certificates.contains(arn) => Err(not_found(Kind::Certificate, arn)),
            _ => Ok(()),
        }
    }

    pub(super) fn create_classic(&mut self, new: &NewClassicLoadBalancer) -> Outcome<String> {
        checked_name(&new.name)?;
        checked_tags(&new.tags)?;
        let vpc = self.classic_subnets(&new.subnets)?;
        self.classic_groups(&new.security_groups, &vpc)?;
        if new.listeners.is_empty() {
            return Err(invalid("ValidationError", "no listeners"));
        }
        new.listeners.iter().try_for_each(|listener| self.check_classic_listener(listener))?;
        if self.classic.contains_key(&new.name) {
            return Err(AwsError::Duplicate { message: format!("{} exists", new.name) });
        }
        let serial = self.fresh();
        let load_balancer = ClassicLoadBalancer {
            name: new.name.clone(),
            dns_name: format!("{}-{serial}.us-east-1.elb.amazonaws.com", new.name),
            hosted_zone: "Z35SXDOTRQ7X7K".to_owned(),
            vpc,
            scheme: new.scheme,
            listeners: new.listeners.iter().map(|one| (one.load_balancer_port, one.clone())).collect(),
            listener_policies: BTreeMap::new(),
            backend_policies: BTreeMap::new(),
            policies: BTreeSet::new(),
            subnets: new.subnets.clone(),
            security_groups: new.security_groups.clone(),
            instances: BTreeSet::new(),
            health_check: Some(ClassicHealthCheck {
                target: "TCP:80".to_owned(),
                interval: 30,
                timeout: 5,
                healthy: 10,
                unhealthy: 2,
            }),
        };
        let dns_name = load_balancer.dns_name.clone();
        let held = HeldClassic { load_balancer, attributes: ClassicAttributes::default(), tags: new.tags.clone() };
        self.classic.insert(new.name.clone(), held);
        Ok(dns_name)
    }

    pub(super) fn delete_classic(&mut self, name: &str, lingers: u32) {
        let held = self.classic.remove(name);
        if let Some(held) = held.filter(|_| lingers > 0) {
            self.busy.extend(held.load_balancer.security_groups.into_iter().map(|id| (id, lingers)));
        }
    }

    pub(super) fn attach_classic(&mut self, name: &str, subnets: &BTreeSet<String>) -> Outcome<()> {
        let mut has = self.classic(name)?.load_balancer.subnets.clone();
        self.classic_subnets(subnets)?;
        let zone = |id: &String| self.subnets.iter().find(|subnet| subnet.id == *id).map(|subnet| &subnet.zone);
        let taken: BTreeSet<&String> = subnets.iter().filter_map(zone).collect();
        // A zone has one subnet: the new one takes the place of the old one.
        has.retain(|id| !zone(id).is_some_and(|zone| taken.contains(zone)));
        has.extend(subnets.iter().cloned());
        self.classic(name)?.load_balancer.subnets = has;
        Ok(())
    }

    pub(super) fn detach_classic(&mut self, name: &str, subnets: &BTreeSet<String>) -> Outcome<()> {
        let held = self.classic(name)?;
        if !subnets.is_subset(&held.load_balancer.subnets) {
            return Err(invalid("InvalidConfigurationRequest", "a subnet that is not attached"));
        }
        let left: BTreeSet<String> = held.load_balancer.subnets.difference(subnets).cloned().collect();
        if left.is_empty() {
            return Err(invalid("InvalidConfigurationRequest", "the last subnet"));
        }
        held.load_balancer.subnets = left;
        Ok(())
    }

    pub(super) fn apply_groups(&mut self, name: &str, groups: &BTreeSet<String>, lingers: u32) -> Outcome<()> {
        let (vpc, before) = {
            let held = &self.classic(name)?.load_balancer;
            (held.vpc.clone(), held.security_groups.clone())
        };
        self.classic_groups(groups, &vpc)?;
        if lingers > 0 {
            self.busy.extend(before.difference(groups).map(|id| (id.clone(), lingers)));
        }
        self.classic(name)?.load_balancer.security_groups = groups.clone();
        Ok(())
    }

    pub(super) fn add_classic_listeners(&mut self, name: &str, listeners: &[ClassicListener]) -> Outcome<()> {
        listeners.iter().try_for_each(|listener| self.check_classic_listener(listener))?;
        let has = &mut self.classic(name)?.load_balancer.listeners;
        let other = |one: &&ClassicListener| has.get(&one.load_balancer_port).is_some_and(|has| has != *one);
        if listeners.iter().any(|one| other(&one)) {
            return Err(AwsError::Duplicate { message: "a listener of this port with other settings".to_owned() });
        }
        has.extend(listeners.iter().map(|one| (one.load_balancer_port, one.clone())));
        Ok(())
    }

    pub(super) fn delete_classic_listeners(&mut self, name: &str, ports: &BTreeSet<u16>) -> Outcome<()> {
        let held = &mut self.classic(name)?.load_balancer;
        held.listeners.retain(|port, _| !ports.contains(port));
        held.listener_policies.retain(|port, _| !ports.contains(port));
        Ok(())
    }

    pub(super) fn check_classic(&mut self, name: &str, check: &ClassicHealthCheck) -> Outcome<()> {
        if check.timeout >= check.interval {
            return Err(invalid("ValidationError", "HealthCheck timeout must be less than interval"));
        }
        self.classic(name)?.load_balancer.health_check = Some(check.clone());
        Ok(())
    }

    pub(super) fn register_classic(&mut self, name: &str, instances: &BTreeSet<String>) -> Outcome<()> {
        if let Some(id) = instances.iter().find(|id| !self.instances.contains_key(*id)) {
            return Err(not_found(Kind::Instance, id));
        }
        self.classic(name)?.load_balancer.instances.extend(instances.iter().cloned());
        Ok(())
    }

    pub(super) fn set_classic_attributes(&mut self, name: &str, set: &ClassicAttributes) -> Outcome<()> {
        if set.access_log && set.access_log_bucket.is_none() {
            return Err(invalid("InvalidConfigurationRequest", "access logs need a bucket"));
        }
        if !(1..=4000).contains(&set.idle_timeout) {
            return Err(invalid("ValidationError", "idle timeout"));
        }
        self.classic(name)?.attributes = set.clone();
        Ok(())
    }

    pub(super) fn add_classic_policy(&mut self, name: &str, policy: &ClassicPolicy) -> Outcome<()> {
        if !["ProxyProtocolPolicyType", "SSLNegotiationPolicyType"].contains(&policy.kind.as_str()) {
            return Err(not_found(Kind::Policy, &policy.kind));
        }
        self.classic(name)?.load_balancer.policies.insert(policy.name.clone());
        Ok(())
    }

    pub(super) fn set_backend_policies(&mut self, name: &str, port: u16, policies: &[String]) -> Outcome<()> {
        let held = &mut self.classic(name)?.load_balancer;
        if let Some(policy) = policies.iter().find(|policy| !held.policies.contains(*policy)) {
            return Err(not_found(Kind::Policy, policy));
        }
        if policies.is_empty() {
            held.backend_policies.remove(&port);
        } else {
            held.backend_policies.insert(port, policies.to_vec());
        }
        Ok(())
    }

    pub(super) fn set_listener_policies(&mut self, name: &str, port: u16, policies: &[String]) -> Outcome<()> {
        let held = &mut self.classic(name)?.load_balancer;
        if let Some(policy) = policies.iter().find(|policy| !held.policies.contains(*policy)) {
            return Err(not_found(Kind::Policy, policy));
        }
        if !held.listeners.contains_key(&port) {
            return Err(not_found(Kind::Listener, &port.to_string()));
        }
        held.listener_policies.insert(port, policies.to_vec());
        Ok(())
    }
}
