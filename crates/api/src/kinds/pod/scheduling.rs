//! Where a pod may run: affinity, tolerations, spread, gates.

use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        names, selector,
    },
    object::Fields,
    path::Path,
};
use serde_json::Value;
use std::collections::BTreeSet;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Effects of a taint.
pub(super) const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Mistakes in the scheduling fields of a pod spec.
pub(super) fn validate(errors: &mut Errors, path: &Path, spec: &Value) {
    let affinity = path.child("affinity");
    node_affinity(errors, &affinity.child("nodeAffinity"), spec.at("affinity.nodeAffinity"));
    for field in ["podAffinity", "podAntiAffinity"] {
        pod_affinity(errors, &affinity.child(field), spec.at("affinity").at(field));
    }
    tolerations(errors, &path.child("tolerations"), spec.list_at("tolerations"));
    spread(errors, &path.child("topologySpreadConstraints"), spec);
    let mut gates = BTreeSet::new();
    for (i, gate) in spec.list_at("schedulingGates").iter().enumerate() {
        let at = path.child("schedulingGates").index(i);
        check::qualified_name(errors, &at, gate.str_at("name"));
        if !gates.insert(gate.str_at("name")) {
            errors.push(FieldError::duplicate(&at, gate.str_at("name")));
        }
    }
}

fn node_affinity(errors: &mut Errors, path: &Path, affinity: &Value) {
    let required = affinity.at(REQUIRED);
    if required.is_object() {
        node_selector(errors, &path.child(REQUIRED), required);
    }
    for (i, wish) in affinity.list_at(PREFERRED).iter().enumerate() {
        let at = path.child(PREFERRED).index(i);
        check::in_range(errors, &at.child("weight"), wish.int_at("weight").unwrap_or_default(), 1, 100);
        node_term(errors, &at.child("preference"), wish.at("preference"), false);
    }
}

/// Terms of which a node must meet one; volumes have them too.
pub(in crate::kinds) fn node_selector(errors: &mut Errors, path: &Path, selector: &Value) {
    let at = path.child("nodeSelectorTerms");
    let terms = selector.list_at("nodeSelectorTerms");
    if terms.is_empty() {
        errors.push(FieldError::required(&at, "at least one term"));
    }
    for (i, term) in terms.iter().enumerate() {
        node_term(errors, &at.index(i), term, true);
    }
}

/// One term; a value that can be no label's is a mistake only where the term is required.
fn node_term(errors: &mut Errors, path: &Path, term: &Value, required: bool) {
    for (i, rule) in term.list_at("matchExpressions").iter().enumerate() {
        let at = path.child("matchExpressions").index(i);
        let values = check::texts(rule, "values");
        match rule.str_at("operator") {
            "In" | "NotIn" if values.is_empty() => {
                errors.push(FieldError::required(&at.child("values"), "In and NotIn need at least one value"));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.push(FieldError::forbidden(&at.child("values"), "Exists and DoesNotExist take no values"));
            }
            "Gt" | "Lt" if values.len() != 1 => {
                errors.push(FieldError::required(&at.child("values"), "Gt and Lt take exactly one value"));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => errors.push(FieldError::invalid(
                &at.child("operator"),
                other,
                "accepted are In, NotIn, Exists, DoesNotExist, Gt and Lt",
            )),
        }
        check::qualified_name(errors, &at.child("key"), rule.str_at("key"));
        for (j, value) in values.iter().enumerate().filter(|_| required) {
            check::all_of(errors, &at.child("values").index(j), value, names::label_value(value));
        }
    }
    for (i, rule) in term.list_at("matchFields").iter().enumerate() {
        let at = path.child("matchFields").index(i);
        let values = check::texts(rule, "values");
        match rule.str_at("operator") {
            "In" | "NotIn" if values.len() != 1 => {
                errors.push(FieldError::required(&at.child("values"), "exactly one value"));
            }
            "In" | "NotIn" => {}
            other => errors.push(FieldError::invalid(&at.child("operator"), other, "accepted are In and NotIn")),
        }
        if rule.str_at("key") == "metadata.name" {
            for (j, value) in values.iter().enumerate() {
                check::dns_subdomain(errors, &at.child("values").index(j), value);
            }
        } else {
            errors.push(FieldError::invalid(&at.child("key"), rule.str_at("key"), "accepted is metadata.name"));
        }
    }
}

fn pod_affinity(errors: &mut Errors, path: &Path, affinity: &Value) {
    for (i, term) in affinity.list_at(REQUIRED).iter().enumerate() {
        pod_term(errors, &path.child(REQUIRED).index(i), term);
    }
    for (i, wish) in affinity.list_at(PREFERRED).iter().enumerate() {
        let at = path.child(PREFERRED).index(i);
        check::in_range(errors, &at.child("weight"), wish.int_at("weight").unwrap_or_default(), 1, 100);
        pod_term(errors, &at.child("podAffinityTerm"), wish.at("podAffinityTerm"));
    }
}

fn pod_term(errors: &mut Errors, path: &Path, term: &Value) {
    for field in ["labelSelector", "namespaceSelector"] {
        selector::validate(errors, &path.child(field), term.at(field));
    }
    for name in check::texts(term, "namespaces") {
        check::dns_label(errors, &path.child("namespace"), name);
    }
    label_keys(errors, path, term);
    let key = term.str_at("topologyKey");
    if key.is_empty() {
        errors.push(FieldError::required(&path.child("topologyKey"), "a label of nodes"));
    }
    check::qualified_name(errors, &path.child("topologyKey"), key);
}

/// Labels of the pod itself that the selected pods share, or do not.
fn label_keys(errors: &mut Errors, path: &Path, term: &Value) {
    let wanted = term.at("labelSelector");
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let (at, keys) = (path.child(field), check::texts(term, field));
        if wanted.is_null() && !keys.is_empty() {
            errors.push(FieldError::forbidden(&at, "needs labelSelector"));
            continue;
        }
        for (i, key) in keys.iter().enumerate() {
            check::qualified_name(errors, &at.index(i), key);
        }
    }
    let keys = check::texts(term, "matchLabelKeys");
    let mut selected: BTreeSet<&str> =
        wanted.map_at("matchLabels").into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    for rule in wanted.list_at("matchExpressions") {
        let key = rule.str_at("key");
        if let Some(i) = keys.iter().rposition(|known| *known == key).filter(|_| selected.contains(key)) {
            errors.push(FieldError::invalid(&path.index(i), key, "is in matchLabelKeys and in labelSelector"));
        }
        selected.insert(key);
    }
    let others = check::texts(term, "mismatchLabelKeys");
    for (i, key) in keys.iter().enumerate().filter(|(_, key)| others.contains(key)) {
        let at = path.child("matchLabelKeys").index(i);
        errors.push(FieldError::invalid(&at, *key, "is in mismatchLabelKeys too"));
    }
}

