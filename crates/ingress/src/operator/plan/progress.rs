//! What only a new load balancer can bring, and how the administrator gets it, or goes back.

use super::{
    Input,
    balancer::{self, annotation, subnet_list},
    change::first_family_differs,
    live,
};
use crate::operator::names;
use api::config::{LoadBalancerKind, Scope, Subnets};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Something that the live load balancer has and the IngressController wants differently.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// Its type on AWS, with the subnets and the elastic addresses that the live one has.
    Kind(LoadBalancerKind, LoadBalancerKind, [BTreeSet<String>; 2]),
    /// Who reaches it.
    Scope(Scope, Scope),
    /// Its subnets on AWS.
    Subnets(BTreeSet<String>, Subnets),
    /// Its elastic addresses.
    Addresses(BTreeSet<String>, Vec<String>),
    /// Its first family.
    Families(Vec<String>, Vec<String>),
    /// Its address on OpenStack.
    FloatingIp(String, String),
}

/// All of them. While the type differs, what depends on it is not looked at.
pub fn differences(input: Input<'_>, live: &Service) -> Vec<Difference> {
    // As if there were no live one: what a new Service would be like.
    let Some(fresh) = balancer::wanted(input, None) else { return Vec::new() };
    let strategy = &input.admission.strategy;
    let mut found = Vec::new();
    let scope = strategy.load_balancer.as_ref().map_or(Scope::External, |balancer| balancer.scope);
    let current = live_scope(input, live);
    if current != scope {
        found.push(Difference::Scope(current, scope));
    }
    if let Some(aws) = strategy.aws().filter(|_| input.cluster.is("AWS")) {
        let kind = live::kind(live);
        if kind != aws.kind {
            let has = [annotation::AWS_SUBNETS, annotation::AWS_EIP].map(|key| words(live, key));
            found.insert(0, Difference::Kind(kind, aws.kind, has));
            return found;
        }
        let (subnets, addresses) = match aws.kind {
            LoadBalancerKind::Classic => {
                (aws.classic_load_balancer.as_ref().and_then(|classic| classic.subnets.clone()), Vec::new())
            }
            LoadBalancerKind::Nlb => {
                let network = aws.network_load_balancer.clone().unwrap_or_default();
                (network.subnets, network.eip_allocations)
            }
        };
        let subnets = subnets.unwrap_or_default();
        let current = words(live, annotation::AWS_SUBNETS);
        if current != subnet_list(&subnets).into_iter().collect() {
            found.push(Difference::Subnets(current, subnets));
        }
        let current = words(live, annotation::AWS_EIP);
        if current != addresses.iter().cloned().collect() {
            found.push(Difference::Addresses(current, addresses));
        }
    }
    if first_family_differs(live, &fresh) {
        let list =
            |service: &Service| service.spec.as_ref().and_then(|spec| spec.ip_families.clone()).unwrap_or_default();
        found.push(Difference::Families(list(live), list(&fresh)));
    }
    let address =
        |service: &Service| service.spec.as_ref().and_then(|spec| spec.load_balancer_ip.clone()).unwrap_or_default();
    if input.cluster.is("OpenStack") && address(live) != address(&fresh) {
        found.push(Difference::FloatingIp(address(live), address(&fresh)));
    }
    found
}

