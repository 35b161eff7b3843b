//! Does one action after the other. Short and boring: what to do was decided in `plan`.

use super::{explain::explain, ledger::Ledger, removal::Removals};
use crate::{
    account::{Account, AwsError, Direction, Kind, ListenerSettings, NewListener, Peer, Rule},
    model::rules::{BACKEND_GROUP, OWN_GROUP},
    plan::{Action, ListenerPlan, Observed},
};
use std::collections::{BTreeMap, BTreeSet};

/// Rules that one call carries.
const RULES_AT_ONCE: usize = 50;
/// Targets that one call carries.
const TARGETS_AT_ONCE: usize = 100;

/// What names in actions stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Handles {
    /// ARN of the network load balancer.
    pub(super) load_balancer: String,
    /// Host name of the load balancer.
    pub(super) dns_name: String,
    /// ARNs of listeners by port.
    listeners: BTreeMap<u16, String>,
    /// ARNs of target groups by name.
    pub(super) target_groups: BTreeMap<String, String>,
    /// Id of the managed group.
    own_group: String,
    /// Id of the group that load balancers share.
    backend_group: String,
}

impl Handles {
    /// Of what is there already.
    pub(super) fn of(observed: &Observed) -> Self {
        let mut handles = Self::default();
        if let Some(seen) = &observed.network {
            handles.load_balancer.clone_from(&seen.load_balancer.arn);
            handles.dns_name.clone_from(&seen.load_balancer.dns_name);
            let listeners = seen.listeners.iter().map(|listener| (listener.settings.port, listener.arn.clone()));
            handles.listeners = listeners.collect();
        }
        if let Some(seen) = &observed.classic {
            handles.dns_name.clone_from(&seen.load_balancer.dns_name);
        }
        let names = observed.target_groups.iter().map(|seen| (seen.group.name.clone(), seen.group.arn.clone()));
        handles.target_groups = names.collect();
        handles
    }

    /// Id of a group that was made in this run, if there is one.
    pub(super) fn new_group(&self) -> &str {
        if self.own_group.is_empty() { &self.backend_group } else { &self.own_group }
    }

    fn group<'a>(&'a self, id: &'a str) -> &'a str {
        match id {
            OWN_GROUP => &self.own_group,
            BACKEND_GROUP => &self.backend_group,
            id => id,
        }
    }

    fn groups(&self, ids: &BTreeSet<String>) -> BTreeSet<String> {
        ids.iter().map(|id| self.group(id).to_owned()).collect()
    }

    fn rules(&self, rules: &BTreeSet<Rule>) -> Vec<Rule> {
        let resolve = |rule: &Rule| match &rule.peer {
            Peer::Group(id) => Rule { peer: Peer::Group(self.group(id).to_owned()), ..rule.clone() },
            _ => rule.clone(),
        };
        rules.iter().map(resolve).collect()
    }

    fn listener(&self, port: u16) -> Result<String, AwsError> {
        self.listeners
            .get(&port)
            .cloned()
            .ok_or_else(|| AwsError::NotFound { kind: Kind::Listener, message: format!("{port} was not made") })
    }

    fn target_group(&self, name: &str) -> Result<String, AwsError> {
        self.target_groups
            .get(name)
            .cloned()
            .ok_or_else(|| AwsError::NotFound { kind: Kind::TargetGroup, message: format!("{name} was not made") })
    }
}

/// The account, whose load balancer it is, and where groups go that cannot go yet.
pub(super) struct Run<'a> {
    pub(super) account: &'a Account,
    pub(super) name: &'a str,
    /// The Service that it is done for, if there is one.
    pub(super) uid: Option<&'a str>,
    pub(super) removals: &'a Removals,
    /// What other Services want is never revoked.
    pub(super) ledger: &'a Ledger,
    pub(super) handles: Handles,
}

