//! What has to happen now so that a Pod's sandbox and containers become what they should be. Pure.
//!
//! Called by `sync` with what the runtime has and what went wrong lately. Mirrors `computePodActions` of upstream's kubelet and its order of
//! ending: containers first, then sidecars from the last to the first, then the sandbox.

use super::{
    containers::{Member, Role, members, starts_again},
    failures::Failures,
    observe::{Observed, ObservedContainer, State},
};
use crate::probes::Verdict;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that is looked at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Nothing for containers whose Pod nobody knows.
    pub pod: Option<&'a Pod>,
    pub observed: &'a Observed,
    pub failures: &'a Failures,
    /// What probes say, by container id.
    pub verdicts: &'a BTreeMap<String, Verdict>,
    /// Containers that are being started or ended, by name.
    pub busy: &'a BTreeSet<String>,
    /// Sandboxes whose network has been given back.
    pub stopped: &'a BTreeSet<String>,
    /// Whether the Pod is to end, and how long it may take.
    pub ending: Option<Ending>,
    pub now: Timestamp,
}

/// A Pod that is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Seconds that are left to it.
    pub grace: i64,
    /// Whether nothing is to remain, not even logs.
    pub remove: bool,
}

/// One step. Steps of one plan can be made side by side, but for sandboxes, which come alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    RunSandbox {
        attempt: u32,
    },
    /// Ends what is in it and gives its network back.
    StopSandbox {
        id: String,
    },
    RemoveSandbox {
        id: String,
    },
    /// Pulls the image, makes and starts the container of this name.
    Start {
        name: String,
        restarts: u32,
        again: bool,
    },
    Kill {
        id: String,
        name: String,
        grace: i64,
        why: Why,
    },
    Remove {
        id: String,
    },
}

/// Why a container is ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    PodEnds,
    SandboxChanged,
    ImageChanged,
    /// Which probe.
    Unhealthy(&'static str),
    /// The runtime does not know what it does.
    Unknown,
    /// Everything that it serves has ended.
    PodDone,
}

/// What to do, and when to look again if nothing changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub actions: Vec<Action>,
    pub again: Option<SignedDuration>,
    /// Nothing of the Pod runs and nothing will.
    pub ended: bool,
}

/// A sidecar has at least this long, however late it is told.
const SIDECAR_GRACE: i64 = 2;

pub fn plan(view: &View<'_>) -> Plan {
    let mut plan = Plan::default();
    match (view.pod, view.ending) {
        (Some(pod), None) => {
            let spec = pod.spec.clone().unwrap_or_default();
            let members = members(pod);
            if is_done(view, &spec, &members) {
                view.end(&mut plan, Ending { grace: grace(&spec), remove: false }, Why::PodDone);
            } else {
                view.run(&mut plan, &spec, &members);
            }
        }
        (_, ending) => {
            let ending = ending.unwrap_or(Ending { grace: 0, remove: true });
            view.end(&mut plan, ending, Why::PodEnds);
        }
    }
    plan
}

/// How long the containers of a Pod have to end by themselves.
#[must_use]
pub fn grace(spec: &PodSpec) -> i64 {
    spec.termination_grace_period_seconds.unwrap_or(30)
}

/// Whether everything that the Pod is for has ended and stays so.
fn is_done(view: &View<'_>, spec: &PodSpec, members: &[Member<'_>]) -> bool {
    let over = |member: &Member<'_>| {
        view.observed.latest(&member.container.name).is_some_and(|one| {
            one.state == State::Exited && !starts_again(spec, member.role, &member.container, one.exit_code)
        })
    };
    let failed_init = members.iter().any(|member| {
        member.role == Role::Init
            && over(member)
            && view.observed.latest(&member.container.name).is_some_and(|one| one.exit_code != 0)
    });
    let started =
        members.iter().any(|member| member.role == Role::App && view.observed.latest(&member.container.name).is_some());
    let busy = |member: &Member<'_>| member.role == Role::App && view.busy.contains(&member.container.name);
    (failed_init && !started)
        || (members.iter().filter(|member| member.role == Role::App).all(over) && !members.iter().any(busy))
}

