//! The account's calls, each handed to the client of its API.

use super::{OpenError, Session, classic::Classic, ec2::Ec2, elbv2::Elbv2};
use crate::account::{
    Account, Attributes, AvailabilityZone, Call, ClassicAttributes, ClassicHealthCheck, ClassicListener,
    ClassicLoadBalancer, ClassicPolicy, Direction, GroupFilter, HealthCheck, Instance, InstanceFilter, IpAddressType,
    Listener, ListenerSettings, LoadBalancer, NewClassicLoadBalancer, NewListener, NewLoadBalancer, NewSecurityGroup,
    NewTargetGroup, RouteTable, RouteTarget, Rule, SecurityGroup, Subnet, SubnetFilter, SubnetMapping, Tags, Target,
    TargetGroup, TargetGroupFilter, TargetHealth, Trial,
};
use net::Cidr;
use std::collections::{BTreeMap, BTreeSet};

/// An account in one region of the real AWS, or of whatever stands at its endpoints.
#[derive(Clone, Debug)]
pub struct RealAccount {
    elbv2: Elbv2,
    classic: Classic,
    ec2: Ec2,
}

impl RealAccount {
    /// The account of a session.
    pub fn new(session: &Session) -> Result<Self, OpenError> {
        Ok(Self { elbv2: Elbv2::new(session)?, classic: Classic::new(session)?, ec2: Ec2 { query: session.ec2() } })
    }
}

impl Account for RealAccount {
    fn describe_load_balancers<'a>(&'a self, name: Option<&'a str>) -> Call<'a, Vec<LoadBalancer>> {
        Box::pin(self.elbv2.describe_load_balancers(name))
    }

    fn create_load_balancer<'a>(&'a self, new: &'a NewLoadBalancer) -> Call<'a, LoadBalancer> {
        Box::pin(self.elbv2.create_load_balancer(new))
    }

    fn delete_load_balancer<'a>(&'a self, arn: &'a str) -> Call<'a, ()> {
        Box::pin(self.elbv2.delete_load_balancer(arn))
    }

