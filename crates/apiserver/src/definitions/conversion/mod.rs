//! Objects of one kind between its versions, where the definition names a webhook that converts them.
//!
//! Everything that reads goes through `entry`, `entries`, `bytes` or `watched`, everything that is stored through `to_stored`; where
//! a definition has no webhook they cost nothing. A list is one call; of several watchers of one change one asks for all.

mod review;

use crate::{
    ApiServer,
    call::Call,
    stored,
    webhook::{CallError, Caller},
};
use api::{error::ApiError, object::Fields, resource::Resource};
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use review::{Review, kind_of};
use serde_json::Value;
use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};
use store::Entry;
use tokio::sync::OnceCell;

/// Upstream's timeout of a conversion.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Most changes whose conversions are kept for further watchers.
const MOST_WATCHED: usize = 512;

/// Which change, and in which version.
type Watched = (store::Key, u64, String);

/// Conversions for watchers, the newest ones.
#[derive(Default)]
pub(crate) struct Conversions(Mutex<Recent>);

#[derive(Default)]
struct Recent {
    cells: HashMap<Watched, Arc<OnceCell<Entry>>>,
    order: VecDeque<Watched>,
}

impl Conversions {
    /// Forgets everything: definitions have changed.
    pub(super) fn clear(&self) {
        *self.0.lock() = Recent::default();
    }

    fn cell(&self, watched: Watched) -> Arc<OnceCell<Entry>> {
        let mut recent = self.0.lock();
        if let Some(cell) = recent.cells.get(&watched) {
            return Arc::clone(cell);
        }
        if recent.order.len() >= MOST_WATCHED
            && let Some(oldest) = recent.order.pop_front()
        {
            recent.cells.remove(&oldest);
        }
        recent.order.push_back(watched.clone());
        Arc::clone(recent.cells.entry(watched).or_default())
    }
}

/// An entry in the version of `resource`.
pub(crate) async fn entry(server: &ApiServer, resource: &Resource, entry: Entry) -> Result<Entry, ApiError> {
    if !is_foreign(resource, entry.value()) {
        return Ok(entry);
    }
    let value = bytes(server, resource, entry.value()).await?.into_owned();
    Ok(entry.with_value(value))
}

/// All entries in the version of `resource`; those that cannot be read stay, for whoever asks for them.
pub(crate) async fn entries(
    server: &ApiServer,
    resource: &Resource,
    mut entries: Vec<Entry>,
) -> Result<Vec<Entry>, ApiError> {
    if resource.rules.conversion().is_none() {
        return Ok(entries);
    }
    let foreign: Vec<usize> = (0..entries.len()).filter(|at| is_foreign(resource, entries[*at].value())).collect();
    let objects = foreign.iter().map(|at| stored::parse_bytes(entries[*at].value(), 0)).collect::<Result<_, _>>()?;
    let converted = convert(server, resource, &resource.api_version(), objects).await.map_err(ApiError::internal)?;
    for (at, object) in foreign.into_iter().zip(converted) {
        entries[at] = entries[at].with_value(stored::encode(&object)?);
    }
    Ok(entries)
}

/// An entry for a watcher.
pub(crate) async fn watched(server: &ApiServer, resource: &Resource, found: Entry) -> Result<Entry, ApiError> {
    if !is_foreign(resource, found.value()) {
        return Ok(found);
    }
    let watched = (found.key().clone(), found.mod_revision(), resource.api_version());
    let cell = server.definitions.conversions.cell(watched);
    cell.get_or_try_init(|| entry(server, resource, found)).await.cloned()
}

/// Stored bytes in the version of `resource`.
pub(crate) async fn bytes<'b>(
    server: &ApiServer,
    resource: &Resource,
    bytes: &'b Bytes,
) -> Result<Cow<'b, Bytes>, ApiError> {
    if !is_foreign(resource, bytes) {
        return Ok(Cow::Borrowed(bytes));
    }
    let object = object(server, resource, stored::parse_bytes(bytes, 0)?).await?;
    stored::encode(&object).map(Cow::Owned)
}

/// An object of any version in the version of `resource`.
pub(crate) async fn object(server: &ApiServer, resource: &Resource, object: Value) -> Result<Value, ApiError> {
    let wanted = resource.api_version();
    if resource.rules.conversion().is_none() || object.str_at("apiVersion") == wanted {
        return Ok(object);
    }
    one(convert(server, resource, &wanted, vec![object]).await.map_err(ApiError::internal)?)
}

/// An object as it is to be stored.
pub(crate) async fn to_stored(call: &Call, mut object: Value) -> Result<Value, ApiError> {
    let rules = &call.resource.rules;
    let Some(conversion) = rules.conversion() else { return Ok(object) };
    if object.str_at("apiVersion") == conversion.stored_as {
        return Ok(object);
    }
    object.remove("metadata.resourceVersion");
    let converted = convert(&call.server, &call.resource, &conversion.stored_as, vec![object]).await;
    let mut object = one(converted.map_err(|why| ApiError::new(500, "", why))?)?;
    rules.prune_stored(&mut object);
    Ok(object)
}

fn one(converted: Vec<Value>) -> Result<Value, ApiError> {
    converted.into_iter().next().ok_or_else(|| ApiError::internal("nothing was converted"))
}

/// Whether a webhook has to be asked before bytes can be shown.
fn is_foreign(resource: &Resource, bytes: &[u8]) -> bool {
    resource.rules.conversion().is_some() && !bytes.is_empty() && stored::api_version(bytes) != resource.api_version()
}

/// Asks the webhook of the kind. What goes wrong is told in upstream's words. On the heap, as most requests convert nothing and all
/// carry the future.
fn convert<'a>(
    server: &'a ApiServer,
    resource: &'a Resource,
    wanted: &'a str,
    objects: Vec<Value>,
) -> BoxFuture<'a, Result<Vec<Value>, String>> {
    let asked = async move {
        let (Some(conversion), Some(first)) = (resource.rules.conversion(), objects.first()) else {
            return Ok(objects);
        };
        let of = kind_of(first);
        let review = Review::new(conversion, wanted, uuid::Uuid::new_v4().to_string())?;
        let (clients, sent) = (&server.webhooks.clients, review.request(&objects));
        let answer = clients.post(server, Caller::Conversion, &conversion.client, &sent, TIMEOUT).await;
        let answer = answer.map_err(|error| {
            let (CallError::Client(why) | CallError::Call(why)) = error;
            tracing::warn!(kind = of, problem = why, "a conversion webhook cannot be asked");
            format!("conversion webhook for {of} failed: {why}")
        })?;
        review.answer(objects, answer)
    };
    asked.boxed()
}
