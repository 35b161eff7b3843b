//! Network load balancers, target groups and listeners, with ELBv2's refusals.

use super::{HeldBalancer, HeldListener, HeldTargetGroup, State, checked_name, checked_tags, invalid, not_found};
use crate::account::{
    Attributes, AwsError, HealthCheck, IpAddressType, Kind, Listener, ListenerSettings, LoadBalancer,
    LoadBalancerState, LoadBalancerType, NewListener, NewLoadBalancer, NewTargetGroup, Scheme, SubnetMapping, Target,
    TargetGroup,
};
use net::Family;
use std::collections::BTreeSet;

type Outcome<T> = Result<T, AwsError>;

const BALANCER_ATTRIBUTES: &[&str] = &[
    "access_logs.s3.bucket",
    "access_logs.s3.enabled",
    "access_logs.s3.prefix",
    "deletion_protection.enabled",
    "load_balancing.cross_zone.enabled",
];

const TARGET_ATTRIBUTES: &[&str] = &[
    "deregistration_delay.timeout_seconds",
    "preserve_client_ip.enabled",
    "proxy_protocol_v2.enabled",
    "stickiness.enabled",
    "stickiness.type",
];

impl State {
    pub(super) fn balancer(&mut self, arn: &str) -> Outcome<&mut HeldBalancer> {
        self.load_balancers.get_mut(arn).ok_or_else(|| not_found(Kind::LoadBalancer, arn))
    }

    fn target_group(&mut self, arn: &str) -> Outcome<&mut HeldTargetGroup> {
        self.target_groups.get_mut(arn).ok_or_else(|| not_found(Kind::TargetGroup, arn))
    }

    fn check_subnets(&self, subnets: &[SubnetMapping], kind: IpAddressType, scheme: Scheme) -> Outcome<String> {
        let mut zones = BTreeSet::new();
        let mut vpc = None;
        for mapping in subnets {
            let subnet = self.subnets.iter().find(|subnet| subnet.id == mapping.subnet);
            let subnet = subnet.ok_or_else(|| not_found(Kind::Subnet, &mapping.subnet))?;
            if !zones.insert(&subnet.zone) {
                let message = "A load balancer cannot be attached to multiple subnets in the same Availability Zone";
                return Err(invalid("InvalidConfigurationRequest", message));
            }
            if kind == IpAddressType::Dualstack && subnet.ipv6.is_empty() {
                let message = "You must specify subnets with an associated IPv6 CIDR block.";
                return Err(invalid("ValidationError", message));
            }
            if mapping.allocation.is_some() && scheme == Scheme::Internal {
                return Err(invalid("ValidationError", "Elastic IPs are not supported for internal load balancers"));
            }
            if let Some(id) = &mapping.allocation {
                let address = self.addresses.get(id).ok_or_else(|| not_found(Kind::Address, id))?;
                if address.association.is_some() {
                    return Err(AwsError::InUse { message: format!("{id} is in use") });
                }
            }
            if vpc.replace(subnet.vpc.clone()).is_some_and(|vpc| vpc != subnet.vpc) {
                return Err(invalid("InvalidConfigurationRequest", "subnets of several VPCs"));
            }
        }
        vpc.ok_or_else(|| invalid("ValidationError", "At least one subnet must be specified"))
    }

    fn check_groups(&self, groups: &BTreeSet<String>, vpc: &str) -> Outcome<()> {
        if groups.len() > 5 {
            return Err(invalid("InvalidSecurityGroup", "at most 5 security groups"));
        }
        for id in groups {
            let group = self.groups.get(id).ok_or_else(|| not_found(Kind::SecurityGroup, id))?;
            if group.vpc != vpc {
                return Err(invalid("InvalidSecurityGroup", format!("{id} belongs to another VPC")));
            }
        }
        Ok(())
    }

