//! What every controller is given: the client, shared stores, queues, events, options.

use super::{Events, Queue, Store};
use crate::{admin::Admin, backoff::Backoff, task::Tasks};
use futures::future::{BoxFuture, join_all};
use kube::{Client, Resource};
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};
use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    hash::Hash,
    sync::Arc,
    time::Duration,
};

/// Pauses between attempts at a key that fails: short enough to pass over a conflict, long enough not to hurt.
const RETRY: Backoff = Backoff { first: Duration::from_millis(20), cap: Duration::from_secs(60) };

/// The parts that controllers share; clones share them.
pub struct Context<O> {
    inner: Arc<Inner<O>>,
}

struct Inner<O> {
    client: Client,
    options: Arc<O>,
    admin: Admin,
    tasks: Tasks,
    /// Stores and other things that there is one of, by type.
    stores: Things,
    /// The same for what outlives a term as leader.
    lasting: Things,
    /// Where that is run.
    process: Tasks,
    queues: QueuesMetrics,
}

type Things = Arc<Mutex<HashMap<TypeId, Box<dyn Any + Send + Sync>>>>;

impl<O> Clone for Context<O> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<O: fmt::Debug> fmt::Debug for Context<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

impl<O> Context<O> {
    /// A context whose watches run in `tasks`. Nothing is watched before a controller asks for it.
    pub fn new(client: Client, options: O, admin: &Admin, tasks: &Tasks) -> Self {
        let inner = Inner {
            client,
            options: Arc::new(options),
            admin: admin.clone(),
            tasks: tasks.clone(),
            stores: Arc::default(),
            lasting: Arc::default(),
            process: tasks.clone(),
            queues: QueuesMetrics::new(admin),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The same parts with other options, for a component that runs beside this one in the same process.
    pub fn with_options<P>(&self, options: P) -> Context<P> {
        Context {
            inner: Arc::new(self.inner.with(
                Arc::new(options),
                self.inner.tasks.clone(),
                Arc::clone(&self.inner.stores),
            )),
        }
    }

    /// The same parts for one term as leader: watches begin anew, and end with these tasks.
    #[must_use]
    pub fn term(&self, tasks: &Tasks) -> Self {
        let inner = self.inner.with(Arc::clone(&self.inner.options), tasks.clone(), Arc::default());
        Self { inner: Arc::new(inner) }
    }

    /// A client for the cluster.
    pub fn client(&self) -> Client {
        self.inner.client.clone()
    }

    /// What the flags say.
    pub fn options(&self) -> &O {
        &self.inner.options
    }

    /// Where health and metrics are shown.
    pub fn admin(&self) -> &Admin {
        &self.inner.admin
    }

    /// Where to run what must outlive a reconcile.
    pub fn tasks(&self) -> &Tasks {
        &self.inner.tasks
    }

    /// A thing that there is once, such as the stores of a controller that may be restarted.
    pub fn once<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        only(&self.inner.stores, make)
    }

    /// A thing that there is once in the process, such as metrics, or what goes on serving while nobody leads: it is made
    /// with tasks that end with the process.
    pub fn lasting<T: Any + Send + Sync>(&self, make: impl FnOnce(&Tasks) -> T) -> Arc<T> {
        only(&self.inner.lasting, || make(&self.inner.process))
    }

    /// Resolves when all these stores have their first list.
    pub async fn synced(&self, stores: &[&dyn Synced]) {
        join_all(stores.iter().map(|store| store.wait())).await;
    }

    /// A queue that shows its depth, adds and retries under this name.
    pub fn queue<T: Clone + Ord + Hash>(&self, name: &str) -> Queue<T> {
        self.queue_with(name, RETRY)
    }

    /// As [`Context::queue`], with other pauses between attempts.
    pub fn queue_with<T: Clone + Ord + Hash>(&self, name: &str, retry: Backoff) -> Queue<T> {
        Queue::with_metrics(retry, Some(self.inner.queues.of(name)))
    }

    /// Events in the name of a controller.
    pub fn events(&self, controller: &str) -> Events {
        Events::new(self.client(), controller)
    }
}

impl<O> Inner<O> {
    fn with<P>(&self, options: Arc<P>, tasks: Tasks, stores: Things) -> Inner<P> {
        let Self { client, admin, lasting, process, queues, options: _, tasks: _, stores: _ } = self;
        Inner {
            client: client.clone(),
            options,
            admin: admin.clone(),
            tasks,
            stores,
            lasting: Arc::clone(lasting),
            process: process.clone(),
            queues: queues.clone(),
        }
    }
}

/// The thing of a type; made when there is none yet.
fn only<T: Any + Send + Sync>(all: &Things, make: impl FnOnce() -> T) -> Arc<T> {
    let mut all = all.lock();
    let known = all.get(&TypeId::of::<Arc<T>>()).and_then(|thing| thing.downcast_ref::<Arc<T>>());
    if let Some(thing) = known {
        return Arc::clone(thing);
    }
    let thing = Arc::new(make());
    all.insert(TypeId::of::<Arc<T>>(), Box::new(Arc::clone(&thing)));
    thing
}

/// A store of any kind, to be waited for.
pub trait Synced: Sync {
    /// Resolves when the first list is complete.
    fn wait(&self) -> BoxFuture<'_, ()>;
}

impl<K: Resource + Send + Sync + 'static> Synced for Store<K> {
    fn wait(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.synced())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabel {
    name: String,
}

/// The metrics of all queues, under upstream's names.
#[derive(Clone)]
struct QueuesMetrics {
    depth: Family<QueueLabel, Gauge>,
    adds: Family<QueueLabel, Counter>,
    retries: Family<QueueLabel, Counter>,
}

pub(super) struct QueueMetrics {
    pub(super) depth: Gauge,
    pub(super) adds: Counter,
    pub(super) retries: Counter,
}

impl QueuesMetrics {
    fn new(admin: &Admin) -> Self {
        let metrics = &admin.metrics;
        Self {
            depth: metrics.register("workqueue_depth", "Keys that wait in the queue", Family::default()),
            adds: metrics.register("workqueue_adds", "Keys added to the queue", Family::default()),
            retries: metrics.register("workqueue_retries", "Attempts that failed and are repeated", Family::default()),
        }
    }

    fn of(&self, name: &str) -> QueueMetrics {
        let label = QueueLabel { name: name.to_owned() };
        QueueMetrics {
            depth: self.depth.get_or_create(&label).clone(),
            adds: self.adds.get_or_create(&label).clone(),
            retries: self.retries.get_or_create(&label).clone(),
        }
    }
}
