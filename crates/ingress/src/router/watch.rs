//! The objects the router looks at, and which of them changed since it last looked.

use super::{
    model::{Objects, Source, ingress_is_ours, ingress_is_taken},
    secrets::Secrets,
    settings::Settings,
};
use k8s_openapi::api::{
    core::v1::{Namespace, Secret, Service},
    discovery::v1::EndpointSlice,
    networking::v1::{Ingress, IngressClass},
};
use parking_lot::Mutex;
use runtime::{
    controller::{Change, Context, Index, Key, Store, Subscription},
    operator::Route,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};
use tokio::sync::Notify;

/// The label that says whose slice it is.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// How long to wait for kinds that a router may not be allowed to see.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) objects: BTreeSet<(Source, Key)>,
    pub(super) services: BTreeSet<Key>,
    pub(super) secrets: BTreeSet<Key>,
    /// A class came or went: every Ingress is looked at again.
    pub(super) classes: bool,
    /// Namespaces whose labels changed.
    pub(super) namespaces: BTreeSet<String>,
}

/// What changed, and a bell.
#[derive(Debug, Default)]
pub(super) struct Pending {
    changes: Mutex<Changes>,
    pub(super) bell: Notify,
}

impl Pending {
    fn note(&self, note: impl FnOnce(&mut Changes)) {
        note(&mut self.changes.lock());
        self.bell.notify_one();
    }

    pub(super) fn secret_changed(&self, key: Key) {
        self.note(|changes| changes.secrets.extend([key]));
    }

    pub(super) fn take(&self) -> Changes {
        std::mem::take(&mut self.changes.lock())
    }
}

/// All stores.
pub(super) struct Watched {
    settings: Arc<Settings>,
    pub(super) routes: Store<Route>,
    pub(super) ingresses: Store<Ingress>,
    classes: Store<IngressClass>,
    services: Store<Service>,
    slices: Store<EndpointSlice>,
    slices_of: Index,
    pub(super) secrets: Secrets,
    namespaces: Option<Store<Namespace>>,
    pub(super) pending: Arc<Pending>,
    _subscriptions: Vec<Subscription>,
}

impl Watched {
    /// Begins to watch. Nothing is there before [`Watched::synced`].
    pub(super) fn new<O>(context: &Context<O>, settings: &Arc<Settings>) -> Self {
        let pending = Arc::new(Pending::default());
        let routes = context.store::<Route>();
        let ingresses = context.store::<Ingress>();
        let classes = context.store::<IngressClass>();
        let services = context.store::<Service>();
        let slices = context.store::<EndpointSlice>();
        let slices_of =
            slices.index("service", |slice| slice_key(slice).map(|key| key.to_string()).into_iter().collect());
        let secrets = Secrets::new(context.client(), Arc::clone(&pending), context.tasks());
        let namespaces = (!settings.admission.namespaces.is_everything()).then(|| context.store::<Namespace>());
        let mut subscriptions = Vec::new();
        let noting = |source| {
            let pending = Arc::clone(&pending);
            move |key: Key| pending.note(|changes| changes.objects.extend([(source, key)]))
        };
        let (route, ingress) = (noting(Source::Route), noting(Source::Ingress));
        subscriptions.push(routes.on_change(move |change: &Change<'_, Route>| {
            if !change.ours {
                route(change.key());
            }
        }));
        subscriptions.push(ingresses.on_change(move |change: &Change<'_, Ingress>| {
            if !change.ours {
                ingress(change.key());
            }
        }));
        let bell = Arc::clone(&pending);
        subscriptions
            .push(classes.on_change(move |_: &Change<'_, IngressClass>| bell.note(|changes| changes.classes = true)));
        let bell = Arc::clone(&pending);
        subscriptions.push(services.on_change(move |change: &Change<'_, Service>| {
            bell.note(|changes| changes.services.extend([change.key()]));
        }));
        let bell = Arc::clone(&pending);
        subscriptions.push(slices.on_change(move |change: &Change<'_, EndpointSlice>| {
            let keys: Vec<Key> = change.both().filter_map(|slice| slice_key(slice)).collect();
            bell.note(|changes| changes.services.extend(keys));
        }));
        if let Some(namespaces) = &namespaces {
            let bell = Arc::clone(&pending);
            subscriptions.push(namespaces.on_change(move |change: &Change<'_, Namespace>| {
                bell.note(|changes| changes.namespaces.extend([change.key().name]));
            }));
        }
        let settings = Arc::clone(settings);
        Self {
            settings,
            routes,
            ingresses,
            classes,
            services,
            slices,
            slices_of,
            secrets,
            namespaces,
            pending,
            _subscriptions: subscriptions,
        }
    }

    /// Resolves when everything that can be seen has been seen.
    pub(super) async fn synced(&self) {
        self.services.synced().await;
        self.slices.synced().await;
        if !self.routes.known().await {
            tracing::warn!("the API does not serve Routes; they are taken up as soon as it does");
        }
        let others = async {
            self.ingresses.synced().await;
            self.classes.synced().await;
            if let Some(namespaces) = &self.namespaces {
                namespaces.synced().await;
            }
        };
        if tokio::time::timeout(PATIENCE, others).await.is_err() {
            tracing::warn!("Ingresses or Namespaces cannot be read; what depends on them is not served until they can");
        }
    }

    /// Watches the Secrets that are named, and waits for them for a while.
    pub(super) async fn secrets_synced(&self, named: &HashSet<Key>) {
        self.secrets.name(named);
        if tokio::time::timeout(PATIENCE, self.secrets.synced()).await.is_err() {
            tracing::warn!(
                "not all Secrets that are named can be read; what depends on them is not served until they can"
            );
        }
    }
}

fn slice_key(slice: &EndpointSlice) -> Option<Key> {
    let name = slice.metadata.labels.as_ref()?.get(SERVICE_NAME)?;
    Some(Key::new(slice.metadata.namespace.clone()?, name.clone()))
}

impl Objects for Watched {
    fn route(&self, key: &Key) -> Option<Arc<Route>> {
        self.routes.get(key)
    }

    fn ingress(&self, key: &Key) -> Option<Arc<Ingress>> {
        let ingress = self.ingresses.get(key)?;
        let classes = self.classes.all();
        let classes: Vec<&IngressClass> = classes.iter().map(|class| &**class).collect();
        let ours = |class: &IngressClass| ingress_is_ours(class, &self.settings.name, &self.settings.admission);
        ingress_is_taken(&ingress, &classes, ours).then_some(ingress)
    }

    fn service(&self, key: &Key) -> Option<Arc<Service>> {
        self.services.get(key)
    }

    fn slices(&self, service: &Key) -> Vec<Arc<EndpointSlice>> {
        self.slices.by(self.slices_of, &service.to_string())
    }

    fn secret(&self, key: &Key) -> Option<Arc<Secret>> {
        self.secrets.get(key)
    }

    fn namespace_labels(&self, name: &str) -> Option<BTreeMap<String, String>> {
        self.namespaces.as_ref()?.get(&Key::cluster(name))?.metadata.labels.clone()
    }

    fn reaches(&self, ip: IpAddr) -> bool {
        super::reachable::reaches(ip)
    }
}
