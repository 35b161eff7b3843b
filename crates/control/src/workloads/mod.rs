//! Deployments, ReplicaSets, ReplicationControllers, DaemonSets, StatefulSets, Jobs and CronJobs: pods made, replaced and counted as
//! their owners ask.
//!
//! Each has a pure `plan` (what is missing, what is too much, what the status says) and a thin part that acts on it.
//! Mirrors kube-controller-manager's controllers of the same names.

pub mod cronjob;
pub mod daemonset;
pub mod deployment;
pub mod job;
pub mod pods;
pub mod replicaset;
pub mod statefulset;
pub mod template;

mod batches;
pub(crate) mod disrupted;
mod history;
pub(crate) mod owned;
#[cfg(test)]
pub(crate) mod tests;

use crate::framework::Controller;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The controllers of this room.
pub const CONTROLLERS: &[Controller] = &[
    Controller {
        name: "deployment-controller",
        alias: "deployment",
        default_on: true,
        run: |context| Box::pin(deployment::run(context)),
    },
    Controller {
        name: "replicaset-controller",
        alias: "replicaset",
        default_on: true,
        run: |context| Box::pin(replicaset::run(context)),
    },
    Controller {
        name: "daemonset-controller",
        alias: "daemonset",
        default_on: true,
        run: |context| Box::pin(daemonset::run(context)),
    },
    Controller {
        name: "replicationcontroller-controller",
        alias: "replicationcontroller",
        default_on: true,
        run: |context| Box::pin(replicaset::run_replication_controllers(context)),
    },
    Controller {
        name: "statefulset-controller",
        alias: "statefulset",
        default_on: true,
        run: |context| Box::pin(statefulset::run(context)),
    },
    Controller { name: "job-controller", alias: "job", default_on: true, run: |context| Box::pin(job::run(context)) },
    Controller {
        name: "cronjob-controller",
        alias: "cronjob",
        default_on: true,
        run: |context| Box::pin(cronjob::run(context)),
    },
    Controller {
        name: "ttl-after-finished-controller",
        alias: "ttl-after-finished",
        default_on: true,
        run: |context| Box::pin(job::ttl::run(context)),
    },
];

/// The time in whole seconds, as the API keeps it.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default()
}

/// Which way a percentage that is no whole number goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    Up,
    Down,
}

/// A number, or a percentage of `total` that is rounded; what cannot be read counts as nothing.
pub(crate) fn scaled(value: Option<&IntOrString>, total: i32, round: Round) -> i32 {
    match value {
        None => 0,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let Some(percent) = text.strip_suffix('%').and_then(|number| number.parse::<i32>().ok()) else { return 0 };
            let hundredths = i64::from(total) * i64::from(percent);
            let whole = match round {
                Round::Up => (hundredths + 99).div_euclid(100),
                Round::Down => hundredths.div_euclid(100),
            };
            i32::try_from(whole).unwrap_or(i32::MAX)
        }
    }
}