fn words(service: &Service, key: &str) -> BTreeSet<String> {
    let text = service.annotations().get(key).map(String::as_str).unwrap_or_default();
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Who reaches the live load balancer.
pub fn live_scope(input: Input<'_>, live: &Service) -> Scope {
    let value = |key: &str| live.annotations().get(key).map(String::as_str);
    let internal = match input.cluster.platform.as_deref().unwrap_or_default() {
        "AWS" => matches!(value(annotation::AWS_INTERNAL), Some("true" | "0.0.0.0/0")),
        "Azure" => value(annotation::AZURE_INTERNAL) == Some("true"),
        "GCP" => value(annotation::GCP_TYPE) == Some("Internal"),
        "IBMCloud" | "PowerVS" => value(annotation::IBM_IP_TYPE) == Some("private"),
        "OpenStack" => value(annotation::OPENSTACK_INTERNAL) == Some("true"),
        // Nothing tells: it is as it is wanted.
        _ => return input.admission.strategy.load_balancer.as_ref().map_or(Scope::External, |some| some.scope),
    };
    if internal { Scope::Internal } else { Scope::External }
}

/// Whether the platform changes this in place.
pub fn changes_in_place(input: Input<'_>, difference: &Difference) -> bool {
    matches!(difference, Difference::Scope(..)) && (input.cluster.is("Azure") || input.cluster.is("GCP"))
}

/// What differs, in half a sentence.
pub fn summary(input: Input<'_>, difference: &Difference) -> String {
    describe(input, difference).0
}

/// What to tell about a difference: what differs, how to go on, what that costs, how to go back.
pub fn message(input: Input<'_>, difference: &Difference) -> String {
    let (what, back) = describe(input, difference);
    if changes_in_place(input, difference) {
        return format!("{what}.");
    }
    let mut text = format!(
        "{what}. To bring this about, delete the Service, and a new load balancer is made: `oc -n {} delete svc/{}`. The new one \
         has another host name or address, and until it is ready and DNS has followed, traffic is interrupted.",
        names::OPERAND_NAMESPACE,
        input.names.router,
    );
    if let Some(back) = back {
        text.push_str(&format!(
            " To keep the load balancer instead, take the change back: `oc -n {} patch ingresscontrollers/{} --type=merge --patch='{}'`.",
            names::OPERATOR_NAMESPACE,
            input.names.controller,
            // In JSON an apostrophe may be written so, and the shell does not end its quotes at it.
            back.to_string().replace('\'', "\\u0027"),
        ));
    }
    if input.cluster.is_dual_stack_aws() && matches!(difference, Difference::Kind(_, LoadBalancerKind::Classic, _)) {
        text.push_str(&format!(
            " Note that a Classic load balancer does not support dual-stack: this IngressController will be reached over IPv4 only, \
             although the cluster's IP family is {}. Use type NLB for both families.",
            input.cluster.ip_family.name(),
        ));
    }
    text
}

/// For a patch: what is empty is taken away, because the schema refuses what is left empty.
fn subnet_fields(subnets: &BTreeSet<String>) -> Value {
    let (ids, names): (Vec<_>, Vec<_>) = subnets.iter().partition(|subnet| subnet.starts_with("subnet-"));
    let list = |list: Vec<&String>| if list.is_empty() { Value::Null } else { json!(list) };
    match subnets.is_empty() {
        true => Value::Null,
        false => json!({"ids": list(ids), "names": list(names)}),
    }
}

fn describe(input: Input<'_>, difference: &Difference) -> (String, Option<Value>) {
    let in_balancer = |value: Value| {
        json!({"spec": {"endpointPublishingStrategy": {
            "type": "LoadBalancerService", "loadBalancer": value,
        }}})
    };
    let in_aws = |value: Value| in_balancer(json!({"providerParameters": {"type": "AWS", "aws": value}}));
    let listed = |set: &BTreeSet<String>| match set.is_empty() {
        true => "none given".to_owned(),
        false => set.iter().cloned().collect::<Vec<_>>().join(", "),
    };
    let kind = input.admission.strategy.aws().map_or(LoadBalancerKind::Classic, |aws| aws.kind);
    let block = |kind: LoadBalancerKind| match kind {
        LoadBalancerKind::Classic => "classicLoadBalancer",
        LoadBalancerKind::Nlb => "networkLoadBalancer",
    };
    match difference {
        Difference::Kind(from, to, [subnets, addresses]) => {
            let mut back = json!({"type": from.name()});
            // Without what the live one has, going back would only be the next change.
            if !subnets.is_empty() {
                back[block(*from)]["subnets"] = subnet_fields(subnets);
            }
            if !addresses.is_empty() {
                back[block(*from)]["eipAllocations"] = json!(addresses);
            }
            (format!("The load balancer's type is to change from {} to {}", from.name(), to.name()), Some(in_aws(back)))
        }
        Difference::Scope(from, to) => (
            format!("The load balancer's scope is to change from {} to {}", from.name(), to.name()),
            Some(in_balancer(json!({"scope": from.name()}))),
        ),
        Difference::Subnets(from, to) => {
            let wanted = subnet_list(to).into_iter().collect();
            (
                format!("The load balancer's subnets are to change from {} to {}", listed(from), listed(&wanted)),
                Some(in_aws(json!({"type": kind.name(), (block(kind)): {"subnets": subnet_fields(from)}}))),
            )
        }
        Difference::Addresses(from, to) => {
            let wanted = to.iter().cloned().collect();
            (
                format!(
                    "The load balancer's elastic addresses are to change from {} to {}",
                    listed(from),
                    listed(&wanted)
                ),
                Some(in_aws(
                    json!({"type": kind.name(), (block(kind)): {"eipAllocations": (!from.is_empty()).then_some(from)}}),
                )),
            )
        }
        // The cluster's own, which no IngressController can take back.
        Difference::Families(from, to) => {
            (format!("The Service's IP families are to change from {} to {}", from.join(", "), to.join(", ")), None)
        }
        Difference::FloatingIp(from, to) => (
            format!("The load balancer's floating IP is to change from {from:?} to {to:?}"),
            Some(in_balancer(json!({"providerParameters": {"type": "OpenStack", "openstack": {"floatingIP": from}}}))),
        ),
    }
}
