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
    collections::{BTreeMap, HashMap},
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

/// Clouds count calls: as patient as upstream.
const RETRY: Backoff = Backoff { first: Duration::from_secs(5), cap: Duration::from_secs(300) };

struct Balancers {
    client: Client,
    services: Store<Service>,
    nodes: Store<Node>,
    providers: Providers,
    events: Events,
    done: Mutex<HashMap<Key, Done>>,
}

/// What was last agreed with the provider about a Service.
#[derive(Clone, Debug, PartialEq)]
struct Done {
    asked: Asked,
    nodes: Vec<String>,
    /// It said no; asking the same again would be no use, unless the cloud has changed meanwhile.
    refused: bool,
    at: Instant,
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
    let _nodes = nodes.on_change({
        let (queue, services) = (queue.clone(), services.clone());
        move |change| {
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
        providers: options.providers,
        events: context.events("service-controller"),
        done: Mutex::default(),
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
            return Ok(Next::Done);
        };
        let outcome = match self.providers.wanted_by(&service) {
            Some(provider) => self.provide(key, &service, provider).await,
            None if has_finalizer(&service) && !self.providers.is_foreign(&service) => {
                self.take_away(key, &service).await
            }
            None => Ok(()),
        };
        let provider = self.providers.wanted_by(&service);
        let again = provider.and_then(LoadBalancers::look_again).map_or(Next::Done, Next::After);
        match outcome {
            Ok(()) => Ok(again),
            Err(CloudError::Later { reason, after }) => {
                tracing::debug!(%key, reason, "waits");
                Ok(Next::After(after))
            }
            Err(CloudError::Refused(why)) => {
                self.events.warning(&reference(&*service), "SyncLoadBalancerFailed", why).await;
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
        let nodes: Vec<Arc<Node>> = self.nodes.all().into_iter().filter(|node| eligible(node)).collect();
        let mut names: Vec<String> = nodes.iter().map(|node| nodes::identity(node)).collect();
        names.sort_unstable();
        let asked =
            Asked { uid: service.uid(), annotations: service.annotations().clone(), spec: service.spec.clone() };
        let before = self.done.lock().get(key).cloned().filter(|done| done.asked == asked);
        let mut now = Done { asked, nodes: names, refused: false, at: Instant::now() };
        if let Some(before) = &before {
            let settled = before.refused || (before.nodes == now.nodes && ingress(service).is_some());
            let due = provider.look_again().is_some_and(|every| before.at.elapsed() >= every);
            if settled && !due {
                return Ok(());
            }
        }
        if let Some(before) = before.filter(|before| before.nodes != now.nodes && ingress(service).is_some()) {
            provider.update_nodes(service, &nodes).await?;
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
        let status = match provider.ensure(&service, &nodes).await {
            Ok(status) => status,
            Err(error) => {
                now.refused = matches!(error, CloudError::Refused(_));
                if now.refused {
                    self.done.lock().insert(key.clone(), now);
                }
                return Err(error);
            }
        };
        if ingress(&service) != Some(&status) {
            self.status(&service, json!(status)).await?;
            self.events.normal(&reference(&*service), "EnsuredLoadBalancer", "the load balancer is there").await;
        }
        self.done.lock().insert(key.clone(), now);
        Ok(())
    }

    async fn take_away(&self, key: &Key, service: &Arc<Service>) -> Result<(), CloudError> {
        for provider in self.providers.iter().filter_map(|provider| provider.load_balancers()) {
            if !provider.exists(service).await? {
                continue;
            }
            let object = reference(&**service);
            self.events.normal(&object, "DeletingLoadBalancer", "the load balancer is being taken away").await;
            provider.delete(service).await?;
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
