//! How many pods a metric asks for. Pure.
//!
//! Mirrors the replica calculator of kube-controller-manager: pods that are not ready and pods without a metric are counted so
//! that they never make a change larger than the others justify.

use crate::workloads::pods;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod};
use std::collections::{BTreeMap, BTreeSet};

/// What one pod uses, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PodMetric {
    pub(super) at: Timestamp,
    pub(super) window: SignedDuration,
    pub(super) milli: i64,
}

/// By the name of the pod.
pub(super) type PodMetrics = BTreeMap<String, PodMetric>;

/// How far from the target nothing happens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerances {
    pub(super) down: f64,
    pub(super) up: f64,
}

impl Tolerances {
    fn cover(self, ratio: f64) -> bool {
        (1.0 - self.down..=1.0 + self.up).contains(&ratio)
    }
}

/// What all counts have in common.
#[derive(Clone, Copy)]
pub(super) struct Basis<'a> {
    /// The pods that the target's selector picks.
    pub(super) pods: &'a [Pod],
    /// How many the target should have now.
    pub(super) current: i32,
    pub(super) tolerances: Tolerances,
    /// `--horizontal-pod-autoscaler-cpu-initialization-period`.
    pub(super) initialization: SignedDuration,
    /// `--horizontal-pod-autoscaler-initial-readiness-delay`.
    pub(super) readiness_delay: SignedDuration,
    pub(super) now: Timestamp,
}

/// What a metric asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) replicas: i32,
    /// What is used, in thousandths: by each pod, or altogether.
    pub(super) milli: i64,
    /// The same in percent of what pods ask for.
    pub(super) percent: Option<i64>,
}

#[derive(Default)]
struct Groups {
    ready: usize,
    unready: BTreeSet<String>,
    missing: BTreeSet<String>,
    ignored: BTreeSet<String>,
}

/// By what pods use of a resource, in percent of what they ask for; of one container if it is named.
pub(super) fn by_utilization(
    basis: Basis<'_>,
    metrics: PodMetrics,
    resource: &str,
    container: &str,
    target: i64,
) -> Result<Proposal, String> {
    let groups = basis.group(&metrics, resource)?;
    let metrics = without_unready(metrics, &groups)?;
    let requests = requests(basis.pods, container, resource)?;
    let ratio = |metrics: &PodMetrics| {
        let known = || metrics.iter().filter_map(|(pod, metric)| Some((metric.milli, *requests.get(pod)?)));
        let (used, asked) = known().fold((0, 0), |(used, asked), (metric, request)| (used + metric, asked + request));
        if asked == 0 {
            return Err("no metrics returned matched known pods".to_owned());
        }
        let percent = used * 100 / asked;
        let average = used / i64::try_from(known().count()).unwrap_or(1);
        Ok((quotient(percent, target), average, Some(percent)))
    };
    let most = target.max(100);
    basis.propose(metrics, &groups, ratio, |pod| requests.get(pod).copied().unwrap_or_default() * most / 100)
}

/// By what pods use on average.
pub(super) fn by_usage(basis: Basis<'_>, metrics: PodMetrics, resource: &str, target: i64) -> Result<Proposal, String> {
    let groups = basis.group(&metrics, resource)?;
    let metrics = without_unready(metrics, &groups)?;
    let ratio = |metrics: &PodMetrics| {
        let used: i64 = metrics.values().map(|metric| metric.milli).sum();
        let average = used / i64::try_from(metrics.len()).unwrap_or(1).max(1);
        Ok((quotient(average, target), average, None))
    };
    basis.propose(metrics, &groups, ratio, |_| target)
}

/// By a number that is not the pods' own: of an object, or from outside.
pub(super) fn by_value(basis: Basis<'_>, milli: i64, target: i64) -> Result<Proposal, String> {
    let ratio = quotient(milli, target);
    let of = |replicas| Ok(Proposal { replicas, milli, percent: None });
    if basis.current == 0 {
        return of(ceil(ratio));
    }
    if basis.tolerances.cover(ratio) {
        return of(basis.current);
    }
    if basis.pods.is_empty() {
        return Err(format!("unable to calculate ready pods: {NO_PODS}"));
    }
    let ready = basis.pods.iter().filter(|pod| pods::phase(pod) == "Running" && pods::is_ready(pod)).count();
    of(ceil(ratio * float(ready)))
}

/// By each pod's share of such a number. `running` is how many pods the target has.
pub(super) fn by_share(basis: Basis<'_>, milli: i64, target: i64, running: i32) -> Proposal {
    let share = |parts: f64| if parts == 0.0 { f64::INFINITY } else { exact(milli) / parts };
    let ratio = share(exact(target) * f64::from(running));
    let replicas = if basis.tolerances.cover(ratio) { running } else { ceil(exact(milli) / exact(target)) };
    #[allow(clippy::cast_possible_truncation, reason = "casts of floats saturate")]
    let each = share(f64::from(running)).ceil() as i64;
    Proposal { replicas, milli: if running == 0 { milli } else { each }, percent: None }
}

const NO_PODS: &str = "no pods returned by selector while calculating replica count";

