//! Changes of a namespace's Pod Security labels: wrong values are refused, pods that would be refused now are warned of.

use super::{
    PodSecurity,
    checks::violations,
    pod::PodView,
    policy::{Level, PREFIX, Policy, Standard},
};
use crate::call::Call;
use api::{error::ApiError, object::Fields};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// How many pods are looked at, and for how long: the answer to a label must not take forever.
const MOST_PODS: usize = 3000;
const PATIENCE: Duration = Duration::from_secs(1);

/// A new or changed namespace.
pub(super) async fn check(call: &Call, config: &PodSecurity, new: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    let name = new.str_at("metadata.name");
    let labels = new.map_at("metadata.labels");
    let (policy, errors) = Policy::of(labels, config.defaults);
    let invalid = || ApiError::invalid("Namespace", "", name, &errors);
    let exempt = config.exemptions.of_namespace(name);
    let Some(old) = old else {
        if !errors.is_empty() {
            return Err(invalid());
        }
        if exempt {
            call.warn(ignored(name, &policy, config, new));
        }
        return Ok(());
    };
    let (old_policy, old_errors) = Policy::of(old.map_at("metadata.labels"), config.defaults);
    if !errors.is_empty() && errors != old_errors {
        return Err(invalid());
    }
    let (now, before) = (policy.enforce, old_policy.enforce);
    let relaxed = now.version == before.version && now.level <= before.level;
    if now == before || now.level == Level::Privileged || relaxed {
        return Ok(());
    }
    if exempt {
        call.warn(ignored(name, &policy, config, new));
    } else {
        call.warn(existing(call, config, name, now).await?);
    }
    Ok(())
}

/// Labels that an exemption makes pointless.
fn ignored(name: &str, policy: &Policy, config: &PodSecurity, namespace: &Value) -> Option<String> {
    if policy.is_privileged() || policy.same(&config.defaults) {
        return None;
    }
    let has = |label: String| namespace.map_at("metadata.labels").is_some_and(|labels| labels.contains_key(&label));
    let modes = [("enforce", policy.enforce), ("audit", policy.audit), ("warn", policy.warn)];
    let given = modes.into_iter().filter(|(mode, standard)| {
        let labelled = has(format!("{PREFIX}{mode}")) || has(format!("{PREFIX}{mode}-version"));
        labelled && standard.level != Level::Privileged
    });
    let given: Vec<String> = given.map(|(mode, standard)| format!("{mode}={standard}")).collect();
    let given = given.join(", ");
    Some(format!("namespace {name:?} is exempt from Pod Security, and the policy ({given}) will be ignored"))
}

/// Pods that run already and would be refused now, those with the same faults together.
async fn existing(
    call: &Call,
    config: &PodSecurity,
    namespace: &str,
    enforce: Standard,
) -> Result<Vec<String>, ApiError> {
    let pods = pods(call, config, namespace).await?;
    let deadline = Instant::now() + PATIENCE;
    let mut checked = 0;
    let mut found: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for pod in pods.iter().take(MOST_PODS) {
        let broken = violations(enforce, PodView::new(pod));
        if !broken.is_empty() {
            let reasons: Vec<&str> = broken.iter().map(|one| one.reason).collect();
            found.entry(reasons.join(", ")).or_default().push(pod.str_at("metadata.name"));
        }
        checked += 1;
        if Instant::now() > deadline {
            break;
        }
    }
    let mut warnings = Vec::new();
    if checked < pods.len() {
        let all = pods.len();
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {all} existing pods"
        ));
    }
    if !found.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{enforce}\""
        ));
    }
    let mut lines: Vec<String> = found.iter().map(|(reasons, names)| line(reasons, names)).collect();
    lines.sort_unstable();
    warnings.extend(lines);
    Ok(warnings)
}

fn line(reasons: &str, names: &[&str]) -> String {
    let first = names.iter().min().copied().unwrap_or_default();
    match names.len() {
        1 => format!("{first}: {reasons}"),
        2 => format!("{first} (and 1 other pod): {reasons}"),
        count => format!("{first} (and {} other pods): {reasons}", count - 1),
    }
}

/// One pod of each workload first: its siblings have the same faults.
async fn pods(call: &Call, config: &PodSecurity, namespace: &str) -> Result<Vec<Value>, ApiError> {
    let all = call.server.objects(&format!("pods/{namespace}")).await?.into_iter();
    let all = all.filter(|pod| !config.exemptions.of_runtime_class(pod.str_at("spec.runtimeClassName")));
    let mut seen = BTreeSet::new();
    let (first, rest): (Vec<Value>, Vec<Value>) = all.partition(|pod| {
        let owner = pod.list_at("metadata.ownerReferences").iter().find(|owner| owner.is_true("controller"));
        owner.is_none_or(|owner| seen.insert(owner.str_at("uid").to_owned()))
    });
    Ok(first.into_iter().chain(rest).collect())
}
