//! Making objects be as wanted: create what is missing, put right what differs, leave alone what agrees.
//!
//! Every write starts from what the API holds, so that a cut after any of them is made good by the next pass.

use super::{names, plan::deployment::hash};
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy},
};
use runtime::controller::{Result, Store};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{fmt::Debug, sync::Arc};

/// A kind that is written here.
pub trait Kind:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug + Send + Sync + 'static
{
}
impl<K> Kind for K where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug + Send + Sync + 'static
{
}

/// Whether everything that is wanted is there. What the API server has added does not matter.
pub fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| contains(live.get(key).unwrap_or(&Value::Null), wanted))
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| contains(live, wanted))
        }
        // What is empty is the same as absent, which is how the API server stores it.
        (Value::Null, Value::String(wanted)) => wanted.is_empty(),
        (Value::Null, Value::Array(wanted)) => wanted.is_empty(),
        (Value::Null, Value::Object(wanted)) => wanted.values().all(|wanted| contains(&Value::Null, wanted)),
        (live, wanted) => live == wanted,
    }
}

/// Makes an object be as wanted. An annotation says what it was written from, so that what is wanted no more goes as well.
pub async fn put<K: Kind>(api: &Api<K>, live: Option<&K>, mut wanted: Value) -> Result<Option<K>> {
    let written = hash(&wanted);
    wanted["metadata"]["annotations"][names::WRITTEN] = json!(written);
    let Some(live) = live else {
        let object: K = serde_json::from_value(wanted)?;
        return Ok(Some(api.create(&PostParams::default(), &object).await?));
    };
    // Finalizers are put there at creation; from then on they are everybody's.
    if let Some(metadata) = wanted["metadata"].as_object_mut() {
        metadata.remove("finalizers");
    }
    let current = serde_json::to_value(live)?;
    if contains(&current, &wanted) || live.meta().deletion_timestamp.is_some() {
        return Ok(None);
    }
    let mut new = current.clone();
    for field in ["labels", "annotations"] {
        for (key, value) in wanted["metadata"][field].as_object().into_iter().flatten() {
            new["metadata"][field][key] = value.clone();
        }
    }
    for (field, value) in wanted.as_object().into_iter().flatten().filter(|(field, _)| *field != "metadata") {
        new[field] = value.clone();
    }
    if !wanted["metadata"]["ownerReferences"].is_null() {
        new["metadata"]["ownerReferences"] = wanted["metadata"]["ownerReferences"].clone();
    }
    let object: K = serde_json::from_value(new)?;
    Ok(Some(api.replace(&live.name_any(), &PostParams::default(), &object).await?))
}

/// The same for an object that is in no store.
pub async fn ensure<K: Kind>(api: &Api<K>, wanted: Value) -> Result<()> {
    let name = wanted["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let live = api.get_opt(&name).await?;
    put(api, live.as_ref(), wanted).await.map(drop)
}

/// Creates an object unless there is one of its name, which is left as it is. `make` is asked only if there is none.
pub async fn create_once<K: Kind>(api: &Api<K>, name: &str, make: impl FnOnce() -> Result<Value>) -> Result<()> {
    if api.get_opt(name).await?.is_some() {
        return Ok(());
    }
    let object: K = serde_json::from_value(make()?)?;
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        answer => answer.map(drop).map_err(Into::into),
    }
}

/// Deletes an object if it is there; whether it is gone.
pub async fn delete<K: Kind>(api: &Api<K>, name: &str) -> Result<bool> {
    let how = DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() };
    match api.delete(name, &how).await {
        Ok(_) => Ok(api.get_opt(name).await?.is_none()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Writes a Service that was computed from the live one, and remembers the answer.
pub async fn replace_service(client: &Client, store: &Store<Service>, new: &Service) -> Result<()> {
    let api: Api<Service> = Api::namespaced(client.clone(), names::OPERAND_NAMESPACE);
    let answer = api.replace(&new.name_any(), &PostParams::default(), new).await?;
    store.remember(answer);
    Ok(())
}

/// Creates a Service and remembers the answer.
pub async fn create_service(client: &Client, store: &Store<Service>, new: &Service) -> Result<()> {
    let api: Api<Service> = Api::namespaced(client.clone(), names::OPERAND_NAMESPACE);
    store.remember(api.create(&PostParams::default(), new).await?);
    Ok(())
}

/// Writes the status if it differs from what is there.
pub async fn status<K: Kind>(api: &Api<K>, store: &Store<K>, live: &Arc<K>, status: &impl Serialize) -> Result<()> {
    let (current, wanted) = (serde_json::to_value(&**live)?, serde_json::to_value(status)?);
    if current["status"] == wanted {
        return Ok(());
    }
    let mut object = current;
    object["status"] = wanted;
    let object: K = serde_json::from_value(object)?;
    store.remember(api.replace_status(&live.name_any(), &PostParams::default(), &object).await?);
    Ok(())
}

/// Adds or takes away a finalizer; the object as it then is.
pub async fn finalizer<K: Kind>(api: &Api<K>, live: &K, finalizer: &str, present: bool) -> Result<Option<K>> {
    let mut all: Vec<String> = live.finalizers().iter().filter(|known| *known != finalizer).cloned().collect();
    if live.finalizers().iter().any(|known| known == finalizer) == present {
        return Ok(None);
    }
    if present {
        all.push(finalizer.to_owned());
    }
    let patch = json!({"metadata": {"resourceVersion": live.resource_version(), "finalizers": all}});
    match api.patch(&live.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        answer => Ok(Some(answer?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_api_server_adds_is_no_difference() {
        let live = json!({"spec": {"a": 1, "added": true, "list": [{"name": "x", "added": 1}]}, "metadata": {"labels": {"theirs": "1"}}});
        for (wanted, same) in [
            (json!({"spec": {"a": 1}}), true),
            (json!({"spec": {"list": [{"name": "x"}]}}), true),
            (json!({"spec": {"empty": [], "none": {}, "text": ""}}), true),
            (json!({"spec": {"a": 2}}), false),
            (json!({"spec": {"list": [{"name": "x"}, {"name": "y"}]}}), false),
            (json!({"spec": {"list": []}}), false),
            (json!({"metadata": {"labels": {"ours": "1"}}}), false),
        ] {
            assert_eq!(contains(&live, &wanted), same, "{wanted}");
        }
    }
}
