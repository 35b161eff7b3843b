//! How many pods a ReplicaSet lacks, or which it has too many. Pure; called by `replicaset::reconcile`.

use super::{super::pods, order};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use std::collections::HashMap;

/// No more pods are made or deleted in one go.
pub const BURST: usize = 500;

/// What has to happen to the pods.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan<'a> {
    /// As many as wanted.
    Nothing,
    /// So many are missing.
    Create(usize),
    /// These are too many, the most expendable first.
    Delete(Vec<&'a Pod>),
}

/// What one ReplicaSet sees.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// `spec.replicas`.
    pub wanted: usize,
    /// Its own pods, active ones only.
    pub active: &'a [&'a Pod],
    /// Active pods per node of all ReplicaSets with the same owner: where siblings crowd, pods go first.
    pub crowd: &'a HashMap<String, usize>,
    pub now: Timestamp,
}

/// Decides.
pub fn plan<'a>(view: &View<'a>) -> Plan<'a> {
    let have = view.active.len();
    if have < view.wanted {
        return Plan::Create((view.wanted - have).min(BURST));
    }
    let surplus = (have - view.wanted).min(BURST);
    if surplus == 0 {
        return Plan::Nothing;
    }
    let crowd = |pod: &Pod| view.crowd.get(pods::node_name(pod)).copied().unwrap_or_default();
    let mut active = view.active.to_vec();
    active.sort_by(|one, other| order::expendable((one, crowd(one)), (other, crowd(other)), view.now));
    active.truncate(surplus);
    Plan::Delete(active)
}

/// Puts the more expendable pods first, for those who count pods and do not look at nodes.
pub(crate) fn expendable_first(pods: &mut [&Pod], now: Timestamp) {
    pods.sort_by(|one, other| order::expendable((one, 0), (other, 0), now));
}
