//! `storage-version-migrator-controller`: writes all objects of a resource anew, so that they are stored in the newest version and
//! under the newest key.

use super::discovery::{self, Kind};
use crate::{
    framework::{Context, Key, Next, Queue, Reconcile, Result, Store, work},
    workloads::now,
};
use jiff::SignedDuration;
use k8s_openapi::{
    api::storagemigration::v1::StorageVersionMigration,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::{
    Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use runtime::client::Api;
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// A definition that was made a moment ago may not be served yet.
const PATIENCE: SignedDuration = SignedDuration::from_mins(1);
const PAUSE: Duration = Duration::from_secs(5);
/// Objects that are read at a time.
const PAGE: u32 = 500;

struct Migrator {
    migrations: Store<StorageVersionMigration>,
    client: Client,
}

/// Runs until it is dropped.
pub(super) async fn run(context: Context) -> Result<()> {
    let migrations = context.store::<StorageVersionMigration>();
    let queue: Queue<Key> = context.queue("storage_version_migrator");
    let _migrations = migrations.on_change({
        let queue = queue.clone();
        move |change| queue.add(change.key())
    });
    context.synced(&[&migrations]).await;
    work(&queue, 1, &Migrator { migrations, client: context.client() }).await
}

fn has_ended(migration: &StorageVersionMigration) -> bool {
    let conditions = migration.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.status == "True" && matches!(one.type_.as_str(), "Succeeded" | "Failed"))
}

impl Reconcile for Migrator {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(migration) = self.migrations.get(key).filter(|migration| !has_ended(migration)) else {
            return Ok(Next::Done);
        };
        let wanted = migration.spec.as_ref().map(|spec| spec.resource.clone()).unwrap_or_default();
        let kinds = discovery::kinds(&self.client).await?;
        let named = |kind: &&Arc<Kind>| kind.resource.plural == wanted.resource && kind.resource.group == wanted.group;
        let Some(kind) = kinds.iter().find(named) else {
            let age = migration.metadata.creation_timestamp.as_ref().map(|time| now().duration_since(time.0));
            if age.is_some_and(|age| age < PATIENCE) {
                return Ok(Next::After(PAUSE));
            }
            let message = format!("resource {:?} of group {:?} is not served", wanted.resource, wanted.group);
            self.report(&migration, None, "Failed", "StorageVersionMigrationFailed", &message).await?;
            return Ok(Next::Done);
        };
        match self.migrate(kind).await {
            Ok((count, version)) => {
                let message = format!("{count} objects were written anew");
                self.report(&migration, Some(version), "Succeeded", "StorageVersionMigrationSucceeded", &message)
                    .await?;
                Ok(Next::Done)
            }
            Err(error) => {
                self.report(&migration, None, "Running", "StorageVersionMigrationInProgress", &error.to_string())
                    .await?;
                Err(error)
            }
        }
    }
}

impl Migrator {
    /// How many objects there are, and as of which version they were listed.
    async fn migrate(&self, kind: &Kind) -> Result<(usize, String)> {
        let mut params = ListParams::default().limit(PAGE);
        let (mut count, mut version) = (0, String::new());
        loop {
            let page = kind.api(&self.client, None).list_metadata(&params).await?;
            version =
                if version.is_empty() { page.metadata.resource_version.clone().unwrap_or_default() } else { version };
            for object in &page.items {
                let api = kind.api(&self.client, object.metadata.namespace.as_deref());
                // A patch that changes nothing: the server writes what is stored in an older form.
                let patch = json!({"metadata": {"uid": object.metadata.uid}});
                match api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
                    Ok(_) => count += 1,
                    // Gone, or made anew meanwhile, which is what was wanted.
                    Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok((count, version)),
            }
        }
    }

    async fn report(
        &self,
        migration: &StorageVersionMigration,
        version: Option<String>,
        kind: &str,
        reason: &str,
        message: &str,
    ) -> Result<()> {
        let status = migration.status.clone().unwrap_or_default();
        let mut conditions = status.conditions.clone().unwrap_or_default();
        let known = conditions.iter().find(|known| known.type_ == kind && known.message == message);
        if known.is_some() {
            return Ok(());
        }
        conditions.retain(|known| known.type_ != kind);
        conditions.push(Condition {
            type_: kind.to_owned(),
            status: "True".to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: Time(now()),
            observed_generation: None,
        });
        let version = status.resource_version.filter(|version| !version.is_empty()).or(version);
        let patch = json!({
            "metadata": {"resourceVersion": migration.metadata.resource_version},
            "status": {"conditions": conditions, "resourceVersion": version},
        });
        let api: Api<StorageVersionMigration> = Api::all(self.client.clone());
        match api.patch_status(&migration.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(written) => self.migrations.remember(written),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
