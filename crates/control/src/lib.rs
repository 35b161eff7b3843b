//! The controllers: what makes the cluster's objects agree with each other. Its README follows.
#![doc = include_str!("../README.md")]

pub mod autoscaler;
pub mod bootstrap;
pub mod certificates;
pub mod devices;
pub mod endpoints;
pub mod endpointslice;
pub mod framework;
pub mod hollow;
pub mod housekeeping;
pub mod mirroring;
pub mod node_ipam;
pub mod protection;
pub mod quota;
pub mod routes;
pub mod scheduler;
pub mod service_lb;
pub mod storage;
pub mod workloads;

use framework::Controller;

/// Every controller there is, by room. The order is that of `--help`.
#[must_use]
pub fn controllers() -> Vec<&'static Controller> {
    let rooms: [&'static [Controller]; 17] = [
        endpointslice::CONTROLLERS,
        endpoints::CONTROLLERS,
        mirroring::CONTROLLERS,
        node_ipam::CONTROLLERS,
        protection::CONTROLLERS,
        service_lb::CONTROLLERS,
        routes::CONTROLLERS,
        workloads::CONTROLLERS,
        scheduler::CONTROLLERS,
        storage::CONTROLLERS,
        devices::CONTROLLERS,
        certificates::CONTROLLERS,
        bootstrap::CONTROLLERS,
        hollow::CONTROLLERS,
        housekeeping::CONTROLLERS,
        quota::CONTROLLERS,
        autoscaler::CONTROLLERS,
    ];
    rooms.into_iter().flatten().collect()
}
