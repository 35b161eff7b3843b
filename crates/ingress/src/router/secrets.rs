//! The Secrets that this router's Routes and Ingresses name, each watched by its name; no other is ever asked for.
//!
//! An account that may see only these, by a Role with `resourceNames` in their namespaces, is therefore enough.

use super::watch::Pending;
use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use parking_lot::Mutex;
use runtime::{
    controller::{Change, Key, Result, Scope, Store, Subscription},
    task::Tasks,
};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Those that are named now.
pub(super) struct Secrets {
    client: Client,
    pending: Arc<Pending>,
    named: Mutex<HashMap<Key, Named>>,
    /// To the task that follows them all.
    followers: UnboundedSender<BoxFuture<'static, ()>>,
}

/// One of them; its watch ends with it.
struct Named {
    store: Store<Secret>,
    _subscription: Subscription,
    _watch: DropGuard,
}

impl Secrets {
    /// None yet. Changes of those to come are noted in `pending`.
    pub(super) fn new(client: Client, pending: Arc<Pending>, tasks: &Tasks) -> Self {
        let (followers, coming) = mpsc::unbounded_channel();
        tasks.once("watch-secrets", move |stop| follow_all(coming, stop));
        Self { client, pending, named: Mutex::default(), followers }
    }

    /// Watches these and no others.
    pub(super) fn name(&self, wanted: &HashSet<Key>) {
        let mut named = self.named.lock();
        named.retain(|key, _| wanted.contains(key));
        for key in wanted {
            named.entry(key.clone()).or_insert_with(|| self.watch(key));
        }
    }

    /// The Secret, if it is named and there.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<Secret>> {
        self.named.lock().get(key)?.store.get(key)
    }

    /// Resolves when all that are named now have been looked for.
    pub(super) async fn synced(&self) {
        let stores: Vec<Store<Secret>> = self.named.lock().values().map(|named| named.store.clone()).collect();
        for store in stores {
            store.synced().await;
        }
    }

    fn watch(&self, key: &Key) -> Named {
        let store = Store::<Secret>::default();
        let pending = Arc::clone(&self.pending);
        let subscription = store.on_change(move |change: &Change<'_, Secret>| pending.secret_changed(change.key()));
        let (stop, followed) = (CancellationToken::new(), store.clone());
        let (scope, client) = (Scope::namespace(&key.namespace).name(&key.name), self.client.clone());
        let stopped = stop.clone();
        let follow = async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = scope.follow(client, &followed) => {}
            }
        };
        // Refused only when everything ends.
        let _ = self.followers.send(Box::pin(follow));
        Named { store, _subscription: subscription, _watch: stop.drop_guard() }
    }
}

/// Goes on with every watch until it ends.
async fn follow_all(mut coming: UnboundedReceiver<BoxFuture<'static, ()>>, stop: CancellationToken) -> Result<()> {
    let mut all = FuturesUnordered::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            new = coming.recv() => match new {
                Some(new) => all.push(new),
                None => return Ok(()),
            },
            Some(()) = all.next() => {}
        }
    }
}
