//! HorizontalPodAutoscaler: targets grow and shrink as their metrics ask.
//!
//! Every `--horizontal-pod-autoscaler-sync-period` each autoscaler asks for its target's scale and its metrics (`ask`), counts the
//! pods that each metric wants (`count`), takes the largest, and goes there as fast as its behavior allows (`pace`).

mod ask;
mod count;
mod pace;
mod sources;
mod status;
#[cfg(test)]
mod tests;

use crate::{
    framework::{Context, Controller, Events, Key, Next, Queue, Reconcile, Result, Store, reference, work},
    housekeeping::discovery,
};
use api::{kinds::quantity, object::Fields};
use count::Tolerances;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{autoscaling::v2::HorizontalPodAutoscaler, core::v1::Pod};
use kube::{
    Client, ResourceExt,
    api::{ApiResource, ListParams, Patch, PatchParams, PostParams},
};
use pace::{Bounds, History};
use parking_lot::Mutex;
use runtime::client::Api;
use serde_json::{Value, json};
use sources::Wanted;
use status::Status;
use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

/// The controllers of this room.
pub const CONTROLLERS: &[Controller] = &[Controller {
    name: "horizontal-pod-autoscaler-controller",
    alias: "horizontalpodautoscaling",
    default_on: true,
    run: |context| Box::pin(run(context)),
}];

/// What flags decide here; the defaults are upstream's.
#[derive(Clone, Debug)]
pub struct AutoscalerOptions {
    /// `--horizontal-pod-autoscaler-sync-period`: how often targets are looked at.
    pub sync_period: Duration,
    /// `--horizontal-pod-autoscaler-downscale-stabilization`: how long a higher recommendation counts.
    pub downscale_stabilization: Duration,
    /// `--horizontal-pod-autoscaler-tolerance`: how far from its target a metric may be, as a fraction of it.
    pub tolerance: f64,
    /// `--horizontal-pod-autoscaler-cpu-initialization-period`: how long the processor time of a new pod says little.
    pub cpu_initialization_period: Duration,
    /// `--horizontal-pod-autoscaler-initial-readiness-delay`: how long a change of readiness counts as the first one.
    pub initial_readiness_delay: Duration,
    /// `--concurrent-horizontal-pod-autoscaler-syncs`: autoscalers that are worked on at a time.
    pub workers: usize,
}

impl Default for AutoscalerOptions {
    fn default() -> Self {
        Self {
            sync_period: Duration::from_secs(15),
            downscale_stabilization: Duration::from_secs(300),
            tolerance: 0.1,
            cpu_initialization_period: Duration::from_secs(300),
            initial_readiness_delay: Duration::from_secs(30),
            workers: 5,
        }
    }
}

/// A kind that was not found is looked for again after this.
const UNKNOWN_KIND: Duration = Duration::from_secs(10);

/// What the API serves, by group and kind, as it was at this moment.
#[derive(Default)]
struct Kinds {
    at: Option<Instant>,
    known: HashMap<(String, String), ApiResource>,
}

struct Autoscalers {
    client: Client,
    autoscalers: Store<HorizontalPodAutoscaler>,
    events: Events,
    options: AutoscalerOptions,
    history: Mutex<HashMap<Key, History>>,
    /// The pods that each autoscaler last counted, by namespace: no two may count the same.
    counted: Mutex<HashMap<Key, BTreeSet<String>>>,
    kinds: Mutex<Kinds>,
}

/// Runs until it is dropped.
pub async fn run(context: Context) -> Result<()> {
    let autoscalers = context.store::<HorizontalPodAutoscaler>();
    let queue: Queue<Key> = context.queue("horizontal_pod_autoscaler");
    let _autoscalers = autoscalers.on_change({
        let queue = queue.clone();
        move |change| {
            if change.old.map(|one| &one.spec) != change.new.map(|one| &one.spec) {
                queue.add(change.key());
            }
        }
    });
    context.synced(&[&autoscalers]).await;
    let options = context.options().autoscaler.clone();
    let workers = options.workers;
    let controller = Autoscalers {
        client: context.client(),
        autoscalers,
        events: context.events("horizontal-pod-autoscaler"),
        options,
        history: Mutex::default(),
        counted: Mutex::default(),
        kinds: Mutex::default(),
    };
    work(&queue, workers, &controller).await
}

