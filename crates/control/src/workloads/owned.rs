//! What a workload owns: found by controller reference, adopted and let go by selector, deleted.

use crate::framework::{Change, Context, Index, Key, Result, Store, matches_labels};
use k8s_openapi::{
    NamespaceResourceScope,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference},
};
use kube::{
    Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use objects::Encode;
use runtime::client::{Api, Kind};
use serde_json::{Value, json};
use std::{borrow::Cow, sync::Arc};

/// What to do about one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// It is ours.
    Keep,
    /// It becomes ours.
    Adopt,
    /// It was ours, and its labels say that it no longer is.
    Release,
    /// It is somebody else's, or nobody's.
    Ignore,
}

/// The objects of one kind, by owner.
#[derive(Clone)]
pub(crate) struct Owned<K> {
    client: Client,
    pub(crate) store: Store<K>,
    controlled: Index,
    orphans: Index,
}

/// What an object must have, beside the labels, to belong to an owner.
#[derive(Clone, Copy, Default)]
pub(crate) struct Terms<'a> {
    /// Part of its name: what is said of the whole name.
    pub(crate) named: Option<&'a (dyn Fn(&str) -> bool + Sync)>,
    /// Put onto what is adopted, taken off what is let go.
    pub(crate) finalizer: Option<&'a str>,
}

impl Terms<'_> {
    fn accept(&self, meta: &ObjectMeta) -> bool {
        self.named.is_none_or(|named| named(meta.name.as_deref().unwrap_or_default()))
    }
}

/// What all kinds that own and are owned have in common.
pub(crate) trait Object: Kind + Resource<Scope = NamespaceResourceScope> {}

impl<K: Kind + Resource<Scope = NamespaceResourceScope>> Object for K {}

pub(crate) fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.as_ref()?.iter().find(|owner| owner.controller == Some(true))
}

