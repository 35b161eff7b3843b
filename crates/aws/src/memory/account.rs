//! The account's calls, each with the IAM action that it needs.

use super::{Access, Memory};
use crate::account::{
    Attributes, AvailabilityZone, Call, ClassicAttributes, ClassicHealthCheck, ClassicListener, ClassicLoadBalancer,
    ClassicLoadBalancers, ClassicPolicy, Direction, Ec2, GroupFilter, HealthCheck, Instance, InstanceFilter,
    IpAddressType, Kind, Listener, ListenerSettings, LoadBalancer, LoadBalancerState, NetworkLoadBalancers,
    NewClassicLoadBalancer, NewListener, NewLoadBalancer, NewSecurityGroup, NewTargetGroup, RouteTable, RouteTarget,
    Rule, SecurityGroup, Subnet, SubnetFilter, SubnetMapping, Tags, Target, TargetGroup, TargetGroupFilter,
    TargetHealth, Trial,
};
use net::Cidr;
use std::collections::{BTreeMap, BTreeSet};

const READ: Access = Access::Read;
const WRITE: Access = Access::Write;

impl NetworkLoadBalancers for Memory {
    fn describe_load_balancers<'a>(&'a self, name: Option<&'a str>) -> Call<'a, Vec<LoadBalancer>> {
        self.call("elasticloadbalancing:DescribeLoadBalancers", READ, |state, _| {
            for held in state.load_balancers.values_mut() {
                held.load_balancer.state = LoadBalancerState::Active;
            }
            let all = state.load_balancers.values().map(|held| held.load_balancer.clone());
            Ok(all.filter(|one| name.is_none_or(|name| one.name == name)).collect())
        })
    }

    fn create_load_balancer<'a>(&'a self, new: &'a NewLoadBalancer) -> Call<'a, LoadBalancer> {
        self.call("elasticloadbalancing:CreateLoadBalancer", WRITE, |state, _| state.create_balancer(new))
    }

    fn delete_load_balancer<'a>(&'a self, arn: &'a str) -> Call<'a, ()> {
        self.call("elasticloadbalancing:DeleteLoadBalancer", WRITE, |state, lingers| {
            state.delete_balancer(arn, lingers)
        })
    }

