//! What is asked of AWS: a trait for each API, with one method per call, in our own words. `clients` asks the real thing, `memory` plays it.
//!
//! Rules for whoever implements it. A `describe_*` pages through everything and leaves out what does not exist (a name that
//! is not there gives an empty answer, not an error). Lists longer than the API takes are split (20 ARNs for tags, 100 targets). A call that
//! AWS refuses becomes the [`AwsError`] that says what to do about it.

mod classic;
mod ec2;
mod elbv2;
mod error;
mod limits;
mod route53;

pub use classic::{
    ClassicAttributes, ClassicHealthCheck, ClassicListener, ClassicLoadBalancer, ClassicPolicy, NewClassicLoadBalancer,
};
pub use ec2::{
    Address, AvailabilityZone, Direction, GroupFilter, Instance, InstanceFilter, Interface, NewSecurityGroup, Peer,
    Protocol, RouteEntry, RouteTable, RouteTarget, Rule, SecurityGroup, Subnet, SubnetFilter, Trial, Vpc,
};
pub use elbv2::{
    HealthCheck, IpAddressType, Listener, ListenerSettings, LoadBalancer, LoadBalancerState, LoadBalancerType,
    NewListener, NewLoadBalancer, NewTargetGroup, Scheme, SubnetMapping, Target, TargetGroup, TargetGroupFilter,
    TargetHealth,
};
pub use error::{AwsError, Kind};
pub use limits::{Limit, limit};
pub use route53::{HostedZone, Leads, RecordChange, RecordPosition, RecordSet};

use futures::future::BoxFuture;
use net::Cidr;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What a call comes to.
pub type Call<'a, T> = BoxFuture<'a, Result<T, AwsError>>;

/// Tags of a resource.
pub type Tags = BTreeMap<String, String>;

/// Attributes of a load balancer or target group, by AWS's keys.
pub type Attributes = BTreeMap<String, String>;

/// An account in one region: whoever plays its three APIs.
#[derive(Clone)]
pub struct Account {
    pub network: Arc<dyn NetworkLoadBalancers>,
    pub classic: Arc<dyn ClassicLoadBalancers>,
    /// Security groups, networks, instances, routes.
    pub ec2: Arc<dyn Ec2>,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").finish_non_exhaustive()
    }
}

/// One that plays all three.
impl<T: NetworkLoadBalancers + ClassicLoadBalancers + Ec2 + 'static> From<Arc<T>> for Account {
    fn from(all: Arc<T>) -> Self {
        Self { network: Arc::<T>::clone(&all), classic: Arc::<T>::clone(&all), ec2: all }
    }
}

