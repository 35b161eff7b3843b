//! The real clients against the AWS of the tests: a call of a change is denied, loses its answer, reads what is old, or is the last before the
//! process ends. The controller goes on afterwards, the end is the same as if nothing had happened, and after deletion nothing of ours is left.
//!
//! A sample of all cases, because each takes a second or two; with `TWINSTACK_FAULTS=all` (`make test-faults`) every one. The whole matrix against
//! an account in memory is in `crates/aws/tests/cases/cut_off.rs`.

use aws::{
    apply::{Alive, Aws, owner},
    clients::{Keys, Session},
    cloud_config::CloudConfig,
    memory::testing::{AT_ONCE, annotated, families, merged, ports, service, settings},
    model::{Settings, names::Cluster},
};
use e2e::aws_strict::{Example, Fault, Made, Strict};
use k8s_openapi::api::core::v1::{Node, Service};
use runtime::{
    cloud::{CloudError, LoadBalancers},
    metrics::Metrics,
};
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// So many nodes are there.
const NODES: usize = 3;

/// Something that happens to the Service.
struct Step {
    name: &'static str,
    /// The Service from now on; `None` when it is deleted.
    service: Option<Service>,
    nodes: usize,
}

fn step(name: &'static str, nodes: usize, changes: &[Value]) -> Step {
    Step { name, service: Some(service("web", &merged(changes))), nodes }
}

fn gone() -> Step {
    Step { name: "deleted", service: None, nodes: 0 }
}

struct World {
    strict: Strict,
    example: Example,
    aws: Aws,
    alive: Option<(Service, usize)>,
}

/// What an attempt comes to.
enum Outcome {
    Done,
    Failed(CloudError),
    /// The process is gone.
    Killed,
}

impl World {
    async fn start() -> Option<Self> {
        let strict = Strict::start()?;
        let example = Example::build(&strict, NODES);
        strict.linger(1);
        let aws = process(&strict, &example).await;
        Some(Self { strict, example, aws, alive: None })
    }

    /// The process ends and another begins.
    async fn restart(&mut self) {
        self.aws = process(&self.strict, &self.example).await;
        if let Some((service, _)) = &self.alive {
            self.aws.adopt(service);
        }
    }

    /// A process that has looked at what there is, as if it had been at work for a while.
    async fn resume(&mut self) {
        self.restart().await;
        if let Some((service, nodes)) = &self.alive {
            self.aws.ensure(service, &self.nodes(*nodes)).await.unwrap();
        }
        self.strict.take_calls();
    }

    fn nodes(&self, count: usize) -> Vec<Arc<Node>> {
        (0..count).map(|index| Arc::new(serde_json::from_value(self.example.node(index)).unwrap())).collect()
    }

    async fn attempt(&self, step: &Step) -> Outcome {
        let work = async {
            match (&step.service, &self.alive) {
                (Some(service), _) => self.aws.ensure(service, &self.nodes(step.nodes)).await.map(|_| ()),
                (None, Some((service, _))) => match self.aws.exists(service).await {
                    Ok(true) => self.aws.delete(service).await,
                    Ok(false) => Ok(()),
                    Err(error) => Err(error),
                },
                (None, None) => Ok(()),
            }
        };
        tokio::select! {
            outcome = work => outcome.map_or_else(Outcome::Failed, |()| Outcome::Done),
            () = killed(&self.strict) => Outcome::Killed,
        }
    }

    /// Tries a step until it works, as the queue does; groups that wait and leftovers are looked after.
    async fn through(&mut self, step: &Step) {
        let before = self.alive.clone();
        if let Some(service) = &step.service {
            self.alive = Some((service.clone(), step.nodes));
        }
        for attempt in 0.. {
            match self.attempt(step).await {
                Outcome::Done => break,
                Outcome::Failed(CloudError::Refused(why)) => panic!("{}: refused: {why}", step.name),
                Outcome::Failed(error) => assert!(attempt < 12, "{}: does not settle: {error}", step.name),
                Outcome::Killed => {
                    self.strict.mend();
                    self.alive = self.alive.take().or_else(|| before.clone());
                    self.restart().await;
                }
            }
        }
        if step.service.is_none() {
            self.alive = None;
        }
        self.tidy(step).await;
    }

    /// What happens in the background until nothing is left to do.
    async fn tidy(&mut self, step: &Step) {
        for round in 0.. {
            let work = async {
                let waiting = self.aws.remove_waiting().await;
                let alive = Alive::new(self.alive.iter().map(|(service, _)| owner(service)));
                let swept = self.aws.sweep(&alive, &AT_ONCE, Instant::now()).await?;
                Ok::<_, aws::account::AwsError>((waiting?, swept.suspected.len() + swept.removed.len()))
            };
            let left = tokio::select! {
                left = work => Some(left),
                () = killed(&self.strict) => None,
            };
            match left {
                Some(Ok((0, 0))) => return,
                Some(Ok((waiting, found))) => {
                    let describe = || self.strict.describe();
                    assert!(
                        round < 12,
                        "{}: {waiting} groups wait, {found} leftovers do not go\n{}",
                        step.name,
                        describe()
                    );
                }
                Some(Err(error)) => assert!(round < 12, "{}: leftovers do not go: {error}", step.name),
                None => {
                    self.strict.mend();
                    self.resume().await;
                }
            }
        }
    }

    /// The account as it is after these steps.
    async fn after(&mut self, steps: &[Step]) {
        self.restart().await;
        for step in steps {
            self.through(step).await;
        }
        self.resume().await;
    }
}

