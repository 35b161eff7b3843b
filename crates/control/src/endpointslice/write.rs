//! Writes a plan: creates, then updates, then deletes, so that no endpoint is missing in between. Used for mirrored slices too.

use super::{plan::Plan, trigger};
use crate::framework::{Key, Result, Store};
use futures::stream::{self, StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{
    Client, ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
};
use runtime::client::Api;

/// Writes of one Service that are under way at the same time.
const AT_ONCE: usize = 8;

/// Does what the plan says; what the API answers is in the store before this returns.
pub async fn apply(
    client: &Client,
    store: &Store<EndpointSlice>,
    key: &Key,
    plan: Plan,
    trigger: Option<Timestamp>,
) -> Result<()> {
    let api: &Api<EndpointSlice> = &Api::namespaced(client.clone(), &key.namespace);
    let made = at_once(plan.create, async |mut slice| {
        stamp(&mut slice, trigger);
        match api.create(&PostParams::default(), &slice).await {
            Ok(created) => store.remember(created),
            // It would be refused again and again, and soon there is nothing left to do.
            Err(error) if is_terminating(&error) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    });
    if made.await?.contains(&false) {
        return Ok(());
    }
    let changed = at_once(plan.update, async |mut slice| {
        stamp(&mut slice, trigger);
        store.remember(api.replace(&slice.name_any(), &PostParams::default(), &slice).await?);
        Ok(())
    });
    changed.await?;
    let gone = at_once(plan.delete, async |slice| {
        // Not one that took its name meanwhile.
        let preconditions = Preconditions { uid: slice.uid(), resource_version: None };
        let parameters = DeleteParams::default().preconditions(preconditions);
        match api.delete(&slice.name_any(), &parameters).await {
            Ok(_) => store.forget(&slice),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    });
    gone.await.map(drop)
}

/// Slices of both families, and those of a large Service, wait for the disk together.
async fn at_once<S, T, F: Future<Output = Result<T>>>(slices: Vec<S>, write: impl Fn(S) -> F) -> Result<Vec<T>> {
    stream::iter(slices).map(write).buffer_unordered(AT_ONCE).try_collect().await
}

fn stamp(slice: &mut EndpointSlice, time: Option<Timestamp>) {
    match time {
        Some(time) => {
            slice.annotations_mut().insert(trigger::ANNOTATION.to_owned(), time.to_string());
        }
        None => {
            slice.annotations_mut().remove(trigger::ANNOTATION);
        }
    }
}

/// Whether a create was refused because the namespace is going.
pub fn is_terminating(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 403 && causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}