/// Mistakes in tolerations.
pub(in crate::kinds) fn tolerations(errors: &mut Errors, path: &Path, tolerations: &[Value]) {
    for (i, toleration) in tolerations.iter().enumerate() {
        let at = path.index(i);
        let (key, value) = (toleration.str_at("key"), toleration.str_at("value"));
        let (operator, effect) = (toleration.str_at("operator"), toleration.str_at("effect"));
        if !key.is_empty() {
            check::qualified_name(errors, &at.child("key"), key);
        }
        if key.is_empty() && operator != "Exists" {
            let text = "must be Exists when there is no key, which tolerates everything";
            errors.push(FieldError::invalid(&at.child("operator"), operator, text));
        }
        if !toleration.at("tolerationSeconds").is_null() && effect != "NoExecute" {
            let text = "must be NoExecute when tolerationSeconds is set";
            errors.push(FieldError::invalid(&at.child("effect"), effect, text));
        }
        match operator {
            "" | "Equal" => {
                let wrong = names::label_value(value);
                if !wrong.is_empty() {
                    errors.push(FieldError::invalid(&at.child("operator"), value, wrong.join("; ")));
                }
            }
            "Exists" if !value.is_empty() => {
                errors.push(FieldError::invalid(&at.child("operator"), value, "Exists takes no value"));
            }
            "Exists" => {}
            other => errors.push(FieldError::not_supported(&at.child("operator"), other, &["Equal", "Exists"])),
        }
        if !effect.is_empty() {
            check::one_of(errors, &at.child("effect"), effect, &EFFECTS);
        }
    }
}

fn spread(errors: &mut Errors, path: &Path, spec: &Value) {
    let rules = spec.list_at("topologySpreadConstraints");
    for (i, rule) in rules.iter().enumerate() {
        let at = path.index(i);
        let skew = rule.int_at("maxSkew").unwrap_or_default();
        if skew <= 0 {
            errors.push(FieldError::invalid(&at.child("maxSkew"), skew, "must be 1 or more"));
        }
        let (key, unsatisfiable) = (rule.str_at("topologyKey"), rule.str_at("whenUnsatisfiable"));
        if key.is_empty() {
            errors.push(FieldError::required(&at.child("topologyKey"), "a label of nodes"));
        }
        check::one_of(errors, &at.child("whenUnsatisfiable"), unsatisfiable, &["DoNotSchedule", "ScheduleAnyway"]);
        let twin =
            |other: &Value| other.str_at("topologyKey") == key && other.str_at("whenUnsatisfiable") == unsatisfiable;
        if rules[i + 1..].iter().any(twin) {
            let value = format!("{{{key}, {unsatisfiable}}}");
            errors.push(FieldError::duplicate(&at.child("{topologyKey, whenUnsatisfiable}"), value));
        }
        if let Some(domains) = rule.int_at("minDomains") {
            let at = at.child("minDomains");
            if domains <= 0 {
                errors.push(FieldError::invalid(&at, domains, "must be 1 or more"));
            }
            if unsatisfiable != "DoNotSchedule" {
                errors.push(FieldError::invalid(&at, domains, "only with whenUnsatisfiable DoNotSchedule"));
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if let Some(policy) = rule.at(field).as_str() {
                check::one_of(errors, &at.child(field), policy, &["Honor", "Ignore"]);
            }
        }
        label_keys(errors, &at, rule);
        selector::validate(errors, &at.child("labelSelector"), rule.at("labelSelector"));
    }
}
