//! One look at one Pod: what is, what should be, what is done about it, what the API is told.

use super::{
    Memory, Pods, admit,
    config::{self, uid},
    containers::member,
    index::is_static,
    now,
    observe::{Observed, State},
    plan::{self, Action, Ending, Plan, View},
    status::{self, Facts},
    stop::Stop,
};
use crate::{
    cri::{
        PATIENCE,
        proto::{RemoveContainerRequest, RemovePodSandboxRequest, StopPodSandboxRequest},
    },
    environment::Addresses,
    probes::Verdict,
};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::{ResourceExt, api::PostParams};
use parking_lot::Mutex;
use runtime::{
    client::Api,
    controller::{Key, Next, Reconcile, Result},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// How often a Pod is looked at without anything having happened: volumes are renewed then, as upstream's `syncFrequency`.
const PERIOD: Duration = Duration::from_secs(60);
/// A sandbox may have to be ended, another made, and the remains removed: more rounds than that are a mistake.
const ROUNDS: usize = 8;
/// What a container whose Pod nobody knows has left; upstream's.
const ORPHAN_GRACE: i64 = 1;

/// Looks at Pods by uid.
pub struct Syncer(pub Arc<Pods>);

impl Reconcile for Syncer {
    type Key = String;

    async fn reconcile(&self, uid: &String) -> Result<Next> {
        self.0.sync(uid).await
    }
}

impl Pods {
    pub(super) async fn sync(self: &Arc<Self>, uid: &str) -> Result<Next> {
        if uid.is_empty() {
            return Ok(Next::Done);
        }
        let memory = self.memory(uid);
        let pod = self.index.pod(uid);
        if let Some(pod) = &pod {
            memory.lock().last = Some(Arc::clone(pod));
        }
        let known = pod.clone().or_else(|| memory.lock().last.clone());
        let mut again = None;
        let (mut observed, mut ended) = (Observed::default(), false);
        for _ in 0..ROUNDS {
            observed = self.observe(uid, known.as_deref()).await?;
            let ending = self.ending(pod.as_deref(), &memory);
            if ending.is_none()
                && let Some(pod) = &pod
                && let Err(error) = self.prepare(pod, &observed).await
            {
                self.tell(pod, &observed, &memory, false).await?;
                self.warn(pod, None, "FailedMount", error.clone()).await;
                return Err(error.into());
            }
            let verdicts = self.verdicts(known.as_ref(), &observed);
            let plan = {
                let memory = memory.lock();
                let busy: BTreeSet<String> = memory.busy.keys().cloned().collect();
                plan::plan(&View {
                    pod: known.as_deref(),
                    observed: &observed,
                    failures: &memory.failures,
                    verdicts: &verdicts,
                    busy: &busy,
                    stopped: &memory.stopped,
                    ending,
                    now: now(),
                })
            };
            (again, ended) = (plan.again, plan.ended);
            self.hurry_up(&observed, ending, &memory);
            let acted = self.act(uid, known.as_ref(), &observed, plan, &memory).await;
            if acted.is_err()
                && let Some(pod) = &pod
            {
                // What waits is told, and why by an event.
                self.tell(pod, &observed, &memory, false).await?;
            }
            if !acted? {
                break;
            }
        }
        let Some(pod) = pod else {
            if ended && observed == Observed::default() {
                self.bury(uid, None).await?;
                return Ok(Next::Done);
            }
            return Ok(Next::After(PERIOD));
        };
        self.tell_back_offs(&pod, &observed, &memory).await;
        self.tell(&pod, &observed, &memory, ended).await?;
        let deleted = pod.metadata.deletion_timestamp.is_some();
        if ended && deleted && !is_static(&pod) && observed == Observed::default() {
            // The last status is with the API; now the Pod may go.
            let pod = self.index.pod(uid).unwrap_or(pod);
            self.bury(uid, Some(&pod)).await?;
            return Ok(Next::Done);
        }
        if ended && !deleted && !memory.lock().released && is_over(&pod) {
            self.release(uid).await?;
            memory.lock().released = true;
        }
        let again = again.and_then(|again| Duration::try_from(again).ok());
        Ok(Next::After(again.unwrap_or(PERIOD).min(self.until_deadline(&pod)).min(PERIOD)))
    }

    async fn observe(&self, uid: &str, pod: Option<&Pod>) -> Result<Observed> {
        let mut observed = Observed::of(&self.runtime, uid).await?;
        if pod.is_some_and(|pod| !config::is_host_network(pod)) {
            // One without an address is of no use to anybody.
            for sandbox in observed.sandboxes.iter_mut().filter(|sandbox| sandbox.ips.is_empty()) {
                sandbox.ready = false;
            }
        }
        Ok(observed)
    }

    /// Whether a Pod is to end, and how long it has.
    fn ending(&self, pod: Option<&Pod>, memory: &Mutex<Memory>) -> Option<Ending> {
        let Some(pod) = pod else { return Some(Ending { grace: ORPHAN_GRACE, remove: true }) };
        let spec = pod.spec.clone().unwrap_or_default();
        let grace = plan::grace(&spec);
        if let Some(deleted) = &pod.metadata.deletion_timestamp {
            let given = pod.metadata.deletion_grace_period_seconds.unwrap_or(grace);
            let left = now().duration_until(deleted.0).as_secs();
            return Some(Ending { grace: left.clamp(0, given.max(0)), remove: true });
        }
        if self.is_late(pod) {
            let late = status::Ended {
                reason: "DeadlineExceeded".to_owned(),
                message: "Pod was active on the node longer than the specified deadline".to_owned(),
            };
            memory.lock().ended.get_or_insert(late);
        }
        let begun = pod.status.as_ref().is_some_and(|status| status.start_time.is_some());
        if !begun && let Some(refused) = admit::refusal(pod, &self.options.allowed_sysctls) {
            memory.lock().ended.get_or_insert(refused);
        }
        let over = is_over(pod) || memory.lock().ended.is_some();
        over.then_some(Ending { grace, remove: false })
    }

    fn is_late(&self, pod: &Pod) -> bool {
        !is_over(pod) && self.until_deadline(pod).is_zero()
    }

    /// How long a Pod may still run.
    fn until_deadline(&self, pod: &Pod) -> Duration {
        let limit = pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds);
        let start = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
        let (Some(limit), Some(start)) = (limit, start) else { return Duration::MAX };
        let left = now().duration_until(start.0 + SignedDuration::from_secs(limit));
        Duration::try_from(left).unwrap_or_default()
    }

    /// What containers need before they start: sources known, volumes there.
    async fn prepare(&self, pod: &Arc<Pod>, observed: &Observed) -> std::result::Result<(), String> {
        self.sources.follow(pod).await;
        let host = self.host_addresses();
        let ips = observed.ready_sandbox().map(|sandbox| self.addresses(pod, &sandbox.ips)).unwrap_or_default();
        let at = Addresses { pod_ips: &ips, host_ips: &host };
        self.volumes.mount(pod, &at).await.map_err(|error| error.to_string())
    }

    fn verdicts(&self, pod: Option<&Arc<Pod>>, observed: &Observed) -> BTreeMap<String, Verdict> {
        let Some(pod) = pod else { return BTreeMap::new() };
        let running: Vec<_> = observed.containers.iter().filter(|one| one.state == State::Running).collect();
        let ids: Vec<String> = running.iter().map(|one| one.id.clone()).collect();
        let ips = observed.ready_sandbox().map(|sandbox| self.addresses(pod, &sandbox.ips)).unwrap_or_default();
        let ending = pod.metadata.deletion_timestamp.is_some();
        self.probes.keep(&uid(pod), &ids);
        let mut verdicts = BTreeMap::new();
        for one in running {
            let Some(member) = member(pod, &one.name) else { continue };
            if let Some(started) = one.started.filter(|_| !ending) {
                self.probes.follow(pod, &member.container, &one.id, started, &ips);
            }
            verdicts.insert(one.id.clone(), self.probes.verdict(&one.id, &member.container));
        }
        verdicts
    }

    /// A Pod that was to end later is to end sooner: containers that are ending are told again.
    fn hurry_up(self: &Arc<Self>, observed: &Observed, ending: Option<Ending>, memory: &Mutex<Memory>) {
        let Some(ending) = ending else { return };
        let due = now() + SignedDuration::from_secs(ending.grace);
        for one in observed.alive() {
            let mut memory = memory.lock();
            if let Some(Some(deadline)) = memory.busy.get_mut(&one.name)
                && *deadline > due + SignedDuration::from_secs(1)
            {
                *deadline = due;
                self.hurry(one.id.clone(), ending.grace);
            }
        }
    }

    /// Carries out a plan. Whether it is worth looking again at once.
    async fn act(
        self: &Arc<Self>,
        id: &str,
        pod: Option<&Arc<Pod>>,
        observed: &Observed,
        plan: Plan,
        memory: &Mutex<Memory>,
    ) -> Result<bool> {
        let (mut starts, mut changed) = (Vec::new(), false);
        let ips = pod.zip(observed.ready_sandbox()).map(|(pod, sandbox)| self.addresses(pod, &sandbox.ips));
        for action in plan.actions {
            tracing::debug!(uid = id, ?action, "acting");
            match action {
                Action::RunSandbox { attempt } => {
                    let Some(pod) = pod else { continue };
                    if attempt > 0 {
                        let note = "Pod sandbox changed, it will be killed and re-created.";
                        self.normal(pod, None, "SandboxChanged", note).await;
                    }
                    if let Err(error) = self.run_sandbox(pod, attempt).await {
                        self.warn(pod, None, "FailedCreatePodSandBox", error.clone()).await;
                        return Err(error.into());
                    }
                    let now = self.observe(id, Some(pod)).await?;
                    if let Some(sandbox) = now.ready_sandbox() {
                        let ips = self.addresses(pod, &sandbox.ips);
                        if attempt == 0 {
                            self.greet(pod, &ips).await;
                        }
                    }
                    changed = true;
                }
                Action::StopSandbox { id: sandbox } => {
                    self.host_ports.clear(id)?;
                    let request = StopPodSandboxRequest { pod_sandbox_id: sandbox.clone() };
                    self.runtime.end(request, PATIENCE).await?;
                    memory.lock().stopped.insert(sandbox);
                    changed = true;
                }
                Action::RemoveSandbox { id: sandbox } => {
                    self.runtime.end(StopPodSandboxRequest { pod_sandbox_id: sandbox.clone() }, PATIENCE).await?;
                    self.runtime.end(RemovePodSandboxRequest { pod_sandbox_id: sandbox }, PATIENCE).await?;
                    changed = true;
                }
                Action::Remove { id: container } => {
                    self.runtime.end(RemoveContainerRequest { container_id: container }, PATIENCE).await?;
                    changed = true;
                }
                Action::Start { name, restarts, again } => starts.push((name, restarts, again)),
                Action::Kill { id: container, name, grace, why } => {
                    let ips = ips.clone().unwrap_or_default();
                    let pod = pod.cloned();
                    self.spawn_stop(Stop { uid: id.to_owned(), pod, id: container, name, grace, why, ips });
                }
            }
        }
        if let (Some(pod), Some(sandbox)) = (pod, observed.ready_sandbox()) {
            if plan.ended {
                return Ok(changed);
            }
            self.host_ports.set(pod, ips.as_deref().unwrap_or_default())?;
            if !starts.is_empty() {
                self.spawn_starts(pod, &sandbox.id, starts);
            }
        }
        Ok(changed)
    }

    /// An event for each back-off, once.
    async fn tell_back_offs(&self, pod: &Pod, observed: &Observed, memory: &Mutex<Memory>) {
        let (mut notes, time) = (Vec::new(), now());
        {
            let mut memory = memory.lock();
            for one in super::containers::members(pod) {
                let name = &one.container.name;
                let latest = observed.latest(name).filter(|one| one.state == State::Exited);
                let finished = latest.map(|one| one.finished.unwrap_or(time));
                let waits = finished.and_then(|finished| memory.failures.crash_wait(name, finished, time));
                if waits.is_none() {
                    memory.told.remove(name);
                } else if memory.told.insert(name.clone()) {
                    notes.push(name.clone());
                }
            }
        }
        for name in notes {
            let (namespace, pod_name) = (pod.namespace().unwrap_or_default(), pod.name_any());
            let note =
                format!("Back-off restarting failed container {name} in pod {pod_name}_{namespace}({})", uid(pod));
            self.warn(pod, Some(&name), "BackOff", note).await;
        }
    }

    /// Writes the status if it is not what the API has.
    async fn tell(&self, pod: &Arc<Pod>, observed: &Observed, memory: &Mutex<Memory>, ended: bool) -> Result<()> {
        let verdicts = self.verdicts(Some(pod), observed);
        let host_ips = self.host_addresses();
        let found = observed.sandboxes.first().map(|sandbox| sandbox.ips.clone()).unwrap_or_default();
        let mut pod_ips = if observed.ready_sandbox().is_some() { self.addresses(pod, &found) } else { Vec::new() };
        if pod_ips.is_empty() && (is_over(pod) || ended || pod.metadata.deletion_timestamp.is_some()) {
            // What it had is told until it is gone.
            let told = pod.status.iter().flat_map(|status| status.pod_ips.iter().flatten());
            pod_ips = told.filter_map(|one| one.ip.parse().ok()).collect();
        }
        let wanted = {
            let memory = memory.lock();
            // What has been removed from the runtime since says nothing new.
            if is_over(pod) && (memory.released || observed.containers.is_empty()) {
                return Ok(());
            }
            let ending = pod.metadata.deletion_timestamp.is_some() || memory.ended.is_some();
            status::status(&Facts {
                pod,
                observed,
                failures: &memory.failures,
                verdicts: &verdicts,
                host_ips: &host_ips,
                pod_ips: &pod_ips,
                verdict: memory.ended.as_ref(),
                ended,
                ending,
                runtime: &self.options.runtime_name,
                now: now(),
            })
        };
        self.index.note(&uid(pod), observed, Some(&wanted));
        if pod.status.as_ref().is_some_and(|told| is_same(told, &wanted)) {
            return Ok(());
        }
        self.write(pod, wanted).await
    }

    async fn write(&self, pod: &Pod, status: PodStatus) -> Result<()> {
        let key = Key::of(pod);
        // A Pod of a file is told of through its mirror.
        let target = if is_static(pod) { self.index.mirror(&key) } else { None };
        if is_static(pod) && target.is_none() {
            return Ok(());
        }
        let target = target.as_deref().unwrap_or(pod);
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let changed = Pod { status: Some(status), ..target.clone() };
        match api.replace_status(&key.name, &PostParams::default(), &changed).await {
            Ok(stored) => {
                self.index.put(&Arc::new(stored));
                Ok(())
            }
            Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether the API knows that a Pod has ended.
fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

/// Whether two statuses say the same: the API may leave out what is empty.
fn is_same(told: &PodStatus, wanted: &PodStatus) -> bool {
    use objects::to_value;
    let plain = |status: &PodStatus| {
        let mut value = to_value(&Pod { status: Some(status.clone()), ..Pod::default() }).unwrap_or_default();
        drop_empty(&mut value);
        value
    };
    told == wanted || plain(told) == plain(wanted)
}

fn drop_empty(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(drop_empty);
            fields.retain(|_, value| match value {
                Value::Null => false,
                Value::Object(inner) => !inner.is_empty(),
                Value::Array(items) => !items.is_empty(),
                _ => true,
            });
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        _ => {}
    }
}
