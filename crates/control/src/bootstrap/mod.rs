//! What lets machines join: `cluster-info` signed with every bootstrap token, and tokens that are over cleared away.
//!
//! Mirrors kube-controller-manager's `bootstrap-signer-controller` and `token-cleaner-controller`; upstream has them off unless they
//! are asked for, here they have nothing to do until somebody makes such a token (docs/compat.md).

pub mod plan;

#[cfg(test)]
mod tests;

use crate::framework::{Context, Controller, Key, Next, Queue, Reconcile, Result, Store, work};
use api::bootstrap_token::{NAMESPACE, SECRET_TYPE};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use runtime::{client::Api, controller::Scope};
use serde_json::json;
use std::time::Duration;

/// The controllers of this room.
pub const CONTROLLERS: &[Controller] = &[
    Controller {
        name: "bootstrap-signer-controller",
        alias: "bootstrapsigner",
        default_on: true,
        run: |context| Box::pin(run_signer(context)),
    },
    Controller {
        name: "token-cleaner-controller",
        alias: "tokencleaner",
        default_on: true,
        run: |context| Box::pin(run_cleaner(context)),
    },
];

/// Where a machine that joins looks first.
const INFO_NAMESPACE: &str = "kube-public";
const INFO: &str = "cluster-info";

struct Signer {
    maps: Store<ConfigMap>,
    secrets: Store<Secret>,
    api: Api<ConfigMap>,
}

async fn run_signer(context: Context) -> Result<()> {
    let maps = context.store_of(Scope::<ConfigMap>::namespace(INFO_NAMESPACE).name(INFO));
    let secrets = context.store_in::<Secret>(NAMESPACE);
    let queue: Queue<Key> = context.queue("bootstrap_signer_queue");
    let key = Key::new(INFO_NAMESPACE, INFO);
    let _maps = maps.on_change({
        let (queue, key) = (queue.clone(), key.clone());
        move |_| queue.add(key.clone())
    });
    let _secrets = secrets.on_change({
        let (queue, key) = (queue.clone(), key.clone());
        move |change| {
            if change.both().any(|secret| is_token(secret)) {
                queue.add(key.clone());
            }
        }
    });
    context.synced(&[&maps, &secrets]).await;
    let api = Api::namespaced(context.client(), INFO_NAMESPACE);
    work(&queue, 1, &Signer { maps, secrets, api }).await
}

fn is_token(secret: &Secret) -> bool {
    secret.type_.as_deref() == Some(SECRET_TYPE)
}

impl Reconcile for Signer {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(map) = self.maps.get(key) else { return Ok(Next::Done) };
        let secrets = self.secrets.all();
        let tokens: Vec<&Secret> = secrets.iter().map(|secret| &**secret).filter(|secret| is_token(secret)).collect();
        let now = Timestamp::now();
        let changes = plan::signatures(&map, &tokens, now);
        if !changes.is_empty() {
            let patch = json!({"metadata": {"resourceVersion": map.metadata.resource_version}, "data": changes});
            match self.api.patch(INFO, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(written) => self.maps.remember(written),
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error.into()),
            }
        }
        // A signature goes when its token is over, also if nobody clears the token away.
        Ok(plan::next_end(&tokens, now).map_or(Next::Done, Next::After))
    }
}

struct Cleaner {
    secrets: Store<Secret>,
    api: Api<Secret>,
}

async fn run_cleaner(context: Context) -> Result<()> {
    let secrets = context.store_in::<Secret>(NAMESPACE);
    let queue: Queue<Key> = context.queue("token_cleaner");
    let _secrets = secrets.on_change({
        let queue = queue.clone();
        move |change| {
            if is_token(change.object()) {
                queue.add(change.key());
            }
        }
    });
    context.synced(&[&secrets]).await;
    work(&queue, 1, &Cleaner { secrets, api: Api::namespaced(context.client(), NAMESPACE) }).await
}

impl Reconcile for Cleaner {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(secret) = self.secrets.get(key).filter(|secret| is_token(secret)) else { return Ok(Next::Done) };
        let Some(left) = plan::left(&secret, Timestamp::now()) else { return Ok(Next::Done) };
        if left > Duration::ZERO {
            return Ok(Next::After(left));
        }
        let preconditions = Preconditions { uid: secret.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.api.delete(&key.name, &params).await {
            Ok(_) => tracing::info!(secret = key.name, "bootstrap token is over and was deleted"),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Next::Done)
    }
}
