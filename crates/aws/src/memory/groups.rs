//! Security groups, with EC2's refusals.

use super::{State, checked_tags, invalid, not_found};
use crate::{
    account::{AwsError, Direction, GroupFilter, Kind, NewSecurityGroup, Peer, Protocol, Rule, SecurityGroup},
    model::rules::{RULE_LIMIT, fullness},
};
use net::{Cidr, Family, HasFamily};
use std::collections::BTreeSet;

type Outcome<T> = Result<T, AwsError>;

impl State {
    pub(super) fn find_groups(&self, filter: &GroupFilter) -> Vec<SecurityGroup> {
        let fits = |group: &&SecurityGroup| {
            filter.vpc.as_ref().is_none_or(|vpc| *vpc == group.vpc)
                && (filter.ids.is_empty() || filter.ids.contains(&group.id))
                && filter.name.as_ref().is_none_or(|name| *name == group.name)
        };
        self.groups.values().filter(fits).cloned().collect()
    }

    pub(super) fn create_group(&mut self, new: &NewSecurityGroup) -> Outcome<String> {
        checked_tags(&new.tags)?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || " ._-:/()#,@[]+=&;{}!$*".contains(c);
        let fits = !new.name.is_empty()
            && new.name.len() <= 255
            && !new.name.starts_with("sg-")
            && new.name.chars().chain(new.description.chars()).all(allowed);
        if !fits {
            return Err(invalid("InvalidParameterValue", "Invalid security group name or description"));
        }
        let vpc = self.vpcs.get(&new.vpc).ok_or_else(|| not_found(Kind::Vpc, &new.vpc))?;
        if self.groups.values().any(|group| group.name == new.name && group.vpc == new.vpc) {
            let message = format!("The security group '{}' already exists for VPC '{}'", new.name, new.vpc);
            return Err(AwsError::Duplicate { message });
        }
        let families: BTreeSet<Family> = vpc.cidrs.iter().map(Cidr::family).chain([Family::V4]).collect();
        let everything = families.into_iter().filter_map(|family| Cidr::containing(family.unspecified(), 0));
        let egress = everything
            .map(|cidr| Rule { protocol: Protocol::All, peer: Peer::Cidr(cidr), description: String::new() })
            .collect();
        let id = format!("sg-{:017x}", self.fresh());
        let group = SecurityGroup {
            id: id.clone(),
            name: new.name.clone(),
            vpc: new.vpc.clone(),
            tags: new.tags.clone(),
            ingress: BTreeSet::new(),
            egress,
        };
        self.groups.insert(id.clone(), group);
        Ok(id)
    }

    pub(super) fn delete_group(&mut self, id: &str) -> Outcome<()> {
        if !self.groups.contains_key(id) {
            return Err(not_found(Kind::SecurityGroup, id));
        }
        let attached = self.load_balancers.values().any(|held| held.load_balancer.security_groups.contains(id))
            || self.classic.values().any(|held| held.load_balancer.security_groups.contains(id))
            || self
                .instances
                .values()
                .any(|instance| instance.interfaces.iter().any(|interface| interface.security_groups.contains(id)));
        let refers = |rule: &Rule| matches!(&rule.peer, Peer::Group(other) if other == id);
        let referred = self
            .groups
            .values()
            .filter(|group| group.id != id)
            .any(|group| group.ingress.iter().chain(&group.egress).any(refers));
        if attached || referred || self.is_busy(id) {
            return Err(AwsError::InUse { message: format!("resource {id} has a dependent object") });
        }
        self.groups.remove(id);
        Ok(())
    }

    pub(super) fn authorize(&mut self, id: &str, direction: Direction, rules: &BTreeSet<Rule>) -> Outcome<()> {
        if rules.is_empty() {
            return Err(invalid("MissingParameter", "no permissions"));
        }
        rules.iter().try_for_each(|rule| self.check_rule(rule))?;
        let group = self.groups.get_mut(id).ok_or_else(|| not_found(Kind::SecurityGroup, id))?;
        let has = match direction {
            Direction::Ingress => &mut group.ingress,
            Direction::Egress => &mut group.egress,
        };
        if let Some(rule) = rules.iter().find(|rule| has.contains(rule)) {
            return Err(AwsError::Duplicate { message: format!("the specified rule \"{rule}\" already exists") });
        }
        let all: BTreeSet<Rule> = has.union(rules).cloned().collect();
        if fullness(&all) > RULE_LIMIT {
            let code = "RulesPerSecurityGroupLimitExceeded".to_owned();
            let message = "The maximum number of rules per security group has been reached.".to_owned();
            return Err(AwsError::LimitExceeded { code, message });
        }
        *has = all;
        Ok(())
    }

    fn check_rule(&self, rule: &Rule) -> Outcome<()> {
        let wrong = |message: String| Err(invalid("InvalidParameterValue", message));
        if let Protocol::Tcp { from, to } | Protocol::Udp { from, to } = rule.protocol
            && from > to
        {
            return wrong(format!("Invalid port range {from}-{to}"));
        }
        match (&rule.peer, rule.protocol) {
            (Peer::Group(other), _) if !self.groups.contains_key(other) => {
                return Err(not_found(Kind::SecurityGroup, other));
            }
            (Peer::Cidr(cidr), Protocol::Icmp { .. }) if cidr.family() == Family::V6 => {
                return wrong(format!("icmp with {cidr}"));
            }
            (Peer::Cidr(cidr), Protocol::Icmpv6 { .. }) if cidr.family() == Family::V4 => {
                return wrong(format!("icmpv6 with {cidr}"));
            }
            _ => {}
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || " ._-:/()#,@[]+=&;{}!$*".contains(c);
        if rule.description.len() > 255 || !rule.description.chars().all(allowed) {
            return wrong("Invalid rule description".to_owned());
        }
        Ok(())
    }

    pub(super) fn revoke(&mut self, id: &str, direction: Direction, rules: &BTreeSet<Rule>) -> Outcome<()> {
        let group = self.groups.get_mut(id).ok_or_else(|| not_found(Kind::SecurityGroup, id))?;
        let has = match direction {
            Direction::Ingress => &mut group.ingress,
            Direction::Egress => &mut group.egress,
        };
        if let Some(rule) = rules.iter().find(|rule| !has.contains(rule)) {
            return Err(not_found(Kind::Rule, &rule.to_string()));
        }
        has.retain(|rule| !rules.contains(rule));
        Ok(())
    }
}
