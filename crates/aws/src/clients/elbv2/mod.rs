//! Network load balancers: the API of 2015-12-01.

mod listeners;
mod load_balancers;
mod target_groups;

use super::{
    actions::{self, Action},
    query::{Form, Query},
    tags::{Tagged, pairs},
    xml::Element,
};
use crate::account::{
    Attributes, AwsError, Call, HealthCheck, IpAddressType, Listener, ListenerSettings, LoadBalancer,
    NetworkLoadBalancers, NewListener, NewLoadBalancer, NewTargetGroup, SubnetMapping, Tags, Target, TargetGroup,
    TargetGroupFilter, TargetHealth,
};
use std::collections::{BTreeMap, BTreeSet};

const TAGGED: Tagged = Tagged { list: "ResourceArns", one: "ResourceArn" };

/// A client of one region.
#[derive(Clone, Debug)]
pub(super) struct Elbv2Client {
    pub(super) query: Query,
}

impl Elbv2Client {
    /// Makes a call that takes something away. That there is none is fine.
    async fn remove(&self, action: Action, form: Form) -> Result<(), AwsError> {
        match self.query.change(action, form).await {
            Err(error) if error.is_not_found() => Ok(()),
            outcome => outcome,
        }
    }

    /// Makes a call that makes something, which is the first of a list in the answer.
    async fn create<T>(
        &self,
        action: Action,
        form: Form,
        list: &str,
        read: impl Fn(&Element) -> T,
    ) -> Result<T, AwsError> {
        let answer = self.query.ask(action, &form).await?;
        answer.items(list).next().map(read).ok_or_else(|| {
            let message = format!("{} answered without what it made", action.name);
            AwsError::Other { code: "EmptyAnswer".to_owned(), message, request_id: String::new() }
        })
    }

    async fn attributes(&self, action: Action, form: Form) -> Result<Attributes, AwsError> {
        let answer = self.query.ask(action, &form).await?;
        Ok(pairs(&answer, "Attributes"))
    }
}

/// A form with one key.
fn form(name: &str, value: &str) -> Form {
    let mut form = Form::default();
    form.set(name, value);
    form
}

/// What does not exist is left out.
fn or_nothing<T>(outcome: Result<Vec<T>, AwsError>) -> Result<Vec<T>, AwsError> {
    match outcome {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        outcome => outcome,
    }
}

impl NetworkLoadBalancers for Elbv2Client {
    fn describe_load_balancers<'a>(&'a self, name: Option<&'a str>) -> Call<'a, Vec<LoadBalancer>> {
        let mut form = Form::default();
        form.some("Names.member.1", name);
        let all = self.query.list(actions::DESCRIBE_LOAD_BALANCERS, form, "LoadBalancers", load_balancers::read);
        Box::pin(async move { or_nothing(all.await) })
    }

    fn create_load_balancer<'a>(&'a self, new: &'a NewLoadBalancer) -> Call<'a, LoadBalancer> {
        let form = load_balancers::new_form(new);
        Box::pin(self.create(actions::CREATE_LOAD_BALANCER, form, "LoadBalancers", load_balancers::read))
    }

    fn delete_load_balancer<'a>(&'a self, arn: &'a str) -> Call<'a, ()> {
        Box::pin(self.remove(actions::DELETE_LOAD_BALANCER, form("LoadBalancerArn", arn)))
    }