impl Basis<'_> {
    fn group(&self, metrics: &PodMetrics, resource: &str) -> Result<Groups, String> {
        if self.pods.is_empty() {
            return Err(NO_PODS.to_owned());
        }
        let mut groups = Groups::default();
        for pod in self.pods {
            let name = pod.metadata.name.clone().unwrap_or_default();
            if pod.metadata.deletion_timestamp.is_some() || pods::phase(pod) == "Failed" {
                groups.ignored.insert(name);
            } else if pods::phase(pod) == "Pending" {
                groups.unready.insert(name);
            } else {
                match metrics.get(&name) {
                    None => drop(groups.missing.insert(name)),
                    Some(metric) if resource == "cpu" && self.is_warming_up(pod, metric) => {
                        groups.unready.insert(name);
                    }
                    Some(_) => groups.ready += 1,
                }
            }
        }
        Ok(groups)
    }

    /// Whether the processor time of a pod says nothing yet: it is starting, or it was measured before it was ready.
    fn is_warming_up(&self, pod: &Pod, metric: &PodMetric) -> bool {
        let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0);
        let (Some(ready), Some(started)) = (pods::condition(pod, "Ready"), started) else { return true };
        let changed = ready.last_transition_time.as_ref().map_or(started, |time| time.0);
        if started + self.initialization > self.now {
            ready.status == "False" || metric.at < changed + metric.window
        } else {
            ready.status == "False" && started + self.readiness_delay > changed
        }
    }

    /// The count that brings the ratio to one. `ratio` also says what is used; `fallback` what a pod without a metric is taken to
    /// use when the others use less than they should.
    fn propose(
        &self,
        mut metrics: PodMetrics,
        groups: &Groups,
        ratio: impl Fn(&PodMetrics) -> Result<(f64, i64, Option<i64>), String>,
        fallback: impl Fn(&str) -> i64,
    ) -> Result<Proposal, String> {
        let (before, milli, percent) = ratio(&metrics)?;
        let of = |replicas| Ok(Proposal { replicas, milli, percent });
        let up_with_unready = !groups.unready.is_empty() && before > 1.0;
        if !up_with_unready && groups.missing.is_empty() {
            let replicas =
                if self.tolerances.cover(before) { self.current } else { ceil(before * float(groups.ready)) };
            return of(replicas);
        }
        let assume = |milli| PodMetric { at: self.now, window: SignedDuration::ZERO, milli };
        for pod in groups.missing.iter().filter(|_| (before - 1.0).abs() > f64::EPSILON) {
            metrics.insert(pod.clone(), assume(if before < 1.0 { fallback(pod) } else { 0 }));
        }
        for pod in groups.unready.iter().filter(|_| up_with_unready) {
            metrics.insert(pod.clone(), assume(0));
        }
        let (after, ..) = ratio(&metrics)?;
        let turned = (before < 1.0 && after > 1.0) || (before > 1.0 && after < 1.0);
        if turned || self.tolerances.cover(after) {
            return of(self.current);
        }
        let replicas = ceil(after * float(metrics.len()));
        let wrong_way = (after < 1.0 && replicas > self.current) || (after > 1.0 && replicas < self.current);
        of(if wrong_way { self.current } else { replicas })
    }
}

fn without_unready(mut metrics: PodMetrics, groups: &Groups) -> Result<PodMetrics, String> {
    metrics.retain(|pod, _| !groups.ignored.contains(pod) && !groups.unready.contains(pod));
    if metrics.is_empty() {
        return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
    }
    Ok(metrics)
}

/// What each pod asks for, in thousandths.
fn requests(pods: &[Pod], container: &str, resource: &str) -> Result<BTreeMap<String, i64>, String> {
    pods.iter()
        .map(|pod| {
            let name = pod.metadata.name.clone().unwrap_or_default();
            let own = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
            if let Some(own) = own.filter(|own| container.is_empty() && !own.is_empty()) {
                let request = own.get(resource).and_then(|amount| milli(&amount.0));
                let request = request.ok_or_else(|| format!("missing pod-level request for {resource} in Pod {name}"));
                return Ok((name, request?));
            }
            let request = of_containers(pod, &name, container, resource)?;
            Ok((name, request))
        })
        .collect()
}

fn of_containers(pod: &Pod, name: &str, container: &str, resource: &str) -> Result<i64, String> {
    let spec = pod.spec.as_ref();
    let sidecars = spec.and_then(|spec| spec.init_containers.as_ref()).into_iter().flatten();
    let sidecars = sidecars.filter(|one| one.restart_policy.as_deref() == Some("Always"));
    let all: Vec<&Container> = spec.iter().flat_map(|spec| &spec.containers).chain(sidecars).collect();
    let counted: Vec<&&Container> = all.iter().filter(|one| container.is_empty() || one.name == container).collect();
    if counted.is_empty() && !container.is_empty() {
        return Err(format!("container {container} not found in Pod {name}"));
    }
    counted
        .iter()
        .map(|one| {
            let requests = one.resources.as_ref().and_then(|resources| resources.requests.as_ref());
            let request = requests.and_then(|requests| requests.get(resource)).and_then(|amount| milli(&amount.0));
            request.ok_or_else(|| format!("missing request for {resource} in container {} of Pod {name}", one.name))
        })
        .sum()
}

/// An amount in thousandths, rounded up.
pub(super) fn milli(amount: &str) -> Option<i64> {
    const NANOS: i128 = 1_000_000;
    let nanos = api::kinds::quantity::nanos(amount)?;
    i64::try_from(nanos.div_euclid(NANOS) + i128::from(nanos.rem_euclid(NANOS) != 0)).ok()
}

#[allow(clippy::cast_precision_loss, reason = "ratios need no more than 52 bits")]
fn exact(number: i64) -> f64 {
    number as f64
}

#[allow(clippy::cast_precision_loss, reason = "numbers of pods are small")]
fn float(number: usize) -> f64 {
    number as f64
}

fn quotient(used: i64, target: i64) -> f64 {
    exact(used) / exact(target)
}

#[allow(clippy::cast_possible_truncation, reason = "casts of floats saturate")]
fn ceil(replicas: f64) -> i32 {
    replicas.ceil() as i32
}
