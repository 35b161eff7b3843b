//! A namespace that is deleted: its content goes first, pods before everything else, then the namespace itself.

mod plan;

use super::discovery::{self, Kind};
use crate::{
    framework::{Context, Key, Next, Reconcile, Result, Store, work},
    workloads::now,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use plan::Findings;
use runtime::client::Api;
use std::time::Duration;

/// The finalizer in `spec` that keeps the namespace until its content is gone.
const FINALIZER: &str = "kubernetes";

struct Namespaces {
    client: Client,
    namespaces: Store<Namespace>,
}

/// Runs until it is dropped.
pub async fn run(context: Context) -> Result<()> {
    let (namespaces, pods) = (context.store::<Namespace>(), context.store::<Pod>());
    let queue = context.queue("namespace");
    let _namespaces = namespaces.on_change({
        let queue = queue.clone();
        move |change| {
            if change.new.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_some()) {
                queue.add(change.key());
            }
        }
    });
    // What is waited for most is the end of pods.
    let _pods = pods.on_change({
        let (queue, namespaces) = (queue.clone(), namespaces.clone());
        move |change| {
            let key = Key::cluster(change.key().namespace);
            if change.new.is_none()
                && namespaces.get(&key).is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_some())
            {
                queue.add(key);
            }
        }
    });
    context.synced(&[&namespaces, &pods]).await;
    work(&queue, 3, &Namespaces { client: context.client(), namespaces }).await
}

impl Reconcile for Namespaces {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(namespace) = self.namespaces.get(key) else { return Ok(Next::Done) };
        let Some(since) = namespace.metadata.deletion_timestamp.as_ref().map(|time| time.0) else {
            return Ok(Next::Done);
        };
        let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.clone()).unwrap_or_default();
        if !finalizers.iter().any(|one| one == FINALIZER) {
            return Ok(Next::Done);
        }
        let findings = self.empty(&key.name).await;
        if findings.is_clean() {
            self.finalize(&namespace).await?;
            return Ok(Next::Done);
        }
        self.report(&namespace, &findings).await?;
        Ok(Next::After(pause(since, Timestamp::now())))
    }
}

/// Long-standing content is asked about less often.
fn pause(since: Timestamp, now: Timestamp) -> Duration {
    let age = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    (age / 5).clamp(Duration::from_millis(200), Duration::from_secs(30))
}

impl Namespaces {
    /// Deletes everything and looks what is left.
    async fn empty(&self, namespace: &str) -> Findings {
        let mut findings = Findings::default();
        let kinds = match discovery::kinds(&self.client).await {
            Ok(kinds) => kinds,
            Err(error) => {
                findings.discovery = Some(error.to_string());
                return findings;
            }
        };
        let is_pod = |kind: &Kind| kind.resource.kind == "Pod" && kind.resource.group.is_empty();
        let (pods, others): (Vec<_>, Vec<_>) =
            kinds.into_iter().filter(|kind| kind.namespaced).partition(|kind| is_pod(kind));
        for kinds in [pods, others] {
            for kind in kinds {
                if let Err(error) = self.delete_kind(&kind, namespace, &mut findings).await {
                    findings.failures.push(error.to_string());
                }
            }
            // Pods may need their secrets and service accounts until they have ended.
            if !findings.is_clean() {
                break;
            }
        }
        findings
    }

    async fn delete_kind(&self, kind: &Kind, namespace: &str, findings: &mut Findings) -> kube::Result<()> {
        let api = kind.api(&self.client, Some(namespace));
        let list = match api.list_metadata(&ListParams::default()).await {
            // Gone with its definition.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405) => return Ok(()),
            list => list?,
        };
        if list.items.is_empty() {
            return Ok(());
        }
        if kind.can("deletecollection") {
            api.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
        } else {
            for object in list.items.iter().filter(|object| object.metadata.deletion_timestamp.is_none()) {
                match api.delete(&object.name_any(), &DeleteParams::background()).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    answer => drop(answer?),
                }
            }
        }
        for object in api.list_metadata(&ListParams::default()).await?.items {
            findings.remains(&kind.name(), object.finalizers());
        }
        Ok(())
    }

    async fn report(&self, namespace: &Namespace, findings: &Findings) -> Result<()> {
        let old = namespace.status.clone().unwrap_or_default();
        let conditions = findings.conditions(old.conditions.as_deref().unwrap_or_default(), now());
        if old.conditions.as_ref() == Some(&conditions) {
            return Ok(());
        }
        let mut changed = namespace.clone();
        changed.status.get_or_insert_default().conditions = Some(conditions);
        let api: Api<Namespace> = Api::all(self.client.clone());
        match api.replace_status(&namespace.name_any(), &PostParams::default(), &changed).await {
            Ok(stored) => self.namespaces.remember(stored),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    async fn finalize(&self, namespace: &Namespace) -> Result<()> {
        let mut changed = namespace.clone();
        if let Some(finalizers) = changed.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) {
            finalizers.retain(|one| one != FINALIZER);
        }
        let api: Api<Namespace> = Api::all(self.client.clone());
        match api.replace_subresource("finalize", &namespace.name_any(), &PostParams::default(), &changed).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
