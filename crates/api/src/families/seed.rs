//! What the dual-stack proposal accepts and kube-apiserver does not (`--service-family-rules=seed`).
//!
//! Each rule turns refusals into successes and nothing else. The fourth one, that headless Services without selector keep
//! the families they were given, is in `init`, where upstream completes them.

use super::spec::{FAMILIES, POLICY, Policy, Spec};

/// Fills in or takes out what makes the request acceptable to the steps that follow.
pub(super) fn relax(spec: &mut Spec, old: Option<&Spec>, warnings: &mut Vec<String>) {
    if spec.is_external_name() {
        clear_external_name(spec, old, warnings);
        return;
    }
    if spec.ip.is_empty()
        && let Some(first) = spec.ips.first()
    {
        spec.ip.clone_from(first);
    }
    let two = spec.families.len() == 2 || spec.ips.len() == 2;
    let inherits = old.and_then(|old| old.policy.as_ref()).is_some_and(|policy| *policy != Policy::Single);
    if two && spec.policy.is_none() && !inherits {
        spec.policy = Some(Policy::Require);
    }
}

/// Nothing is said where the fields are those of the Service before it became an ExternalName.
fn clear_external_name(spec: &mut Spec, old: Option<&Spec>, warnings: &mut Vec<String>) {
    let (families, policy) = (std::mem::take(&mut spec.families), spec.policy.take());
    let families_said = !families.is_empty() && old.is_none_or(|old| old.families != families);
    let policy_said = policy.is_some() && old.is_none_or(|old| old.policy != policy);
    for (said, field) in [(families_said, FAMILIES), (policy_said, POLICY)] {
        if said {
            warnings.push(format!("{field} was cleared; a service of type ExternalName has none"));
        }
    }
}