    fn set_security_groups<'a>(&'a self, arn: &'a str, groups: &'a BTreeSet<String>) -> Call<'a, ()> {
        self.call("elasticloadbalancing:SetSecurityGroups", WRITE, |state, lingers| {
            state.set_groups(arn, groups, lingers)
        })
    }

    fn set_ip_address_type<'a>(&'a self, arn: &'a str, kind: IpAddressType) -> Call<'a, ()> {
        self.call("elasticloadbalancing:SetIpAddressType", WRITE, |state, _| state.set_address_type(arn, kind))
    }

    fn set_subnets<'a>(&'a self, arn: &'a str, subnets: &'a [SubnetMapping], ipv6_source_nat: bool) -> Call<'a, ()> {
        self.call("elasticloadbalancing:SetSubnets", WRITE, |state, _| state.set_subnets(arn, subnets, ipv6_source_nat))
    }

    fn describe_load_balancer_attributes<'a>(&'a self, arn: &'a str) -> Call<'a, Attributes> {
        self.call("elasticloadbalancing:DescribeLoadBalancerAttributes", READ, |state, _| {
            Ok(state.balancer(arn)?.attributes.clone())
        })
    }

    fn modify_load_balancer_attributes<'a>(&'a self, arn: &'a str, set: &'a Attributes) -> Call<'a, ()> {
        self.call("elasticloadbalancing:ModifyLoadBalancerAttributes", WRITE, |state, _| {
            state.set_balancer_attributes(arn, set)
        })
    }

    fn describe_target_groups<'a>(&'a self, filter: TargetGroupFilter<'a>) -> Call<'a, Vec<TargetGroup>> {
        self.call("elasticloadbalancing:DescribeTargetGroups", READ, |state, _| {
            let leading = |arn: &String| -> BTreeSet<String> {
                let held = state.listeners.values().filter(|held| held.listener.settings.target_group == *arn);
                held.map(|held| held.load_balancer.clone()).collect()
            };
            let groups = state.target_groups.values().map(|held| held.group.clone());
            let all = groups.map(|group| TargetGroup { load_balancers: leading(&group.arn), ..group });
            Ok(match filter {
                TargetGroupFilter::All => all.collect(),
                TargetGroupFilter::Of(arn) => all.filter(|group| group.load_balancers.contains(arn)).collect(),
            })
        })
    }

    fn create_target_group<'a>(&'a self, new: &'a NewTargetGroup) -> Call<'a, TargetGroup> {
        self.call("elasticloadbalancing:CreateTargetGroup", WRITE, |state, _| state.create_target_group(new))
    }

    fn modify_target_group<'a>(&'a self, arn: &'a str, check: &'a HealthCheck) -> Call<'a, ()> {
        self.call("elasticloadbalancing:ModifyTargetGroup", WRITE, |state, _| state.set_health_check(arn, check))
    }

    fn delete_target_group<'a>(&'a self, arn: &'a str) -> Call<'a, ()> {
        self.call("elasticloadbalancing:DeleteTargetGroup", WRITE, |state, _| state.delete_target_group(arn))
    }

    fn describe_target_group_attributes<'a>(&'a self, arn: &'a str) -> Call<'a, Attributes> {
        self.call("elasticloadbalancing:DescribeTargetGroupAttributes", READ, |state, _| {
            let held = state.target_groups.get(arn).ok_or_else(|| super::not_found(Kind::TargetGroup, arn))?;
            Ok(held.attributes.clone())
        })
    }

    fn modify_target_group_attributes<'a>(&'a self, arn: &'a str, set: &'a Attributes) -> Call<'a, ()> {
        self.call("elasticloadbalancing:ModifyTargetGroupAttributes", WRITE, |state, _| {
            state.set_target_attributes(arn, set)
        })
    }

    fn describe_target_health<'a>(&'a self, arn: &'a str) -> Call<'a, Vec<TargetHealth>> {
        self.call("elasticloadbalancing:DescribeTargetHealth", READ, |state, _| {
            let held = state.target_groups.get(arn).ok_or_else(|| super::not_found(Kind::TargetGroup, arn))?;
            let health = |draining| move |target: &Target| TargetHealth { target: target.clone(), draining };
            Ok(held.targets.iter().map(health(false)).chain(held.draining.iter().map(health(true))).collect())
        })
    }

    fn register_targets<'a>(&'a self, arn: &'a str, targets: &'a BTreeSet<Target>) -> Call<'a, ()> {
        self.call("elasticloadbalancing:RegisterTargets", WRITE, |state, _| state.register(arn, targets))
    }

    fn deregister_targets<'a>(&'a self, arn: &'a str, targets: &'a BTreeSet<Target>) -> Call<'a, ()> {
        self.call("elasticloadbalancing:DeregisterTargets", WRITE, |state, _| state.deregister(arn, targets))
    }

    fn describe_listeners<'a>(&'a self, load_balancer: &'a str) -> Call<'a, Vec<Listener>> {
        self.call("elasticloadbalancing:DescribeListeners", READ, |state, _| {
            state.balancer(load_balancer)?;
            let of = state.listeners.values().filter(|held| held.load_balancer == load_balancer);
            Ok(of.map(|held| held.listener.clone()).collect())
        })
    }

    fn create_listener<'a>(&'a self, new: &'a NewListener) -> Call<'a, Listener> {
        self.call("elasticloadbalancing:CreateListener", WRITE, |state, _| state.create_listener(new))
    }

    fn modify_listener<'a>(&'a self, arn: &'a str, settings: &'a ListenerSettings) -> Call<'a, ()> {
        self.call("elasticloadbalancing:ModifyListener", WRITE, |state, _| state.change_listener(arn, settings))
    }

    fn delete_listener<'a>(&'a self, arn: &'a str) -> Call<'a, ()> {
        self.call("elasticloadbalancing:DeleteListener", WRITE, |state, _| {
            state.listeners.remove(arn);
            Ok(())
        })
    }

    fn describe_listener_certificates<'a>(&'a self, listener: &'a str) -> Call<'a, BTreeSet<String>> {
        self.call("elasticloadbalancing:DescribeListenerCertificates", READ, |state, _| {
            state.listener_certificates(listener)
        })
    }

    fn add_listener_certificates<'a>(&'a self, listener: &'a str, arns: &'a BTreeSet<String>) -> Call<'a, ()> {
        self.call("elasticloadbalancing:AddListenerCertificates", WRITE, |state, _| {
            state.add_certificates(listener, arns)
        })
    }

    fn remove_listener_certificates<'a>(&'a self, listener: &'a str, arns: &'a BTreeSet<String>) -> Call<'a, ()> {
        self.call("elasticloadbalancing:RemoveListenerCertificates", WRITE, |state, _| {
            state.remove_certificates(listener, arns)
        })
    }

    fn describe_tags<'a>(&'a self, arns: &'a [String]) -> Call<'a, BTreeMap<String, Tags>> {
        self.call("elasticloadbalancing:DescribeTags", READ, |state, _| {
            let tags = |arn: &String| {
                let balancer = state.load_balancers.get(arn).map(|held| held.tags.clone());
                let group = || state.target_groups.get(arn).map(|held| held.tags.clone());
                let listener = || state.listeners.get(arn).map(|held| held.tags.clone());
                balancer.or_else(group).or_else(listener)
            };
            Ok(arns.iter().filter_map(|arn| Some((arn.clone(), tags(arn)?))).collect())
        })
    }

    fn add_tags<'a>(&'a self, arns: &'a [String], tags: &'a Tags) -> Call<'a, ()> {
        self.call("elasticloadbalancing:AddTags", WRITE, |state, _| {
            super::checked_tags(tags)?;
            for arn in arns {
                let balancer = state.load_balancers.get_mut(arn).map(|held| &mut held.tags);
                let group = state.target_groups.get_mut(arn).map(|held| &mut held.tags);
                let listener = state.listeners.get_mut(arn).map(|held| &mut held.tags);
                let has = balancer.or(group).or(listener).ok_or_else(|| super::not_found(Kind::LoadBalancer, arn))?;
                has.extend(tags.clone());
            }
            Ok(())
        })
    }
}