/// The scale of a target, and where it is.
struct Scale {
    /// The path of all objects of the target's kind in its namespace.
    collection: String,
    target: String,
    replicas: i32,
    running: i32,
    selector: String,
}

impl Reconcile for Autoscalers {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(autoscaler) = self.autoscalers.get(key) else {
            self.history.lock().remove(key);
            self.counted.lock().remove(key);
            return Ok(Next::Done);
        };
        let value = objects::to_value(&*autoscaler)?;
        let mut status = Status::of(&value, Timestamp::now());
        self.sync(key, &autoscaler, &value, &mut status).await;
        let status = status.into_value();
        if !status::same(value.at("status"), &status) {
            let api: Api<HorizontalPodAutoscaler> = Api::namespaced(self.client.clone(), &key.namespace);
            let mut changed = value.clone();
            changed.set("status", status);
            match api.replace_status(&key.name, &PostParams::default(), &objects::from_value(&changed)?).await {
                Ok(stored) => self.autoscalers.remember(stored),
                Err(kube::Error::Api(answer)) if answer.code == 404 => return Ok(Next::Done),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Next::After(self.options.sync_period))
    }
}

impl Autoscalers {
    /// Looks, decides and scales; `status` says what came of it.
    async fn sync(&self, key: &Key, autoscaler: &HorizontalPodAutoscaler, value: &Value, status: &mut Status) {
        let about = reference(autoscaler);
        let scale = match self.scale_of(&key.namespace, value.at("spec.scaleTargetRef")).await {
            Ok(scale) => scale,
            Err(why) => {
                let message = format!("the HPA controller was unable to get the target's current scale: {why}");
                status.set("AbleToScale", false, "FailedGetScale", message);
                return self.events.warning(&about, "FailedGetScale", why).await;
            }
        };
        let got = "the HPA controller was able to get the target's current scale";
        status.set("AbleToScale", true, "SucceededGetScale", got);
        let now = Timestamp::now();
        self.history.lock().entry(key.clone()).or_default().begin(scale.replicas, now);
        let number = |path: &str| value.int_at(path).and_then(|number| i32::try_from(number).ok());
        let bounds = Bounds {
            least: number("spec.minReplicas").unwrap_or(1),
            most: number("spec.maxReplicas").unwrap_or(i32::MAX),
            current: scale.replicas,
        };
        let generation = autoscaler.metadata.generation;
        let was_zeroed = status.is_true("ScaledToZero");
        let beyond_pods =
            value.list_at("spec.metrics").iter().any(|one| matches!(one.str_at("type"), "Object" | "External"));
        let (desired, reason, metrics) = if bounds.current == 0 && !(was_zeroed && (bounds.least != 0 || beyond_pods)) {
            let why = "scaling is disabled since the replica count of the target is zero";
            status.set("ScalingActive", false, "ScalingDisabled", why);
            (0, String::new(), Vec::new())
        } else if bounds.current > bounds.most {
            (bounds.most, "Current number of replicas above Spec.MaxReplicas".to_owned(), Vec::new())
        } else if bounds.current < bounds.least && bounds.current != 0 {
            (bounds.least, "Current number of replicas below Spec.MinReplicas".to_owned(), Vec::new())
        } else {
            match self.by_metrics(key, autoscaler, value, &scale, status).await {
                Ok(wanted) => {
                    let (desired, reason) = self.paced(key, value, bounds, &wanted, status, now);
                    (desired, reason, wanted.statuses)
                }
                Err((why, statuses)) => {
                    status.measured(generation, scale.replicas, statuses);
                    return self.events.warning(&about, "FailedComputeMetricsReplicas", why).await;
                }
            }
        };
        status.measured(generation, scale.replicas, metrics);
        if desired == scale.replicas {
            return status.desired(scale.replicas);
        }
        if let Err(error) = patch_scale(&self.client, &scale, desired).await {
            let why = ask::told(&error);
            let message = format!("the HPA controller was unable to update the target scale: {why}");
            status.set("AbleToScale", false, "FailedUpdateScale", message);
            let note = format!("New size: {desired}; reason: {reason}; error: {why}");
            return self.events.warning(&about, "FailedRescale", note).await;
        }
        let message = format!("the HPA controller was able to update the target scale to {desired}");
        status.set("AbleToScale", true, "SucceededRescale", message);
        if desired == 0 && bounds.least == 0 && beyond_pods {
            status.set("ScaledToZero", true, "ScaledToZero", "the HPA controller scaled the workload to zero");
        } else {
            let why = "the HPA controller did not scale the workload to zero";
            status.set("ScaledToZero", false, "NotScaledToZero", why);
        }
        status.desired(desired);
        status.scaled_now();
        if value.at("spec.behavior").is_object() {
            self.history.lock().entry(key.clone()).or_default().note_change(scale.replicas, desired, now);
        }
        self.events.normal(&about, "SuccessfulRescale", format!("New size: {desired}; reason: {reason}")).await;
    }

