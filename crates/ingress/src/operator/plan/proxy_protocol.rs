//! Whether routers expect the PROXY protocol.

use super::{Input, live};
use crate::operator::names;
use api::config::{LoadBalancerKind, Protocol, Publishing, PublishingKind};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;

/// The platform is not known yet; asked again when the Infrastructure changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "status.platformStatus of the Infrastructure \"cluster\" is not there yet, so it is not known what load balancers do"
)]
pub struct UnknownPlatform;

/// Whether somebody has chosen it for ports that not only a load balancer of the cluster's own reaches.
pub fn is_chosen(strategy: &Publishing) -> bool {
    let protocol = match strategy.kind {
        PublishingKind::HostNetwork => strategy.host_network.as_ref().map(|host| host.protocol),
        PublishingKind::NodePortService => strategy.node_port.as_ref().map(|port| port.protocol),
        PublishingKind::Private => strategy.private.as_ref().map(|private| private.protocol),
        PublishingKind::LoadBalancerService => None,
    };
    protocol == Some(Protocol::Proxy)
}

/// What there is to say of a strategy that expects the header from everybody.
pub fn warning(input: Input<'_>) -> Option<String> {
    let named = input.controller.annotations().contains_key(names::PROXY_SENDERS);
    (is_chosen(&input.admission.strategy) && !named).then(|| {
        format!(
            "connections that do not begin with a PROXY header are refused, and whoever reaches the routers may claim any \
             address in one; name the senders in the annotation {}, and others are served without it",
            names::PROXY_SENDERS
        )
    })
}

/// Decides, from the live load balancer Service where there is one: routers must agree with what stands in front of them now.
pub fn needed(input: Input<'_>, live: Option<&Service>) -> Result<bool, UnknownPlatform> {
    let platform = input.cluster.platform.as_deref().ok_or(UnknownPlatform)?;
    let strategy = &input.admission.strategy;
    let is_proxy = |protocol: Option<Protocol>| protocol == Some(Protocol::Proxy);
    Ok(match strategy.kind {
        PublishingKind::HostNetwork | PublishingKind::NodePortService | PublishingKind::Private => is_chosen(strategy),
        PublishingKind::LoadBalancerService => match platform {
            "AWS" => match live::effective_kind(input, live) {
                Some(LoadBalancerKind::Nlb) if live::kind_is_pending(input, live) => {
                    live.is_some_and(live::sends_proxy)
                }
                Some(LoadBalancerKind::Nlb) => {
                    let network = strategy.aws().and_then(|aws| aws.network_load_balancer.as_ref());
                    is_proxy(network.map(|network| network.protocol))
                }
                _ => true,
            },
            "IBMCloud" | "PowerVS" => {
                let parameters = strategy.load_balancer.as_ref().and_then(|some| some.provider_parameters.as_ref());
                is_proxy(parameters.and_then(|some| some.ibm.as_ref()).map(|ibm| ibm.protocol))
            }
            _ => false,
        },
    })
}
