//! What a pod uses of a quota: its place, and the requests and limits of its containers.

use crate::{
    kinds::{
        quantity::{self, Amount, Amounts},
        resources,
    },
    object::Fields,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const REQUESTS: &str = "requests.";
/// Resources that count by their own name, as a request and as a limit.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Names that every container must have an amount for, once a quota counts them.
const DEMANDED: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Whether a quota by this name counts what pods ask for.
pub(super) fn has(name: &str) -> bool {
    let plain = name.strip_prefix(REQUESTS);
    let bare = plain.or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
    COMPUTE.contains(&bare)
        || resources::is_huge_page(plain.unwrap_or(name))
        || plain.is_some_and(|_| !resources::is_native(name))
}

/// What the pod uses beside being one object.
pub(super) fn usage(pod: &Value, now: Timestamp) -> Amounts {
    if has_ended(pod, now) {
        return Amounts::new();
    }
    compute(&requests(pod), &limits(pod))
}

/// Pods that are over, and those that should be over, use nothing.
fn has_ended(pod: &Value, now: Timestamp) -> bool {
    if matches!(pod.str_at("status.phase"), "Failed" | "Succeeded") {
        return true;
    }
    let deleted = pod.str_at("metadata.deletionTimestamp").parse::<Timestamp>().ok();
    let grace = pod.int_at("metadata.deletionGracePeriodSeconds");
    deleted.zip(grace).is_some_and(|(at, grace)| now > at + SignedDuration::from_secs(grace))
}

fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::from([("pods".to_owned(), Amount::count(1))]);
    for (name, amount) in requests {
        let compute = COMPUTE.contains(&name.as_str());
        if compute || resources::is_huge_page(name) {
            usage.insert(name.clone(), *amount);
        }
        if compute || resources::is_huge_page(name) || !resources::is_native(name) {
            usage.insert(format!("{REQUESTS}{name}"), *amount);
        }
    }
    for name in COMPUTE {
        if let Some(amount) = limits.get(name) {
            usage.insert(format!("limits.{name}"), *amount);
        }
    }
    usage
}

/// What the pod asks for: its containers as they are and as they are wanted, its own resources, overhead.
fn requests(pod: &Value) -> Amounts {
    let infeasible = condition(pod, "PodResizePending") == Some("Infeasible");
    let statuses: BTreeMap<&str, &Value> = ["containerStatuses", "initContainerStatuses"]
        .iter()
        .flat_map(|list| pod.at("status").list_at(list))
        .map(|status| (status.str_at("name"), status))
        .collect();
    let own = |container: &Value| {
        let wanted = quantity::amounts(container.at("resources.requests"));
        let Some(status) = statuses.get(container.str_at("name")).filter(|status| status.at("resources").is_object())
        else {
            return wanted;
        };
        let mut all = if infeasible { Amounts::new() } else { wanted };
        quantity::raise(&mut all, &quantity::amounts(status.at("resources.requests")));
        quantity::raise(&mut all, &quantity::amounts(status.at("allocatedResources")));
        all
    };
    let spec = pod.at("spec");
    let mut total = resources::needed_together(spec, own);
    of_pod(&mut total, spec, "requests");
    quantity::add(&mut total, &quantity::amounts(spec.at("overhead")));
    total
}

/// What limits the pod; overhead counts only where there is a limit.
fn limits(pod: &Value) -> Amounts {
    let spec = pod.at("spec");
    let mut total = resources::needed_together(spec, |container| quantity::amounts(container.at("resources.limits")));
    of_pod(&mut total, spec, "limits");
    let mut overhead = quantity::amounts(spec.at("overhead"));
    overhead.retain(|name, _| total.get(name).is_some_and(|limit| limit.nanos != 0));
    quantity::add(&mut total, &overhead);
    total
}

/// What a pod has as a whole stands for what its containers have.
fn of_pod(total: &mut Amounts, spec: &Value, kind: &str) {
    let own = quantity::amounts(spec.at("resources").at(kind));
    total.extend(own.into_iter().filter(|(name, _)| resources::fits_pod(name)));
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a str> {
    let found = pod.list_at("status.conditions").iter().find(|one| one.str_at("type") == kind);
    found.map(|condition| condition.str_at("reason"))
}

/// Which containers lack an amount for what is counted.
pub(super) fn missing<'n>(pod: &Value, names: impl Iterator<Item = &'n String>) -> Option<String> {
    let has_own = ["requests", "limits"].iter().any(|kind| {
        let own = pod.at("spec.resources").map_at(kind).into_iter().flatten();
        own.into_iter().any(|(name, _)| resources::fits_pod(name))
    });
    if has_own {
        return None;
    }
    let demanded: BTreeSet<&str> = names.map(String::as_str).filter(|name| DEMANDED.contains(name)).collect();
    let mut lacking: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for list in ["containers", "initContainers"] {
        for container in pod.at("spec").list_at(list) {
            let amounts = |kind: &str| quantity::amounts(container.at("resources").at(kind));
            let given = compute(&amounts("requests"), &amounts("limits"));
            for name in demanded.iter().filter(|name| !given.contains_key(**name)) {
                lacking.entry(name).or_default().insert(container.str_at("name"));
            }
        }
    }
    let texts = lacking
        .iter()
        .map(|(name, containers)| format!("{name} for: {}", containers.iter().copied().collect::<Vec<_>>().join(",")));
    let text = texts.collect::<Vec<_>>().join("; ");
    (!text.is_empty()).then(|| format!("must specify {text}"))
}