impl Run<'_> {
    /// Does all of it, in order; stops at what fails. A target group that is still in use is told at the end.
    ///
    /// What AWS refuses of a listener keeps nothing from the others; but then nothing is taken away, so that the old listener goes on serving.
    pub(super) async fn all(&mut self, actions: &[Action]) -> Result<(), AwsError> {
        let (mut in_use, mut refused) = (None, None);
        let mut refused_ports = BTreeSet::new();
        for action in actions {
            let port = action.listener_port();
            if refused.is_some() && (action.takes_away() || port.is_some_and(|port| refused_ports.contains(&port))) {
                continue;
            }
            tracing::info!(load_balancer = self.name, %action, "changes AWS");
            match self.one(action).await {
                Err(error) if error.is_in_use() && is_target_group(action) => in_use = Some(error),
                Err(error) if port.is_some() && is_refused_listener(&error) => {
                    refused_ports.extend(port);
                    refused.get_or_insert_with(|| explain(action, error));
                }
                outcome => outcome.map_err(|error| explain(action, error))?,
            }
        }
        refused.or(in_use).map_or(Ok(()), Err)
    }

    /// Does all of it, as [`Self::all`]; whether target groups, which come last, have stayed in use. They keep nobody from the load balancer.
    pub(super) async fn all_but_in_use(&mut self, actions: &[Action]) -> Result<bool, AwsError> {
        let (changes, unused) = actions.split_at(actions.iter().position(is_target_group).unwrap_or(actions.len()));
        self.all(changes).await?;
        match self.all(unused).await {
            Err(error) if error.is_in_use() => Ok(true),
            outcome => outcome.map(|()| false),
        }
    }

    async fn one(&mut self, action: &Action) -> Result<(), AwsError> {
        let account = self.account;
        let name = self.name;
        match action {
            Action::CreateGroup(new) => self.handles.own_group = account.ec2.create_security_group(new).await?,
            Action::CreateBackendGroup(new) => {
                self.handles.backend_group = account.ec2.create_security_group(new).await?;
            }
            Action::TagGroup { group, tags } => {
                account.ec2.create_tags(&[self.handles.group(group).to_owned()], tags).await?;
            }
            Action::Authorize { group, direction, rules } => self.authorize(group, *direction, rules).await?,
            Action::Revoke { group, direction, rules } => self.revoke(group, *direction, rules).await?,
            Action::RemoveGroup { group } => self.removals.remove(account, self.handles.group(group)).await?,
            Action::CreateLoadBalancer(new) => {
                let mut new = new.clone();
                new.security_groups = self.handles.groups(&new.security_groups);
                let made = account.network.create_load_balancer(&new).await?;
                self.handles.load_balancer = made.arn;
                self.handles.dns_name = made.dns_name;
            }
            Action::SetGroups { groups } => {
                account.network.set_security_groups(&self.handles.load_balancer, &self.handles.groups(groups)).await?;
            }
            Action::SetIpAddressType { kind } => {
                account.network.set_ip_address_type(&self.handles.load_balancer, *kind).await?;
            }
            Action::SetSubnets { subnets, ipv6_source_nat } => {
                account.network.set_subnets(&self.handles.load_balancer, subnets, *ipv6_source_nat).await?;
            }
            Action::SetAttributes { attributes } => {
                account.network.modify_load_balancer_attributes(&self.handles.load_balancer, attributes).await?;
            }
            Action::TagLoadBalancer { tags } => {
                account.network.add_tags(std::slice::from_ref(&self.handles.load_balancer), tags).await?;
            }
            Action::CreateTargetGroup(new) => {
                let made = account.network.create_target_group(new).await?;
                self.handles.target_groups.insert(made.name, made.arn);
            }
            Action::TagTargetGroup { group, tags } => {
                account.network.add_tags(&[self.handles.target_group(group)?], tags).await?;
            }
            Action::SetHealthCheck { group, check } => {
                account.network.modify_target_group(&self.handles.target_group(group)?, check).await?;
            }
            Action::SetTargetGroupAttributes { group, attributes } => {
                account.network.modify_target_group_attributes(&self.handles.target_group(group)?, attributes).await?;
            }
            Action::Deregister { group, targets } => {
                let arn = self.handles.target_group(group)?;
                for some in chunks(targets, TARGETS_AT_ONCE) {
                    account.network.deregister_targets(&arn, &some).await?;
                }
            }
            Action::Register { group, targets } => {
                let arn = self.handles.target_group(group)?;
                for some in chunks(targets, TARGETS_AT_ONCE) {
                    account.network.register_targets(&arn, &some).await?;
                }
            }
            Action::CreateListener { listener, tags } => {
                let load_balancer = self.handles.load_balancer.clone();
                let new = NewListener { load_balancer, settings: self.settings(listener)?, tags: tags.clone() };
                let made = account.network.create_listener(&new).await?;
                self.handles.listeners.insert(listener.port, made.arn);
            }
            Action::AddCertificates { port, certificates } => {
                account.network.add_listener_certificates(&self.handles.listener(*port)?, certificates).await?;
            }
            Action::RemoveCertificates { port, certificates } => {
                account.network.remove_listener_certificates(&self.handles.listener(*port)?, certificates).await?;
            }
            Action::TagListener { port, tags } => {
                account.network.add_tags(&[self.handles.listener(*port)?], tags).await?;
            }
            Action::ModifyListener { arn, listener } => {
                account.network.modify_listener(arn, &self.settings(listener)?).await?;
            }
            Action::DeleteListener { arn, .. } => account.network.delete_listener(arn).await?,
            Action::DeleteTargetGroup { arn, .. } => account.network.delete_target_group(arn).await?,
            Action::DeleteLoadBalancer { arn } => account.network.delete_load_balancer(arn).await?,
            Action::CreateClassic(new) => {
                let mut new = new.clone();
                new.security_groups = self.handles.groups(&new.security_groups);
                self.handles.dns_name = account.classic.create_classic(&new).await?;
            }
            Action::AttachSubnets { subnets } => account.classic.attach_classic_subnets(name, subnets).await?,
            Action::DetachSubnets { subnets } => account.classic.detach_classic_subnets(name, subnets).await?,
            Action::ApplyGroups { groups } => {
                account.classic.apply_classic_groups(name, &self.handles.groups(groups)).await?;
            }
            Action::CreateClassicListeners { listeners } => {
                account.classic.create_classic_listeners(name, listeners).await?;
            }
            Action::DeleteClassicListeners { ports } => account.classic.delete_classic_listeners(name, ports).await?,
            Action::CreatePolicy(policy) => account.classic.create_classic_policy(name, policy).await?,
            Action::SetBackendPolicies { port, policies } => {
                account.classic.set_classic_backend_policies(name, *port, policies).await?;
            }
            Action::SetListenerPolicies { port, policies } => {
                account.classic.set_classic_listener_policies(name, *port, policies).await?;
            }
            Action::SetClassicHealthCheck { check } => {
                account.classic.configure_classic_health_check(name, check).await?
            }
            Action::SetClassicAttributes { attributes } => {
                account.classic.modify_classic_attributes(name, attributes).await?;
            }
            Action::TagClassic { tags } => account.classic.add_classic_tags(name, tags).await?,
            Action::RegisterInstances { instances } => {
                account.classic.register_classic_instances(name, instances).await?
            }
            Action::DeregisterInstances { instances } => {
                account.classic.deregister_classic_instances(name, instances).await?;
            }
            Action::DeleteClassic { name } => account.classic.delete_classic(name).await?,
        }
        Ok(())
    }

    fn settings(&self, listener: &ListenerPlan) -> Result<ListenerSettings, AwsError> {
        Ok(ListenerSettings {
            port: listener.port,
            protocol: listener.protocol.clone(),
            target_group: self.handles.target_group(&listener.target_group)?,
            certificate: listener.certificate.clone(),
            ssl_policy: listener.ssl_policy.clone(),
        })
    }

    /// A call is all or nothing: when one rule is there already, the others go one by one.
    async fn authorize(&self, group: &str, direction: Direction, rules: &BTreeSet<Rule>) -> Result<(), AwsError> {
        let group = self.handles.group(group);
        for some in self.handles.rules(rules).chunks(RULES_AT_ONCE) {
            let some: BTreeSet<Rule> = some.iter().cloned().collect();
            match self.account.ec2.authorize(group, direction, &some).await {
                Err(error) if error.is_duplicate() => {}
                outcome => {
                    outcome?;
                    continue;
                }
            }
            for rule in some {
                match self.account.ec2.authorize(group, direction, &[rule].into()).await {
                    Err(error) if error.is_duplicate() => {}
                    outcome => outcome?,
                }
            }
        }
        Ok(())
    }

    /// As [`Self::authorize`], for rules that are gone already.
    async fn revoke(&self, group: &str, direction: Direction, rules: &BTreeSet<Rule>) -> Result<(), AwsError> {
        let group = self.handles.group(group);
        for some in self.handles.rules(rules).chunks(RULES_AT_ONCE) {
            let mut some: BTreeSet<Rule> = some.iter().cloned().collect();
            // Nobody begins to want a rule between this look and the call.
            let wanted = self.ledger.hold(self.uid).await;
            if direction == Direction::Ingress {
                some.retain(|rule| !wanted.by_others(group, rule));
            }
            if some.is_empty() {
                continue;
            }
            match self.account.ec2.revoke(group, direction, &some).await {
                Err(error) if error.is_not_found() => {}
                outcome => {
                    outcome?;
                    continue;
                }
            }
            for rule in some {
                match self.account.ec2.revoke(group, direction, &[rule].into()).await {
                    Err(error) if error.is_not_found() => {}
                    outcome => outcome?,
                }
            }
        }
        Ok(())
    }
}

