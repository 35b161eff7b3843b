//! `service-lb-controller`: load balancers of a provider for Services of type LoadBalancer.
//!
//! The finalizer is there before the load balancer and goes after it, so that none is ever forgotten. Readiness of nodes is
//! left to the load balancer's own checks: the set of nodes changes only when nodes come, go or are taken out.

pub mod lab;
pub mod nodes;
pub mod provider;
#[cfg(test)]
mod tests;

use crate::framework::{
    Context, Controller, Events, Index, Key, Next, Queue, Reconcile, Result, Store, reference, work,
};
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Node, Service, ServiceSpec};
use kube::{
    Client, ResourceExt,
    api::{Patch, PatchParams},
};
use nodes::eligible;
use parking_lot::Mutex;
use provider::Providers;
use runtime::{
    backoff::Backoff,
    client::Api,
    cloud::{CloudError, LoadBalancers},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

/// The controller of this room.
pub const CONTROLLERS: &[Controller] = &[Controller {
    name: "service-lb-controller",
    alias: "service",
    default_on: true,
    run: |context| Box::pin(run(context)),
}];

/// What flags decide here.
#[derive(Clone, Debug)]
pub struct ServiceLbOptions {
    /// `--cloud-provider` and what it brings.
    pub providers: Providers,
    /// `--concurrent-service-syncs`.
    pub workers: usize,
}

impl Default for ServiceLbOptions {
    fn default() -> Self {
        Self { providers: Providers::default(), workers: 1 }
    }
}

/// Keeps a Service from going before its load balancer; upstream's name.
pub const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

/// Clouds count calls: as patient as upstream at first; but what is mended in the cloud is noticed within a minute.
const RETRY: Backoff = Backoff { first: Duration::from_secs(5), cap: Duration::from_secs(60) };

/// When to ask again for what was refused: the cloud may have changed meanwhile.
const REFUSED: Duration = Duration::from_secs(60);

/// After how long the same refusal is told again.
const REMIND: Duration = Duration::from_secs(15 * 60);

struct Balancers {
    client: Client,
    services: Store<Service>,
    nodes: Store<Node>,
    /// Made when it is first asked for after a node changed.
    eligible: Arc<Mutex<Option<Arc<Eligible>>>>,
    providers: Providers,
    events: Events,
    queue: Queue<Key>,
    done: Mutex<HashMap<Key, Done>>,
    /// Services that wait for what is used up.
    waiting: Mutex<BTreeSet<Key>>,
}

/// The nodes that load balancers lead to, and what providers know them by, in order.
struct Eligible {
    nodes: Vec<Arc<Node>>,
    names: Vec<String>,
}

/// What was last agreed with the provider about a Service.
#[derive(Clone, Debug, PartialEq)]
struct Done {
    asked: Asked,
    nodes: Vec<String>,
    /// It said no, for this reason.
    refused: Option<Refusal>,
    at: Instant,
}

/// Why the provider said no, and when that was told.
#[derive(Clone, Debug, PartialEq)]
struct Refusal {
    why: String,
    told: Instant,
}

/// What of a Service matters to a load balancer.
#[derive(Clone, Debug, PartialEq)]
struct Asked {
    uid: Option<String>,
    annotations: BTreeMap<String, String>,
    spec: Option<ServiceSpec>,
}

async fn run(context: Context) -> Result<()> {
    let options = context.options().service_lb.clone();
    if options.providers.is_empty() {
        tracing::info!("Services get no load balancers from here: --cloud-provider names no provider");
        return Ok(());
    }
    let (services, nodes) = (context.store::<Service>(), context.store::<Node>());
    let queue: Queue<Key> = context.queue_with("service", RETRY);
    let balanced: Index = services.index("load-balancer", |service| {
        let wants = service.spec.as_ref().is_some_and(|spec| spec.type_.as_deref() == Some("LoadBalancer"));
        (wants || has_finalizer(service)).then(String::new).into_iter().collect()
    });
    context.synced(&[&services, &nodes]).await;
    for service in services.by(balanced, "") {
        options.providers.iter().filter_map(|provider| provider.load_balancers()).for_each(|some| some.adopt(&service));
    }
    let _services = services.on_change({
        let queue = queue.clone();
        move |change| queue.add(change.key())
    });
    let known: Arc<Mutex<Option<Arc<Eligible>>>> = Arc::default();
    let _nodes = nodes.on_change({
        let (queue, services, known) = (queue.clone(), services.clone(), Arc::clone(&known));
        move |change| {
            *known.lock() = None;
            let counts = |node: &Arc<Node>| eligible(node).then(|| nodes::identity(node));
            if change.old.and_then(counts) != change.new.and_then(counts) {
                services.by(balanced, "").iter().for_each(|service| queue.add(Key::of(&**service)));
            }
        }
    });
    let controller = Balancers {
        client: context.client(),
        services,
        nodes,
        eligible: known,
        providers: options.providers,
        events: context.events("service-controller"),
        queue: queue.clone(),
        done: Mutex::default(),
        waiting: Mutex::default(),
    };
    work(&queue, options.workers, &controller).await
}

fn has_finalizer(service: &Service) -> bool {
    service.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
}

fn ingress(service: &Service) -> Option<&LoadBalancerStatus> {
    let status = service.status.as_ref()?.load_balancer.as_ref()?;
    status.ingress.as_ref().is_some_and(|list| !list.is_empty()).then_some(status)
}

impl Reconcile for Balancers {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(service) = self.services.get(key) else {
            self.done.lock().remove(key);
            self.waiting.lock().remove(key);
            return Ok(Next::Done);
        };
        self.waiting.lock().remove(key);
        let outcome = match self.providers.wanted_by(&service) {
            Some(provider) => self.provide(key, &service, provider).await,
            None if has_finalizer(&service) && !self.providers.is_foreign(&service) => {
                self.take_away(key, &service).await
            }
            None => Ok(()),
        };
        let provider = self.providers.wanted_by(&service);
        let again = provider.and_then(|provider| self.look_again(key, provider)).map_or(Next::Done, Next::After);
        match outcome {
            Ok(()) => Ok(again),
            Err(CloudError::Later { reason, after }) => {
                tracing::debug!(%key, reason, "waits");
                Ok(Next::After(after))
            }
            Err(CloudError::Exhausted { reason, after }) => {
                self.waiting.lock().insert(key.clone());
                self.events.warning(&reference(&*service), "SyncLoadBalancerFailed", reason).await;
                Ok(Next::After(after))
            }
            Err(CloudError::Refused(why)) => {
                if self.is_news(key, &why) {
                    self.events.warning(&reference(&*service), "SyncLoadBalancerFailed", why).await;
                }
                Ok(again)
            }
            Err(CloudError::Failed(error)) => {
                let note = format!("the load balancer is not as it should be: {error}");
                self.events.warning(&reference(&*service), "SyncLoadBalancerFailed", note).await;
                Err(error)
            }
        }
    }
}

