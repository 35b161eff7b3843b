//! What a live load balancer Service on AWS is like, as against what is wanted.

use super::{super::names, Input, balancer::annotation};
use api::config::{LoadBalancerKind, PublishingKind};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;

/// The type of the load balancer that a Service has: without the annotation it is a classic one.
pub fn kind(service: &Service) -> LoadBalancerKind {
    match service.annotations().get(annotation::AWS_TYPE).map(String::as_str) {
        Some("nlb" | "external" | "nlb-ip") => LoadBalancerKind::Nlb,
        _ => LoadBalancerKind::Classic,
    }
}

/// Whether its target groups get PROXY headers.
pub fn sends_proxy(service: &Service) -> bool {
    service
        .annotations()
        .get(annotation::AWS_TARGET_GROUP)
        .is_some_and(|text| text.split(',').any(|word| word.trim() == "proxy_protocol_v2.enabled=true"))
}

/// Whether the Service is one that this IngressController may change and delete.
pub fn is_owned(service: &Service, controller: &str) -> bool {
    service.labels().get(names::OWNING).is_some_and(|owner| owner == controller)
}

/// Who may connect to it: nobody said means everybody. The field counts before the older annotation.
pub fn source_ranges(service: &Service) -> Vec<String> {
    let field = service.spec.as_ref().and_then(|spec| spec.load_balancer_source_ranges.clone()).unwrap_or_default();
    if !field.is_empty() {
        return field;
    }
    let text = service.annotations().get(annotation::SOURCE_RANGES).map(String::as_str).unwrap_or_default();
    text.split(',').map(str::trim).filter(|range| !range.is_empty()).map(str::to_owned).collect()
}

/// Whether the load balancer is replaced without asking.
pub fn auto_deletes(input: Input<'_>) -> bool {
    input.controller.annotations().contains_key(names::AUTO_DELETE)
}

/// The type that counts for what routers and the Service do now: the live one until the administrator has replaced it.
pub fn effective_kind(input: Input<'_>, live: Option<&Service>) -> Option<LoadBalancerKind> {
    let strategy = &input.admission.strategy;
    if strategy.kind != PublishingKind::LoadBalancerService || !input.cluster.is("AWS") {
        return None;
    }
    let wanted = strategy.aws().map_or(LoadBalancerKind::Classic, |aws| aws.kind);
    Some(live.filter(|_| !auto_deletes(input)).map_or(wanted, kind))
}

/// Whether the type is to change and the live load balancer still has the old one.
pub fn kind_is_pending(input: Input<'_>, live: Option<&Service>) -> bool {
    let wanted = input.admission.strategy.aws().map(|aws| aws.kind);
    effective_kind(input, live).zip(wanted).is_some_and(|(effective, wanted)| effective != wanted)
}
