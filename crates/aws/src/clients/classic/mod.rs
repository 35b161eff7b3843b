//! Classic load balancers: the API of 2012-06-01.

mod attributes;
mod policies;
mod read;

use super::{
    actions,
    query::{Form, Query},
    tags::Tagged,
};
use crate::account::{
    Call, ClassicAttributes, ClassicHealthCheck, ClassicListener, ClassicLoadBalancer, ClassicLoadBalancers,
    ClassicPolicy, NewClassicLoadBalancer, Scheme, Tags,
};
use std::collections::{BTreeMap, BTreeSet};

const TAGGED: Tagged = Tagged { list: "LoadBalancerNames", one: "LoadBalancerName" };

/// A client of one region.
#[derive(Clone, Debug)]
pub(super) struct ClassicClient {
    pub(super) query: Query,
}

/// A form about a load balancer.
fn form(name: &str) -> Form {
    let mut form = Form::default();
    form.set("LoadBalancerName", name);
    form
}

/// A form about a load balancer with a list.
fn form_with<'a>(name: &str, list: &str, values: impl IntoIterator<Item = &'a String>) -> Form {
    let mut form = form(name);
    form.members(list, values);
    form
}

fn instances_form(name: &str, instances: &BTreeSet<String>) -> Form {
    let mut form = form(name);
    for (number, id) in (1..).zip(instances) {
        form.set(format!("Instances.member.{number}.InstanceId"), id);
    }
    form
}

fn listeners(form: &mut Form, listeners: &[ClassicListener]) {
    for (number, listener) in (1..).zip(listeners) {
        let key = |name: &str| format!("Listeners.member.{number}.{name}");
        form.set(key("Protocol"), &listener.protocol);
        form.set(key("LoadBalancerPort"), listener.load_balancer_port.to_string());
        form.set(key("InstanceProtocol"), &listener.instance_protocol);
        form.set(key("InstancePort"), listener.instance_port.to_string());
        form.some(&key("SSLCertificateId"), listener.certificate.as_ref());
    }
}

impl ClassicLoadBalancers for ClassicClient {
    fn describe_classic<'a>(&'a self, name: Option<&'a str>) -> Call<'a, Vec<ClassicLoadBalancer>> {
        Box::pin(async move {
            let mut form = Form::default();
            form.some("LoadBalancerNames.member.1", name);
            let mut all = Vec::new();
            let read = |page: &super::xml::Element| {
                all.extend(page.items("LoadBalancerDescriptions").map(read::load_balancer));
            };
            match self.query.pages(actions::DESCRIBE_LOAD_BALANCERS, &form, read).await {
                Err(error) if error.is_not_found() => Ok(Vec::new()),
                outcome => outcome.map(|()| all),
            }
        })
    }

    fn create_classic<'a>(&'a self, new: &'a NewClassicLoadBalancer) -> Call<'a, String> {
        let NewClassicLoadBalancer { name, scheme, listeners: wanted, subnets, security_groups, tags } = new;
        let mut form = form(name);
        listeners(&mut form, wanted);
        form.members("Subnets", subnets);
        form.members("SecurityGroups", security_groups);
        // Without a word it is public.
        if *scheme == Scheme::Internal {
            form.set("Scheme", "internal");
        }
        form.tags("Tags.member", tags);
        Box::pin(async move {
            let answer = self.query.ask(actions::CREATE_LOAD_BALANCER, &form).await?;
            Ok(answer.text(&["DNSName"]).to_owned())
        })
    }

    fn delete_classic<'a>(&'a self, name: &'a str) -> Call<'a, ()> {
        Box::pin(async move {
            match self.query.change(actions::DELETE_LOAD_BALANCER, form(name)).await {
                Err(error) if error.is_not_found() => Ok(()),
                outcome => outcome,
            }
        })
    }