/// An object as the controller of others.
pub(crate) fn reference<O: Resource<DynamicType = ()>>(owner: &O) -> OwnerReference {
    OwnerReference {
        api_version: O::api_version(&()).into_owned(),
        kind: O::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Whether a selector says nothing. Workloads with such a one own nothing.
pub(crate) fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(|labels| labels.is_empty())
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

/// The owners that a change of an owned object concerns: its controllers, and for one without, those whose selector
/// finds it.
pub(crate) fn owners_of<K: Object, O: Object>(
    change: &Change<'_, K>,
    owners: &Store<O>,
    selector: fn(&O) -> Cow<'_, LabelSelector>,
) -> Vec<Key> {
    let mut keys = Vec::new();
    for object in change.both() {
        let namespace = object.namespace().unwrap_or_default();
        match controller_of(object.meta()) {
            Some(owner) if owner.kind == O::kind(&()) => keys.push(Key::new(namespace, &owner.name)),
            Some(_) => {}
            None => {
                let finds = |owner: &&Arc<O>| {
                    let selector = selector(owner);
                    !is_empty(&selector) && matches_labels(&selector, object.meta().labels.as_ref())
                };
                keys.extend(owners.in_namespace(&namespace).iter().filter(finds).map(|owner| Key::of(&**owner)));
            }
        }
    }
    keys
}

impl<K: Object> Owned<K> {
    pub(crate) fn new(context: &Context) -> Self {
        let store = context.store::<K>();
        let controlled = store.index("controller", |object| {
            controller_of(object.meta()).map(|owner| owner.uid.clone()).into_iter().collect()
        });
        let orphans = store.index("no-controller", |object| match controller_of(object.meta()) {
            Some(_) => Vec::new(),
            None => vec![object.namespace().unwrap_or_default()],
        });
        Self { client: context.client(), store, controlled, orphans }
    }

    pub(crate) fn api(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Everything with this controller, in no order.
    pub(crate) fn of(&self, uid: &str) -> Vec<Arc<K>> {
        self.store.by(self.controlled, uid)
    }

    /// What `owner` owns, after adopting what its selector finds and letting go of what it no longer finds.
    pub(crate) async fn claim<O: Object>(&self, owner: &O, selector: &LabelSelector) -> Result<Vec<Arc<K>>> {
        self.claim_on(owner, selector, Terms::default()).await
    }

    /// The same, on more terms than the labels.
    pub(crate) async fn claim_on<O: Object>(
        &self,
        owner: &O,
        selector: &LabelSelector,
        terms: Terms<'_>,
    ) -> Result<Vec<Arc<K>>> {
        let namespace = owner.namespace().unwrap_or_default();
        let uid = owner.uid().unwrap_or_default();
        let mut candidates = self.of(&uid);
        candidates.extend(self.store.by(self.orphans, &namespace));
        let mut may_adopt = None;
        let mut claimed = Vec::new();
        for object in candidates {
            match claim(owner.meta(), selector, object.meta(), terms) {
                Claim::Keep => claimed.push(object),
                Claim::Ignore => {}
                Claim::Release => {
                    let others = object.owner_references().iter().filter(|other| other.uid != uid).cloned().collect();
                    let mut finalizers = object.finalizers().to_vec();
                    finalizers.retain(|name| Some(name.as_str()) != terms.finalizer);
                    self.set_owners(&object, others, finalizers).await?;
                }
                Claim::Adopt => {
                    // The owner as we see it may be older than its deletion: ask before taking anything.
                    let may = match may_adopt {
                        Some(may) => may,
                        None => self.still_there(owner).await?,
                    };
                    may_adopt = Some(may);
                    if may {
                        let mut owners = object.owner_references().to_vec();
                        owners.push(reference(owner));
                        let mut finalizers = object.finalizers().to_vec();
                        let missing = terms.finalizer.filter(|name| finalizers.iter().all(|known| known != name));
                        finalizers.extend(missing.map(str::to_owned));
                        claimed.extend(self.set_owners(&object, owners, finalizers).await?);
                    }
                }
            }
        }
        Ok(claimed)
    }

    /// Deletes one, unless another has taken its name.
    pub(crate) async fn delete(&self, object: &K) -> Result<()> {
        let preconditions = Preconditions { uid: object.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        match self.api(&object.namespace().unwrap_or_default()).delete(&object.name_any(), &params).await {
            Ok(answer) => match answer {
                Some(ending) if ending.meta().deletion_timestamp.is_some() => self.store.remember(ending),
                _ => self.store.forget(object),
            },
            Err(kube::Error::Api(status)) if status.code == 404 => self.store.forget(object),
            // The name belongs to another by now.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Writes the status of an owner; one that is gone needs none.
    pub(crate) async fn write_status(&self, changed: &K) -> Result<()>
    where
        K: Encode,
    {
        let api = self.api(&changed.namespace().unwrap_or_default());
        match api.replace_status(&changed.name_any(), &PostParams::default(), changed).await {
            Ok(stored) => self.store.remember(stored),
            Err(kube::Error::Api(answer)) if answer.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    async fn set_owners(
        &self,
        object: &K,
        owners: Vec<OwnerReference>,
        finalizers: Vec<String>,
    ) -> Result<Option<Arc<K>>> {
        let meta = object.meta();
        let mut patch: Value = json!({"metadata": {
            "uid": meta.uid, "resourceVersion": meta.resource_version, "ownerReferences": owners}});
        if finalizers != object.finalizers() {
            patch["metadata"]["finalizers"] = json!(finalizers);
        }
        let api = self.api(&object.namespace().unwrap_or_default());
        match api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(changed) => {
                self.store.remember(changed);
                Ok(self.store.get(&Key::of(object)))
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn still_there<O: Object>(&self, owner: &O) -> Result<bool> {
        let api: Api<O> = Api::namespaced(self.client.clone(), &owner.namespace().unwrap_or_default());
        let fresh = api.get_metadata_opt(&owner.name_any()).await?;
        Ok(fresh.is_some_and(|fresh| fresh.metadata.uid == owner.uid() && fresh.metadata.deletion_timestamp.is_none()))
    }
}

/// Decides about one object of the owner's namespace.
fn claim(owner: &ObjectMeta, selector: &LabelSelector, object: &ObjectMeta, terms: Terms<'_>) -> Claim {
    let matches = || !is_empty(selector) && matches_labels(selector, object.labels.as_ref()) && terms.accept(object);
    let leaving = owner.deletion_timestamp.is_some();
    match controller_of(object) {
        Some(controller) if Some(&controller.uid) != owner.uid.as_ref() => Claim::Ignore,
        Some(_) if matches() => Claim::Keep,
        Some(_) if leaving => Claim::Ignore,
        Some(_) => Claim::Release,
        None if leaving || object.deletion_timestamp.is_some() || !matches() => Claim::Ignore,
        None => Claim::Adopt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::from_value;

    #[test]
    fn the_controller_reference_decides_then_the_selector() {
        let wanted: LabelSelector = from_value(json!({"matchLabels": {"app": "web"}})).unwrap();
        let controlled = |uid: &str| json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": uid, "controller": true}]);
        for (name, owner_leaves, labels, owners, deleted, expected) in [
            ("ours and selected", false, "web", controlled("me"), false, Claim::Keep),
            ("ours, ending", false, "web", controlled("me"), true, Claim::Keep),
            ("ours, relabelled", false, "db", controlled("me"), false, Claim::Release),
            ("ours, relabelled while we leave", true, "db", controlled("me"), false, Claim::Ignore),
            ("another's", false, "web", controlled("you"), false, Claim::Ignore),
            ("nobody's", false, "web", json!([]), false, Claim::Adopt),
            ("nobody's, other labels", false, "db", json!([]), false, Claim::Ignore),
            ("nobody's, ending", false, "web", json!([]), true, Claim::Ignore),
            ("nobody's while we leave", true, "web", json!([]), false, Claim::Ignore),
        ] {
            let time = |set: bool| if set { json!("2026-01-01T00:00:00Z") } else { Value::Null };
            let owner: ObjectMeta = from_value(json!({"uid": "me", "deletionTimestamp": time(owner_leaves)})).unwrap();
            let object: ObjectMeta = from_value(
                json!({"labels": {"app": labels}, "ownerReferences": owners, "deletionTimestamp": time(deleted)}),
            )
            .unwrap();
            assert_eq!(claim(&owner, &wanted, &object, Terms::default()), expected, "{name}");
            if expected == Claim::Adopt {
                let nothing = LabelSelector::default();
                assert_eq!(claim(&owner, &nothing, &object, Terms::default()), Claim::Ignore, "nothing is selected");
                let strange = Terms { named: Some(&|name| name == "web-0"), finalizer: None };
                assert_eq!(claim(&owner, &wanted, &object, strange), Claim::Ignore, "of another name");
            }
        }
    }
}
