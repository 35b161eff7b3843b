//! `kube-apiserver-serving-clustertrustbundle-publisher-controller`: the authorities by which workloads know the API server, as a
//! ClusterTrustBundle.

use crate::framework::{Context, Key, Next, Queue, Reconcile, Result, Store, work};
use k8s_openapi::{
    api::certificates::v1::{ClusterTrustBundle, ClusterTrustBundleSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    ResourceExt,
    api::{DeleteParams, PostParams},
};
use runtime::{client::Api, pki::sha256_hex};

const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";
/// How much of the digest of the bundle its name has, as upstream has it: 12 bytes.
const DIGITS: usize = 24;

struct Publisher {
    bundles: Store<ClusterTrustBundle>,
    api: Api<ClusterTrustBundle>,
    pem: String,
}

/// Runs until it is dropped; ends at once when there is nothing to publish.
pub(super) async fn run(context: Context) -> Result<()> {
    let Some(pem) = context.options().housekeeping.root_ca.clone() else { return Ok(()) };
    let bundles = context.store::<ClusterTrustBundle>();
    let queue: Queue<Key> = context.queue("ca_cert_publisher_cluster_trust_bundles");
    let key = Key::cluster(SIGNER);
    queue.add(key.clone());
    let _bundles = bundles.on_change({
        let (queue, key) = (queue.clone(), key.clone());
        move |change| {
            if change.object().spec.signer_name.as_deref() == Some(SIGNER) {
                queue.add(key.clone());
            }
        }
    });
    context.synced(&[&bundles]).await;
    work(&queue, 1, &Publisher { bundles, api: Api::all(context.client()), pem }).await
}

/// A new bundle has a new name, so that nobody sees half of a change.
pub(super) fn name(pem: &str) -> String {
    format!("{}:{}", SIGNER.replace('/', ":"), &sha256_hex(pem.as_bytes())[..DIGITS])
}

impl Reconcile for Publisher {
    type Key = Key;

    async fn reconcile(&self, _key: &Key) -> Result<Next> {
        let name = name(&self.pem);
        if self.bundles.get(&Key::cluster(&name)).is_none() {
            let spec = ClusterTrustBundleSpec { signer_name: Some(SIGNER.to_owned()), trust_bundle: self.pem.clone() };
            let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
            match self.api.create(&PostParams::default(), &ClusterTrustBundle { metadata, spec }).await {
                Ok(made) => self.bundles.remember(made),
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(error.into()),
            }
        }
        let all = self.bundles.all();
        let old =
            all.iter().filter(|bundle| bundle.spec.signer_name.as_deref() == Some(SIGNER) && bundle.name_any() != name);
        for bundle in old {
            match self.api.delete(&bundle.name_any(), &DeleteParams::default()).await {
                Ok(_) => self.bundles.forget(bundle),
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Next::Done)
    }
}
