//! Plans for Pods in every state that they can be found in.

use super::{
    failures::Failures,
    observe::{Observed, ObservedContainer, Sandbox, State},
    plan::{Action, Ending, Plan, View, Why, plan},
};
use crate::probes::{ProbeFailure, Verdict};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

fn pod(spec: Value) -> Pod {
    objects::from_value(&json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec})).unwrap()
}

fn apps(policy: &str, names: &[&str]) -> Pod {
    let containers: Vec<Value> = names.iter().map(|name| json!({"name": name, "image": "i"})).collect();
    pod(json!({"restartPolicy": policy, "containers": containers}))
}

fn sandbox(attempt: u32, ready: bool) -> Sandbox {
    Sandbox { id: format!("s{attempt}"), attempt, ready, ..Sandbox::default() }
}

fn container(name: &str, state: State, code: i32) -> ObservedContainer {
    ObservedContainer {
        id: format!("{name}-0"),
        sandbox: "s0".to_owned(),
        name: name.to_owned(),
        state,
        restarts: 0,
        created: 1,
        started: Some(at(10)),
        finished: (state == State::Exited).then(|| at(20)),
        exit_code: code,
        reason: String::new(),
        message: String::new(),
        image: "i".to_owned(),
        image_ref: "i".to_owned(),
        log: "/log".into(),
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A look at second 100.
struct Look {
    observed: Observed,
    failures: Failures,
    verdicts: BTreeMap<String, Verdict>,
    busy: BTreeSet<String>,
    stopped: BTreeSet<String>,
    ending: Option<Ending>,
}

fn look(sandboxes: Vec<Sandbox>, containers: Vec<ObservedContainer>) -> Look {
    Look {
        observed: Observed { sandboxes, containers },
        failures: Failures::default(),
        verdicts: BTreeMap::new(),
        busy: BTreeSet::new(),
        stopped: BTreeSet::new(),
        ending: None,
    }
}

impl Look {
    fn at(&self, pod: Option<&Pod>) -> Plan {
        plan(&View {
            pod,
            observed: &self.observed,
            failures: &self.failures,
            verdicts: &self.verdicts,
            busy: &self.busy,
            stopped: &self.stopped,
            ending: self.ending,
            now: at(100),
        })
    }

    fn of(&self, pod: &Pod) -> Vec<Action> {
        self.at(Some(pod)).actions
    }
}

fn start(name: &str, restarts: u32) -> Action {
    Action::Start { name: name.to_owned(), restarts, again: restarts > 0 }
}

fn kill(name: &str, grace: i64, why: Why) -> Action {
    Action::Kill { id: format!("{name}-0"), name: name.to_owned(), grace, why }
}

fn stop(id: &str) -> Action {
    Action::StopSandbox { id: id.to_owned() }
}

#[test]
fn a_new_pod_gets_a_sandbox_and_then_its_containers() {
    let pod = apps("Always", &["a", "b"]);
    assert_eq!(look(vec![], vec![]).of(&pod), [Action::RunSandbox { attempt: 0 }]);
    assert_eq!(look(vec![sandbox(0, true)], vec![]).of(&pod), [start("a", 0), start("b", 0)]);
    let mut under_way = look(vec![sandbox(0, true)], vec![]);
    under_way.busy.insert("a".to_owned());
    assert_eq!(under_way.of(&pod), [start("b", 0)], "nothing is started twice");
    let running =
        look(vec![sandbox(0, true)], vec![container("a", State::Running, 0), container("b", State::Running, 0)]);
    assert_eq!(running.of(&pod), []);
}

#[test]
fn what_ended_starts_again_as_the_policy_says() {
    for (policy, code, again) in
        [("Always", 0, true), ("Always", 1, true), ("OnFailure", 0, false), ("OnFailure", 1, true), ("Never", 1, false)]
    {
        let pod = apps(policy, &["a", "b"]);
        let seen =
            look(vec![sandbox(0, true)], vec![container("a", State::Exited, code), container("b", State::Running, 0)]);
        let wanted = if again { vec![start("a", 1)] } else { vec![] };
        assert_eq!(seen.of(&pod), wanted, "{policy} {code}");
    }
}

#[test]
fn a_pod_whose_containers_have_all_ended_gives_its_sandbox_back() {
    let pod = apps("Never", &["a"]);
    let mut seen = look(vec![sandbox(0, true)], vec![container("a", State::Exited, 1)]);
    assert_eq!(seen.of(&pod), [stop("s0")]);
    seen.stopped.insert("s0".to_owned());
    let plan = seen.at(Some(&pod));
    assert!(plan.ended && plan.actions.is_empty(), "its containers stay for their logs: {plan:?}");
}

#[test]
fn a_container_that_fails_again_waits() {
    let pod = apps("Always", &["a"]);
    let mut seen = look(vec![sandbox(0, true)], vec![container("a", State::Exited, 1)]);
    seen.failures.restarted("a", at(15));
    assert_eq!(seen.of(&pod), [start("a", 1)], "its ten seconds are over");
    for _ in 0..4 {
        seen.failures.restarted("a", at(95));
    }
    let plan = seen.at(Some(&pod));
    assert_eq!((plan.actions, plan.again.map(|wait| wait.as_secs())), (vec![], Some(80)));
}

#[test]
fn a_sandbox_that_ended_is_replaced_after_what_was_in_it() {
    let pod = apps("Always", &["a"]);
    let mut seen = look(vec![sandbox(0, false)], vec![container("a", State::Running, 0)]);
    assert_eq!(seen.of(&pod), [kill("a", 30, Why::SandboxChanged)]);
    seen.observed.containers[0] = container("a", State::Exited, 137);
    assert_eq!(seen.of(&pod), [stop("s0")], "its network is given back first");
    seen.stopped.insert("s0".to_owned());
    assert_eq!(seen.of(&pod), [Action::RunSandbox { attempt: 1 }]);
    seen.observed.sandboxes.insert(0, sandbox(1, true));
    assert_eq!(seen.of(&pod), [start("a", 1)]);
}

#[test]
fn init_containers_run_one_after_the_other_before_the_others() {
    let pod = pod(
        json!({"initContainers": [{"name": "i1", "image": "i"}, {"name": "i2", "image": "i"}], "containers": [{"name": "a", "image": "i"}]}),
    );
    let seen = |containers| look(vec![sandbox(0, true)], containers);
    assert_eq!(seen(vec![]).of(&pod), [start("i1", 0)]);
    assert_eq!(seen(vec![container("i1", State::Running, 0)]).of(&pod), []);
    assert_eq!(seen(vec![container("i1", State::Exited, 1)]).of(&pod), [start("i1", 1)]);
    assert_eq!(seen(vec![container("i1", State::Exited, 0)]).of(&pod), [start("i2", 0)]);
    let both = || vec![container("i1", State::Exited, 0), container("i2", State::Exited, 0)];
    assert_eq!(seen(both()).of(&pod), [start("a", 0)]);
    let mut later = both();
    later.push(container("a", State::Exited, 1));
    assert_eq!(seen(later).of(&pod), [start("a", 1)], "a restart does not begin anew");
}

#[test]
fn an_init_container_that_may_not_start_again_ends_the_pod() {
    let pod = pod(
        json!({"restartPolicy": "Never", "initContainers": [{"name": "i1", "image": "i"}], "containers": [{"name": "a", "image": "i"}]}),
    );
    let seen = look(vec![sandbox(0, true)], vec![container("i1", State::Exited, 1)]);
    assert_eq!(seen.of(&pod), [stop("s0")]);
}

#[test]
fn sidecars_start_in_their_turn_and_end_last() {
    let sidecar = |name: &str| json!({"name": name, "image": "i", "restartPolicy": "Always"});
    let pod = pod(
        json!({"restartPolicy": "Never", "initContainers": [sidecar("s1"), sidecar("s2")], "containers": [{"name": "a", "image": "i"}]}),
    );
    let seen = |containers| look(vec![sandbox(0, true)], containers);
    assert_eq!(seen(vec![]).of(&pod), [start("s1", 0)]);
    let mut slow = seen(vec![container("s1", State::Running, 0)]);
    slow.verdicts.insert("s1-0".to_owned(), Verdict { started: false, ready: false, failed: None });
    assert_eq!(slow.of(&pod), [], "the next waits for its startup probe");
    assert_eq!(seen(vec![container("s1", State::Running, 0)]).of(&pod), [start("s2", 0)]);
    let up = || vec![container("s1", State::Running, 0), container("s2", State::Running, 0)];
    assert_eq!(seen(up()).of(&pod), [start("a", 0)]);
    let with = |state, code| {
        let mut all = up();
        all.push(container("a", state, code));
        all
    };
    let mut crashed = with(State::Running, 0);
    crashed[0] = container("s1", State::Exited, 0);
    assert_eq!(seen(crashed).of(&pod), [start("s1", 1)], "a sidecar always comes back");
    assert_eq!(seen(with(State::Exited, 0)).of(&pod), [kill("s2", 30, Why::PodDone)], "the last first");
    let mut deleted = seen(with(State::Running, 0));
    deleted.ending = Some(Ending { grace: 7, remove: true });
    assert_eq!(deleted.of(&pod), [kill("a", 7, Why::PodEnds)]);
}

#[test]
fn a_deleted_pod_leaves_nothing() {
    let pod = apps("Always", &["a", "b"]);
    let mut seen =
        look(vec![sandbox(0, true)], vec![container("a", State::Running, 0), container("b", State::Exited, 0)]);
    seen.ending = Some(Ending { grace: 5, remove: true });
    assert_eq!(seen.of(&pod), [kill("a", 5, Why::PodEnds)]);
    seen.observed.containers[0] = container("a", State::Exited, 143);
    assert_eq!(seen.of(&pod), [stop("s0")]);
    seen.stopped.insert("s0".to_owned());
    let remove = |id: &str| Action::Remove { id: id.to_owned() };
    let plan = seen.at(Some(&pod));
    assert_eq!(plan.actions, [remove("a-0"), remove("b-0"), Action::RemoveSandbox { id: "s0".to_owned() }]);
    assert!(plan.ended);
}

#[test]
fn what_nobody_knows_is_ended_and_removed() {
    let seen = look(vec![sandbox(0, true)], vec![container("a", State::Running, 0)]);
    assert_eq!(seen.at(None).actions, [kill("a", 0, Why::PodEnds)]);
    assert!(look(vec![], vec![]).at(None).ended);
}

#[test]
fn an_unhealthy_container_and_another_image_are_ended() {
    let pod = apps("Always", &["a"]);
    let mut seen = look(vec![sandbox(0, true)], vec![container("a", State::Running, 0)]);
    let failure = ProbeFailure { probe: "liveness", message: "no".to_owned(), grace: Some(3) };
    seen.verdicts.insert("a-0".to_owned(), Verdict { started: true, ready: true, failed: Some(failure) });
    assert_eq!(seen.of(&pod), [kill("a", 3, Why::Unhealthy("liveness"))]);
    seen.verdicts.clear();
    seen.observed.containers[0].image = "other".to_owned();
    assert_eq!(seen.of(&pod), [kill("a", 30, Why::ImageChanged)]);
}

#[test]
fn a_container_that_was_made_and_not_started_is_made_again() {
    let pod = apps("Always", &["a"]);
    let seen = look(vec![sandbox(0, true)], vec![container("a", State::Created, 0)]);
    assert_eq!(seen.of(&pod), [Action::Remove { id: "a-0".to_owned() }]);
}

#[test]
fn of_the_dead_the_last_but_one_is_kept_for_its_log() {
    let pod = apps("Always", &["a"]);
    let mut containers = vec![container("a", State::Running, 0)];
    for restarts in [1, 0] {
        let mut dead = container("a", State::Exited, 1);
        dead.id = format!("a-old-{restarts}");
        containers.push(dead);
    }
    assert_eq!(look(vec![sandbox(0, true)], containers).of(&pod), [Action::Remove { id: "a-old-0".to_owned() }]);
}

#[test]
fn an_ephemeral_container_runs_once() {
    let pod =
        pod(json!({"containers": [{"name": "a", "image": "i"}], "ephemeralContainers": [{"name": "e", "image": "i"}]}));
    let mut seen = look(vec![sandbox(0, true)], vec![container("a", State::Running, 0)]);
    assert_eq!(seen.of(&pod), [start("e", 0)]);
    seen.observed.containers.push(container("e", State::Exited, 1));
    assert_eq!(seen.of(&pod), []);
}