impl Balancers {
    async fn provide(&self, key: &Key, service: &Arc<Service>, provider: &dyn LoadBalancers) -> Result<(), CloudError> {
        let known = self.eligible();
        let nodes = &known.nodes;
        let asked =
            Asked { uid: service.uid(), annotations: service.annotations().clone(), spec: service.spec.clone() };
        let before = self.done.lock().get(key).cloned().filter(|done| done.asked == asked);
        let mut now = Done { asked, nodes: known.names.clone(), refused: None, at: Instant::now() };
        if let Some(before) = &before {
            let settled = before.nodes == now.nodes && (before.refused.is_some() || ingress(service).is_some());
            let due = self.look_again(key, provider).is_some_and(|every| before.at.elapsed() >= every);
            if settled && !due {
                return Ok(());
            }
            now.refused.clone_from(&before.refused);
        }
        // What is refused may have been mended in the cloud: asked for as a whole.
        let only_nodes = |before: &Done| before.nodes != now.nodes && before.refused.is_none();
        if let Some(before) = before.filter(|before| only_nodes(before) && ingress(service).is_some()) {
            if let Err(error) = provider.update_nodes(service, nodes).await {
                return Err(self.remember_refusal(key, now, error));
            }
            if !(before.nodes.is_empty() && now.nodes.is_empty()) {
                let note = format!("the load balancer now leads to {} nodes", now.nodes.len());
                self.events.normal(&reference(&**service), "UpdatedLoadBalancer", note).await;
            }
            self.done.lock().insert(key.clone(), now);
            return Ok(());
        }
        let service = self.protect(service).await?;
        let new = ingress(&service).is_none();
        if new {
            self.events.normal(&reference(&*service), "EnsuringLoadBalancer", "the load balancer is being made").await;
        }
        let status = match provider.ensure(&service, nodes).await {
            Ok(status) => status,
            Err(error) => return Err(self.remember_refusal(key, now, error)),
        };
        now.refused = None;
        if ingress(&service) != Some(&status) {
            self.wake();
            self.status(&service, json!(status)).await?;
            self.events.normal(&reference(&*service), "EnsuredLoadBalancer", "the load balancer is there").await;
        }
        self.done.lock().insert(key.clone(), now);
        Ok(())
    }

