//! Metrics under upstream's names.

use net::Cidr;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};
use runtime::admin::Admin;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[allow(non_snake_case, reason = "upstream's label")]
struct ClusterCidr {
    clusterCIDR: String,
}

pub(super) struct Metrics {
    allocations: Counter,
    releases: Counter,
    usage: Family<ClusterCidr, Gauge>,
}

impl Metrics {
    pub(super) fn new(admin: &Admin) -> Self {
        let metrics = &admin.metrics;
        Self {
            allocations: metrics.register(
                "node_ipam_controller_cidrset_cidrs_allocations",
                "Assignments of pod CIDRs to nodes",
                Counter::default(),
            ),
            releases: metrics.register(
                "node_ipam_controller_cidrset_cidrs_releases",
                "Nodes whose pod CIDRs were freed",
                Counter::default(),
            ),
            usage: metrics.register(
                "node_ipam_controller_cidrset_usage_cidrs",
                "Node CIDRs that are taken",
                Family::default(),
            ),
        }
    }

    pub(super) fn allocated(&self) {
        self.allocations.inc();
    }

    pub(super) fn released(&self) {
        self.releases.inc();
    }

    pub(super) fn show(&self, usage: &[(Cidr, u64)]) {
        for (cluster, used) in usage {
            let label = ClusterCidr { clusterCIDR: cluster.to_string() };
            self.usage.get_or_create(&label).set(i64::try_from(*used).unwrap_or(i64::MAX));
        }
    }
}
