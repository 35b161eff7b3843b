//! The status of an IngressController: what is observed becomes conditions, conditions become Available, Progressing, Degraded.

pub mod balancer;
pub mod dns;
pub mod fold;
pub mod merge;
pub mod operand;
#[cfg(test)]
mod tests;

use super::{
    names::{self, Names},
    objects::{DnsRecord, IngressController},
    plan::{Input, balancer::annotation, live, tls},
};
use api::config::{IngressControllerStatus, LoadBalancerKind, OperatorCondition, Publishing, PublishingKind, Subnets};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use operand::Operand;
use std::time::Duration;

/// What was seen after everything was applied.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The routers.
    pub operand: &'a Operand,
    /// The load balancer Service, if there is one.
    pub balancer: Option<&'a Service>,
    /// What the service controller last complained of, if it did.
    pub complaint: Option<&'a str>,
    /// The wildcard record, if there is one.
    pub record: Option<&'a DnsRecord>,
    /// What there is to say against the default certificate.
    pub certificate: Option<&'a str>,
    /// What went wrong while applying.
    pub failures: &'a [String],
}

/// Conditions that are made here; what is none of these is kept.
const OWN: [&str; 18] = [
    "ConfigurationAccepted",
    "Admitted",
    "DeploymentAvailable",
    "DeploymentReplicasMinAvailable",
    "DeploymentReplicasAllAvailable",
    "DeploymentRollingOut",
    "LoadBalancerManaged",
    "LoadBalancerReady",
    "LoadBalancerProgressing",
    "LoadBalancerDualStack",
    "DNSManaged",
    "DNSReady",
    "Reconciled",
    "Available",
    "Progressing",
    "Degraded",
    "Upgradeable",
    "EvaluationConditionsDetected",
];

/// A condition without its time.
pub fn condition(kind: &str, status: &str, reason: &str, message: impl Into<String>) -> OperatorCondition {
    OperatorCondition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        last_transition_time: String::new(),
    }
}

/// The status, and when it has to be looked at again though nothing changes.
pub fn status(input: Input<'_>, observed: Observed<'_>, now: Timestamp) -> (IngressControllerStatus, Option<Duration>) {
    let before = input.controller.status.clone().unwrap_or_default();
    let mut conditions = vec![admitted(&input.admission.without_effect)];
    conditions.extend(operand::conditions(observed.operand));
    conditions.extend(balancer::conditions(input, observed));
    conditions.extend(dns::conditions(input, observed.record));
    conditions.extend([upgradeable(observed.certificate), nothing_to_evaluate()]);
    conditions.push(match observed.failures {
        [] => condition("Reconciled", "True", "AsWanted", "Everything was written."),
        failures => condition("Reconciled", "False", "Failed", failures.join("; ")),
    });
    let mut conditions = merge::merge(&before.conditions, conditions, now);
    // Those that others write, such as the one of the canary.
    conditions.extend(before.conditions.iter().filter(|known| !OWN.contains(&known.kind.as_str())).cloned());
    let folded = fold::fold(&conditions, input.names.controller == names::DEFAULT, now);
    conditions = merge::with(&before.conditions, conditions, folded.conditions, now);
    let status = IngressControllerStatus {
        domain: Some(input.admission.domain.clone()),
        endpoint_publishing_strategy: Some(strategy(input, observed.balancer)),
        observed_generation: input.controller.metadata.generation,
        available_replicas: Some(observed.operand.available),
        tls_profile: Some(tls::spelt_out(&tls::resolve(tls::profile(input)))),
        namespace_selector: input.controller.spec.namespace_selector.clone(),
        route_selector: input.controller.spec.route_selector.clone(),
        selector: selector(input.names),
        conditions,
        rest: before.rest,
    };
    (status, folded.look_again)
}

/// The status of one that was refused: it goes on as it was, and says why it does not follow.
pub fn refused(controller: &IngressController, wrong: &[String], now: Timestamp) -> IngressControllerStatus {
    let mut status = controller.status.clone().unwrap_or_default();
    let refusal = condition("Admitted", "False", "Invalid", wrong.join("; "));
    let kept = status.conditions.clone();
    status.conditions = merge::with(&kept, kept.clone(), vec![refusal], now);
    let folded = fold::fold(&status.conditions, controller.name_any() == names::DEFAULT, now);
    status.conditions = merge::with(&kept, status.conditions, folded.conditions, now);
    status.observed_generation = controller.metadata.generation;
    status
}

fn upgradeable(certificate: Option<&str>) -> OperatorCondition {
    match certificate {
        None => condition("Upgradeable", "True", "Upgradeable", "Nothing stands in the way of a newer version."),
        Some(complaint) => condition("Upgradeable", "False", "OperandsNotUpgradeable", complaint),
    }
}

/// Upstream tells so of managed annotations that somebody has changed; here these are put right at once.
fn nothing_to_evaluate() -> OperatorCondition {
    condition(
        "EvaluationConditionsDetected",
        "False",
        "NoEvaluationCondition",
        "Nothing of the operator's is changed by hand.",
    )
}

fn admitted(without_effect: &[String]) -> OperatorCondition {
    condition("Admitted", "True", "Valid", without_effect.join("; "))
}

fn selector(names: &Names) -> String {
    names.selector().into_iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// What is wanted, but for source ranges, subnets and elastic addresses, which are those of the live Service. While a change of the
/// type is pending, the parameters of the live type stay beside the new ones.
fn strategy(input: Input<'_>, service: Option<&Service>) -> Publishing {
    let mut shown = input.admission.strategy.clone();
    if shown.kind != PublishingKind::LoadBalancerService {
        return shown;
    }
    if let Some(balancer) = &mut shown.load_balancer {
        balancer.allowed_source_ranges = service.map(live::source_ranges).filter(|ranges| !ranges.is_empty());
    }
    let Some(service) = service else { return shown };
    let before = input.controller.status.as_ref().and_then(|status| status.endpoint_publishing_strategy.as_ref());
    let before = before.and_then(Publishing::aws).cloned();
    let words = |key: &str| -> Vec<String> {
        let text = service.annotations().get(key).map(String::as_str).unwrap_or_default();
        text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let Some(aws) = shown.aws_mut() else { return shown };
    let live = live::kind(service);
    if live != aws.kind {
        match live {
            LoadBalancerKind::Classic => {
                aws.classic_load_balancer = before.and_then(|before| before.classic_load_balancer);
            }
            LoadBalancerKind::Nlb => aws.network_load_balancer = before.and_then(|before| before.network_load_balancer),
        }
    }
    let (ids, names): (Vec<_>, Vec<_>) =
        words(annotation::AWS_SUBNETS).into_iter().partition(|word| word.starts_with("subnet-"));
    let subnets = (!ids.is_empty() || !names.is_empty()).then_some(Subnets { ids, names });
    match live {
        LoadBalancerKind::Classic => {
            if let Some(classic) = &mut aws.classic_load_balancer {
                classic.subnets = subnets;
            }
        }
        LoadBalancerKind::Nlb => {
            if let Some(network) = &mut aws.network_load_balancer {
                network.subnets = subnets;
                network.eip_allocations = words(annotation::AWS_EIP);
            }
        }
    }
    shown
}
