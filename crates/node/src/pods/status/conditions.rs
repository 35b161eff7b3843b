//! The conditions of a Pod that a kubelet writes; those of others are kept.

use super::{Facts, containers::Statuses};
use crate::pods::containers::{Role, members};
use k8s_openapi::{
    api::core::v1::{PodCondition, PodStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};

/// What a condition should be.
struct Wanted {
    holds: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

const HOLDS: Wanted = Wanted { holds: true, reason: None, message: None };

pub(super) fn conditions(facts: &Facts<'_>, old: &PodStatus, statuses: &Statuses, phase: &str) -> Vec<PodCondition> {
    let mut list = old.conditions.clone().unwrap_or_default();
    let ready_to_start = match facts.observed.sandboxes.first() {
        Some(sandbox) if sandbox.ready => HOLDS,
        // Upstream gives no reason either.
        _ => Wanted { holds: false, reason: None, message: None },
    };
    let initialized = initialized(facts, statuses, phase);
    let containers_ready = containers_ready(facts, statuses, phase);
    let ready = ready(facts, &list, &containers_ready);
    let own = [
        ("PodReadyToStartContainers", ready_to_start),
        ("Initialized", initialized),
        ("Ready", ready),
        ("ContainersReady", containers_ready),
        ("PodScheduled", HOLDS),
    ];
    for (kind, wanted) in own {
        // The scheduler has said it already, unless nobody scheduled it.
        if kind == "PodScheduled" && list.iter().any(|one| one.type_ == kind && one.status == "True") {
            continue;
        }
        set(facts, &mut list, kind, wanted);
    }
    list
}

fn set(facts: &Facts<'_>, list: &mut Vec<PodCondition>, kind: &str, wanted: Wanted) {
    let status = if wanted.holds { "True" } else { "False" };
    let at = list.iter().position(|one| one.type_ == kind);
    let mut condition = at.map_or_else(PodCondition::default, |at| list[at].clone());
    if condition.status != status {
        condition.last_transition_time = Some(Time(facts.now));
    }
    condition.type_ = kind.to_owned();
    condition.status = status.to_owned();
    condition.reason = wanted.reason.map(str::to_owned);
    condition.message = wanted.message;
    condition.observed_generation = facts.pod.metadata.generation;
    match at {
        Some(at) => list[at] = condition,
        None => list.push(condition),
    }
}

fn names(list: &[String]) -> String {
    format!("[{}]", list.join(" "))
}

fn initialized(facts: &Facts<'_>, statuses: &Statuses, phase: &str) -> Wanted {
    if phase == "Succeeded" {
        return Wanted { holds: true, reason: Some("PodCompleted"), message: None };
    }
    let incomplete: Vec<String> = members(facts.pod)
        .iter()
        .filter(|member| {
            let status = statuses.of(&member.container.name);
            match member.role {
                Role::Init => !status.is_some_and(|one| one.ready),
                Role::Sidecar => status.is_none_or(|one| one.started != Some(true)),
                Role::App | Role::Ephemeral => false,
            }
        })
        .map(|member| member.container.name.clone())
        .collect();
    if incomplete.is_empty() || statuses.has_started() {
        return HOLDS;
    }
    let message = format!("containers with incomplete status: {}", names(&incomplete));
    Wanted { holds: false, reason: Some("ContainersNotInitialized"), message: Some(message) }
}

fn containers_ready(facts: &Facts<'_>, statuses: &Statuses, phase: &str) -> Wanted {
    match phase {
        "Succeeded" => return Wanted { holds: false, reason: Some("PodCompleted"), message: None },
        "Failed" => return Wanted { holds: false, reason: Some("PodFailed"), message: None },
        _ => {}
    }
    let unready: Vec<String> = members(facts.pod)
        .iter()
        .filter(|member| matches!(member.role, Role::App | Role::Sidecar))
        .filter(|member| !statuses.of(&member.container.name).is_some_and(|one| one.ready))
        .map(|member| member.container.name.clone())
        .collect();
    if unready.is_empty() {
        return HOLDS;
    }
    let message = format!("containers with unready status: {}", names(&unready));
    Wanted { holds: false, reason: Some("ContainersNotReady"), message: Some(message) }
}

fn ready(facts: &Facts<'_>, list: &[PodCondition], containers: &Wanted) -> Wanted {
    if !containers.holds {
        return Wanted { holds: false, reason: containers.reason, message: containers.message.clone() };
    }
    let gates = facts.pod.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten());
    let closed: Vec<String> = gates
        .filter_map(|gate| {
            let kind = &gate.condition_type;
            match list.iter().find(|one| one.type_ == *kind) {
                None => Some(format!("corresponding condition of pod readiness gate \"{kind}\" does not exist.")),
                Some(one) if one.status != "True" => {
                    Some(format!("the status of pod readiness gate \"{kind}\" is not \"True\", but {}", one.status))
                }
                Some(_) => None,
            }
        })
        .collect();
    if closed.is_empty() {
        return HOLDS;
    }
    Wanted { holds: false, reason: Some("ReadinessGatesNotReady"), message: Some(closed.join(", ")) }
}
