//! What is left of a namespace, and how its conditions say so.

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::NamespaceCondition, apimachinery::pkg::apis::meta::v1::Time};
use std::collections::BTreeMap;

/// What a look at a namespace found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// Why the kinds are not known.
    pub(super) discovery: Option<String>,
    /// What could not be deleted.
    pub(super) failures: Vec<String>,
    /// Objects per kind.
    remaining: BTreeMap<String, usize>,
    /// Objects per finalizer.
    finalizers: BTreeMap<String, usize>,
}

impl Findings {
    /// An object is still there.
    pub(super) fn remains(&mut self, kind: &str, finalizers: &[String]) {
        *self.remaining.entry(kind.to_owned()).or_default() += 1;
        for finalizer in finalizers {
            *self.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }

    /// Nothing is left, and that is sure.
    pub(super) fn is_clean(&self) -> bool {
        *self == Self::default()
    }

    /// The conditions that say it. Those that say what they said before keep their time.
    pub(super) fn conditions(&self, old: &[NamespaceCondition], now: Timestamp) -> Vec<NamespaceCondition> {
        let list = |parts: &BTreeMap<String, usize>, what: &str| {
            let parts: Vec<String> =
                parts.iter().map(|(name, count)| format!("{name} {what} {count} resource instances")).collect();
            Some(parts.join(", ")).filter(|text| !text.is_empty())
        };
        let failures = Some(self.failures.join("; ")).filter(|text| !text.is_empty());
        let remaining = list(&self.remaining, "has").map(|text| format!("Some resources are remaining: {text}"));
        let kept = list(&self.finalizers, "in")
            .map(|text| format!("Some content in the namespace has finalizers remaining: {text}"));
        let rows = [
            (
                "NamespaceDeletionDiscoveryFailure",
                self.discovery.clone(),
                "DiscoveryFailed",
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            (
                "NamespaceDeletionContentFailure",
                failures,
                "ContentDeletionFailed",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            (
                "NamespaceContentRemaining",
                remaining,
                "SomeResourcesRemain",
                "ContentRemoved",
                "All content successfully removed",
            ),
            (
                "NamespaceFinalizersRemaining",
                kept,
                "SomeFinalizersRemain",
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            ),
        ];
        rows.map(|(kind, trouble, bad, good, fine)| {
            let status = if trouble.is_some() { "True" } else { "False" };
            let reason = if trouble.is_some() { bad } else { good };
            let same = old
                .iter()
                .find(|one| one.type_ == kind && one.status == status && one.reason.as_deref() == Some(reason));
            NamespaceCondition {
                type_: kind.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(trouble.unwrap_or_else(|| fine.to_owned())),
                last_transition_time: same.and_then(|one| one.last_transition_time.clone()).or(Some(Time(now))),
            }
        })
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_say_what_is_left() {
        let mut findings = Findings::default();
        assert!(findings.is_clean());
        findings.remains("pods.", &[]);
        findings.remains("pods.", &["example.com/keep".to_owned()]);
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let conditions = findings.conditions(&[], now);
        let messages: Vec<(&str, &str)> =
            conditions.iter().map(|one| (one.status.as_str(), one.message.as_deref().unwrap())).collect();
        assert_eq!(
            messages,
            [
                ("False", "All resources successfully discovered"),
                ("False", "All content successfully deleted, may be waiting on finalization"),
                ("True", "Some resources are remaining: pods. has 2 resource instances"),
                (
                    "True",
                    "Some content in the namespace has finalizers remaining: example.com/keep in 1 resource instances"
                ),
            ]
        );
        let later = "2026-01-01T01:00:00Z".parse().unwrap();
        assert_eq!(findings.conditions(&conditions, later), conditions, "nothing new");
    }
}
