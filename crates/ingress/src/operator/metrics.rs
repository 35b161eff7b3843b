//! Numbers about IngressControllers, under upstream's names.

use super::plan::Input;
use api::config::{IngressControllerStatus, LoadBalancerKind, Protocol, Publishing, Scope};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
};
use runtime::metrics::Metrics;

/// Conditions that are shown.
const SHOWN: [&str; 2] = ["Available", "Degraded"];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Condition {
    name: String,
    condition: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Name {
    name: String,
}

/// All of them; there is one in a process.
#[derive(Debug)]
pub struct Gauges {
    conditions: Family<Condition, Gauge>,
    nlb: Family<Name, Gauge>,
    hairpin: Family<Name, Gauge>,
}

impl Gauges {
    /// Registers them.
    pub fn new(metrics: &Metrics) -> Self {
        let conditions = "Conditions of IngressControllers: 1 is True, 0 is False";
        let nlb = "Whether the IngressController has a network load balancer of AWS";
        let hairpin = "Whether routers may fail to reach their own internal network load balancer, because nobody has chosen a protocol";
        Self {
            conditions: metrics.register("ingress_controller_conditions", conditions, Family::default()),
            nlb: metrics.register("ingress_controller_aws_nlb_active", nlb, Family::default()),
            hairpin: metrics.register("ingress_controller_aws_nlb_hairpin_risk", hairpin, Family::default()),
        }
    }

    /// Shows a status that was written.
    pub fn show(&self, name: &str, status: &IngressControllerStatus, hairpin: bool) {
        for condition in SHOWN {
            let label = Condition { name: name.to_owned(), condition };
            let known = status.conditions.iter().find(|known| known.kind == condition);
            // What is neither True nor False says nothing, and what was said before stays.
            match known.map(|known| known.status.as_str()) {
                Some("True") => drop(self.conditions.get_or_create(&label).set(1)),
                Some("False") => drop(self.conditions.get_or_create(&label).set(0)),
                _ => {}
            }
        }
        let label = Name { name: name.to_owned() };
        let aws = status.endpoint_publishing_strategy.as_ref().and_then(Publishing::aws);
        let nlb = aws.is_some_and(|aws| aws.kind == LoadBalancerKind::Nlb);
        self.nlb.get_or_create(&label).set(nlb.into());
        self.hairpin.get_or_create(&label).set(hairpin.into());
    }

    /// Shows no more of an IngressController that is gone.
    pub fn forget(&self, name: &str) {
        for condition in SHOWN {
            self.conditions.remove(&Condition { name: name.to_owned(), condition });
        }
        let label = Name { name: name.to_owned() };
        self.nlb.remove(&label);
        self.hairpin.remove(&label);
    }
}

/// Whether an internal network load balancer keeps the client's address without anybody having asked for it: a router that
/// reaches it and is sent back to itself then drops the connection.
pub fn hairpin_risk(input: Input<'_>) -> bool {
    let strategy = &input.admission.strategy;
    let internal = strategy.load_balancer.as_ref().is_some_and(|balancer| balancer.scope == Scope::Internal);
    let nlb = strategy.aws().filter(|aws| aws.kind == LoadBalancerKind::Nlb && input.cluster.is("AWS"));
    let spec = input.controller.spec.endpoint_publishing_strategy.as_ref().and_then(Publishing::aws);
    let chosen = spec.and_then(|aws| aws.network_load_balancer.as_ref()).map(|network| network.protocol);
    internal && nlb.is_some() && chosen.unwrap_or_default() == Protocol::Unset
}