/// Comes back when the caller is to be gone.
async fn killed(strict: &Strict) {
    while !strict.killed() {
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// The provider of a process that has just started.
async fn process(strict: &Strict, example: &Example) -> Aws {
    let text = example.cloud_config() + &strict.overrides();
    let (config, warnings) = CloudConfig::parse(&text).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    let keys = Keys { id: "test".to_owned(), secret: "test".to_owned() };
    let session = Session::with_keys(&config, keys, &Metrics::new()).await.unwrap().without_limits();
    let account = session.account();
    let cluster = Cluster { vpc: example.vpc.clone(), ..settings().cluster };
    Aws::new(account, Settings { cluster, ..settings() })
}

/// What can go wrong with a call. A read has no effect, so that losing its answer is the same as its failing; a change cannot be old.
fn faults(call: &Made) -> &'static [Fault] {
    if call.write { &[Fault::Deny, Fault::Lose, Fault::Kill] } else { &[Fault::Deny, Fault::Kill, Fault::Stale] }
}

/// A fault at a call of a step of a story.
struct Case {
    story: usize,
    step: usize,
    nth: usize,
    call: String,
    fault: Fault,
    /// What the account holds after the step when nothing goes wrong.
    expected: Arc<str>,
}

/// Runs the stories undisturbed; the cases that come of them.
async fn cases(world: &mut World, stories: &[Vec<Step>], empty: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for (story, steps) in stories.iter().enumerate() {
        for (at, step) in steps.iter().enumerate() {
            world.after(&steps[..at]).await;
            world.through(step).await;
            let calls = world.strict.take_calls();
            let expected: Arc<str> = world.strict.describe().into();
            if step.service.is_none() {
                assert_eq!(&*expected, empty, "{} leaves something", step.name);
            }
            world.restart().await;
            world.through(&gone()).await;
            for (nth, call) in calls.iter().enumerate() {
                let expected = || Arc::clone(&expected);
                let case = |fault: &Fault| Case {
                    story,
                    step: at,
                    nth,
                    call: call.name(),
                    fault: *fault,
                    expected: expected(),
                };
                cases.extend(faults(call).iter().map(case));
            }
        }
    }
    cases
}

/// Lets the calls of the stories go wrong: so many cases at least, spread evenly, or all of them.
async fn cut(stories: impl FnOnce(&Example) -> Vec<Vec<Step>>, least: usize) {
    let Some(mut world) = World::start().await else { return };
    let stories = stories(&world.example);
    let empty = world.strict.describe();
    let cases = cases(&mut world, &stories, &empty).await;
    assert!(cases.len() >= least, "only {} cases", cases.len());
    let all = std::env::var("TWINSTACK_FAULTS").is_ok_and(|value| value == "all");
    let chosen: Vec<&Case> = cases.iter().step_by(if all { 1 } else { cases.len() / least }).collect();
    for (number, Case { story, step, nth, call, fault, expected }) in chosen.iter().enumerate() {
        let (before, step) = (&stories[*story][..*step], &stories[*story][*step]);
        let what = format!("{}: {fault:?} at call {nth}, {call}", step.name);
        eprintln!("{} of {}: {what}", number + 1, chosen.len());
        world.after(before).await;
        world.strict.inject(None, *nth, 1, *fault);
        world.through(step).await;
        world.strict.mend();
        let found = world.strict.describe();
        assert!(found == **expected, "{what}\nexpected:\n{expected}\nfound:\n{found}");
        world.restart().await;
        world.through(&gone()).await;
        let left = world.strict.describe();
        assert!(left == empty, "{what}: after deletion there is left:\n{left}\ninstead of:\n{empty}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_balancer_of_one_family_and_its_ports() {
    Box::pin(cut(
        |example| {
            let both = ports(&[(80, 30080, "TCP"), (443, 30443, "TCP")]);
            let tls = annotated(&[("ssl-cert", &example.certificate), ("ssl-ports", "443")]);
            vec![vec![step("created", 3, &[]), step("a second port with TLS", 2, &[both, tls]), gone()]]
        },
        26,
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dual_stack_with_each_primary() {
    Box::pin(cut(
        |_| {
            let six = families("RequireDualStack", &["IPv6", "IPv4"]);
            let four = families("PreferDualStack", &["IPv4", "IPv6"]);
            vec![
                vec![step("IPv6 first", 3, &[six]), gone()],
                vec![step("IPv4 alone", 2, &[]), step("dual-stack", 3, &[four]), step("IPv4 alone again", 3, &[])],
            ]
        },
        26,
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_brought_and_taken_back() {
    Box::pin(cut(
        |example| {
            let brought = annotated(&[("security-groups", &example.brought_group)]);
            let dual = families("RequireDualStack", &["IPv4", "IPv6"]);
            vec![
                vec![step("managed", 2, std::slice::from_ref(&dual)), step("brought", 2, &[dual, brought])],
                vec![
                    step("brought", 2, &[annotated(&[("security-groups", &example.brought_group)])]),
                    step("managed", 2, &[]),
                ],
            ]
        },
        26,
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_classic_load_balancer() {
    Box::pin(cut(
        |_| {
            let classic =
                json!({"metadata": {"annotations": {"service.beta.kubernetes.io/aws-load-balancer-type": null}}});
            let proxy = annotated(&[("proxy-protocol", "*"), ("connection-idle-timeout", "120")]);
            vec![vec![
                step("created", 3, std::slice::from_ref(&classic)),
                step("PROXY protocol", 2, &[classic, proxy]),
                gone(),
            ]]
        },
        26,
    ))
    .await;
}