impl ClassicLoadBalancers for Memory {
    fn describe_classic<'a>(&'a self, name: Option<&'a str>) -> Call<'a, Vec<ClassicLoadBalancer>> {
        self.call("elasticloadbalancing:DescribeLoadBalancers", READ, |state, _| {
            let all = state.classic.values().map(|held| held.load_balancer.clone());
            Ok(all.filter(|one| name.is_none_or(|name| one.name == name)).collect())
        })
    }

    fn create_classic<'a>(&'a self, new: &'a NewClassicLoadBalancer) -> Call<'a, String> {
        self.call("elasticloadbalancing:CreateLoadBalancer", WRITE, |state, _| state.create_classic(new))
    }

    fn delete_classic<'a>(&'a self, name: &'a str) -> Call<'a, ()> {
        self.call("elasticloadbalancing:DeleteLoadBalancer", WRITE, |state, lingers| {
            state.delete_classic(name, lingers);
            Ok(())
        })
    }

    fn attach_classic_subnets<'a>(&'a self, name: &'a str, subnets: &'a BTreeSet<String>) -> Call<'a, ()> {
        self.call("elasticloadbalancing:AttachLoadBalancerToSubnets", WRITE, |state, _| {
            state.attach_classic(name, subnets)
        })
    }

    fn detach_classic_subnets<'a>(&'a self, name: &'a str, subnets: &'a BTreeSet<String>) -> Call<'a, ()> {
        self.call("elasticloadbalancing:DetachLoadBalancerFromSubnets", WRITE, |state, _| {
            state.detach_classic(name, subnets)
        })
    }

    fn apply_classic_groups<'a>(&'a self, name: &'a str, groups: &'a BTreeSet<String>) -> Call<'a, ()> {
        self.call("elasticloadbalancing:ApplySecurityGroupsToLoadBalancer", WRITE, |state, lingers| {
            state.apply_groups(name, groups, lingers)
        })
    }

    fn create_classic_listeners<'a>(&'a self, name: &'a str, listeners: &'a [ClassicListener]) -> Call<'a, ()> {
        self.call("elasticloadbalancing:CreateLoadBalancerListeners", WRITE, |state, _| {
            state.add_classic_listeners(name, listeners)
        })
    }

    fn delete_classic_listeners<'a>(&'a self, name: &'a str, ports: &'a BTreeSet<u16>) -> Call<'a, ()> {
        self.call("elasticloadbalancing:DeleteLoadBalancerListeners", WRITE, |state, _| {
            state.delete_classic_listeners(name, ports)
        })
    }

    fn configure_classic_health_check<'a>(&'a self, name: &'a str, check: &'a ClassicHealthCheck) -> Call<'a, ()> {
        self.call("elasticloadbalancing:ConfigureHealthCheck", WRITE, |state, _| state.check_classic(name, check))
    }

    fn register_classic_instances<'a>(&'a self, name: &'a str, instances: &'a BTreeSet<String>) -> Call<'a, ()> {
        self.call("elasticloadbalancing:RegisterInstancesWithLoadBalancer", WRITE, |state, _| {
            state.register_classic(name, instances)
        })
    }

    fn deregister_classic_instances<'a>(&'a self, name: &'a str, instances: &'a BTreeSet<String>) -> Call<'a, ()> {
        self.call("elasticloadbalancing:DeregisterInstancesFromLoadBalancer", WRITE, |state, _| {
            state.classic(name)?.load_balancer.instances.retain(|id| !instances.contains(id));
            Ok(())
        })
    }

    fn describe_classic_attributes<'a>(&'a self, name: &'a str) -> Call<'a, ClassicAttributes> {
        self.call("elasticloadbalancing:DescribeLoadBalancerAttributes", READ, |state, _| {
            Ok(state.classic(name)?.attributes.clone())
        })
    }

    fn modify_classic_attributes<'a>(&'a self, name: &'a str, set: &'a ClassicAttributes) -> Call<'a, ()> {
        self.call("elasticloadbalancing:ModifyLoadBalancerAttributes", WRITE, |state, _| {
            state.set_classic_attributes(name, set)
        })
    }

    fn create_classic_policy<'a>(&'a self, name: &'a str, policy: &'a ClassicPolicy) -> Call<'a, ()> {
        self.call("elasticloadbalancing:CreateLoadBalancerPolicy", WRITE, |state, _| {
            state.add_classic_policy(name, policy)
        })
    }

    fn set_classic_backend_policies<'a>(&'a self, name: &'a str, port: u16, policies: &'a [String]) -> Call<'a, ()> {
        self.call("elasticloadbalancing:SetLoadBalancerPoliciesForBackendServer", WRITE, |state, _| {
            state.set_backend_policies(name, port, policies)
        })
    }

    fn set_classic_listener_policies<'a>(&'a self, name: &'a str, port: u16, policies: &'a [String]) -> Call<'a, ()> {
        self.call("elasticloadbalancing:SetLoadBalancerPoliciesOfListener", WRITE, |state, _| {
            state.set_listener_policies(name, port, policies)
        })
    }

    fn describe_classic_tags<'a>(&'a self, names: &'a [String]) -> Call<'a, BTreeMap<String, Tags>> {
        self.call("elasticloadbalancing:DescribeTags", READ, |state, _| {
            let held = |name: &String| Some((name.clone(), state.classic.get(name)?.tags.clone()));
            Ok(names.iter().filter_map(held).collect())
        })
    }

    fn add_classic_tags<'a>(&'a self, name: &'a str, tags: &'a Tags) -> Call<'a, ()> {
        self.call("elasticloadbalancing:AddTags", WRITE, |state, _| {
            super::checked_tags(tags)?;
            state.classic(name)?.tags.extend(tags.clone());
            Ok(())
        })
    }
}