impl View<'_> {
    fn run(&self, plan: &mut Plan, spec: &PodSpec, members: &[Member<'_>]) {
        let Some(sandbox) = self.observed.ready_sandbox() else {
            return self.replace_sandbox(plan, grace(spec));
        };
        let sandbox = sandbox.id.as_str();
        // What an earlier sandbox left running has another network.
        for one in self.observed.alive().filter(|one| one.sandbox != sandbox) {
            self.kill(plan, one, grace(spec), Why::SandboxChanged);
        }
        let started = members.iter().any(|member| {
            member.role == Role::App && self.observed.latest_in(&member.container.name, sandbox).is_some()
        });
        let mut ready = true;
        for member in members {
            match member.role {
                Role::Init if started => {}
                Role::Init | Role::Sidecar if !ready && !started => {}
                Role::Init => ready = self.init(plan, spec, member, sandbox),
                Role::Sidecar => {
                    let is_up = self.keep(plan, spec, member, sandbox);
                    ready &= is_up || started;
                }
                Role::App if ready || started => {
                    self.keep(plan, spec, member, sandbox);
                }
                Role::App => {}
                Role::Ephemeral => self.once(plan, member, sandbox),
            }
        }
        self.tidy(plan, sandbox);
    }

    /// Ends what is left of a sandbox that does not work, then makes another.
    fn replace_sandbox(&self, plan: &mut Plan, grace: i64) {
        let alive: Vec<_> = self.observed.alive().collect();
        if !alive.is_empty() {
            return alive.into_iter().for_each(|one| self.kill(plan, one, grace, Why::SandboxChanged));
        }
        let old = self.observed.sandboxes.iter().filter(|sandbox| !self.stopped.contains(&sandbox.id));
        let old: Vec<_> = old.map(|sandbox| Action::StopSandbox { id: sandbox.id.clone() }).collect();
        if !old.is_empty() {
            return plan.actions.extend(old);
        }
        if !self.busy.is_empty() {
            return;
        }
        let attempt = self.observed.sandboxes.first().map_or(0, |sandbox| sandbox.attempt + 1);
        plan.actions.push(Action::RunSandbox { attempt });
    }

    /// Whether an init container is through.
    fn init(&self, plan: &mut Plan, spec: &PodSpec, member: &Member<'_>, sandbox: &str) -> bool {
        let name = &member.container.name;
        match self.observed.latest_in(name, sandbox) {
            Some(one) if one.state == State::Exited && one.exit_code == 0 => return true,
            Some(one) if one.state == State::Exited => {
                if starts_again(spec, member.role, &member.container, one.exit_code) {
                    self.start(plan, member, Some(one));
                }
            }
            Some(one) => self.mend(plan, member, one, grace(spec)),
            None => self.start(plan, member, None),
        }
        false
    }

    /// Keeps a container running as long as it should. Whether it is up.
    fn keep(&self, plan: &mut Plan, spec: &PodSpec, member: &Member<'_>, sandbox: &str) -> bool {
        let name = &member.container.name;
        match self.observed.latest(name) {
            Some(one) if one.state == State::Exited => {
                if starts_again(spec, member.role, &member.container, one.exit_code) {
                    self.start(plan, member, Some(one));
                }
                false
            }
            // An earlier sandbox's; it is being ended.
            Some(one) if one.sandbox != sandbox => false,
            Some(one) => {
                self.mend(plan, member, one, grace(spec));
                one.state == State::Running && self.verdicts.get(&one.id).is_none_or(|verdict| verdict.started)
            }
            None => {
                self.start(plan, member, None);
                false
            }
        }
    }

    /// Ends a container that is there but is not as it should be.
    fn mend(&self, plan: &mut Plan, member: &Member<'_>, one: &ObservedContainer, grace: i64) {
        match one.state {
            // Whoever made it was stopped before it was started.
            State::Created => {
                if !self.busy.contains(&one.name) {
                    plan.actions.push(Action::Remove { id: one.id.clone() });
                }
            }
            State::Unknown => self.kill(plan, one, grace, Why::Unknown),
            State::Running => {
                let failure = self.verdicts.get(&one.id).and_then(|verdict| verdict.failed.as_ref());
                if let Some(failure) = failure {
                    self.kill(plan, one, failure.grace.unwrap_or(grace), Why::Unhealthy(failure.probe));
                } else if !one.image.is_empty()
                    && member.container.image.as_ref().is_some_and(|image| *image != one.image)
                {
                    self.kill(plan, one, grace, Why::ImageChanged);
                }
            }
            State::Exited => {}
        }
    }

    /// An ephemeral container runs once.
    fn once(&self, plan: &mut Plan, member: &Member<'_>, sandbox: &str) {
        match self.observed.latest(&member.container.name) {
            None => self.start(plan, member, None),
            Some(one) if one.sandbox == sandbox => self.mend(plan, member, one, SIDECAR_GRACE),
            Some(_) => {}
        }
    }

    fn start(&self, plan: &mut Plan, member: &Member<'_>, last: Option<&ObservedContainer>) {
        let name = &member.container.name;
        if self.busy.contains(name) {
            return;
        }
        if let Some(failed) = self.failures.of(name)
            && failed.until > self.now
        {
            return plan.look_again(self.now.duration_until(failed.until));
        }
        let finished = last.map(|one| one.finished.unwrap_or(self.now));
        if let Some((left, _)) = finished.and_then(|finished| self.failures.crash_wait(name, finished, self.now)) {
            return plan.look_again(left);
        }
        let reported = self.reported_restarts(name);
        let restarts = last.map_or(reported, |one| one.restarts + 1).max(reported);
        plan.actions.push(Action::Start { name: name.clone(), restarts, again: last.is_some() });
    }

    /// How many restarts the container that comes has behind it, by what the API was told: the runtime may have lost its predecessors.
    fn reported_restarts(&self, name: &str) -> u32 {
        let status = self.pod.and_then(|pod| pod.status.as_ref());
        let lists = status.map(|status| [&status.init_container_statuses, &status.container_statuses]);
        let mut all = lists.into_iter().flatten().flat_map(|list| list.iter().flatten());
        let known = all.find(|one| one.name == name);
        let count = known.map_or(0, |one| u32::try_from(one.restart_count).unwrap_or(0));
        let ran = known
            .and_then(|one| one.state.as_ref())
            .is_some_and(|state| state.waiting.is_none() && (state.running.is_some() || state.terminated.is_some()));
        if ran && self.observed.latest(name).is_none() { count + 1 } else { count }
    }

    fn kill(&self, plan: &mut Plan, one: &ObservedContainer, grace: i64, why: Why) {
        if self.busy.contains(&one.name) {
            return;
        }
        plan.actions.push(Action::Kill { id: one.id.clone(), name: one.name.clone(), grace, why });
    }

    /// Removes the dead beyond the last of each name, and sandboxes that nothing is left in.
    fn tidy(&self, plan: &mut Plan, sandbox: &str) {
        let mut kept = BTreeMap::<&str, usize>::new();
        let mut used = BTreeSet::from([sandbox]);
        for one in &self.observed.containers {
            let count = kept.entry(&one.name).or_default();
            *count += 1;
            // The one that runs, or ended last, and the one before it, for `kubectl logs --previous`.
            if *count > 2 && one.state == State::Exited && !self.busy.contains(&one.name) {
                plan.actions.push(Action::Remove { id: one.id.clone() });
            } else {
                used.insert(&one.sandbox);
            }
        }
        let unused = self.observed.sandboxes.iter().filter(|one| !used.contains(one.id.as_str()));
        plan.actions.extend(unused.map(|one| Action::RemoveSandbox { id: one.id.clone() }));
    }

    /// Ends everything: containers, then sidecars from the last on, then the sandboxes, then what is left of them.
    fn end(&self, plan: &mut Plan, ending: Ending, why: Why) {
        let role = |name: &str| {
            let members = self.pod.map(members).unwrap_or_default();
            members.iter().find(|member| member.container.name == name).map(|member| member.role)
        };
        let (sidecars, others): (Vec<_>, Vec<_>) =
            self.observed.alive().partition(|one| role(&one.name) == Some(Role::Sidecar));
        if !others.is_empty() || others.is_empty() && self.others_busy(&sidecars) {
            for one in others {
                self.kill(plan, one, ending.grace, why.clone());
            }
            return;
        }
        let order: Vec<_> =
            self.pod.map(members).unwrap_or_default().into_iter().map(|member| member.container.name.clone()).collect();
        let place = |one: &&&ObservedContainer| order.iter().position(|name| *name == one.name);
        if let Some(last) = sidecars.iter().max_by_key(place) {
            return self.kill(plan, last, ending.grace.max(SIDECAR_GRACE), why);
        }
        if !self.busy.is_empty() {
            return;
        }
        let open = self.observed.sandboxes.iter().filter(|one| !self.stopped.contains(&one.id));
        plan.actions.extend(open.map(|one| Action::StopSandbox { id: one.id.clone() }));
        if !plan.actions.is_empty() {
            return;
        }
        plan.ended = true;
        if ending.remove {
            let containers = self.observed.containers.iter().map(|one| Action::Remove { id: one.id.clone() });
            let sandboxes = self.observed.sandboxes.iter().map(|one| Action::RemoveSandbox { id: one.id.clone() });
            plan.actions.extend(containers.chain(sandboxes));
        }
    }

    /// Whether something is under way for a container that is no sidecar of these.
    fn others_busy(&self, sidecars: &[&ObservedContainer]) -> bool {
        self.busy.iter().any(|name| !sidecars.iter().any(|one| one.name == *name))
    }
}

impl Plan {
    fn look_again(&mut self, after: SignedDuration) {
        self.again = Some(self.again.map_or(after, |known| known.min(after)));
    }
}
