//! What a failed pod means by the Job's `podFailurePolicy`, and whether its `successPolicy` is met. Pure.

use api::kinds::batch::indexes::Indexes;
use k8s_openapi::api::{
    batch::v1::{Job, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule, SuccessPolicy},
    core::v1::{ContainerStatus, Pod},
};
use kube::ResourceExt;

/// What a failed pod means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// One failure.
    Count,
    /// As if it had not happened.
    Ignore,
    /// Its index is not tried again.
    FailIndex,
    /// The Job has failed, because of this.
    FailJob(String),
}

impl Verdict {
    pub(super) fn counts(&self) -> bool {
        *self != Self::Ignore
    }
}

/// The first rule that fits decides.
pub fn verdict(job: &Job, pod: &Pod) -> Verdict {
    let policy = job.spec.as_ref().and_then(|spec| spec.pod_failure_policy.as_ref());
    let rules = policy.into_iter().flat_map(|policy| policy.rules.iter()).enumerate();
    let mut fitting = rules.filter_map(|(at, rule)| fits(rule, pod).map(|why| (at, rule, why)));
    let Some((at, rule, why)) = fitting.next() else { return Verdict::Count };
    match rule.action.as_str() {
        "Ignore" => Verdict::Ignore,
        "FailIndex" => Verdict::FailIndex,
        "FailJob" => Verdict::FailJob(format!("{why} matching FailJob rule at index {at}")),
        _ => Verdict::Count,
    }
}

fn fits(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let status = pod.status.as_ref()?;
    if let Some(wanted) = &rule.on_exit_codes {
        let lists = [&status.container_statuses, &status.init_container_statuses];
        let mut containers = lists.into_iter().flat_map(|list| list.iter().flatten());
        let (container, code) = containers.find_map(|one| exit_code(one, wanted).map(|code| (&one.name, code)))?;
        return Some(format!("Container {container} for pod {namespace}/{name} failed with exit code {code}"));
    }
    let patterns = rule.on_pod_conditions.as_deref().unwrap_or_default();
    let mut conditions = status.conditions.iter().flatten();
    let found = conditions.find(|condition| {
        let is_it = |status: Option<&str>| condition.status == status.unwrap_or("True");
        patterns.iter().any(|pattern| condition.type_ == pattern.type_ && is_it(pattern.status.as_deref()))
    })?;
    Some(format!("Pod {namespace}/{name} has condition {}", found.type_))
}

fn exit_code(container: &ContainerStatus, wanted: &PodFailurePolicyOnExitCodesRequirement) -> Option<i32> {
    let code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
    let named = wanted.container_name.as_ref().is_none_or(|name| *name == container.name);
    let listed = wanted.values.contains(&code);
    let fits = match wanted.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    };
    (named && code != 0 && fits).then_some(code)
}

/// Which rule of the policy is met, as a message.
pub fn success(policy: Option<&SuccessPolicy>, completions: u32, succeeded: &Indexes) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let met = |(_, rule): &(usize, &k8s_openapi::api::batch::v1::SuccessPolicyRule)| {
        let count = rule.succeeded_count.and_then(|count| usize::try_from(count).ok());
        match &rule.succeeded_indexes {
            Some(text) => {
                let wanted = Indexes::read(text, completions);
                let found = wanted.common(succeeded);
                !wanted.is_empty() && (found == wanted.total() || count.is_some_and(|count| found >= count))
            }
            None => count.is_some_and(|count| succeeded.total() >= count),
        }
    };
    let mut rules = policy?.rules.iter().enumerate();
    rules.find(met).map(|(at, _)| format!("Matched rules at index {at}"))
}
