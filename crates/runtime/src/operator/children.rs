//! The objects that an operator owns: written by server-side apply where they differ from what is wanted, and only there.
//!
//! An annotation says what an object was written from. So whether there is anything to do is read off the object itself, also
//! after a restart and also when less is wanted than before; a pass that is cut off anywhere is made good by the next one.

use super::difference::difference;
use crate::{
    client::Api,
    controller::{Key, Result, Store},
};
use kube::{
    Client, Resource, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams, Preconditions,
        PropagationPolicy,
    },
    core::Status,
};
use objects::{Decode, Encode};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// What an object was written from, by earlier releases, which replaced whole objects.
const REPLACED: &str = "twinstack.dev/written-from";
/// Kinds that nothing is lost with when one is made anew, because a field of it cannot be changed.
const RENEWABLE: [&str; 7] = [
    "ClusterRoleBinding",
    "ConfigMap",
    "DaemonSet",
    "Deployment",
    "EndpointSlice",
    "PodDisruptionBudget",
    "RoleBinding",
];

/// Writes and deletes objects in the name of one operator.
#[derive(Clone)]
pub struct Children {
    client: Client,
    /// Who owns the fields that are written.
    manager: &'static str,
}

impl Children {
    #[must_use]
    pub fn new(client: Client, manager: &'static str) -> Self {
        Self { client, manager }
    }

    /// Makes an object be as wanted that is also watched; whether it had to be written.
    pub async fn keep<K>(&self, store: &Store<K>, wanted: Value) -> Result<bool>
    where
        K: Resource + Encode + Decode + Send + Sync + 'static,
    {
        let live = store.get(&Address::of(&wanted).key());
        let live = live.map(|live| objects::to_value(&*live)).transpose()?;
        let Some(written) = self.apply(wanted, live.as_ref()).await? else { return Ok(false) };
        store.remember(objects::from_value(&written)?);
        Ok(true)
    }

    /// The same for an object that nobody watches: the API is asked for it.
    pub async fn ensure(&self, wanted: Value) -> Result<bool> {
        let address = Address::of(&wanted);
        let live = address.api(&self.client).get_opt(&address.name).await?.map(|live| json!(live));
        Ok(self.apply(wanted, live.as_ref()).await?.is_some())
    }

