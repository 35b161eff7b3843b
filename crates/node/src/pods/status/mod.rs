//! What the API is told of a Pod, from what the runtime has. Pure.
//!
//! Mirrors `generateAPIPodStatus` of upstream's kubelet, its reasons and its words.

pub(crate) mod addresses;
mod conditions;
mod containers;
mod phase;
#[cfg(test)]
mod tests;

use super::{containers::members, failures::Failures, observe::Observed, resources};
use crate::probes::Verdict;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{HostIP, Pod, PodIP, PodStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};
use std::{collections::BTreeMap, net::IpAddr};

/// Everything that a status follows from.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// With the status that the API has now.
    pub pod: &'a Pod,
    pub observed: &'a Observed,
    pub failures: &'a Failures,
    /// What probes say, by container id.
    pub verdicts: &'a BTreeMap<String, Verdict>,
    /// The node's addresses, its primary family first.
    pub host_ips: &'a [IpAddr],
    /// The Pod's, likewise; those of the node where it shares its network.
    pub pod_ips: &'a [IpAddr],
    /// Why the Pod was ended before its time.
    pub verdict: Option<&'a Ended>,
    /// Whether nothing of it runs and nothing will.
    pub ended: bool,
    /// Whether it is being ended.
    pub ending: bool,
    /// The runtime's name, which stands before ids.
    pub runtime: &'a str,
    pub now: Timestamp,
}

/// Why a Pod was ended before its time, such as `Evicted`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub reason: String,
    pub message: String,
}

/// The status as it should be. What others write into it is kept.
#[must_use]
pub fn status(facts: &Facts<'_>) -> PodStatus {
    let pod = facts.pod;
    let old = pod.status.clone().unwrap_or_default();
    let members = members(pod);
    let containers = containers::statuses(facts, &members, &old);
    let ran = containers.has_started();
    let mut phase = phase::phase(pod, &containers, facts.ended, ran);
    if let Some(verdict) = facts.verdict {
        return with_verdict(facts, old, containers, verdict);
    }
    // What the API knows to be over stays over.
    if let Some(known @ ("Failed" | "Succeeded")) = old.phase.as_deref() {
        phase = known.to_owned();
    }
    build(facts, old, containers, phase)
}

fn with_verdict(facts: &Facts<'_>, old: PodStatus, containers: containers::Statuses, verdict: &Ended) -> PodStatus {
    let mut status = build(facts, old, containers, "Failed".to_owned());
    status.reason = Some(verdict.reason.clone());
    status.message = Some(verdict.message.clone());
    status
}

fn build(facts: &Facts<'_>, old: PodStatus, containers: containers::Statuses, phase: String) -> PodStatus {
    let conditions = conditions::conditions(facts, &old, &containers, &phase);
    let texts = |ips: &[IpAddr]| ips.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (host, own) = (texts(facts.host_ips), texts(facts.pod_ips));
    let listed = |list: Vec<_>, had: bool| (had || !list.is_empty()).then_some(list);
    let containers::Statuses { init, app, ephemeral } = containers;
    let has_init = facts.pod.spec.as_ref().is_some_and(|spec| spec.init_containers.is_some());
    PodStatus {
        host_ip: host.first().cloned(),
        host_ips: (!host.is_empty()).then(|| host.into_iter().map(|ip| HostIP { ip }).collect()),
        pod_ip: own.first().cloned(),
        pod_ips: (!own.is_empty()).then(|| own.into_iter().map(|ip| PodIP { ip }).collect()),
        conditions: Some(conditions),
        init_container_statuses: listed(init, has_init),
        container_statuses: Some(app),
        ephemeral_container_statuses: listed(ephemeral, false),
        start_time: old.start_time.clone().or(Some(Time(facts.now))),
        observed_generation: facts.pod.metadata.generation,
        qos_class: old.qos_class.clone().or_else(|| Some(resources::qos(facts.pod).name().to_owned())),
        phase: Some(phase),
        ..old
    }
}
