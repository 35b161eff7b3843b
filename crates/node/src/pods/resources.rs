//! Requests and limits as cgroups know them, and the class of service that follows from them. Pure.

use crate::cri::proto::LinuxContainerResources;
use api::kinds::quantity;
use k8s_openapi::{
    api::core::v1::{Container, Pod, PodSpec, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use std::collections::BTreeMap;

/// Upstream's numbers: a thousandth of a processor is 1.024 shares, at least two; quotas count in periods of 100 ms, at least one.
const SHARES_PER_CPU: i64 = 1024;
const MIN_SHARES: i64 = 2;
const MAX_SHARES: i64 = 262_144;
const PERIOD: i64 = 100_000;
const MIN_QUOTA: i64 = 1000;

/// How a Pod fares when the node runs short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qos {
    Guaranteed,
    Burstable,
    BestEffort,
}

impl Qos {
    /// As `status.qosClass` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }

    /// The folder of its Pods below `kubepods`; those with a guarantee have none.
    #[must_use]
    pub const fn folder(self) -> Option<&'static str> {
        match self {
            Self::Guaranteed => None,
            Self::Burstable => Some("burstable"),
            Self::BestEffort => Some("besteffort"),
        }
    }
}

type Amounts = Option<BTreeMap<String, Quantity>>;

/// An amount in thousandths, such as of processors.
fn milli(amounts: &Amounts, name: &str) -> Option<i64> {
    let nanos = quantity::nanos(&amounts.as_ref()?.get(name)?.0)?;
    // Rounded up, as upstream does.
    i64::try_from((nanos + 999_999).div_euclid(1_000_000)).ok()
}

/// An amount in units, such as bytes.
fn whole(amounts: &Amounts, name: &str) -> Option<i64> {
    let nanos = quantity::nanos(&amounts.as_ref()?.get(name)?.0)?;
    i64::try_from((nanos + 999_999_999).div_euclid(1_000_000_000)).ok()
}

/// What a Pod is by its requests and limits; what the API has decided counts.
#[must_use]
pub fn qos(pod: &Pod) -> Qos {
    match pod.status.as_ref().and_then(|status| status.qos_class.as_deref()) {
        Some("Guaranteed") => return Qos::Guaranteed,
        Some("Burstable") => return Qos::Burstable,
        Some("BestEffort") => return Qos::BestEffort,
        _ => {}
    }
    let Some(spec) = &pod.spec else { return Qos::BestEffort };
    if let Some(resources) = &spec.resources {
        return class([resources].into_iter());
    }
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let none = ResourceRequirements::default();
    class(containers.map(|one| one.resources.as_ref().unwrap_or(&none)))
}

fn class<'a>(all: impl Iterator<Item = &'a ResourceRequirements>) -> Qos {
    let (mut any, mut guaranteed) = (false, true);
    for one in all {
        for (amount, name) in [(milli as fn(&Amounts, &str) -> Option<i64>, "cpu"), (whole, "memory")] {
            let (request, limit) = (amount(&one.requests, name), amount(&one.limits, name));
            any |= request.is_some_and(|some| some > 0) || limit.is_some_and(|some| some > 0);
            guaranteed &= limit.is_some_and(|limit| limit > 0 && request.is_none_or(|request| request == limit));
        }
    }
    match (any, guaranteed) {
        (true, true) => Qos::Guaranteed,
        (true, false) => Qos::Burstable,
        (false, _) => Qos::BestEffort,
    }
}

/// What a cgroup is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub shares: i64,
    /// Microseconds of each 100 ms; none is no limit.
    pub quota: Option<i64>,
    pub memory: Option<i64>,
}

fn shares(cpu: i64) -> i64 {
    (cpu * SHARES_PER_CPU / 1000).clamp(MIN_SHARES, MAX_SHARES)
}

fn quota(cpu: i64) -> i64 {
    (cpu * PERIOD / 1000).max(MIN_QUOTA)
}

/// Those of one container.
#[must_use]
pub fn of_container(container: &Container) -> Limits {
    container.resources.as_ref().map_or_else(|| Limits { shares: MIN_SHARES, ..Limits::default() }, of)
}

fn of(resources: &ResourceRequirements) -> Limits {
    let ResourceRequirements { requests, limits, claims: _ } = resources;
    // A limit stands for a request that is not there.
    let request = milli(requests, "cpu").or_else(|| milli(limits, "cpu")).unwrap_or(0);
    Limits {
        shares: shares(request),
        quota: milli(limits, "cpu").filter(|cpu| *cpu > 0).map(quota),
        memory: whole(limits, "memory").filter(|bytes| *bytes > 0),
    }
}