    pub(super) fn create_balancer(&mut self, new: &NewLoadBalancer) -> Outcome<LoadBalancer> {
        checked_name(&new.name)?;
        checked_tags(&new.tags)?;
        let vpc = self.check_subnets(&new.subnets, new.ip_address_type, new.scheme)?;
        self.check_groups(&new.security_groups, &vpc)?;
        let subnets: BTreeSet<String> = new.subnets.iter().map(|mapping| mapping.subnet.clone()).collect();
        if let Some(held) = self.load_balancers.values().find(|held| held.load_balancer.name == new.name) {
            let has = &held.load_balancer;
            let same = has.scheme == new.scheme
                && has.ip_address_type == new.ip_address_type
                && has.subnets == subnets
                && has.security_groups == new.security_groups
                && held.tags == new.tags;
            let message =
                format!("A load balancer with the same name '{}' exists, but with different settings", new.name);
            return if same { Ok(has.clone()) } else { Err(AwsError::Duplicate { message }) };
        }
        let serial = self.fresh();
        let load_balancer = LoadBalancer {
            arn: format!("arn:aws:elasticloadbalancing:us-east-1:1:loadbalancer/net/{}/{serial:016x}", new.name),
            name: new.name.clone(),
            dns_name: format!("{}-{serial:016x}.elb.us-east-1.amazonaws.com", new.name),
            hosted_zone: "Z26RNL4JYFTOTI".to_owned(),
            vpc,
            kind: LoadBalancerType::Network,
            scheme: new.scheme,
            ip_address_type: new.ip_address_type,
            state: LoadBalancerState::Provisioning,
            subnets,
            security_groups: new.security_groups.clone(),
            ipv6_source_nat: Some(new.ipv6_source_nat),
        };
        for mapping in new.subnets.iter().filter_map(|mapping| mapping.allocation.as_ref()) {
            if let Some(address) = self.addresses.get_mut(mapping) {
                address.association = Some(load_balancer.arn.clone());
            }
        }
        let attributes = ["access_logs.s3.enabled", "deletion_protection.enabled", "load_balancing.cross_zone.enabled"];
        let attributes = attributes.map(|key| (key.to_owned(), "false".to_owned())).into();
        let held = HeldBalancer { load_balancer: load_balancer.clone(), attributes, tags: new.tags.clone() };
        self.load_balancers.insert(load_balancer.arn.clone(), held);
        Ok(load_balancer)
    }

    pub(super) fn delete_balancer(&mut self, arn: &str, lingers: u32) -> Outcome<()> {
        let Some(held) = self.load_balancers.get(arn) else { return Ok(()) };
        if held.attributes.get("deletion_protection.enabled").is_some_and(|value| value == "true") {
            return Err(invalid("OperationNotPermitted", "deletion protection is enabled"));
        }
        let groups = held.load_balancer.security_groups.clone();
        let targets: BTreeSet<String> = self
            .listeners
            .values()
            .filter(|held| held.load_balancer == arn)
            .map(|held| held.listener.settings.target_group.clone())
            .collect();
        self.load_balancers.remove(arn);
        self.listeners.retain(|_, held| held.load_balancer != arn);
        for address in self.addresses.values_mut().filter(|address| address.association.as_deref() == Some(arn)) {
            address.association = None;
        }
        if lingers > 0 {
            self.busy.extend(groups.into_iter().chain(targets).map(|id| (id, lingers)));
        }
        Ok(())
    }

    pub(super) fn set_groups(&mut self, arn: &str, groups: &BTreeSet<String>, lingers: u32) -> Outcome<()> {
        let held = self.balancer(arn)?.load_balancer.clone();
        if held.security_groups.is_empty() {
            let message = "You cannot set security groups on a Network Load Balancer that was created without any";
            return Err(invalid("InvalidConfigurationRequest", message));
        }
        if groups.is_empty() {
            return Err(invalid("ValidationError", "At least one security group must be specified"));
        }
        self.check_groups(groups, &held.vpc)?;
        if lingers > 0 {
            self.busy.extend(held.security_groups.difference(groups).map(|id| (id.clone(), lingers)));
        }
        self.balancer(arn)?.load_balancer.security_groups = groups.clone();
        Ok(())
    }