    /// What was refused is not asked for again at once, as long as the Service and the nodes are the same.
    fn remember_refusal(&self, key: &Key, now: Done, error: CloudError) -> CloudError {
        if let CloudError::Refused(why) = &error {
            let before = now.refused.filter(|before| before.why == *why && before.told.elapsed() < REMIND);
            // Told by whoever asks whether it is news, and not before.
            let refused = before.unwrap_or_else(|| Refusal { why: why.clone(), told: now.at });
            self.done.lock().insert(key.clone(), Done { refused: Some(refused), ..now });
        }
        error
    }

    /// Whether a refusal was not told before, or long ago.
    fn is_news(&self, key: &Key, why: &str) -> bool {
        let done = self.done.lock();
        let told = done.get(key).and_then(|done| Some((done.refused.as_ref()?, done.at)));
        told.is_none_or(|(refusal, at)| refusal.why != why || refusal.told == at)
    }

    /// When to ask again though nothing has changed here.
    fn look_again(&self, key: &Key, provider: &dyn LoadBalancers) -> Option<Duration> {
        let every = provider.look_again()?;
        let refused = self.done.lock().get(key).is_some_and(|done| done.refused.is_some());
        Some(if refused { every.min(REFUSED) } else { every })
    }

    fn eligible(&self) -> Arc<Eligible> {
        let mut known = self.eligible.lock();
        let made = known.get_or_insert_with(|| {
            let nodes: Vec<Arc<Node>> = self.nodes.all().into_iter().filter(|node| eligible(node)).collect();
            let mut names: Vec<String> = nodes.iter().map(|node| nodes::identity(node)).collect();
            names.sort_unstable();
            Arc::new(Eligible { nodes, names })
        });
        Arc::clone(made)
    }

    /// Something may have been given back.
    fn wake(&self) {
        self.waiting.lock().iter().for_each(|key| self.queue.add(key.clone()));
    }

    async fn take_away(&self, key: &Key, service: &Arc<Service>) -> Result<(), CloudError> {
        for provider in self.providers.iter().filter_map(|provider| provider.load_balancers()) {
            if !provider.exists(service).await? {
                continue;
            }
            let object = reference(&**service);
            self.events.normal(&object, "DeletingLoadBalancer", "the load balancer is being taken away").await;
            provider.delete(service).await?;
            self.wake();
            self.events.normal(&object, "DeletedLoadBalancer", "the load balancer is gone").await;
        }
        self.done.lock().remove(key);
        if ingress(service).is_some() && service.metadata.deletion_timestamp.is_none() {
            self.status(service, json!({"ingress": null})).await?;
        }
        let current = self.services.get(key).unwrap_or_else(|| Arc::clone(service));
        let kept: Vec<&String> = current.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER).collect();
        self.finalizers(&current, json!(kept)).await?;
        Ok(())
    }

    /// The Service with the finalizer.
    async fn protect(&self, service: &Arc<Service>) -> Result<Arc<Service>, CloudError> {
        if has_finalizer(service) {
            return Ok(Arc::clone(service));
        }
        let mut all = service.finalizers().to_vec();
        all.push(FINALIZER.to_owned());
        self.finalizers(service, json!(all)).await?;
        Ok(self.services.get(&Key::of(&**service)).unwrap_or_else(|| Arc::clone(service)))
    }

    async fn finalizers(&self, service: &Service, finalizers: Value) -> Result<(), CloudError> {
        let patch = json!({
            "metadata": {"resourceVersion": service.metadata.resource_version, "finalizers": finalizers},
        });
        self.written(
            service,
            self.api(service).patch(&service.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await,
        )
    }

    async fn status(&self, service: &Service, load_balancer: Value) -> Result<(), CloudError> {
        let patch = Patch::Merge(json!({"status": {"loadBalancer": load_balancer}}));
        self.written(
            service,
            self.api(service).patch_status(&service.name_any(), &PatchParams::default(), &patch).await,
        )
    }

    fn api(&self, service: &Service) -> Api<Service> {
        Api::namespaced(self.client.clone(), &service.namespace().unwrap_or_default())
    }

    fn written(&self, service: &Service, answer: Result<Service, kube::Error>) -> Result<(), CloudError> {
        match answer {
            Ok(written) if written.metadata.deletion_timestamp.is_some() && written.finalizers().is_empty() => {
                self.services.forget(service);
            }
            Ok(written) => self.services.remember(written),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            // Somebody was faster: look at what it says now.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                return Err(CloudError::Later { reason: status.message, after: Duration::from_millis(50) });
            }
            Err(error) => return Err(CloudError::Failed(error.into())),
        }
        Ok(())
    }
}