/// Those of the Pod's own cgroup: the sum of its containers, or more where an init container needs more; no limit unless all have one.
#[must_use]
pub fn of_pod(spec: &PodSpec) -> Limits {
    if let Some(resources) = &spec.resources {
        return of(resources);
    }
    let sidecar = |one: &&Container| one.restart_policy.as_deref() == Some("Always");
    let init = || spec.init_containers.iter().flatten();
    let stay = || spec.containers.iter().chain(init().filter(sidecar));
    let pick = |one: &Container, amount: fn(&Amounts, &str) -> Option<i64>, name: &str, limits: bool| {
        let resources = one.resources.as_ref()?;
        amount(if limits { &resources.limits } else { &resources.requests }, name)
    };
    let overhead = |amount: fn(&Amounts, &str) -> Option<i64>, name: &str| amount(&spec.overhead, name).unwrap_or(0);
    let most = |amount: fn(&Amounts, &str) -> Option<i64>, name: &'static str, limits: bool| -> Option<i64> {
        let sum: Option<i64> = stay().map(|one| pick(one, amount, name, limits)).sum();
        let before: Option<i64> =
            init().map(|one| pick(one, amount, name, limits)).try_fold(0, |most: i64, one| Some(most.max(one?)));
        Some(sum?.max(before?) + overhead(amount, name))
    };
    let requests: i64 =
        stay().filter_map(|one| pick(one, milli, "cpu", false).or_else(|| pick(one, milli, "cpu", true))).sum();
    let before = init().filter_map(|one| pick(one, milli, "cpu", false)).max().unwrap_or(0);
    Limits {
        shares: shares(requests.max(before) + overhead(milli, "cpu")),
        quota: most(milli, "cpu", true).filter(|cpu| *cpu > 0).map(quota),
        memory: most(whole, "memory", true).filter(|bytes| *bytes > 0),
    }
}

/// As the runtime is told.
#[must_use]
pub fn to_runtime(container: &Container, pod: &Pod, node_memory: i64) -> LinuxContainerResources {
    let Limits { shares, quota, memory } = of_container(container);
    LinuxContainerResources {
        cpu_period: PERIOD,
        cpu_quota: quota.unwrap_or(0),
        cpu_shares: shares,
        memory_limit_in_bytes: memory.unwrap_or(0),
        oom_score_adj: oom_score(container, pod, node_memory),
        ..LinuxContainerResources::default()
    }
}

/// Who dies first when memory runs out: the more of it a container asked for, the later.
fn oom_score(container: &Container, pod: &Pod, node_memory: i64) -> i64 {
    let spec = pod.spec.as_ref();
    if spec.and_then(|spec| spec.priority).is_some_and(|priority| priority >= 2_000_000_000) {
        return -997;
    }
    match qos(pod) {
        Qos::Guaranteed => -997,
        Qos::BestEffort => 1000,
        Qos::Burstable => {
            let asked = container.resources.as_ref().and_then(|all| whole(&all.requests, "memory")).unwrap_or(0);
            let score = 1000 - 1000 * asked / node_memory.max(1);
            score.clamp(3, 999)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(containers: Value, init: Value) -> Pod {
        objects::from_value(
            &json!({"metadata": {"name": "p"}, "spec": {"containers": containers, "initContainers": init}}),
        )
        .unwrap()
    }

    #[test]
    fn the_class_follows_from_requests_and_limits() {
        let limit = json!({"cpu": "500m", "memory": "64Mi"});
        for (resources, class) in [
            (json!({}), Qos::BestEffort),
            (json!({"requests": {"cpu": "0"}}), Qos::BestEffort),
            (json!({"requests": {"cpu": "1m"}}), Qos::Burstable),
            (json!({"limits": {"cpu": "1"}}), Qos::Burstable),
            (json!({"limits": limit}), Qos::Guaranteed),
            (json!({"limits": limit, "requests": {"cpu": "100m"}}), Qos::Burstable),
        ] {
            assert_eq!(qos(&pod(json!([{"name": "c", "resources": resources}]), json!([]))), class, "{resources}");
        }
    }

    #[test]
    fn limits_of_a_pod_are_the_sum_or_none() {
        let spec = |containers, init| pod(containers, init).spec.unwrap();
        let half = json!({"name": "a", "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}}});
        let free = json!({"name": "b"});
        let limits = of_pod(&spec(json!([half, half]), json!([])));
        assert_eq!(limits, Limits { shares: 1024, quota: Some(100_000), memory: Some(128 << 20) });
        let limits = of_pod(&spec(json!([half, free]), json!([])));
        assert_eq!(limits, Limits { shares: 512, quota: None, memory: None });
        let big = json!({"name": "i", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}});
        assert_eq!(of_pod(&spec(json!([half]), json!([big]))).memory, Some(1 << 30));
    }

    #[test]
    fn those_who_asked_for_much_memory_die_late() {
        let asks = |memory: &str| {
            let pod = pod(json!([{"name": "c", "resources": {"requests": {"memory": memory}}}]), json!([]));
            oom_score(&pod.spec.clone().unwrap().containers[0], &pod, 1 << 30)
        };
        assert_eq!((asks("0"), asks("512Mi"), asks("1Gi"), asks("1")), (1000, 500, 3, 999));
    }
}
