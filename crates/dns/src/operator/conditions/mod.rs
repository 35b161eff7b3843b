//! What the status says. Pure.

use super::{
    check::{self, Mistake},
    servers::Report,
};
use api::config::OperatorCondition;
use std::collections::BTreeMap;

/// What is known when a status is written.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// Whether objects are written at all.
    pub managed: bool,
    /// The Service has an address.
    pub service: bool,
    /// What runs the Corefile.
    pub operand: Running,
    /// What the servers say.
    pub reports: &'a BTreeMap<String, Report>,
    /// The hashes by which servers know the Corefile that is in the ConfigMap.
    pub wanted: &'a [String],
    /// What is wrong with servers, resolvers or cache.
    pub mistakes: &'a [Mistake],
    /// Whether the last valid Corefile is kept, or there was none.
    pub kept: bool,
    /// About templates; `None` where they are not looked at.
    pub templates: Option<Templates<'a>>,
}

/// About templates.
#[derive(Clone, Debug)]
pub struct Templates<'a> {
    /// How many the resource has.
    pub count: usize,
    /// Whether the definition of the resource has a place for them.
    pub defined: bool,
    /// What is wrong with them.
    pub mistakes: &'a [Mistake],
    /// Template and zone where a filter leaves the cluster domain out.
    pub exclusions: &'a [(String, String)],
    /// The domain that is left out.
    pub domain: &'a str,
}

/// What runs the Corefile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Running {
    /// A DaemonSet with these numbers; `None` is that there is none.
    Workload(Option<Numbers>),
    /// The server in this process.
    Process,
}

/// The numbers of a DaemonSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Nodes that should have a Pod.
    pub desired: i32,
    /// Pods that can be asked.
    pub available: i32,
    /// Pods of the newest template.
    pub updated: i32,
    /// Whether the numbers are about the newest spec.
    pub current: bool,
}

const EXPECTED: &str = "AsExpected";

/// All conditions; those that did not change keep their time.
#[must_use]
pub fn conditions(seen: &Observed<'_>, before: &[OperatorCondition], now: &str) -> Vec<OperatorCondition> {
    let progressing = progressing(seen);
    let mut all = vec![available(seen)];
    let settled = progressing.status == "False" && settled_for(before, now) >= PATIENCE;
    all.push(degraded(seen, progressing.status == "True", settled));
    all.push(progressing);
    all.push(match seen.managed {
        true => condition("Upgradeable", true, EXPECTED, "the operator manages the servers"),
        false => condition("Upgradeable", false, "OperatorUnmanaged", "spec.managementState is Unmanaged"),
    });
    if let Some(templates) = &seen.templates {
        all.push(valid(templates));
        all.push(applied(seen, templates));
        all.push(warning(templates));
    }
    for one in &mut all {
        let same = before.iter().find(|known| known.kind == one.kind && known.status == one.status);
        one.last_transition_time = same.map_or_else(|| now.to_owned(), |known| known.last_transition_time.clone());
    }
    all
}

fn condition(kind: &str, holds: bool, reason: &str, message: impl Into<String>) -> OperatorCondition {
    OperatorCondition {
        kind: kind.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        last_transition_time: String::new(),
    }
}

fn available(seen: &Observed<'_>) -> OperatorCondition {
    let mut missing = Vec::new();
    match seen.operand {
        Running::Workload(None) => missing.push(("NoDaemonSet", "there is no DaemonSet of DNS servers")),
        Running::Workload(Some(numbers)) if numbers.available == 0 => {
            missing.push(("NoDaemonSetPods", "no Pod of the DaemonSet is available"));
        }
        Running::Workload(Some(_)) => {}
        Running::Process if seen.reports.values().any(|report| report.hash.is_some()) => {}
        Running::Process => missing.push(("NoServer", "the server of this process does not answer yet")),
    }
    if !seen.service {
        missing.push(("NoService", "the Service has no address"));
    }
    match missing.as_slice() {
        [] => condition("Available", true, EXPECTED, "DNS servers answer, and the Service has an address"),
        missing => {
            let (reasons, messages): (Vec<&str>, Vec<&str>) = missing.iter().copied().unzip();
            condition("Available", false, &reasons.concat(), messages.join("\n"))
        }
    }
}

