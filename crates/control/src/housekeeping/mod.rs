//! Housekeeping: what goes when its namespace, owner or node goes, and what every namespace has.

pub mod disruption;
pub mod gc;
pub mod namespace;
pub mod node_lifecycle;

mod accounts;
pub(crate) mod discovery;
mod migration;
mod pod_gc;

#[cfg(test)]
mod tests;

use crate::framework::Controller;
use std::time::Duration;

/// The controllers of this room.
pub const CONTROLLERS: &[Controller] = &[
    Controller {
        name: "namespace-controller",
        alias: "namespace",
        default_on: true,
        run: |context| Box::pin(namespace::run(context)),
    },
    Controller {
        name: "garbage-collector-controller",
        alias: "garbagecollector",
        default_on: true,
        run: |context| Box::pin(gc::run(context)),
    },
    Controller {
        name: "serviceaccount-controller",
        alias: "serviceaccount",
        default_on: true,
        run: |context| Box::pin(accounts::run_service_accounts(context)),
    },
    Controller {
        name: "root-ca-certificate-publisher-controller",
        alias: "root-ca-cert-publisher",
        default_on: true,
        run: |context| Box::pin(accounts::run_root_ca(context)),
    },
    Controller {
        name: "node-lifecycle-controller",
        alias: "nodelifecycle",
        default_on: true,
        run: |context| Box::pin(node_lifecycle::run(context)),
    },
    Controller {
        name: "taint-eviction-controller",
        alias: "",
        default_on: true,
        run: |context| Box::pin(node_lifecycle::eviction::run(context)),
    },
    Controller {
        name: "pod-garbage-collector-controller",
        alias: "podgc",
        default_on: true,
        run: |context| Box::pin(pod_gc::run(context)),
    },
    Controller {
        name: "disruption-controller",
        alias: "disruption",
        default_on: true,
        run: |context| Box::pin(disruption::run(context)),
    },
    Controller {
        name: "storage-version-migrator-controller",
        alias: "storage-version-migrator",
        default_on: true,
        run: |context| Box::pin(migration::run(context)),
    },
];

/// What flags decide here; the defaults are upstream's.
#[derive(Clone, Debug)]
pub struct HousekeepingOptions {
    /// `--root-ca-file`: the certificates by which pods know the API server, as PEM. Nothing is published without.
    pub root_ca: Option<String>,
    /// `--node-monitor-grace-period`: how long a node may be silent before it is Unknown.
    pub node_monitor_grace_period: Duration,
    /// `--node-monitor-period`: how often that is looked at.
    pub node_monitor_period: Duration,
    /// `--terminated-pod-gc-threshold`: how many ended pods may stay; 0 keeps all.
    pub terminated_pod_gc_threshold: usize,
    /// How long a node must be gone before its pods are taken away, and how often that is looked at.
    pub pod_gc_period: Duration,
}

impl Default for HousekeepingOptions {
    fn default() -> Self {
        Self {
            root_ca: None,
            node_monitor_grace_period: Duration::from_secs(50),
            node_monitor_period: Duration::from_secs(5),
            terminated_pod_gc_threshold: 12_500,
            pod_gc_period: Duration::from_secs(20),
        }
    }
}