    fn attach_classic_subnets<'a>(&'a self, name: &'a str, subnets: &'a BTreeSet<String>) -> Call<'a, ()> {
        Box::pin(self.query.change(actions::ATTACH_LOAD_BALANCER_TO_SUBNETS, form_with(name, "Subnets", subnets)))
    }

    fn detach_classic_subnets<'a>(&'a self, name: &'a str, subnets: &'a BTreeSet<String>) -> Call<'a, ()> {
        Box::pin(self.query.change(actions::DETACH_LOAD_BALANCER_FROM_SUBNETS, form_with(name, "Subnets", subnets)))
    }

    fn apply_classic_groups<'a>(&'a self, name: &'a str, groups: &'a BTreeSet<String>) -> Call<'a, ()> {
        Box::pin(self.query.change(actions::APPLY_SECURITY_GROUPS, form_with(name, "SecurityGroups", groups)))
    }

    fn create_classic_listeners<'a>(&'a self, name: &'a str, new: &'a [ClassicListener]) -> Call<'a, ()> {
        let mut form = form(name);
        listeners(&mut form, new);
        Box::pin(self.query.change(actions::CREATE_LISTENERS, form))
    }

    fn delete_classic_listeners<'a>(&'a self, name: &'a str, ports: &'a BTreeSet<u16>) -> Call<'a, ()> {
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        Box::pin(self.query.change(actions::DELETE_LISTENERS, form_with(name, "LoadBalancerPorts", &ports)))
    }

    fn configure_classic_health_check<'a>(&'a self, name: &'a str, check: &'a ClassicHealthCheck) -> Call<'a, ()> {
        let ClassicHealthCheck { target, interval, timeout, healthy, unhealthy } = check;
        let mut form = form(name);
        form.set("HealthCheck.Target", target);
        form.set("HealthCheck.Interval", interval.to_string());
        form.set("HealthCheck.Timeout", timeout.to_string());
        form.set("HealthCheck.UnhealthyThreshold", unhealthy.to_string());
        form.set("HealthCheck.HealthyThreshold", healthy.to_string());
        Box::pin(self.query.change(actions::CONFIGURE_HEALTH_CHECK, form))
    }

    fn register_classic_instances<'a>(&'a self, name: &'a str, instances: &'a BTreeSet<String>) -> Call<'a, ()> {
        Box::pin(self.query.change(actions::REGISTER_INSTANCES, instances_form(name, instances)))
    }

    fn deregister_classic_instances<'a>(&'a self, name: &'a str, instances: &'a BTreeSet<String>) -> Call<'a, ()> {
        Box::pin(self.query.change(actions::DEREGISTER_INSTANCES, instances_form(name, instances)))
    }

    fn describe_classic_attributes<'a>(&'a self, name: &'a str) -> Call<'a, ClassicAttributes> {
        Box::pin(async move {
            let answer = self.query.ask(actions::DESCRIBE_LOAD_BALANCER_ATTRIBUTES, &form(name)).await?;
            Ok(answer.child("LoadBalancerAttributes").map(attributes::read).unwrap_or_default())
        })
    }

    fn modify_classic_attributes<'a>(&'a self, name: &'a str, set: &'a ClassicAttributes) -> Call<'a, ()> {
        let mut form = form(name);
        attributes::write(&mut form, set);
        Box::pin(self.query.change(actions::MODIFY_LOAD_BALANCER_ATTRIBUTES, form))
    }

    fn create_classic_policy<'a>(&'a self, name: &'a str, policy: &'a ClassicPolicy) -> Call<'a, ()> {
        Box::pin(self.create_policy(name, policy))
    }

    fn set_classic_backend_policies<'a>(&'a self, name: &'a str, port: u16, policies: &'a [String]) -> Call<'a, ()> {
        let mut form = form_with(name, "PolicyNames", policies);
        form.set("InstancePort", port.to_string());
        Box::pin(self.query.change(actions::SET_BACKEND_POLICIES, form))
    }

    fn set_classic_listener_policies<'a>(&'a self, name: &'a str, port: u16, policies: &'a [String]) -> Call<'a, ()> {
        let mut form = form_with(name, "PolicyNames", policies);
        form.set("LoadBalancerPort", port.to_string());
        Box::pin(self.query.change(actions::SET_LISTENER_POLICIES, form))
    }

    fn describe_classic_tags<'a>(&'a self, names: &'a [String]) -> Call<'a, BTreeMap<String, Tags>> {
        Box::pin(TAGGED.describe(&self.query, names))
    }

    fn add_classic_tags<'a>(&'a self, name: &'a str, tags: &'a Tags) -> Call<'a, ()> {
        Box::pin(async move { TAGGED.add(&self.query, &[name.to_owned()], tags).await })
    }
}