impl Ec2 for Memory {
    fn describe_security_groups<'a>(&'a self, filter: &'a GroupFilter) -> Call<'a, Vec<SecurityGroup>> {
        self.call("ec2:DescribeSecurityGroups", READ, |state, _| Ok(state.find_groups(filter)))
    }

    fn create_security_group<'a>(&'a self, new: &'a NewSecurityGroup) -> Call<'a, String> {
        self.call("ec2:CreateSecurityGroup", WRITE, |state, _| state.create_group(new))
    }

    fn delete_security_group<'a>(&'a self, id: &'a str) -> Call<'a, ()> {
        self.call("ec2:DeleteSecurityGroup", WRITE, |state, _| state.delete_group(id))
    }

    fn authorize<'a>(&'a self, group: &'a str, direction: Direction, rules: &'a BTreeSet<Rule>) -> Call<'a, ()> {
        let action = match direction {
            Direction::Ingress => "ec2:AuthorizeSecurityGroupIngress",
            Direction::Egress => "ec2:AuthorizeSecurityGroupEgress",
        };
        self.call(action, WRITE, |state, _| state.authorize(group, direction, rules))
    }

    fn revoke<'a>(&'a self, group: &'a str, direction: Direction, rules: &'a BTreeSet<Rule>) -> Call<'a, ()> {
        let action = match direction {
            Direction::Ingress => "ec2:RevokeSecurityGroupIngress",
            Direction::Egress => "ec2:RevokeSecurityGroupEgress",
        };
        self.call(action, WRITE, |state, _| state.revoke(group, direction, rules))
    }

    fn describe_subnets<'a>(&'a self, filter: &'a SubnetFilter) -> Call<'a, Vec<Subnet>> {
        self.call("ec2:DescribeSubnets", READ, |state, _| Ok(state.find_subnets(filter)))
    }

    fn describe_route_tables<'a>(&'a self, vpc: &'a str) -> Call<'a, Vec<RouteTable>> {
        self.call("ec2:DescribeRouteTables", READ, |state, _| {
            Ok(state.route_tables.iter().filter(|table| table.vpc == vpc).cloned().collect())
        })
    }

    fn describe_availability_zones(&self) -> Call<'_, Vec<AvailabilityZone>> {
        self.call("ec2:DescribeAvailabilityZones", READ, |state, _| Ok(state.zones.clone()))
    }

    fn describe_instances<'a>(&'a self, filter: &'a InstanceFilter) -> Call<'a, Vec<Instance>> {
        self.call("ec2:DescribeInstances", READ, |state, _| Ok(state.find_instances(filter)))
    }

    fn create_route<'a>(&'a self, table: &'a str, to: Cidr, via: &'a RouteTarget) -> Call<'a, ()> {
        self.call("ec2:CreateRoute", WRITE, |state, _| state.add_route(table, to, via))
    }

    fn delete_route<'a>(&'a self, table: &'a str, to: Cidr) -> Call<'a, ()> {
        self.call("ec2:DeleteRoute", WRITE, |state, _| state.drop_route(table, to))
    }

    fn set_source_dest_check<'a>(&'a self, instance: &'a str, check: bool) -> Call<'a, ()> {
        self.call("ec2:ModifyInstanceAttribute", WRITE, |state, _| {
            if !state.instances.contains_key(instance) {
                return Err(super::not_found(Kind::Instance, instance));
            }
            state.source_dest_check.insert(instance.to_owned(), check);
            Ok(())
        })
    }

    fn create_tags<'a>(&'a self, ids: &'a [String], tags: &'a Tags) -> Call<'a, ()> {
        self.call("ec2:CreateTags", WRITE, |state, _| {
            super::checked_tags(tags)?;
            state.tag(ids, |has| has.extend(tags.clone()))
        })
    }

    fn try_out<'a>(&'a self, trial: Trial<'a>) -> Call<'a, ()> {
        let action = match trial {
            Trial::CreateGroup(_) => "ec2:CreateSecurityGroup",
            Trial::DeleteGroup(_) => "ec2:DeleteSecurityGroup",
            Trial::Authorize(_, Direction::Ingress, _) => "ec2:AuthorizeSecurityGroupIngress",
            Trial::Authorize(_, Direction::Egress, _) => "ec2:AuthorizeSecurityGroupEgress",
            Trial::Revoke(_, Direction::Ingress, _) => "ec2:RevokeSecurityGroupIngress",
            Trial::Revoke(_, Direction::Egress, _) => "ec2:RevokeSecurityGroupEgress",
            Trial::Tag(..) => "ec2:CreateTags",
            Trial::CreateRoute(..) => "ec2:CreateRoute",
            Trial::DeleteRoute(..) => "ec2:DeleteRoute",
            Trial::SourceDestCheck(_) => "ec2:ModifyInstanceAttribute",
        };
        self.call(action, READ, |_, _| Ok(()))
    }
}