    fn set_security_groups<'a>(&'a self, arn: &'a str, groups: &'a BTreeSet<String>) -> Call<'a, ()> {
        let mut form = form("LoadBalancerArn", arn);
        form.members("SecurityGroups", groups);
        Box::pin(self.query.change(actions::SET_SECURITY_GROUPS, form))
    }

    fn set_ip_address_type<'a>(&'a self, arn: &'a str, kind: IpAddressType) -> Call<'a, ()> {
        let mut form = form("LoadBalancerArn", arn);
        form.set("IpAddressType", load_balancers::address_type(kind));
        Box::pin(self.query.change(actions::SET_IP_ADDRESS_TYPE, form))
    }

    fn set_subnets<'a>(&'a self, arn: &'a str, subnets: &'a [SubnetMapping], ipv6_source_nat: bool) -> Call<'a, ()> {
        let mut form = form("LoadBalancerArn", arn);
        load_balancers::subnets(&mut form, subnets, ipv6_source_nat);
        Box::pin(self.query.change(actions::SET_SUBNETS, form))
    }

    fn describe_load_balancer_attributes<'a>(&'a self, arn: &'a str) -> Call<'a, Attributes> {
        Box::pin(self.attributes(actions::DESCRIBE_LOAD_BALANCER_ATTRIBUTES, form("LoadBalancerArn", arn)))
    }

    fn modify_load_balancer_attributes<'a>(&'a self, arn: &'a str, set: &'a Attributes) -> Call<'a, ()> {
        let mut form = form("LoadBalancerArn", arn);
        form.tags("Attributes.member", set);
        Box::pin(self.query.change(actions::MODIFY_LOAD_BALANCER_ATTRIBUTES, form))
    }

    fn describe_target_groups<'a>(&'a self, filter: TargetGroupFilter<'a>) -> Call<'a, Vec<TargetGroup>> {
        let form = match filter {
            TargetGroupFilter::All => Form::default(),
            TargetGroupFilter::Of(arn) => form("LoadBalancerArn", arn),
        };
        let all = self.query.list(actions::DESCRIBE_TARGET_GROUPS, form, "TargetGroups", target_groups::read);
        Box::pin(async move { or_nothing(all.await) })
    }

    fn create_target_group<'a>(&'a self, new: &'a NewTargetGroup) -> Call<'a, TargetGroup> {
        let form = target_groups::new_form(new);
        Box::pin(self.create(actions::CREATE_TARGET_GROUP, form, "TargetGroups", target_groups::read))
    }

    fn modify_target_group<'a>(&'a self, arn: &'a str, check: &'a HealthCheck) -> Call<'a, ()> {
        let mut form = form("TargetGroupArn", arn);
        target_groups::health_check(&mut form, check);
        Box::pin(self.query.change(actions::MODIFY_TARGET_GROUP, form))
    }

    fn delete_target_group<'a>(&'a self, arn: &'a str) -> Call<'a, ()> {
        Box::pin(self.remove(actions::DELETE_TARGET_GROUP, form("TargetGroupArn", arn)))
    }

    fn describe_target_group_attributes<'a>(&'a self, arn: &'a str) -> Call<'a, Attributes> {
        Box::pin(self.attributes(actions::DESCRIBE_TARGET_GROUP_ATTRIBUTES, form("TargetGroupArn", arn)))
    }

    fn modify_target_group_attributes<'a>(&'a self, arn: &'a str, set: &'a Attributes) -> Call<'a, ()> {
        let mut form = form("TargetGroupArn", arn);
        form.tags("Attributes.member", set);
        Box::pin(self.query.change(actions::MODIFY_TARGET_GROUP_ATTRIBUTES, form))
    }

    fn describe_target_health<'a>(&'a self, arn: &'a str) -> Call<'a, Vec<TargetHealth>> {
        Box::pin(async move {
            let form = form("TargetGroupArn", arn);
            let answer = self.query.ask(actions::DESCRIBE_TARGET_HEALTH, &form).await?;
            Ok(answer.items("TargetHealthDescriptions").filter_map(target_groups::read_health).collect())
        })
    }

    fn register_targets<'a>(&'a self, arn: &'a str, targets: &'a BTreeSet<Target>) -> Call<'a, ()> {
        Box::pin(self.register(arn, targets))
    }

    fn deregister_targets<'a>(&'a self, arn: &'a str, targets: &'a BTreeSet<Target>) -> Call<'a, ()> {
        Box::pin(self.deregister(arn, targets))
    }

    fn describe_listeners<'a>(&'a self, load_balancer: &'a str) -> Call<'a, Vec<Listener>> {
        let form = form("LoadBalancerArn", load_balancer);
        Box::pin(self.query.list(actions::DESCRIBE_LISTENERS, form, "Listeners", listeners::read))
    }

    fn create_listener<'a>(&'a self, new: &'a NewListener) -> Call<'a, Listener> {
        let form = listeners::new_form(new);
        Box::pin(self.create(actions::CREATE_LISTENER, form, "Listeners", listeners::read))
    }

    fn modify_listener<'a>(&'a self, arn: &'a str, settings: &'a ListenerSettings) -> Call<'a, ()> {
        let mut form = form("ListenerArn", arn);
        listeners::settings(&mut form, settings);
        Box::pin(self.query.change(actions::MODIFY_LISTENER, form))
    }

    fn delete_listener<'a>(&'a self, arn: &'a str) -> Call<'a, ()> {
        Box::pin(self.remove(actions::DELETE_LISTENER, form("ListenerArn", arn)))
    }

    fn describe_listener_certificates<'a>(&'a self, listener: &'a str) -> Call<'a, BTreeSet<String>> {
        let form = form("ListenerArn", listener);
        let all =
            self.query.list(actions::DESCRIBE_LISTENER_CERTIFICATES, form, "Certificates", listeners::read_certificate);
        Box::pin(async move { Ok(all.await?.into_iter().flatten().collect()) })
    }

    fn add_listener_certificates<'a>(&'a self, listener: &'a str, arns: &'a BTreeSet<String>) -> Call<'a, ()> {
        Box::pin(self.each_certificate(actions::ADD_LISTENER_CERTIFICATES, listener, arns))
    }

    fn remove_listener_certificates<'a>(&'a self, listener: &'a str, arns: &'a BTreeSet<String>) -> Call<'a, ()> {
        Box::pin(self.each_certificate(actions::REMOVE_LISTENER_CERTIFICATES, listener, arns))
    }

    fn describe_tags<'a>(&'a self, arns: &'a [String]) -> Call<'a, BTreeMap<String, Tags>> {
        Box::pin(TAGGED.describe(&self.query, arns))
    }

    fn add_tags<'a>(&'a self, arns: &'a [String], tags: &'a Tags) -> Call<'a, ()> {
        Box::pin(TAGGED.add(&self.query, arns, tags))
    }
}