    pub(super) fn set_address_type(&mut self, arn: &str, kind: IpAddressType) -> Outcome<()> {
        let has = self.balancer(arn)?.load_balancer.clone();
        let mappings: Vec<SubnetMapping> =
            has.subnets.iter().map(|id| SubnetMapping { subnet: id.clone(), ..SubnetMapping::default() }).collect();
        self.check_subnets(&mappings, kind, has.scheme)?;
        let leads_to_ipv6 = self.listeners.values().filter(|held| held.load_balancer == arn).any(|held| {
            let group = self.target_groups.get(&held.listener.settings.target_group);
            group.is_some_and(|group| group.group.family == Family::V6)
        });
        if kind == IpAddressType::Ipv4 && leads_to_ipv6 {
            return Err(invalid("InvalidConfigurationRequest", "a listener leads to an IPv6 target group"));
        }
        let held = self.balancer(arn)?;
        held.load_balancer.ip_address_type = kind;
        if kind == IpAddressType::Ipv4 {
            held.load_balancer.ipv6_source_nat = Some(false);
        }
        Ok(())
    }

    pub(super) fn set_subnets(&mut self, arn: &str, subnets: &[SubnetMapping], nat: bool) -> Outcome<()> {
        let has = self.balancer(arn)?.load_balancer.clone();
        let plain: Vec<SubnetMapping> = subnets
            .iter()
            .map(|mapping| SubnetMapping {
                allocation: if has.subnets.contains(&mapping.subnet) { None } else { mapping.allocation.clone() },
                ..mapping.clone()
            })
            .collect();
        let vpc = self.check_subnets(&plain, has.ip_address_type, has.scheme)?;
        if vpc != has.vpc {
            return Err(invalid("InvalidConfigurationRequest", "subnets of another VPC"));
        }
        if nat && has.ip_address_type != IpAddressType::Dualstack {
            return Err(invalid("ValidationError", "source NAT prefixes need a dualstack load balancer"));
        }
        let held = self.balancer(arn)?;
        held.load_balancer.subnets = subnets.iter().map(|mapping| mapping.subnet.clone()).collect();
        if nat {
            held.load_balancer.ipv6_source_nat = Some(true);
        }
        Ok(())
    }

    pub(super) fn set_balancer_attributes(&mut self, arn: &str, set: &Attributes) -> Outcome<()> {
        let held = self.balancer(arn)?;
        let mut attributes = held.attributes.clone();
        if let Some(key) = set.keys().find(|key| !BALANCER_ATTRIBUTES.contains(&key.as_str())) {
            return Err(invalid(
                "InvalidConfigurationRequest",
                format!("Load balancer attribute key '{key}' is not recognized"),
            ));
        }
        attributes.extend(set.clone());
        let logs = attributes.get("access_logs.s3.enabled").is_some_and(|value| value == "true");
        if logs && attributes.get("access_logs.s3.bucket").is_none_or(String::is_empty) {
            return Err(invalid("InvalidConfigurationRequest", "access logs need a bucket"));
        }
        held.attributes = attributes;
        Ok(())
    }

