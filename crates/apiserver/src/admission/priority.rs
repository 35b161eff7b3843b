//! Priority: pods have the priority of their class, and there is one class for those that name none.

use crate::call::Call;
use api::{error::ApiError, object::Fields};
use serde_json::Value;

/// What pods without a class do to others.
const PREEMPTS: &str = "PreemptLowerPriority";

/// The priority of the Pod's class; a class that does not exist is refused.
pub(super) async fn admit(call: &Call, pod: &mut Value) -> Result<(), ApiError> {
    let named = pod.str_at("spec.priorityClassName").to_owned();
    let classes = call.server.objects("priorityclasses").await?;
    let class = if named.is_empty() {
        default_of(classes)
    } else {
        classes.into_iter().find(|class| class.str_at("metadata.name") == named)
    };
    let forbid = |why: String| Err(ApiError::forbidden("pods", "", pod.str_at("metadata.name"), why));
    let (value, policy) = match &class {
        Some(class) => (class.int_at("value").unwrap_or(0), class.str_at("preemptionPolicy").to_owned()),
        None if named.is_empty() => (0, PREEMPTS.to_owned()),
        None => return forbid(format!("no PriorityClass with name {named} was found")),
    };
    if let Some(given) = pod.int_at("spec.priority")
        && given != value
    {
        return forbid(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        ));
    }
    let given = pod.str_at("spec.preemptionPolicy");
    if !policy.is_empty() && !given.is_empty() && given != policy {
        return forbid(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        ));
    }
    pod.set("spec.priority", value);
    if let Some(class) = class {
        pod.set("spec.priorityClassName", class.str_at("metadata.name"));
    }
    if !policy.is_empty() {
        pod.set("spec.preemptionPolicy", policy);
    }
    Ok(())
}

/// Refuses a second class for those that name none.
pub(super) async fn check_class(call: &Call, class: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    if !class.is_true("globalDefault") {
        return Ok(());
    }
    let name = class.str_at("metadata.name");
    match default_of(call.server.objects("priorityclasses").await?) {
        Some(known) if old.is_none() || known.str_at("metadata.name") != name => {
            let known = known.str_at("metadata.name");
            let why = format!("PriorityClass {known} is already marked as default. Only one default can exist");
            Err(ApiError::forbidden("priorityclasses", "scheduling.k8s.io", name, why))
        }
        _ => Ok(()),
    }
}

/// The class of pods that name none; the lowest, should there be several.
fn default_of(classes: Vec<Value>) -> Option<Value> {
    classes.into_iter().filter(|class| class.is_true("globalDefault")).min_by_key(|class| class.int_at("value"))
}
