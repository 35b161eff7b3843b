//! Which cluster this is, whatever its id is: the UID of namespace `kube-system`, which lives as long as the cluster does.

use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, ResourceExt};
use runtime::{
    backoff::{Backoff, random},
    client::Api,
};
use std::time::Duration;

const PATIENCE: Backoff = Backoff { first: Duration::from_millis(250), cap: Duration::from_secs(10) };

/// The namespace that every cluster has.
const NAMESPACE: &str = "kube-system";

/// Asks the API server.
pub(super) async fn now(client: &Client) -> Result<Option<String>, kube::Error> {
    Ok(Api::<Namespace>::all(client.clone()).get(NAMESPACE).await?.uid())
}

/// Asks until the API server answers. `None` where it does not say: load balancers are made all the same, and leftovers are left.
pub async fn cluster_uid(client: &Client) -> Option<String> {
    for failures in 1.. {
        match now(client).await {
            Ok(Some(uid)) => return Some(uid),
            Ok(None) => tracing::warn!("namespace kube-system has no UID; leftovers in AWS are not removed"),
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) && status.code != 429 => {
                let error = status.message;
                tracing::warn!(error, "may not get namespace kube-system; leftovers in AWS are not removed");
            }
            Err(error) => {
                tracing::warn!(%error, "waits for the API server to say which cluster this is");
                tokio::time::sleep(PATIENCE.delay(failures, random())).await;
                continue;
            }
        }
        return None;
    }
    None
}