/// ELBv2, of which only network load balancers are used.
pub trait NetworkLoadBalancers: Send + Sync {
    /// `DescribeLoadBalancers`: the one with this name, or all.
    fn describe_load_balancers<'a>(&'a self, name: Option<&'a str>) -> Call<'a, Vec<LoadBalancer>>;
    /// `CreateLoadBalancer`, type network.
    fn create_load_balancer<'a>(&'a self, new: &'a NewLoadBalancer) -> Call<'a, LoadBalancer>;
    /// `DeleteLoadBalancer`. That there is none is fine.
    fn delete_load_balancer<'a>(&'a self, arn: &'a str) -> Call<'a, ()>;
    /// `SetSecurityGroups`.
    fn set_security_groups<'a>(&'a self, arn: &'a str, groups: &'a BTreeSet<String>) -> Call<'a, ()>;
    /// `SetIpAddressType`.
    fn set_ip_address_type<'a>(&'a self, arn: &'a str, kind: IpAddressType) -> Call<'a, ()>;
    /// `SetSubnets`; `ipv6_source_nat` is `EnablePrefixForIpv6SourceNat`, sent only when it is true.
    fn set_subnets<'a>(&'a self, arn: &'a str, subnets: &'a [SubnetMapping], ipv6_source_nat: bool) -> Call<'a, ()>;
    /// `DescribeLoadBalancerAttributes`.
    fn describe_load_balancer_attributes<'a>(&'a self, arn: &'a str) -> Call<'a, Attributes>;
    /// `ModifyLoadBalancerAttributes`: sets these, leaves the others.
    fn modify_load_balancer_attributes<'a>(&'a self, arn: &'a str, set: &'a Attributes) -> Call<'a, ()>;
    /// `DescribeTargetGroups`.
    fn describe_target_groups<'a>(&'a self, filter: TargetGroupFilter<'a>) -> Call<'a, Vec<TargetGroup>>;
    /// `CreateTargetGroup`, target type instance.
    fn create_target_group<'a>(&'a self, new: &'a NewTargetGroup) -> Call<'a, TargetGroup>;
    /// `ModifyTargetGroup`: the health check.
    fn modify_target_group<'a>(&'a self, arn: &'a str, check: &'a HealthCheck) -> Call<'a, ()>;
    /// `DeleteTargetGroup`. That there is none is fine.
    fn delete_target_group<'a>(&'a self, arn: &'a str) -> Call<'a, ()>;
    /// `DescribeTargetGroupAttributes`.
    fn describe_target_group_attributes<'a>(&'a self, arn: &'a str) -> Call<'a, Attributes>;
    /// `ModifyTargetGroupAttributes`: sets these, leaves the others.
    fn modify_target_group_attributes<'a>(&'a self, arn: &'a str, set: &'a Attributes) -> Call<'a, ()>;
    /// `DescribeTargetHealth`.
    fn describe_target_health<'a>(&'a self, arn: &'a str) -> Call<'a, Vec<TargetHealth>>;
    /// `RegisterTargets`.
    fn register_targets<'a>(&'a self, arn: &'a str, targets: &'a BTreeSet<Target>) -> Call<'a, ()>;
    /// `DeregisterTargets`. That one is not registered is fine.
    fn deregister_targets<'a>(&'a self, arn: &'a str, targets: &'a BTreeSet<Target>) -> Call<'a, ()>;
    /// `DescribeListeners` of a load balancer.
    fn describe_listeners<'a>(&'a self, load_balancer: &'a str) -> Call<'a, Vec<Listener>>;
    /// `CreateListener`.
    fn create_listener<'a>(&'a self, new: &'a NewListener) -> Call<'a, Listener>;
    /// `ModifyListener`.
    fn modify_listener<'a>(&'a self, arn: &'a str, settings: &'a ListenerSettings) -> Call<'a, ()>;
    /// `DeleteListener`. That there is none is fine.
    fn delete_listener<'a>(&'a self, arn: &'a str) -> Call<'a, ()>;
    /// `DescribeListenerCertificates`: ARNs of those beside the listener's own one.
    fn describe_listener_certificates<'a>(&'a self, listener: &'a str) -> Call<'a, BTreeSet<String>>;
    /// `AddListenerCertificates`: beside the listener's own one. That one is there already is fine.
    fn add_listener_certificates<'a>(&'a self, listener: &'a str, arns: &'a BTreeSet<String>) -> Call<'a, ()>;
    /// `RemoveListenerCertificates`. That one is not there is fine.
    fn remove_listener_certificates<'a>(&'a self, listener: &'a str, arns: &'a BTreeSet<String>) -> Call<'a, ()>;
    /// `DescribeTags` of load balancers, listeners and target groups, by ARN.
    fn describe_tags<'a>(&'a self, arns: &'a [String]) -> Call<'a, BTreeMap<String, Tags>>;
    /// `AddTags`.
    fn add_tags<'a>(&'a self, arns: &'a [String], tags: &'a Tags) -> Call<'a, ()>;
}

