//! What every namespace has: the service account `default`, and the certificates by which its pods know the API server.

use crate::framework::{Context, Key, Next, Reconcile, Result, Store, work};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace, ServiceAccount},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Client,
    api::{Patch, PatchParams, PostParams},
};
use runtime::client::Api;
use serde_json::json;

const ACCOUNT: &str = "default";
const CERTIFICATES: &str = "kube-root-ca.crt";
const FILE: &str = "ca.crt";

struct Accounts {
    client: Client,
    namespaces: Store<Namespace>,
    accounts: Store<ServiceAccount>,
}

/// Runs until it is dropped.
pub(super) async fn run_service_accounts(context: Context) -> Result<()> {
    let (namespaces, accounts) = (context.store::<Namespace>(), context.store::<ServiceAccount>());
    let queue = context.queue("serviceaccount");
    let _namespaces = namespaces.on_change({
        let queue = queue.clone();
        move |change| queue.add(change.key())
    });
    let _accounts = accounts.on_change({
        let queue = queue.clone();
        move |change| {
            if change.key().name == ACCOUNT {
                queue.add(Key::cluster(change.key().namespace));
            }
        }
    });
    context.synced(&[&namespaces, &accounts]).await;
    work(&queue, 2, &Accounts { client: context.client(), namespaces, accounts }).await
}

impl Reconcile for Accounts {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let alive = self.namespaces.get(key).is_some_and(|namespace| is_active(&namespace));
        if !alive || self.accounts.get(&Key::new(&key.name, ACCOUNT)).is_some() {
            return Ok(Next::Done);
        }
        let account = ServiceAccount { metadata: named(ACCOUNT), ..ServiceAccount::default() };
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &key.name);
        match api.create(&PostParams::default(), &account).await {
            Ok(made) => self.accounts.remember(made),
            Err(error) if is_settled(&error) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Next::Done)
    }
}

struct Certificates {
    client: Client,
    namespaces: Store<Namespace>,
    maps: Store<ConfigMap>,
    pem: String,
}

/// Runs until it is dropped; ends at once when there is nothing to publish.
pub(super) async fn run_root_ca(context: Context) -> Result<()> {
    let Some(pem) = context.options().housekeeping.root_ca.clone() else { return Ok(()) };
    let (namespaces, maps) = (context.store::<Namespace>(), context.store::<ConfigMap>());
    let queue = context.queue("root-ca-cert-publisher");
    let _namespaces = namespaces.on_change({
        let queue = queue.clone();
        move |change| queue.add(change.key())
    });
    let _maps = maps.on_change({
        let queue = queue.clone();
        move |change| {
            if change.key().name == CERTIFICATES {
                queue.add(Key::cluster(change.key().namespace));
            }
        }
    });
    context.synced(&[&namespaces, &maps]).await;
    work(&queue, 2, &Certificates { client: context.client(), namespaces, maps, pem }).await
}

impl Reconcile for Certificates {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        if !self.namespaces.get(key).is_some_and(|namespace| is_active(&namespace)) {
            return Ok(Next::Done);
        }
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &key.name);
        let answer = match self.maps.get(&Key::new(&key.name, CERTIFICATES)) {
            None => {
                let note = "The certificates by which Pods know the API server.";
                let mut metadata = named(CERTIFICATES);
                metadata.annotations = Some([("kubernetes.io/description".to_owned(), note.to_owned())].into());
                let data = Some([(FILE.to_owned(), self.pem.clone())].into());
                api.create(&PostParams::default(), &ConfigMap { metadata, data, ..ConfigMap::default() }).await
            }
            Some(map) if map.data.as_ref().and_then(|data| data.get(FILE)) == Some(&self.pem) => return Ok(Next::Done),
            Some(_) => {
                let patch = Patch::Merge(json!({"data": {FILE: self.pem}}));
                api.patch(CERTIFICATES, &PatchParams::default(), &patch).await
            }
        };
        match answer {
            Ok(stored) => self.maps.remember(stored),
            Err(error) if is_settled(&error) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Next::Done)
    }
}

fn is_active(namespace: &Namespace) -> bool {
    namespace.metadata.deletion_timestamp.is_none()
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

/// It exists, or its namespace is going: nothing left to do.
fn is_settled(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
        || crate::workloads::replicaset::is_namespace_leaving(error)
}