    /// From what the metrics want to what is done now, and why.
    fn paced(
        &self,
        key: &Key,
        value: &Value,
        bounds: Bounds,
        wanted: &Wanted,
        status: &mut Status,
        now: Timestamp,
    ) -> (i32, String) {
        let window = SignedDuration::try_from(self.options.downscale_stabilization).unwrap_or_default();
        let paced = {
            let mut history = self.history.lock();
            let history = history.entry(key.clone()).or_default();
            history.pace(wanted.replicas, bounds, value.at("spec.behavior"), window, now)
        };
        status.set("AbleToScale", true, paced.able.0, paced.able.1);
        let (limited, reason, message) = paced.limited;
        status.set("ScalingLimited", limited, reason, message);
        let mut desired = paced.replicas;
        let mut why = match () {
            () if wanted.replicas > bounds.current => format!("{} above target", wanted.metric),
            () if wanted.replicas < bounds.current => "All metrics below target".to_owned(),
            () => String::new(),
        };
        if bounds.current == 0 && desired < bounds.least {
            desired = bounds.least;
            if why.is_empty() {
                "Current number of replicas below Spec.MinReplicas".clone_into(&mut why);
            }
        }
        (desired, why)
    }

    /// What the metrics want, the largest of them; what was measured comes along with an error too.
    async fn by_metrics(
        &self,
        key: &Key,
        autoscaler: &HorizontalPodAutoscaler,
        value: &Value,
        scale: &Scale,
        status: &mut Status,
    ) -> Result<Wanted, (String, Vec<Value>)> {
        let about = reference(autoscaler);
        if scale.selector.is_empty() {
            let why = "selector is required";
            self.events.warning(&about, "SelectorRequired", why).await;
            status.set("ScalingActive", false, "InvalidSelector", "the HPA target's scale is missing a selector");
            return Err((why.to_owned(), Vec::new()));
        }
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let pods = match api.list(&ListParams::default().labels(&scale.selector)).await {
            Ok(list) => list.items,
            Err(error) => {
                let why = format!(
                    "couldn't convert selector into a corresponding internal selector object: {}",
                    ask::told(&error)
                );
                self.events.warning(&about, "InvalidSelector", why.clone()).await;
                status.set("ScalingActive", false, "InvalidSelector", why.clone());
                return Err((why, Vec::new()));
            }
        };
        if let Some(other) = self.also_counted(key, &pods) {
            let why = format!(
                "pods by selector {} are controlled by more than one HPA (e.g. [{key} {other}])",
                scale.selector
            );
            self.events.warning(&about, "AmbiguousSelector", why.clone()).await;
            status.set("ScalingActive", false, "AmbiguousSelector", why.clone());
            return Err((why, Vec::new()));
        }
        let wanted = self.wanted(key, value, scale, &pods).await;
        for (reason, why) in &wanted.failures {
            self.events.warning(&about, reason, why.clone()).await;
        }
        match wanted.verdict(scale.replicas) {
            Err((reason, why, first)) => {
                let message = format!("the HPA was unable to compute the replica count: {why}");
                status.set("ScalingActive", false, reason, message);
                Err((first, wanted.statuses))
            }
            Ok(()) => {
                let metric = &wanted.metric;
                let message = format!("the HPA was able to successfully calculate a replica count from {metric}");
                status.set("ScalingActive", true, "ValidMetricFound", message);
                Ok(wanted)
            }
        }
    }