    pub(super) fn create_target_group(&mut self, new: &NewTargetGroup) -> Outcome<TargetGroup> {
        checked_name(&new.name)?;
        checked_tags(&new.tags)?;
        let mut check = new.health_check.clone();
        check.timeout.get_or_insert(if check.protocol == "HTTP" { 6 } else { 10 });
        check_health(&check)?;
        if !["TCP", "UDP", "TLS", "TCP_UDP"].contains(&new.protocol.as_str()) {
            return Err(invalid("ValidationError", format!("protocol {}", new.protocol)));
        }
        if !self.vpcs.contains_key(&new.vpc) {
            return Err(not_found(Kind::Vpc, &new.vpc));
        }
        if let Some(held) = self.target_groups.values().find(|held| held.group.name == new.name) {
            let has = &held.group;
            let same = (&has.protocol, has.port, &has.vpc, has.family, &has.health_check)
                == (&new.protocol, new.port, &new.vpc, new.family, &check);
            let message =
                format!("A target group with the same name '{}' exists, but with different settings", new.name);
            return if same { Ok(has.clone()) } else { Err(AwsError::Duplicate { message }) };
        }
        let serial = self.fresh();
        let group = TargetGroup {
            arn: format!("arn:aws:elasticloadbalancing:us-east-1:1:targetgroup/{}/{serial:016x}", new.name),
            name: new.name.clone(),
            protocol: new.protocol.clone(),
            port: new.port,
            vpc: new.vpc.clone(),
            family: new.family,
            health_check: check,
            load_balancers: BTreeSet::new(),
        };
        let attributes = [
            ("deregistration_delay.timeout_seconds", "300"),
            ("preserve_client_ip.enabled", "true"),
            ("proxy_protocol_v2.enabled", "false"),
            ("stickiness.enabled", "false"),
        ];
        let attributes = attributes.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let held = HeldTargetGroup {
            group: group.clone(),
            attributes,
            tags: new.tags.clone(),
            targets: BTreeSet::new(),
            draining: BTreeSet::new(),
        };
        self.target_groups.insert(group.arn.clone(), held);
        Ok(group)
    }

    pub(super) fn set_health_check(&mut self, arn: &str, check: &HealthCheck) -> Outcome<()> {
        let has = &mut self.target_group(arn)?.group.health_check;
        let check = HealthCheck { timeout: check.timeout.or(has.timeout), ..check.clone() };
        check_health(&check)?;
        *has = check;
        Ok(())
    }

    pub(super) fn delete_target_group(&mut self, arn: &str) -> Outcome<()> {
        let used = self.listeners.values().any(|held| held.listener.settings.target_group == arn);
        if used || self.is_busy(arn) {
            return Err(AwsError::InUse { message: format!("Target group '{arn}' is currently in use by a listener") });
        }
        self.target_groups.remove(arn);
        Ok(())
    }

    pub(super) fn set_target_attributes(&mut self, arn: &str, set: &Attributes) -> Outcome<()> {
        let held = self.target_group(arn)?;
        if let Some(key) = set.keys().find(|key| !TARGET_ATTRIBUTES.contains(&key.as_str())) {
            return Err(invalid(
                "InvalidConfigurationRequest",
                format!("Target group attribute key '{key}' is not recognized"),
            ));
        }
        let udp = held.group.protocol.contains("UDP");
        if udp && set.get("preserve_client_ip.enabled").is_some_and(|value| value == "false") {
            return Err(invalid("InvalidConfigurationRequest", "client IP preservation cannot be disabled for UDP"));
        }
        held.attributes.extend(set.clone());
        Ok(())
    }

    pub(super) fn register(&mut self, arn: &str, targets: &BTreeSet<Target>) -> Outcome<()> {
        let group = self.target_group(arn)?.group.clone();
        for target in targets {
            let wrong = |message: String| Err(invalid("InvalidTarget", message));
            let id = &target.instance;
            let Some(instance) = self.instances.get(id) else {
                return wrong(format!("The following targets are not valid instances: '{id}'"));
            };
            if instance.state != "running" {
                return wrong(format!("'{id}' is not in the running state"));
            }
            if instance.vpc != group.vpc {
                return wrong(format!("'{id}' is not in the target group's VPC '{}'", group.vpc));
            }
            let first = instance.interfaces.iter().min_by_key(|interface| interface.device_index);
            let primary = first.is_some_and(|interface| interface.primary_ipv6);
            if group.family == Family::V6 && !primary {
                return wrong(format!("The following targets are missing primary IPv6 addresses: '{id}'"));
            }
        }
        let held = self.target_group(arn)?;
        if held.targets.union(targets).count() > 500 {
            let code = "TooManyTargets".to_owned();
            return Err(AwsError::LimitExceeded { code, message: "500 targets".to_owned() });
        }
        held.draining.retain(|target| !targets.contains(target));
        held.targets.extend(targets.iter().cloned());
        Ok(())
    }

