//! LimitRanger: new pods and claims keep to the LimitRanges of their namespace. The rules are `api::limits`.

use crate::{call::Call, stored};
use api::{error::ApiError, limits, object::Fields};
use serde_json::Value;

async fn ranges(call: &Call) -> Result<Vec<Value>, ApiError> {
    if !call.server.config.admission.limit_ranger {
        return Ok(Vec::new());
    }
    let page = call.server.store.list(&format!("limitranges/{}/", call.request.namespace), None, None, None).await;
    let page = page.map_err(|error| ApiError::unavailable(error.to_string()))?;
    page.entries.iter().map(stored::parse).collect()
}

/// Gives a new pod what it does not say.
pub(super) async fn fill_in(call: &Call, pod: &mut Value) -> Result<(), ApiError> {
    for range in ranges(call).await? {
        limits::fill_in(&range, pod);
    }
    Ok(())
}

/// Refuses a new or resized pod that asks for too little or too much.
pub(super) async fn check_pod(call: &Call, pod: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    let concerned = match old {
        None => call.request.subresource.is_empty(),
        Some(old) => call.request.subresource == "resize" && old.at("metadata.deletionTimestamp").is_null(),
    };
    if concerned { check(call, pod, limits::check_pod).await } else { Ok(()) }
}

/// Refuses a claim that asks for too little or too much.
pub(super) async fn check_claim(call: &Call, claim: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    let leaves = old.is_some_and(|old| !old.at("metadata.deletionTimestamp").is_null());
    if call.request.subresource.is_empty() && !leaves { check(call, claim, limits::check_claim).await } else { Ok(()) }
}

async fn check(call: &Call, object: &Value, rule: fn(&Value, &Value) -> Vec<String>) -> Result<(), ApiError> {
    for range in ranges(call).await? {
        let mut broken = rule(&range, object);
        let mut seen = std::collections::BTreeSet::new();
        broken.retain(|text| seen.insert(text.clone()));
        let why = match broken.as_slice() {
            [] => continue,
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        return Err(ApiError::forbidden(&call.resource.plural, "", object.str_at("metadata.name"), why));
    }
    Ok(())
}
