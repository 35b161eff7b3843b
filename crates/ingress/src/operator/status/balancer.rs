//! Conditions of the load balancer: whether there is to be one, whether it is there, whether it is as wanted.

use super::{Observed, condition, dns};
use crate::operator::plan::{Input, balancer::annotation, live, progress};
use api::config::{LoadBalancerKind, OperatorCondition, PublishingKind};
use net::Family;

pub fn conditions(input: Input<'_>, observed: Observed<'_>) -> Vec<OperatorCondition> {
    let kind = input.admission.strategy.kind;
    let managed = kind == PublishingKind::LoadBalancerService;
    if !managed {
        return vec![
            condition(
                "LoadBalancerManaged",
                "False",
                "EndpointPublishingStrategyExcludesManagedLoadBalancer",
                format!("The strategy {} has no load balancer of the operator's.", kind.name()),
            ),
            progressing(input, observed),
        ];
    }
    let mut all = vec![
        condition(
            "LoadBalancerManaged",
            "True",
            "WantedByEndpointPublishingStrategy",
            "The strategy wants a load balancer.",
        ),
        ready(observed),
        progressing(input, observed),
    ];
    all.extend(dual_stack(input, observed));
    all
}

fn ready(observed: Observed<'_>) -> OperatorCondition {
    let kind = "LoadBalancerReady";
    let Some(service) = observed.balancer else {
        return condition(kind, "False", "ServiceNotFound", "The load balancer Service is not there.");
    };
    let ingress = service.status.as_ref().and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
    if ingress.is_some_and(|list| !list.is_empty()) {
        return condition(kind, "True", "LoadBalancerProvisioned", "The load balancer is there.");
    }
    match observed.complaint {
        Some(complaint) => {
            let message = format!("The service controller says: {complaint}");
            condition(kind, "False", "SyncLoadBalancerFailed", message)
        }
        None => condition(kind, "False", "LoadBalancerPending", "The load balancer is being made."),
    }
}

fn progressing(input: Input<'_>, observed: Observed<'_>) -> OperatorCondition {
    let kind = "LoadBalancerProgressing";
    let strategy = &input.admission.strategy;
    let still = |message: &str| condition(kind, "False", "LoadBalancerNotProgressing", message);
    if strategy.kind != PublishingKind::LoadBalancerService {
        return still("There is no load balancer to bring up to date.");
    }
    if strategy.load_balancer.is_none() {
        return condition(kind, "Unknown", "StatusIncomplete", "What load balancer is wanted is not known yet.");
    }
    let Some(service) = observed.balancer else {
        return condition(kind, "True", "NoService", "The load balancer Service is not there yet.");
    };
    let found = progress::differences(input, service);
    let mut messages: Vec<String> = found.iter().map(|difference| progress::message(input, difference)).collect();
    let asked = strategy.load_balancer.as_ref().and_then(|balancer| balancer.allowed_source_ranges.clone());
    let live = live::source_ranges(service);
    if asked.unwrap_or_default().is_empty() && !live.is_empty() {
        messages.push(format!(
            "The Service admits only {}, which the IngressController does not ask for. To make it the operator's, set \
             spec.endpointPublishingStrategy.loadBalancer.allowedSourceRanges to it; to admit everybody, clear \
             spec.loadBalancerSourceRanges of the Service, and its annotation {}.",
            live.join(", "),
            annotation::SOURCE_RANGES,
        ));
    }
    match messages.is_empty() {
        true => still("The load balancer is as wanted."),
        false => condition(kind, "True", "OperandsProgressing", messages.join(" ")),
    }
}

/// On a dual-stack cluster it is said for good whether clients of both families are served: by what the Service has, what was
/// made of it, and what the zones have, not by what was asked for.
fn dual_stack(input: Input<'_>, observed: Observed<'_>) -> Option<OperatorCondition> {
    let effective = live::effective_kind(input, observed.balancer).filter(|_| input.cluster.is_dual_stack_aws())?;
    let family = input.cluster.ip_family.name();
    let said =
        |status: &str, reason: &str, message: String| condition("LoadBalancerDualStack", status, reason, message);
    if effective == LoadBalancerKind::Classic {
        let message = format!(
            "The cluster's IP family is {family}, but a Classic load balancer does not support dual-stack: this \
             IngressController is reached over IPv4 only. Use type NLB for both families."
        );
        return Some(said("False", "ClassicLoadBalancerIsIPv4Only", message));
    }
    let Some(service) = observed.balancer else {
        return Some(said("Unknown", "ServiceNotFound", "The load balancer Service is not there.".to_owned()));
    };
    let families = service.spec.as_ref().and_then(|spec| spec.ip_families.clone()).unwrap_or_default();
    let missing: Vec<String> =
        Family::BOTH.iter().map(ToString::to_string).filter(|name| !families.contains(name)).collect();
    if !missing.is_empty() {
        let message =
            format!("The cluster's IP family is {family}, but the Service has no {}.", missing.join(" and no "));
        return Some(said("False", "ServiceLacksFamily", message));
    }
    let entries = service.status.as_ref().and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
    let Some(host) = entries.and_then(|list| list.iter().find_map(|entry| entry.hostname.clone())) else {
        return Some(said("Unknown", "LoadBalancerPending", "The load balancer is not there yet.".to_owned()));
    };
    let records = dns::conditions(input, observed.record).into_iter().find(|one| one.kind == "DNSReady");
    Some(match records {
        Some(records) if records.status == "False" => {
            let message =
                format!("{host} has both families, but its records A and AAAA are not published: {}", records.message);
            said("False", "RecordsNotPublished", message)
        }
        Some(records) if records.status == "True" => {
            let message =
                format!("{host} has both families, as {family} says, and all zones have A and AAAA that lead there.");
            said("True", "NetworkLoadBalancer", message)
        }
        _ => {
            let message = format!("{host} has both families, as {family} says; its records are somebody else's.");
            said("True", "NetworkLoadBalancer", message)
        }
    })
}