/// Classic load balancers; the names of the calls are those of the API of 2012-06-01.
pub trait ClassicLoadBalancers: Send + Sync {
    /// `DescribeLoadBalancers`: the one with this name, or all.
    fn describe_classic<'a>(&'a self, name: Option<&'a str>) -> Call<'a, Vec<ClassicLoadBalancer>>;
    /// `CreateLoadBalancer`; answers with its host name.
    fn create_classic<'a>(&'a self, new: &'a NewClassicLoadBalancer) -> Call<'a, String>;
    /// `DeleteLoadBalancer`. That there is none is fine.
    fn delete_classic<'a>(&'a self, name: &'a str) -> Call<'a, ()>;
    /// `AttachLoadBalancerToSubnets`.
    fn attach_classic_subnets<'a>(&'a self, name: &'a str, subnets: &'a BTreeSet<String>) -> Call<'a, ()>;
    /// `DetachLoadBalancerFromSubnets`.
    fn detach_classic_subnets<'a>(&'a self, name: &'a str, subnets: &'a BTreeSet<String>) -> Call<'a, ()>;
    /// `ApplySecurityGroupsToLoadBalancer`.
    fn apply_classic_groups<'a>(&'a self, name: &'a str, groups: &'a BTreeSet<String>) -> Call<'a, ()>;
    /// `CreateLoadBalancerListeners`.
    fn create_classic_listeners<'a>(&'a self, name: &'a str, listeners: &'a [ClassicListener]) -> Call<'a, ()>;
    /// `DeleteLoadBalancerListeners` by their ports.
    fn delete_classic_listeners<'a>(&'a self, name: &'a str, ports: &'a BTreeSet<u16>) -> Call<'a, ()>;
    /// `ConfigureHealthCheck`.
    fn configure_classic_health_check<'a>(&'a self, name: &'a str, check: &'a ClassicHealthCheck) -> Call<'a, ()>;
    /// `RegisterInstancesWithLoadBalancer`.
    fn register_classic_instances<'a>(&'a self, name: &'a str, instances: &'a BTreeSet<String>) -> Call<'a, ()>;
    /// `DeregisterInstancesFromLoadBalancer`.
    fn deregister_classic_instances<'a>(&'a self, name: &'a str, instances: &'a BTreeSet<String>) -> Call<'a, ()>;
    /// `DescribeLoadBalancerAttributes`.
    fn describe_classic_attributes<'a>(&'a self, name: &'a str) -> Call<'a, ClassicAttributes>;
    /// `ModifyLoadBalancerAttributes`.
    fn modify_classic_attributes<'a>(&'a self, name: &'a str, set: &'a ClassicAttributes) -> Call<'a, ()>;
    /// `CreateLoadBalancerPolicy`. That there is one of this name and content is fine.
    fn create_classic_policy<'a>(&'a self, name: &'a str, policy: &'a ClassicPolicy) -> Call<'a, ()>;
    /// `SetLoadBalancerPoliciesForBackendServer`.
    fn set_classic_backend_policies<'a>(&'a self, name: &'a str, port: u16, policies: &'a [String]) -> Call<'a, ()>;
    /// `SetLoadBalancerPoliciesOfListener`.
    fn set_classic_listener_policies<'a>(&'a self, name: &'a str, port: u16, policies: &'a [String]) -> Call<'a, ()>;
    /// `DescribeTags` of classic load balancers, by name.
    fn describe_classic_tags<'a>(&'a self, names: &'a [String]) -> Call<'a, BTreeMap<String, Tags>>;
    /// `AddTags`.
    fn add_classic_tags<'a>(&'a self, name: &'a str, tags: &'a Tags) -> Call<'a, ()>;
}

pub trait Ec2: Send + Sync {
    /// `DescribeSecurityGroups`, with their rules.
    fn describe_security_groups<'a>(&'a self, filter: &'a GroupFilter) -> Call<'a, Vec<SecurityGroup>>;
    /// `CreateSecurityGroup`; answers with its id.
    fn create_security_group<'a>(&'a self, new: &'a NewSecurityGroup) -> Call<'a, String>;
    /// `DeleteSecurityGroup`.
    fn delete_security_group<'a>(&'a self, id: &'a str) -> Call<'a, ()>;
    /// `AuthorizeSecurityGroupIngress` or `...Egress`: all of the rules or none.
    fn authorize<'a>(&'a self, group: &'a str, direction: Direction, rules: &'a BTreeSet<Rule>) -> Call<'a, ()>;
    /// `RevokeSecurityGroupIngress` or `...Egress`.
    fn revoke<'a>(&'a self, group: &'a str, direction: Direction, rules: &'a BTreeSet<Rule>) -> Call<'a, ()>;
    /// `DescribeSubnets`.
    fn describe_subnets<'a>(&'a self, filter: &'a SubnetFilter) -> Call<'a, Vec<Subnet>>;
    /// `DescribeRouteTables` of a VPC.
    fn describe_route_tables<'a>(&'a self, vpc: &'a str) -> Call<'a, Vec<RouteTable>>;
    /// `DescribeAvailabilityZones`: all of the region.
    fn describe_availability_zones(&self) -> Call<'_, Vec<AvailabilityZone>>;
    /// `DescribeInstances`.
    fn describe_instances<'a>(&'a self, filter: &'a InstanceFilter) -> Call<'a, Vec<Instance>>;
    /// `CreateRoute`.
    fn create_route<'a>(&'a self, table: &'a str, to: Cidr, via: &'a RouteTarget) -> Call<'a, ()>;
    /// `DeleteRoute`.
    fn delete_route<'a>(&'a self, table: &'a str, to: Cidr) -> Call<'a, ()>;
    /// `ModifyInstanceAttribute`: whether packets that are not the instance's own are dropped.
    fn set_source_dest_check<'a>(&'a self, instance: &'a str, check: bool) -> Call<'a, ()>;
    /// `CreateTags` on EC2 resources: adds or overwrites.
    fn create_tags<'a>(&'a self, ids: &'a [String], tags: &'a Tags) -> Call<'a, ()>;
    /// Whether a change would be permitted (`DryRun`); nothing is done.
    fn try_out<'a>(&'a self, trial: Trial<'a>) -> Call<'a, ()>;
}