    /// Creates an object unless there is one of its name, which is left as it is. `make` is asked only if there is none.
    pub async fn create_once<K>(
        &self,
        namespace: Option<&str>,
        name: &str,
        make: impl FnOnce() -> Result<Value>,
    ) -> Result<()>
    where
        K: Resource<DynamicType = ()>,
    {
        let api = Address::at::<K>(namespace, name).api(&self.client);
        if api.get_opt(name).await?.is_some() {
            return Ok(());
        }
        match api.create(&self.parameters(), &serde_json::from_value(make()?)?).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            answer => answer.map(drop).map_err(Into::into),
        }
    }

    /// Deletes an object if it is there; whether it is gone.
    pub async fn delete<K: Resource<DynamicType = ()>>(&self, namespace: Option<&str>, name: &str) -> Result<bool> {
        delete(&Address::at::<K>(namespace, name).api(&self.client), name, None).await
    }

    /// Writes the status of an object if it differs from what is there.
    pub async fn status<K>(&self, store: &Store<K>, live: &Arc<K>, status: &impl Serialize) -> Result<bool>
    where
        K: Resource<DynamicType = ()> + Encode + Decode + Send + Sync + 'static,
    {
        let (mut object, wanted) = (objects::to_value(&**live)?, serde_json::to_value(status)?);
        if object["status"] == wanted {
            return Ok(false);
        }
        object["status"] = wanted;
        let api = Address::at::<K>(live.namespace().as_deref(), &live.name_any()).api(&self.client);
        let object: DynamicObject = serde_json::from_value(object)?;
        let written = api.replace_status(&live.name_any(), &self.parameters(), &object).await?;
        store.remember(objects::from_value(&json!(written))?);
        Ok(true)
    }

    /// Adds or takes away a finalizer; the object as it then is, if it was changed and is still there.
    pub async fn finalizer<K>(&self, live: &K, finalizer: &str, present: bool) -> Result<Option<K>>
    where
        K: Resource<DynamicType = ()> + Decode,
    {
        let mut all: Vec<&String> = live.finalizers().iter().filter(|known| *known != finalizer).collect();
        if (all.len() < live.finalizers().len()) == present {
            return Ok(None);
        }
        let finalizer = finalizer.to_owned();
        all.extend(present.then_some(&finalizer));
        let patch = json!({"metadata": {"resourceVersion": live.resource_version(), "finalizers": all}});
        let api = Address::at::<K>(live.namespace().as_deref(), &live.name_any()).api(&self.client);
        match api.patch(&live.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            answer => Ok(Some(objects::from_value(&json!(answer?))?)),
        }
    }

    /// Brings an object from what it is to what is wanted; what the API answered, if it had to be asked.
    async fn apply(&self, wanted: Value, live: Option<&Value>) -> Result<Option<Value>> {
        let Some(wanted) = difference(wanted, live, self.manager) else { return Ok(None) };
        let address = Address::of(&wanted);
        let (api, name) = (address.api(&self.client), address.name.as_str());
        if live.is_some_and(|live| !live["metadata"]["annotations"][REPLACED].is_null()) {
            self.take_over(&api, name).await?;
        }
        let parameters = PatchParams::apply(self.manager).force();
        let mut answer = api.patch(name, &parameters, &Patch::Apply(&wanted)).await;
        if let Err(kube::Error::Api(status)) = &answer
            && is_immutable(status)
            && RENEWABLE.contains(&address.resource.kind.as_str())
        {
            let uid = live.and_then(|live| live["metadata"]["uid"].as_str()).map(str::to_owned);
            if !delete(&api, name, uid).await? {
                return Err(format!("{address} is made anew ({}); the old one is still going", status.message).into());
            }
            tracing::info!(object = %address, because = status.message, "made anew");
            answer = api.patch(name, &parameters, &Patch::Apply(&wanted)).await;
        }
        let written = answer?;
        tracing::info!(object = %address, "written");
        Ok(Some(json!(written)))
    }

    /// Fields that an earlier release wrote by replacing the object become ours to take away.
    async fn take_over(&self, api: &Api<DynamicObject>, name: &str) -> Result<()> {
        let Some(live) = api.get_opt(name).await? else { return Ok(()) };
        let mark = format!("f:{REPLACED}");
        let mut fields = json!(live.metadata.managed_fields);
        for entry in fields.as_array_mut().into_iter().flatten() {
            let is_earlier = !entry["fieldsV1"]["f:metadata"]["f:annotations"][&mark].is_null();
            if is_earlier && entry["operation"] == "Update" {
                entry["operation"] = json!("Apply");
                entry["manager"] = json!(self.manager);
            }
        }
        let patch = json!({"metadata": {"resourceVersion": live.resource_version(), "managedFields": fields}});
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    fn parameters(&self) -> PostParams {
        PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() }
    }
}

/// Whether the API refuses a change because a field stays as it was created. Where upstream has no reason for it, its words tell.
fn is_immutable(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 422 && causes.any(|cause| cause.field == "roleRef" || cause.message.contains("immutable"))
}

/// Deletes an object, if it is there and still this one; whether it is gone.
async fn delete(api: &Api<DynamicObject>, name: &str, uid: Option<String>) -> Result<bool> {
    let how = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        preconditions: uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None }),
        ..DeleteParams::default()
    };
    match api.delete(name, &how).await {
        Ok(_) => Ok(api.get_opt(name).await?.is_none()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Where an object is.
struct Address {
    resource: ApiResource,
    namespace: Option<String>,
    name: String,
}

impl Address {
    fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let version = text(&object["apiVersion"]);
        let (group, version) = version.split_once('/').unwrap_or(("", &version));
        let kind = GroupVersionKind::gvk(group, version, &text(&object["kind"]));
        let metadata = &object["metadata"];
        Self {
            resource: ApiResource::from_gvk(&kind),
            namespace: metadata["namespace"].as_str().map(str::to_owned),
            name: text(&metadata["name"]),
        }
    }

    fn at<K: Resource<DynamicType = ()>>(namespace: Option<&str>, name: &str) -> Self {
        let resource = ApiResource::erase::<K>(&());
        Self { resource, namespace: namespace.map(str::to_owned), name: name.to_owned() }
    }

    fn key(&self) -> Key {
        Key::new(self.namespace.clone().unwrap_or_default(), self.name.clone())
    }

    fn api(&self, client: &Client) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.resource.kind, self.key())
    }
}
