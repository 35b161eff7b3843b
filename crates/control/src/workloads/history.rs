//! ControllerRevisions: the templates that a DaemonSet or a StatefulSet has had, as `kubectl rollout history` and `undo` read them.

use super::{
    owned::{self, Object, Owned},
    template,
};
use crate::framework::{Context, Result, Store};
use k8s_openapi::{
    api::{apps::v1::ControllerRevision, core::v1::PodTemplateSpec},
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        runtime::RawExtension,
    },
};
use kube::{ResourceExt, api::PostParams};
use serde_json::{Value, json};
use std::sync::Arc;

/// The revisions of all owners of one kind.
pub(crate) struct History {
    revisions: Owned<ControllerRevision>,
    /// The label under which a revision has the hash of its template.
    hash_label: &'static str,
}

/// What became of an owner's history.
#[derive(Debug)]
pub(crate) enum Kept {
    /// The present template's revision has the greatest number; the others from the first on.
    Revisions { present: Arc<ControllerRevision>, old: Vec<Arc<ControllerRevision>> },
    /// The name for the present template's is somebody else's; the count of collisions gives another one.
    Taken(String),
}

/// Why there is no revision yet.
pub(crate) fn taken(name: &str) -> crate::framework::Error {
    format!("ControllerRevision {name} exists and is not ours; another name is tried").into()
}

impl History {
    pub(crate) fn new(context: &Context, hash_label: &'static str) -> Self {
        Self { revisions: Owned::new(context), hash_label }
    }

    pub(crate) fn store(&self) -> &Store<ControllerRevision> {
        &self.revisions.store
    }

    /// The hash by which a revision is known.
    pub(crate) fn hash<'a>(&self, revision: &'a ControllerRevision) -> &'a str {
        revision.labels().get(self.hash_label).map(String::as_str).unwrap_or_default()
    }

    pub(crate) async fn delete(&self, revision: &ControllerRevision) -> Result<()> {
        self.revisions.delete(revision).await
    }

    /// Makes the present template's revision the newest.
    pub(crate) async fn keep<O: Object>(
        &self,
        owner: &O,
        selector: &LabelSelector,
        present: &PodTemplateSpec,
        collisions: Option<i32>,
    ) -> Result<Kept> {
        let all = self.revisions.claim(owner, selector).await?;
        let (known, old) = split(present, all);
        let next = old.iter().map(|revision| number(revision)).max().unwrap_or_default() + 1;
        let api = self.revisions.api(&owner.namespace().unwrap_or_default());
        let present = match known {
            Some(known) if number(&known) >= next => known,
            Some(known) => {
                let changed = ControllerRevision { revision: Some(next), ..(*known).clone() };
                let stored = api.replace(&known.name_any(), &PostParams::default(), &changed).await?;
                self.revisions.store.remember(stored.clone());
                Arc::new(stored)
            }
            None => {
                let wanted = create(owner, present, self.hash_label, next, collisions);
                let made = match api.create(&PostParams::default(), &wanted).await {
                    Err(kube::Error::Api(status)) if status.code == 409 => {
                        // Ours, only not seen yet, or somebody's with the same hash.
                        let known = api.get(&wanted.name_any()).await?;
                        let ours = owned::controller_of(&known.metadata).map(|controller| &controller.uid)
                            == owner.meta().uid.as_ref();
                        if !ours || known.data != wanted.data {
                            return Ok(Kept::Taken(wanted.name_any()));
                        }
                        known
                    }
                    made => made?,
                };
                self.revisions.store.remember(made.clone());
                Arc::new(made)
            }
        };
        Ok(Kept::Revisions { present, old })
    }
}

/// The present template's revision, and the older ones from the first on.
fn split(
    present: &PodTemplateSpec,
    mut revisions: Vec<Arc<ControllerRevision>>,
) -> (Option<Arc<ControllerRevision>>, Vec<Arc<ControllerRevision>>) {
    let wanted = template::essence(present);
    revisions.sort_by_key(|revision| (number(revision), revision.name_any()));
    let is_it = |one: &Arc<ControllerRevision>| template(one).as_ref().map(template::essence).as_ref() == Some(&wanted);
    let known = revisions.iter().rposition(is_it).map(|at| revisions.remove(at));
    (known, revisions)
}

fn number(revision: &ControllerRevision) -> i64 {
    revision.revision.unwrap_or_default()
}

/// A revision of a template.
fn create<O: Object>(
    owner: &O,
    present: &PodTemplateSpec,
    hash_label: &str,
    revision: i64,
    collisions: Option<i32>,
) -> ControllerRevision {
    let hash = template::hash(present, collisions);
    let mut labels = present.metadata.clone().unwrap_or_default().labels.unwrap_or_default();
    labels.insert(hash_label.to_owned(), hash.clone());
    let mut data = objects::to_value(present).unwrap_or_default();
    // Undo is a patch with this data: all of the template, not its differences.
    data["$patch"] = json!("replace");
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", owner.name_any())),
            namespace: owner.namespace(),
            labels: Some(labels),
            annotations: owner.meta().annotations.clone(),
            owner_references: Some(vec![owned::reference(owner)]),
            ..ObjectMeta::default()
        },
        data: RawExtension(json!({"spec": {"template": data}})),
        revision: Some(revision),
    }
}

/// The template that a revision keeps.
pub(crate) fn template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut data: Value = revision.data.0.pointer("/spec/template")?.clone();
    data.as_object_mut()?.remove("$patch");
    objects::from_value(&data).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::DaemonSet;
    use serde_json::from_value;

    fn set(image: &str) -> DaemonSet {
        from_value(json!({"metadata": {"name": "agent", "namespace": "default", "uid": "ds"},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {
                "metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "c", "image": image}]}}}}))
        .unwrap()
    }

    #[test]
    fn a_revision_keeps_its_template_and_is_found_by_it() {
        let revision = |image: &str, number: i64| {
            let set = set(image);
            Arc::new(create(&set, &set.spec.template, "hash", number, None))
        };
        let all = vec![revision("two", 2), revision("one", 1), revision("three", 3)];
        for (image, known, old) in
            [("one", Some(1), vec![2, 3]), ("three", Some(3), vec![1, 2]), ("four", None, vec![1, 2, 3])]
        {
            let (found, others) = split(&set(image).spec.template, all.clone());
            assert_eq!(found.map(|one| number(&one)), known, "{image}");
            assert_eq!(others.iter().map(|one| number(one)).collect::<Vec<_>>(), old, "{image}");
        }
        let kept = revision("one", 1);
        assert_eq!(template(&kept), Some(set("one").spec.template));
        assert_eq!(kept.data.0["spec"]["template"]["$patch"], "replace");
        let name = kept.name_any();
        assert_eq!(name, format!("agent-{}", kept.labels()["hash"]));
        let again = create(&set("one"), &set("one").spec.template, "hash", 1, Some(1));
        assert_ne!(again.name_any(), name, "a collision gives another name");
    }
}
