//! ResourceQuota: how much of each quota is used. What objects use when they come is charged by the API server; this controller
//! counts anew when a quota is new or changed, and when objects go, end or shrink.
//!
//! Pods and Services are read from the stores that everybody shares; other kinds are followed as soon as a quota names them (`others`).

mod others;
mod plan;

use crate::{
    framework::{Change, Context, Controller, Key, Next, Queue, Reconcile, Result, Store, work},
    workloads::pods,
};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota, Service};
use kube::{Client, Resource, ResourceExt, api::PostParams};
use others::Others;
use parking_lot::Mutex;
use plan::{Used, kinds_of};
use runtime::client::Api;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

/// The controllers of this room.
pub const CONTROLLERS: &[Controller] = &[Controller {
    name: "resourcequota-controller",
    alias: "resourcequota",
    default_on: true,
    run: |context| Box::pin(run(context)),
}];

/// What flags decide here; the defaults are upstream's.
#[derive(Clone, Debug)]
pub struct QuotaOptions {
    /// `--resource-quota-sync-period`: how often everything is counted anew without a sign of any change.
    pub sync_period: Duration,
}

impl Default for QuotaOptions {
    fn default() -> Self {
        Self { sync_period: Duration::from_secs(300) }
    }
}

/// What the API server has charged may not have come by the watch yet: fewer than charged counts only when it is still so after this.
const LAG: Duration = Duration::from_millis(250);
/// A kind that a quota names is being listed.
const LISTING: Duration = Duration::from_millis(100);

/// What each object of a kind uses, by namespace and name, with the version that it was read from.
type Known = HashMap<Key, (Option<String>, Arc<Used>)>;

struct Quotas {
    client: Client,
    quotas: Store<ResourceQuota>,
    pods: Store<Pod>,
    services: Store<Service>,
    others: Arc<Others>,
    read: Mutex<HashMap<&'static str, Known>>,
    /// Quotas of which less was found than charged, and their version then.
    doubted: Mutex<HashMap<Key, Option<String>>>,
    period: Duration,
}

/// Runs until it is dropped.
pub async fn run(context: Context) -> Result<()> {
    let (quotas, pods, services) =
        (context.store::<ResourceQuota>(), context.store::<Pod>(), context.store::<Service>());
    let queue: Queue<Key> = context.queue("resource_quota");
    let others = Arc::new(Others::default());
    let _quotas = quotas.on_change({
        let (queue, others) = (queue.clone(), Arc::clone(&others));
        move |change| {
            // What others write into the status is mended too; usage that the API server charges is no change.
            let asked = |quota: &Arc<ResourceQuota>| {
                (quota.spec.clone(), quota.status.as_ref().and_then(|status| status.hard.clone()))
            };
            if change.old.map(asked) != change.new.map(asked) {
                others.wake();
                queue.add(change.key());
            }
        }
    });
    let _pods = pods.on_change({
        let (queue, quotas) = (queue.clone(), quotas.clone());
        move |change| {
            if pod_counts_otherwise(change) {
                recount(&queue, &quotas, &change.key().namespace);
            }
        }
    });
    let _services = services.on_change({
        let (queue, quotas) = (queue.clone(), quotas.clone());
        move |change| {
            if change.old.map(|one| &one.spec) != change.new.map(|one| &one.spec) {
                recount(&queue, &quotas, &change.key().namespace);
            }
        }
    });
    context.synced(&[&quotas, &pods, &services]).await;
    let client = context.client();
    let follow = others.follow(&client, &quotas, |namespace| recount(&queue, &quotas, namespace));
    let controller = Quotas {
        client: client.clone(),
        quotas: quotas.clone(),
        pods,
        services,
        others: Arc::clone(&others),
        read: Mutex::default(),
        doubted: Mutex::default(),
        period: context.options().quota.sync_period,
    };
    tokio::try_join!(follow, work(&queue, 5, &controller))?;
    Ok(())
}

fn recount(queue: &Queue<Key>, quotas: &Store<ResourceQuota>, namespace: &str) {
    quotas.in_namespace(namespace).iter().for_each(|quota| queue.add(Key::of(&**quota)));
}