fn progressing(seen: &Observed<'_>) -> OperatorCondition {
    let mut messages = Vec::new();
    if !seen.service {
        messages.push("the Service has no address yet".to_owned());
    }
    match seen.operand {
        Running::Workload(None) => messages.push("the DaemonSet is not there yet".to_owned()),
        Running::Workload(Some(numbers)) if !numbers.current => {
            messages.push("the DaemonSet has not been looked at since it changed".to_owned());
        }
        Running::Workload(Some(Numbers { desired, updated, .. })) if updated < desired => {
            messages.push(format!("{updated} of {desired} Pods are of the newest template"));
        }
        Running::Workload(Some(_)) => {}
        Running::Process => messages.extend(lagging(seen)),
    }
    match messages.is_empty() || !seen.managed {
        true => condition("Progressing", false, EXPECTED, "everything is as it should be"),
        false => condition("Progressing", true, "Reconciling", messages.join("\n")),
    }
}

/// One tenth of the Pods may be away.
fn threshold(desired: i32) -> i32 {
    (desired + 9) / 10
}

/// Seconds that Pods have to become available after the last change: twice the time that a server takes to leave.
pub const PATIENCE: i64 = 40;

/// For how many seconds nothing was being changed.
fn settled_for(before: &[OperatorCondition], now: &str) -> i64 {
    let since = before.iter().find(|known| known.kind == "Progressing" && known.status == "False");
    let since = since.and_then(|known| known.last_transition_time.parse::<jiff::Timestamp>().ok());
    let now = now.parse::<jiff::Timestamp>().ok();
    since.zip(now).map_or(0, |(since, now)| now.as_second() - since.as_second())
}

/// Whether Pods may still be becoming available, so that one must look again.
#[must_use]
pub fn is_settling(conditions: &[OperatorCondition], now: &str) -> bool {
    (0..PATIENCE).contains(&settled_for(conditions, now))
        && conditions.iter().any(|one| one.kind == "Progressing" && one.status == "False")
}

/// Never at the same time as Progressing, but for what no progress will mend.
fn degraded(seen: &Observed<'_>, progressing: bool, settled: bool) -> OperatorCondition {
    let mut reasons = Vec::new();
    if !seen.mistakes.is_empty() {
        let (_, text) = check::summary(seen.mistakes, "");
        let stays = if seen.kept { "the last valid configuration stays" } else { "the default configuration is used" };
        reasons.push(("InvalidConfiguration", format!("{stays}: {text}")));
    }
    let refused = refusals(seen);
    if !refused.is_empty() {
        reasons.push(("ConfigurationRefused", refused.join("\n")));
    }
    if !progressing {
        match seen.operand {
            Running::Workload(Some(Numbers { desired: 0, .. })) => {
                reasons.push(("NoDNSPodsDesired", "no node is to have a Pod: look at spec.nodePlacement".to_owned()));
            }
            Running::Workload(Some(_)) if !settled => {}
            Running::Workload(Some(Numbers { available: 0, .. })) => {
                reasons.push(("NoDNSPodsAvailable", "no Pod is available".to_owned()));
            }
            Running::Workload(Some(Numbers { desired, available, .. })) if desired - available > threshold(desired) => {
                let message = format!("{} of {desired} Pods are not available", desired - available);
                reasons.push(("MaxUnavailableDNSPodsExceeded", message));
            }
            Running::Workload(_) | Running::Process => {}
        }
    }
    match reasons.as_slice() {
        [] => condition("Degraded", false, EXPECTED, "nothing is wrong"),
        [(reason, message)] => condition("Degraded", true, reason, message.clone()),
        several => {
            let texts: Vec<String> = several.iter().map(|(reason, message)| format!("{reason}: {message}")).collect();
            condition("Degraded", true, "DegradedConditions", texts.join("\n"))
        }
    }
}

/// Servers that say they cannot use the newest Corefile.
fn refusals(seen: &Observed<'_>) -> Vec<String> {
    let named = |(name, report): (&String, &Report)| Some(format!("{name}: {}", report.problem.as_ref()?));
    seen.reports.iter().filter_map(named).collect()
}