    pub(super) fn deregister(&mut self, arn: &str, targets: &BTreeSet<Target>) -> Outcome<()> {
        let held = self.target_group(arn)?;
        held.draining.extend(held.targets.intersection(targets).cloned());
        held.targets.retain(|target| !targets.contains(target));
        Ok(())
    }

    fn check_listener(&mut self, balancer: &str, settings: &ListenerSettings) -> Outcome<()> {
        let kind = self.balancer(balancer)?.load_balancer.clone();
        let group = self.target_group(&settings.target_group)?.group.clone();
        let fits = matches!(
            (settings.protocol.as_str(), group.protocol.as_str()),
            ("TCP", "TCP") | ("UDP", "UDP") | ("TLS", "TCP" | "TLS") | ("TCP_UDP", "TCP_UDP")
        );
        if !fits {
            let (listener, group) = (&settings.protocol, &group.protocol);
            let message = format!("Protocol '{listener}' listener and '{group}' target group do not fit");
            return Err(invalid("InvalidConfigurationRequest", message));
        }
        if kind.ip_address_type == IpAddressType::Ipv4 && group.family == Family::V6 {
            let message =
                "You cannot associate an IPv6 target group with a load balancer that has an 'ipv4' IP address type";
            return Err(invalid("InvalidConfigurationRequest", message));
        }
        let dualstack = kind.ip_address_type == IpAddressType::Dualstack;
        if settings.protocol.contains("UDP") && dualstack && kind.ipv6_source_nat != Some(true) {
            return Err(invalid("InvalidConfigurationRequest", "UDP on dualstack needs EnablePrefixForIpv6SourceNat"));
        }
        if settings.protocol == "TLS" {
            match &settings.certificate {
                None => return Err(invalid("ValidationError", "A certificate must be specified for TLS listeners")),
                Some(arn) if !self.certificates.contains(arn) => return Err(not_found(Kind::Certificate, arn)),
                Some(_) => {}
            }
        } else if settings.certificate.is_some() {
            return Err(invalid("ValidationError", "certificates are for TLS listeners"));
        }
        let elsewhere = self
            .listeners
            .values()
            .any(|held| held.load_balancer != balancer && held.listener.settings.target_group == settings.target_group);
        if elsewhere {
            let message = format!("{} is associated with another load balancer", settings.target_group);
            return Err(AwsError::LimitExceeded { code: "TargetGroupAssociationLimit".to_owned(), message });
        }
        Ok(())
    }

    pub(super) fn create_listener(&mut self, new: &NewListener) -> Outcome<Listener> {
        self.check_listener(&new.load_balancer, &new.settings)?;
        let here = || self.listeners.values().filter(|held| held.load_balancer == new.load_balancer);
        if here().any(|held| held.listener.settings.port == new.settings.port) {
            return Err(AwsError::Duplicate { message: "A listener already exists on this port".to_owned() });
        }
        if here().count() >= 50 {
            let code = "TooManyListeners".to_owned();
            return Err(AwsError::LimitExceeded { code, message: "50 listeners".to_owned() });
        }
        let serial = self.fresh();
        let mut settings = new.settings.clone();
        if settings.protocol == "TLS" {
            settings.ssl_policy.get_or_insert_with(|| "ELBSecurityPolicy-2016-08".to_owned());
        }
        let listener = Listener {
            arn: format!("{}/{serial:016x}", new.load_balancer.replace(":loadbalancer/", ":listener/")),
            settings,
        };
        let held = HeldListener {
            load_balancer: new.load_balancer.clone(),
            listener: listener.clone(),
            certificates: BTreeSet::new(),
            tags: new.tags.clone(),
        };
        self.listeners.insert(listener.arn.clone(), held);
        Ok(listener)
    }