    /// Another autoscaler of the namespace that counts one of these pods.
    fn also_counted(&self, key: &Key, pods: &[Pod]) -> Option<Key> {
        let names: BTreeSet<String> = pods.iter().map(ResourceExt::name_any).collect();
        let mut counted = self.counted.lock();
        let others = counted.iter().filter(|(other, _)| other.namespace == key.namespace && *other != key);
        let found = others.filter(|(_, theirs)| !theirs.is_disjoint(&names)).map(|(other, _)| other.clone()).min();
        counted.insert(key.clone(), names);
        found
    }

    fn tolerances(&self, value: &Value) -> Tolerances {
        let own = |direction: &str| {
            let text = value.at("spec.behavior").at(direction).at("tolerance").as_str()?;
            #[allow(clippy::cast_precision_loss, reason = "a tolerance is a small number")]
            quantity::nanos(text).map(|nanos| nanos as f64 / 1e9)
        };
        let tolerance = self.options.tolerance;
        Tolerances { down: own("scaleDown").unwrap_or(tolerance), up: own("scaleUp").unwrap_or(tolerance) }
    }

    async fn scale_of(&self, namespace: &str, target: &Value) -> Result<Scale, String> {
        let group = target.str_at("apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
        let (kind, name) = (target.str_at("kind"), target.str_at("name"));
        let found = self.resource(group, kind).await?;
        let resource = found.ok_or_else(|| {
            let shown = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
            format!("no matches for kind {kind:?} in group {group:?} ({shown})")
        })?;
        let root = if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
        let collection = format!("{root}/{}/namespaces/{namespace}/{}", resource.version, resource.plural);
        let path = format!("{collection}/{name}/scale");
        let scale = ask::get(&self.client, &path).await.map_err(|error| ask::told(&error))?;
        let number = |path: &str| scale.int_at(path).and_then(|number| i32::try_from(number).ok()).unwrap_or_default();
        Ok(Scale {
            replicas: number("spec.replicas"),
            running: number("status.replicas"),
            selector: scale.str_at("status.selector").to_owned(),
            target: name.to_owned(),
            collection,
        })
    }

    /// Where objects of a kind are; none when nobody serves it.
    async fn resource(&self, group: &str, kind: &str) -> Result<Option<ApiResource>, String> {
        let wanted = (group.to_owned(), kind.to_owned());
        {
            let kinds = self.kinds.lock();
            let recent = kinds.at.is_some_and(|at| at.elapsed() < UNKNOWN_KIND);
            if let Some(known) = kinds.known.get(&wanted) {
                return Ok(Some(known.clone()));
            } else if recent {
                return Ok(None);
            }
        }
        let found = discovery::kinds(&self.client).await.map_err(|error| error.to_string())?;
        let all: HashMap<_, _> = found
            .iter()
            .map(|kind| ((kind.resource.group.clone(), kind.resource.kind.clone()), kind.resource.clone()))
            .collect();
        let known = all.get(&wanted).cloned();
        *self.kinds.lock() = Kinds { at: Some(Instant::now()), known: all };
        Ok(known)
    }
}

/// Asks for so many replicas.
async fn patch_scale(client: &Client, scale: &Scale, replicas: i32) -> kube::Result<()> {
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    let paths = kube::core::Request::new(scale.collection.as_str());
    let request = paths.patch_subresource("scale", &scale.target, &PatchParams::default(), &patch);
    client.request_text(request.map_err(kube::Error::BuildRequest)?).await.map(drop)
}
