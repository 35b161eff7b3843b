//! The kit that all controllers are made of: level-triggered, keyed, nothing recomputed that did not change.
//!
//! - [`Context`]: the client, the shared [`Store`]s (one watch per kind and [`Scope`] for the whole process), queues, events, and the
//!   options of the component, whatever they are.
//! - [`Store`]: what the API holds of one kind, with [`Index`]es and change callbacks. Writers put back what the API
//!   answered ([`Store::remember`], [`Store::forget`]), so a controller always reads its own writes and never does a
//!   thing twice because a watch lags.
//! - [`Queue`] and [`work`]: each key is worked on by one worker at a time, waits once however often it is added, and
//!   comes back with growing pauses while it fails.
//! - [`Controller`]: name, aliases, entry point; [`Selection`] is `--controllers=`, [`start`] runs what it picks.
//!
//! A controller is a struct with the stores it reads. It subscribes, queues keys, and reconciles one key at a time:
//!
//! ```no_run
//! use runtime::controller::{Context, Controller, Key, Next, Reconcile, Result, Store, work};
//! use k8s_openapi::api::core::v1::{ConfigMap, Service};
//! use kube::{Client, api::PostParams};
//! use runtime::client::Api;
//!
//! pub const CONTROLLERS: &[Controller<()>] =
//!     &[Controller { name: "example-controller", alias: "example", default_on: true, run: |context| Box::pin(run(context)) }];
//!
//! /// Makes a ConfigMap beside every Service.
//! struct Example { client: Client, services: Store<Service>, maps: Store<ConfigMap> }
//!
//! async fn run(context: Context<()>) -> Result<()> {
//!     let (services, maps) = (context.store::<Service>(), context.store::<ConfigMap>());
//!     let queue = context.queue("example");
//!     // Both lead to the key of the Service; the subscriptions end with this function. Callbacks only read and queue.
//!     let _services = services.on_change({ let queue = queue.clone(); move |change| queue.add(change.key()) });
//!     let _maps = maps.on_change({ let queue = queue.clone(); move |change| queue.add(change.key()) });
//!     context.synced(&[&services, &maps]).await;
//!     work(&queue, 5, &Example { client: context.client(), services, maps }).await
//! }
//!
//! impl Reconcile for Example {
//!     type Key = Key;
//!
//!     async fn reconcile(&self, key: &Key) -> Result<Next> {
//!         let Some(service) = self.services.get(key) else { return Ok(Next::Done) };
//!         if self.maps.get(key).is_none() {
//!             let mut map = ConfigMap::default();
//!             map.metadata.name = service.metadata.name.clone();
//!             let api = Api::namespaced(self.client.clone(), &key.namespace);
//!             self.maps.remember(api.create(&PostParams::default(), &map).await?);
//!         }
//!         Ok(Next::Done)
//!     }
//! }
//! ```

mod context;
mod erased;
mod events;
mod key;
mod queue;
mod scope;
mod select;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod trim;
mod work;

pub use context::{Context, Synced};
pub use events::{Events, reference};
pub use key::Key;
pub use queue::Queue;
pub use scope::Scope;
pub use select::{matches_labels, selects};
pub use store::{Change, Index, Store, Subscription};
pub use table::{Controller, Selection, UnknownController, start};
pub use work::{Next, Reconcile, work};

/// Why a reconcile did not work out. Always retried: the next attempt starts from what is stored then.
pub type Error = crate::http::BoxError;
/// What a reconcile comes to.
pub type Result<T, E = Error> = std::result::Result<T, E>;