/// Whether AWS refuses a listener for what it is asked to be, and not because something else has changed meanwhile.
fn is_refused_listener(error: &AwsError) -> bool {
    match error {
        AwsError::NotFound { kind, .. } => matches!(kind, Kind::Certificate | Kind::Policy),
        AwsError::Invalid { .. } | AwsError::LimitExceeded { .. } => true,
        _ => false,
    }
}

fn is_target_group(action: &Action) -> bool {
    matches!(action, Action::DeleteTargetGroup { .. })
}

fn chunks<T: Clone + Ord>(all: &BTreeSet<T>, size: usize) -> Vec<BTreeSet<T>> {
    let list: Vec<T> = all.iter().cloned().collect();
    list.chunks(size).map(|some| some.iter().cloned().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_cut_into_pieces() {
        for (count, size, expected) in
            [(0, 2, &[][..]), (1, 2, &[1]), (2, 2, &[2]), (4, 2, &[2, 2]), (5, 2, &[2, 2, 1]), (3, 100, &[3])]
        {
            let all: BTreeSet<u32> = (0..count).collect();
            let pieces = chunks(&all, size);
            assert_eq!(pieces.iter().map(BTreeSet::len).collect::<Vec<_>>(), expected, "{count} by {size}");
            assert_eq!(pieces.into_iter().flatten().collect::<BTreeSet<_>>(), all);
        }
    }
}
