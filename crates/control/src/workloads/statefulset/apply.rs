//! Brings a StatefulSet's plan about: claims, pods, and what is told of them.

use super::{
    StatefulSets,
    claims::{self, Place},
    plan::{Plan, Revision, Source},
    pod,
};
use crate::{
    framework::{Key, Result, reference},
    workloads::{batches, replicaset::is_namespace_leaving},
};
use k8s_openapi::{
    api::{
        apps::v1::StatefulSet,
        core::v1::{PersistentVolumeClaim, Pod},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use runtime::client::Api;
use serde_json::json;

impl StatefulSets {
    /// Does what the plan says; the first error ends it.
    pub(super) async fn apply(&self, set: &StatefulSet, plan: &Plan<'_>, revisions: &[Revision; 2]) -> Result<()> {
        for (ordinal, _) in &plan.pending {
            self.make_claims(set, *ordinal).await?;
        }
        let (_, failure) = batches::slow_start(plan.create.len(), |at| {
            let (ordinal, source) = plan.create[at];
            self.create(set, ordinal, &revisions[usize::from(source == Source::Update)])
        })
        .await;
        if let Some(error) = failure {
            return Err(error);
        }
        for (ordinal, pod) in &plan.tend {
            self.keep_identity(set, *ordinal, pod).await?;
            self.keep_claims(set, *ordinal, pod, Place::Within).await?;
        }
        for (ordinal, pod) in &plan.condemned {
            self.keep_claims(set, *ordinal, pod, Place::Beyond).await?;
        }
        for pod in &plan.delete {
            let (name, of) = (pod.name_any(), set.name_any());
            self.pods.delete(pod).await?;
            let note = format!("delete Pod {name} in StatefulSet {of} successful");
            self.events.normal(&reference(set), "SuccessfulDelete", note).await;
        }
        Ok(())
    }

    async fn create(&self, set: &StatefulSet, ordinal: i32, revision: &Revision) -> Result<()> {
        let wanted = pod::create(set, &revision.template, &revision.name, ordinal);
        let (name, of) = (wanted.name_any(), set.name_any());
        if claims::go_when_scaled(set) {
            let stale = |claim: &PersistentVolumeClaim| claims::is_stale(claim, &wanted);
            let of_set = pod::claims(set, ordinal);
            let known = of_set.iter().filter_map(|(_, claim)| self.claims.get(&Key::of(claim)));
            if known.into_iter().any(|claim| stale(&claim)) {
                return Err(format!("a claim of {name} still belongs to the pod that had this name before").into());
            }
        }
        self.make_claims(set, ordinal).await?;
        let api = self.pods.api(&set.namespace().unwrap_or_default());
        match api.create(&PostParams::default(), &wanted).await {
            Ok(made) => {
                self.pods.store.remember(made);
                let note = format!("create Pod {name} in StatefulSet {of} successful");
                self.events.normal(&reference(set), "SuccessfulCreate", note).await;
                Ok(())
            }
            Err(error) if is_namespace_leaving(&error) => Ok(()),
            Err(error) => {
                // A pod of this name that is not ours has to go first; the watch brings us back.
                let note = format!("create Pod {name} in StatefulSet {of} failed error: {error}");
                self.events.warning(&reference(set), "FailedCreate", note).await;
                Err(error.into())
            }
        }
    }

    /// Makes the claims that a pod lacks.
    async fn make_claims(&self, set: &StatefulSet, ordinal: i32) -> Result<()> {
        let api: Api<PersistentVolumeClaim> =
            Api::namespaced(self.client.clone(), &set.namespace().unwrap_or_default());
        for (_, claim) in pod::claims(set, ordinal) {
            match self.claims.get(&Key::of(&claim)) {
                Some(known) if known.metadata.deletion_timestamp.is_some() => {
                    return Err(format!("the claim {} is being deleted", known.name_any()).into());
                }
                Some(_) => continue,
                None => {}
            }
            let (name, of) = (claim.name_any(), set.name_any());
            match api.create(&PostParams::default(), &claim).await {
                Ok(made) => {
                    self.claims.remember(made);
                    let note = format!("create Claim {name} Pod {of}-{ordinal} in StatefulSet {of} success");
                    self.events.normal(&reference(set), "SuccessfulCreate", note).await;
                }
                // Made before, and not seen yet; or claims are not served, and whoever runs the pod decides what that means.
                Err(kube::Error::Api(status)) if matches!(status.code, 409 | 404) => {}
                Err(error) if is_namespace_leaving(&error) => {}
                Err(error) => {
                    let note =
                        format!("create Claim {name} for Pod {of}-{ordinal} in StatefulSet {of} failed error: {error}");
                    self.events.warning(&reference(set), "FailedCreate", note).await;
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Gives claims the owners that the set's policy asks for.
    async fn keep_claims(&self, set: &StatefulSet, ordinal: i32, pod: &Pod, place: Place) -> Result<()> {
        for (_, claim) in pod::claims(set, ordinal) {
            let Some(known) = self.claims.get(&Key::of(&claim)) else { continue };
            if let Some(owners) = claims::owners(&known, set, pod, place) {
                self.set_owners(&known, &owners).await?;
            }
        }
        Ok(())
    }

    async fn set_owners(&self, claim: &PersistentVolumeClaim, owners: &[OwnerReference]) -> Result<()> {
        let api: Api<PersistentVolumeClaim> =
            Api::namespaced(self.client.clone(), &claim.namespace().unwrap_or_default());
        let patch = json!({"metadata": {
            "uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version, "ownerReferences": owners}});
        match api.patch(&claim.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(changed) => self.claims.remember(changed),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Writes the labels that say who a pod is, where they are not there.
    async fn keep_identity(&self, set: &StatefulSet, ordinal: i32, pod: &Pod) -> Result<()> {
        if pod::has_identity(pod) {
            return Ok(());
        }
        let labels: std::collections::BTreeMap<String, String> = pod::identity(&pod.name_any(), ordinal).into();
        let patch = json!({"metadata": {"uid": pod.metadata.uid, "labels": labels}});
        let api = self.pods.api(&set.namespace().unwrap_or_default());
        let changed = api.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        self.pods.store.remember(changed);
        Ok(())
    }
}
