//! Which labels a selector picks.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use std::collections::BTreeMap;

/// Labels as metadata has them.
type Labels = BTreeMap<String, String>;

/// Whether a plain selector (of a Service) picks these labels: all its pairs are there. An empty one picks everything.
#[must_use]
pub fn selects(selector: &Labels, labels: Option<&Labels>) -> bool {
    selector.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
}

/// Whether a selector with expressions (of a workload) picks these labels. An operator that is not known picks nothing.
#[must_use]
pub fn matches_labels(selector: &LabelSelector, labels: Option<&Labels>) -> bool {
    let pairs = selector.match_labels.as_ref().is_none_or(|pairs| selects(pairs, labels));
    pairs
        && selector.match_expressions.iter().flatten().all(|expression| {
            let value = labels.and_then(|labels| labels.get(&expression.key));
            let among = |value| expression.values.iter().flatten().any(|one| one == value);
            match expression.operator.as_str() {
                "In" => value.is_some_and(among),
                "NotIn" => !value.is_some_and(among),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}