/// Servers that do not run the Corefile of the ConfigMap.
fn lagging(seen: &Observed<'_>) -> Option<String> {
    let runs = |report: &&Report| report.hash.as_ref().is_some_and(|hash| seen.wanted.contains(hash));
    let expected = match seen.operand {
        Running::Workload(numbers) => usize::try_from(numbers.map_or(0, |numbers| numbers.desired)).unwrap_or(0).max(1),
        Running::Process => 1,
    };
    let running = seen.reports.values().filter(runs).count();
    let all = expected.max(seen.reports.len());
    let silent = seen.reports.values().filter(|report| report.silence.is_some()).count();
    // As many may be silent as may be away: a node that died must not hold up everything for ever.
    let away = match seen.operand {
        Running::Workload(Some(numbers)) if running > 0 => {
            silent.min(usize::try_from(threshold(numbers.desired)).unwrap_or(0))
        }
        _ => 0,
    };
    if running + away >= all {
        return None;
    }
    let named = |(name, report): (&String, &Report)| match &report.silence {
        Some(why) => format!("{name} ({why})"),
        None => name.clone(),
    };
    let late = seen.reports.iter().filter(|(_, report)| !runs(report)).map(named);
    let late: Vec<String> = late.take(5).collect();
    let named = if late.is_empty() { String::new() } else { format!("; not {}", late.join(", ")) };
    Some(format!("{running} of {all} servers run the newest configuration{named}"))
}

fn valid(templates: &Templates<'_>) -> OperatorCondition {
    let kind = "TemplateConfigurationValid";
    match (templates.mistakes, templates.count) {
        ([], 0) if !templates.defined => condition(
            kind,
            false,
            "NotInDefinition",
            "the definition dnses.operator.openshift.io has no spec.templates, so that the API drops them; \
             `kubectl annotate crd dnses.operator.openshift.io twinstack.dev/release=0.0.0` hands it over to be brought up to date",
        ),
        ([], 0) => condition(kind, true, "NoTemplates", "there are no templates"),
        ([], count) => condition(kind, true, EXPECTED, format!("{count} templates are valid")),
        (mistakes, _) => {
            let (reason, message) = check::summary(mistakes, "InvalidTemplates");
            condition(kind, false, &reason, message)
        }
    }
}

fn applied(seen: &Observed<'_>, templates: &Templates<'_>) -> OperatorCondition {
    let kind = "TemplateConfigurationApplied";
    let refused = refusals(seen);
    if !templates.mistakes.is_empty() || !seen.mistakes.is_empty() {
        let message = match seen.kept {
            true => "the configuration is not valid; the last valid one stays",
            false => "the configuration is not valid and there was none before; the default one is used",
        };
        return condition(kind, false, "InvalidConfiguration", message);
    }
    if !seen.managed {
        return condition(kind, false, "Unmanaged", "spec.managementState is Unmanaged: nothing is written");
    }
    match lagging(seen) {
        Some(_) if !refused.is_empty() => condition(kind, false, "ReloadFailed", refused.join("\n")),
        Some(message) => condition(kind, false, "Reloading", message),
        None => {
            let silent = seen.reports.values().filter(|report| report.silence.is_some()).count();
            let away = if silent == 0 { String::new() } else { format!("; {silent} do not answer") };
            let message = format!("{} templates run on {} servers{away}", templates.count, seen.reports.len() - silent);
            condition(kind, true, EXPECTED, message)
        }
    }
}

fn warning(templates: &Templates<'_>) -> OperatorCondition {
    let kind = "AAAAFilterDualStackWarning";
    match templates.exclusions {
        [] => condition(kind, false, EXPECTED, "no filter touches the cluster domain of a dual-stack cluster"),
        exclusions => {
            let named: Vec<String> =
                exclusions.iter().map(|(template, zone)| format!("template {template:?} for zone {zone:?}")).collect();
            let message = format!(
                "this cluster has both families: {} filters AAAA for every name but those of {}; IPv6 outside the cluster \
                 cannot be reached by name. Prefer specific zones",
                named.join(", "),
                templates.domain
            );
            condition(kind, true, "ClusterDomainExcluded", message)
        }
    }
}

#[cfg(test)]
mod tests;