    fn set_security_groups<'a>(&'a self, arn: &'a str, groups: &'a BTreeSet<String>) -> Call<'a, ()> {
        Box::pin(self.elbv2.set_security_groups(arn, groups))
    }

    fn set_ip_address_type<'a>(&'a self, arn: &'a str, kind: IpAddressType) -> Call<'a, ()> {
        Box::pin(self.elbv2.set_ip_address_type(arn, kind))
    }

    fn set_subnets<'a>(&'a self, arn: &'a str, subnets: &'a [SubnetMapping], ipv6_source_nat: bool) -> Call<'a, ()> {
        Box::pin(self.elbv2.set_subnets(arn, subnets, ipv6_source_nat))
    }

    fn describe_load_balancer_attributes<'a>(&'a self, arn: &'a str) -> Call<'a, Attributes> {
        Box::pin(self.elbv2.describe_load_balancer_attributes(arn))
    }

    fn modify_load_balancer_attributes<'a>(&'a self, arn: &'a str, set: &'a Attributes) -> Call<'a, ()> {
        Box::pin(self.elbv2.modify_load_balancer_attributes(arn, set))
    }

    fn describe_target_groups<'a>(&'a self, filter: TargetGroupFilter<'a>) -> Call<'a, Vec<TargetGroup>> {
        Box::pin(self.elbv2.describe_target_groups(filter))
    }

    fn create_target_group<'a>(&'a self, new: &'a NewTargetGroup) -> Call<'a, TargetGroup> {
        Box::pin(self.elbv2.create_target_group(new))
    }

    fn modify_target_group<'a>(&'a self, arn: &'a str, check: &'a HealthCheck) -> Call<'a, ()> {
        Box::pin(self.elbv2.modify_target_group(arn, check))
    }

    fn delete_target_group<'a>(&'a self, arn: &'a str) -> Call<'a, ()> {
        Box::pin(self.elbv2.delete_target_group(arn))
    }

    fn describe_target_group_attributes<'a>(&'a self, arn: &'a str) -> Call<'a, Attributes> {
        Box::pin(self.elbv2.describe_target_group_attributes(arn))
    }

    fn modify_target_group_attributes<'a>(&'a self, arn: &'a str, set: &'a Attributes) -> Call<'a, ()> {
        Box::pin(self.elbv2.modify_target_group_attributes(arn, set))
    }

    fn describe_target_health<'a>(&'a self, arn: &'a str) -> Call<'a, Vec<TargetHealth>> {
        Box::pin(self.elbv2.describe_target_health(arn))
    }

    fn register_targets<'a>(&'a self, arn: &'a str, targets: &'a BTreeSet<Target>) -> Call<'a, ()> {
        Box::pin(self.elbv2.register_targets(arn, targets))
    }

    fn deregister_targets<'a>(&'a self, arn: &'a str, targets: &'a BTreeSet<Target>) -> Call<'a, ()> {
        Box::pin(self.elbv2.deregister_targets(arn, targets))
    }

    fn describe_listeners<'a>(&'a self, load_balancer: &'a str) -> Call<'a, Vec<Listener>> {
        Box::pin(self.elbv2.describe_listeners(load_balancer))
    }

    fn create_listener<'a>(&'a self, new: &'a NewListener) -> Call<'a, Listener> {
        Box::pin(self.elbv2.create_listener(new))
    }

    fn modify_listener<'a>(&'a self, arn: &'a str, settings: &'a ListenerSettings) -> Call<'a, ()> {
        Box::pin(self.elbv2.modify_listener(arn, settings))
    }

    fn delete_listener<'a>(&'a self, arn: &'a str) -> Call<'a, ()> {
        Box::pin(self.elbv2.delete_listener(arn))
    }

    fn describe_listener_certificates<'a>(&'a self, listener: &'a str) -> Call<'a, BTreeSet<String>> {
        Box::pin(self.elbv2.describe_listener_certificates(listener))
    }

    fn add_listener_certificates<'a>(&'a self, listener: &'a str, arns: &'a BTreeSet<String>) -> Call<'a, ()> {
        Box::pin(self.elbv2.add_listener_certificates(listener, arns))
    }

    fn remove_listener_certificates<'a>(&'a self, listener: &'a str, arns: &'a BTreeSet<String>) -> Call<'a, ()> {
        Box::pin(self.elbv2.remove_listener_certificates(listener, arns))
    }

    fn describe_tags<'a>(&'a self, arns: &'a [String]) -> Call<'a, BTreeMap<String, Tags>> {
        Box::pin(self.elbv2.describe_tags(arns))
    }

    fn add_tags<'a>(&'a self, arns: &'a [String], tags: &'a Tags) -> Call<'a, ()> {
        Box::pin(self.elbv2.add_tags(arns, tags))
    }

    fn describe_classic<'a>(&'a self, name: Option<&'a str>) -> Call<'a, Vec<ClassicLoadBalancer>> {
        Box::pin(self.classic.describe(name))
    }

    fn create_classic<'a>(&'a self, new: &'a NewClassicLoadBalancer) -> Call<'a, String> {
        Box::pin(self.classic.create(new))
    }

    fn delete_classic<'a>(&'a self, name: &'a str) -> Call<'a, ()> {
        Box::pin(self.classic.delete(name))
    }

    fn attach_classic_subnets<'a>(&'a self, name: &'a str, subnets: &'a BTreeSet<String>) -> Call<'a, ()> {
        Box::pin(self.classic.attach_subnets(name, subnets))
    }

    fn detach_classic_subnets<'a>(&'a self, name: &'a str, subnets: &'a BTreeSet<String>) -> Call<'a, ()> {
        Box::pin(self.classic.detach_subnets(name, subnets))
    }

    fn apply_classic_groups<'a>(&'a self, name: &'a str, groups: &'a BTreeSet<String>) -> Call<'a, ()> {
        Box::pin(self.classic.apply_groups(name, groups))
    }

    fn create_classic_listeners<'a>(&'a self, name: &'a str, listeners: &'a [ClassicListener]) -> Call<'a, ()> {
        Box::pin(self.classic.create_listeners(name, listeners))
    }

    fn delete_classic_listeners<'a>(&'a self, name: &'a str, ports: &'a BTreeSet<u16>) -> Call<'a, ()> {
        Box::pin(self.classic.delete_listeners(name, ports))
    }

    fn configure_classic_health_check<'a>(&'a self, name: &'a str, check: &'a ClassicHealthCheck) -> Call<'a, ()> {
        Box::pin(self.classic.configure_health_check(name, check))
    }

    fn register_classic_instances<'a>(&'a self, name: &'a str, instances: &'a BTreeSet<String>) -> Call<'a, ()> {
        Box::pin(self.classic.register(name, instances))
    }

    fn deregister_classic_instances<'a>(&'a self, name: &'a str, instances: &'a BTreeSet<String>) -> Call<'a, ()> {
        Box::pin(self.classic.deregister(name, instances))
    }

    fn describe_classic_attributes<'a>(&'a self, name: &'a str) -> Call<'a, ClassicAttributes> {
        Box::pin(self.classic.describe_attributes(name))
    }

    fn modify_classic_attributes<'a>(&'a self, name: &'a str, set: &'a ClassicAttributes) -> Call<'a, ()> {
        Box::pin(self.classic.modify_attributes(name, set))
    }

    fn create_classic_policy<'a>(&'a self, name: &'a str, policy: &'a ClassicPolicy) -> Call<'a, ()> {
        Box::pin(self.classic.create_policy(name, policy))
    }

    fn set_classic_backend_policies<'a>(&'a self, name: &'a str, port: u16, policies: &'a [String]) -> Call<'a, ()> {
        Box::pin(self.classic.set_backend_policies(name, port, policies))
    }

    fn set_classic_listener_policies<'a>(&'a self, name: &'a str, port: u16, policies: &'a [String]) -> Call<'a, ()> {
        Box::pin(self.classic.set_listener_policies(name, port, policies))
    }

    fn describe_classic_tags<'a>(&'a self, names: &'a [String]) -> Call<'a, BTreeMap<String, Tags>> {
        Box::pin(self.classic.describe_tags(names))
    }

    fn add_classic_tags<'a>(&'a self, name: &'a str, tags: &'a Tags) -> Call<'a, ()> {
        Box::pin(self.classic.add_tags(name, tags))
    }

    fn describe_security_groups<'a>(&'a self, filter: &'a GroupFilter) -> Call<'a, Vec<SecurityGroup>> {
        Box::pin(self.ec2.describe_security_groups(filter))
    }

    fn create_security_group<'a>(&'a self, new: &'a NewSecurityGroup) -> Call<'a, String> {
        Box::pin(self.ec2.create_security_group(new))
    }

    fn delete_security_group<'a>(&'a self, id: &'a str) -> Call<'a, ()> {
        Box::pin(self.ec2.delete_security_group(id))
    }

    fn authorize<'a>(&'a self, group: &'a str, direction: Direction, rules: &'a BTreeSet<Rule>) -> Call<'a, ()> {
        Box::pin(self.ec2.authorize(group, direction, rules))
    }

    fn revoke<'a>(&'a self, group: &'a str, direction: Direction, rules: &'a BTreeSet<Rule>) -> Call<'a, ()> {
        Box::pin(self.ec2.revoke(group, direction, rules))
    }

    fn describe_subnets<'a>(&'a self, filter: &'a SubnetFilter) -> Call<'a, Vec<Subnet>> {
        Box::pin(self.ec2.describe_subnets(filter))
    }

    fn describe_route_tables<'a>(&'a self, vpc: &'a str) -> Call<'a, Vec<RouteTable>> {
        Box::pin(self.ec2.describe_route_tables(vpc))
    }

    fn describe_availability_zones(&self) -> Call<'_, Vec<AvailabilityZone>> {
        Box::pin(self.ec2.describe_availability_zones())
    }

    fn describe_instances<'a>(&'a self, filter: &'a InstanceFilter) -> Call<'a, Vec<Instance>> {
        Box::pin(self.ec2.describe_instances(filter))
    }

    fn create_route<'a>(&'a self, table: &'a str, to: Cidr, via: &'a RouteTarget) -> Call<'a, ()> {
        Box::pin(self.ec2.create_route(table, to, via))
    }

    fn delete_route<'a>(&'a self, table: &'a str, to: Cidr) -> Call<'a, ()> {
        Box::pin(self.ec2.delete_route(table, to))
    }

    fn set_source_dest_check<'a>(&'a self, instance: &'a str, check: bool) -> Call<'a, ()> {
        Box::pin(self.ec2.set_source_dest_check(instance, check))
    }

    fn create_tags<'a>(&'a self, ids: &'a [String], tags: &'a Tags) -> Call<'a, ()> {
        Box::pin(self.ec2.create_tags(ids, tags))
    }

    fn try_out<'a>(&'a self, trial: Trial<'a>) -> Call<'a, ()> {
        Box::pin(self.ec2.try_out(trial))
    }
}
