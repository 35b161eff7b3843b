//! One look at a cluster: each kind is listed once, in pages.

use anyhow::Context;
use inspect::{KINDS, Kind, Snapshot};
use kube::{
    Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use runtime::client::{Api, connect, error_line};
use std::path::Path;

const PAGE: u32 = 500;

/// What there is, and what could not be read.
pub(super) fn gather(kubeconfig: Option<&Path>) -> anyhow::Result<(Snapshot, Vec<String>)> {
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    threads.block_on(async {
        let client = connect(kubeconfig, "twinstack-doctor").await?;
        let (mut snapshot, mut unread) = (Snapshot::default(), Vec::new());
        for kind in KINDS {
            match list(&client, kind, &mut snapshot, &mut unread).await {
                Ok(()) => {}
                // Not every cluster has every kind.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(kube::Error::Api(status)) if status.code == 403 => unread.push(status.message),
                Err(error) => {
                    return Err(anyhow::anyhow!(error_line(&error)))
                        .with_context(|| format!("cannot list {}", kind.plural));
                }
            }
        }
        snapshot.taken = Some(std::time::SystemTime::now());
        Ok((snapshot, unread))
    })
}

async fn list(
    client: &Client,
    kind: &Kind,
    snapshot: &mut Snapshot,
    unread: &mut Vec<String>,
) -> Result<(), kube::Error> {
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(kind.group, kind.version, kind.kind), kind.plural);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut parameters = ListParams::default().limit(PAGE);
    if !kind.fields.is_empty() {
        parameters = parameters.fields(kind.fields);
    }
    loop {
        let page = api.list(&parameters).await?;
        for object in page.items {
            let mut value = objects::to_value(&object).map_err(kube::Error::SerdeError)?;
            // The items of a list do not say what they are.
            value["apiVersion"] = resource.api_version.clone().into();
            value["kind"] = kind.kind.into();
            unread.extend(snapshot.add(value).err());
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters.continue_token = Some(token),
            None => return Ok(()),
        }
    }
}
