//! Metrics under upstream's names.

use super::plan::Plan;
use crate::framework::Key;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};
use runtime::admin::Admin;
use std::{collections::HashMap, sync::Arc};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

pub(super) struct Metrics {
    changes: Family<Operation, Counter>,
    slices: Gauge,
    endpoints: Gauge,
    /// Slices and endpoints of each Service, so that the sums follow without being taken anew.
    by_service: Mutex<HashMap<Key, (i64, i64)>>,
}

impl Metrics {
    pub(super) fn new(admin: &Admin) -> Self {
        let metrics = &admin.metrics;
        Self {
            changes: metrics.register(
                "endpoint_slice_controller_changes",
                "EndpointSlices created, updated and deleted",
                Family::default(),
            ),
            slices: metrics.register(
                "endpoint_slice_controller_num_endpoint_slices",
                "EndpointSlices",
                Gauge::default(),
            ),
            endpoints: metrics.register("endpoint_slice_controller_endpoints_desired", "Endpoints", Gauge::default()),
            by_service: Mutex::default(),
        }
    }

    pub(super) fn planned(&self, key: &Key, stored: &[Arc<EndpointSlice>], plan: &Plan) {
        let count = |operation, number: usize| {
            self.changes.get_or_create(&Operation { operation }).inc_by(number as u64);
        };
        count("create", plan.create.len());
        count("update", plan.update.len());
        count("delete", plan.delete.len());
        let had: usize = stored.iter().map(|slice| slice.endpoints.as_ref().map_or(0, Vec::len)).sum();
        let slices = stored.len() as i64 + plan.create.len() as i64 - plan.delete.len() as i64;
        let endpoints = had as i64 + plan.added as i64 - plan.removed as i64;
        self.set(key, Some((slices, endpoints)));
    }

    pub(super) fn forget(&self, key: &Key) {
        self.set(key, None);
    }

    fn set(&self, key: &Key, now: Option<(i64, i64)>) {
        let mut all = self.by_service.lock();
        let before = match now {
            Some(now) => all.insert(key.clone(), now),
            None => all.remove(key),
        };
        let (before, now) = (before.unwrap_or_default(), now.unwrap_or_default());
        self.slices.inc_by(now.0 - before.0);
        self.endpoints.inc_by(now.1 - before.1);
    }
}