/// Whether something changed that quotas look at.
fn pod_counts_otherwise(change: &Change<'_, Pod>) -> bool {
    let counts = |pod: &Arc<Pod>| {
        let status = pod.status.as_ref();
        let statuses = status.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten();
        let resources: Vec<_> = statuses.map(|one| (one.resources.clone(), one.allocated_resources.clone())).collect();
        let generation = pod.metadata.generation;
        (pods::is_finished(pod), pod.metadata.deletion_timestamp.clone(), generation, resources)
    };
    change.old.map(counts) != change.new.map(counts)
}

impl Reconcile for Quotas {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(quota) = self.quotas.get(key) else {
            self.doubted.lock().remove(key);
            if self.quotas.in_namespace(&key.namespace).is_empty() {
                self.read.lock().values_mut().for_each(|known| known.retain(|one, _| one.namespace != key.namespace));
            }
            return Ok(Next::Done);
        };
        let value = objects::to_value(&*quota)?;
        let kinds = kinds_of(&value);
        if !self.others.are_listed(&kinds) {
            return Ok(Next::After(LISTING));
        }
        let mut used: Vec<Arc<Used>> = Vec::new();
        for kind in &kinds {
            match (kind.group.as_str(), kind.plural.as_str()) {
                ("", "pods") => used.extend(self.read_all("pods", &self.pods.in_namespace(&key.namespace))),
                ("", "services") => used.extend(self.read_all("services", &self.services.in_namespace(&key.namespace))),
                _ => used.extend(self.others.in_namespace(kind, &key.namespace)),
            }
        }
        let status = plan::status(&value, used.iter().map(|used| &**used), jiff::Timestamp::now());
        if plan::is_current(&value, &status) {
            self.doubted.lock().remove(key);
            return Ok(self.later(&used));
        }
        if plan::is_less(&value, &status) {
            let version = quota.resource_version();
            let before = self.doubted.lock().insert(key.clone(), version.clone());
            if before != Some(version) {
                return Ok(Next::After(LAG));
            }
        }
        self.doubted.lock().remove(key);
        let api: Api<ResourceQuota> = Api::namespaced(self.client.clone(), &key.namespace);
        let changed = ResourceQuota { status: Some(plan::typed(&status)), ..(*quota).clone() };
        match api.replace_status(&key.name, &PostParams::default(), &changed).await {
            Ok(stored) => self.quotas.remember(stored),
            Err(kube::Error::Api(answer)) if answer.code == 404 => {}
            // Charged meanwhile; the watch brings what by.
            Err(kube::Error::Api(answer)) if answer.code == 409 => return Ok(Next::After(LISTING)),
            Err(error) => return Err(error.into()),
        }
        Ok(self.later(&used))
    }
}

impl Quotas {
    /// What each of the objects uses; only those that changed are read anew.
    fn read_all<K>(&self, plural: &'static str, objects: &[Arc<K>]) -> Vec<Arc<Used>>
    where
        K: Resource<DynamicType = ()> + objects::Encode,
    {
        let mut read = self.read.lock();
        let known = read.entry(plural).or_default();
        if let Some(namespace) = objects.first().and_then(|object| object.namespace()) {
            let there: HashSet<Key> = objects.iter().map(|object| Key::of(&**object)).collect();
            known.retain(|key, _| key.namespace != namespace || there.contains(key));
        }
        let mut all = Vec::with_capacity(objects.len());
        for object in objects {
            let (key, version) = (Key::of(&**object), object.resource_version());
            if let Some((_, used)) = known.get(&key).filter(|(read, _)| *read == version) {
                all.push(Arc::clone(used));
                continue;
            }
            let used = Arc::new(Used::of("", plural, objects::to_value(&**object).unwrap_or_default()));
            known.insert(key, (version, Arc::clone(&used)));
            all.push(used);
        }
        all
    }

    /// Pods that are asked to end count until their time is over, and nothing happens then.
    fn later(&self, used: &[Arc<Used>]) -> Next {
        let now = jiff::Timestamp::now();
        let ends = used.iter().filter_map(|used| used.ends()).filter(|end| *end > now).min();
        let wait = ends.and_then(|end| Duration::try_from(end.duration_since(now)).ok());
        Next::After(wait.map_or(self.period, |wait| wait + Duration::from_secs(1)).min(self.period))
    }
}