    pub(super) fn change_listener(&mut self, arn: &str, settings: &ListenerSettings) -> Outcome<()> {
        let held = self.listeners.get(arn).ok_or_else(|| not_found(Kind::Listener, arn))?;
        let balancer = held.load_balancer.clone();
        self.check_listener(&balancer, settings)?;
        if let Some(held) = self.listeners.get_mut(arn) {
            // Without TLS there is neither policy nor certificate; with it there is always a policy.
            let tls = settings.protocol == "TLS";
            let policy = settings.ssl_policy.clone().or_else(|| held.listener.settings.ssl_policy.clone());
            let policy = policy.or_else(|| Some("ELBSecurityPolicy-2016-08".to_owned())).filter(|_| tls);
            held.certificates.retain(|_| tls);
            held.listener.settings = ListenerSettings { ssl_policy: policy, ..settings.clone() };
        }
        Ok(())
    }

    fn tls_listener(&mut self, arn: &str) -> Outcome<&mut HeldListener> {
        let held = self.listeners.get_mut(arn).ok_or_else(|| not_found(Kind::Listener, arn))?;
        if held.listener.settings.protocol != "TLS" {
            return Err(invalid("InvalidConfigurationRequest", "certificates are for TLS listeners"));
        }
        Ok(held)
    }

    pub(super) fn listener_certificates(&mut self, arn: &str) -> Outcome<BTreeSet<String>> {
        Ok(self.tls_listener(arn)?.certificates.clone())
    }

    pub(super) fn add_certificates(&mut self, arn: &str, arns: &BTreeSet<String>) -> Outcome<()> {
        if let Some(missing) = arns.iter().find(|one| !self.certificates.contains(*one)) {
            return Err(not_found(Kind::Certificate, missing));
        }
        let held = self.tls_listener(arn)?;
        if held.certificates.union(arns).count() > 25 {
            let code = "TooManyCertificates".to_owned();
            return Err(AwsError::LimitExceeded { code, message: "25 certificates beside the default one".to_owned() });
        }
        held.certificates.extend(arns.iter().cloned());
        Ok(())
    }

    pub(super) fn remove_certificates(&mut self, arn: &str, arns: &BTreeSet<String>) -> Outcome<()> {
        let held = self.tls_listener(arn)?;
        let own = held.listener.settings.certificate.as_ref();
        if own.is_some_and(|own| arns.contains(own)) {
            return Err(invalid("OperationNotPermitted", "the default certificate of a listener cannot be removed"));
        }
        held.certificates.retain(|one| !arns.contains(one));
        Ok(())
    }
}

fn check_health(check: &HealthCheck) -> Outcome<()> {
    let wrong = |message: &str| Err(invalid("ValidationError", message));
    if !["TCP", "HTTP", "HTTPS"].contains(&check.protocol.as_str()) {
        return wrong("Health check protocol must be TCP, HTTP or HTTPS");
    }
    if check.protocol == "TCP" && check.path.is_some() {
        return wrong("Health check path is not supported for TCP");
    }
    if check.port != "traffic-port" && check.port.parse::<u16>().is_err() {
        return wrong("Health check port must be a number or 'traffic-port'");
    }
    if !(5..=300).contains(&check.interval)
        || !(2..=10).contains(&check.healthy)
        || !(2..=10).contains(&check.unhealthy)
    {
        return wrong("Health check interval or threshold is out of range");
    }
    if check.timeout.is_some_and(|timeout| !(2..=120).contains(&timeout)) {
        return wrong("Health check timeout is out of range");
    }
    if check.timeout.is_some_and(|timeout| timeout > check.interval) {
        return wrong("Health check interval must be greater than the timeout.");
    }
    Ok(())
}
