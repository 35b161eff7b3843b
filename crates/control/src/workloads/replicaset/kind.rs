//! What a ReplicaSet and a ReplicationController have in common: the second is worked on as if it were the first.

use super::super::owned::Object;
use k8s_openapi::{
    api::{
        apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus},
        core::v1::{ReplicationController, ReplicationControllerCondition, ReplicationControllerStatus},
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use objects::Encode;
use std::borrow::Cow;

/// Keeps a number of equal pods.
pub(super) trait Replicated: Object + Encode {
    const QUEUE: &'static str;
    /// Who writes its events.
    const REPORTER: &'static str;

    fn selector(&self) -> Cow<'_, LabelSelector>;
    /// It as a ReplicaSet.
    fn as_set(&self) -> Cow<'_, ReplicaSet>;
    /// It with the status that it would have as a ReplicaSet.
    fn with_status(&self, status: ReplicaSetStatus) -> Self;
    fn same_status(&self, other: &Self) -> bool;
}

impl Replicated for ReplicaSet {
    const QUEUE: &'static str = "replicaset";
    const REPORTER: &'static str = "replicaset-controller";

    fn selector(&self) -> Cow<'_, LabelSelector> {
        Cow::Borrowed(&self.spec.selector)
    }

    fn as_set(&self) -> Cow<'_, ReplicaSet> {
        Cow::Borrowed(self)
    }

    fn with_status(&self, status: ReplicaSetStatus) -> Self {
        Self { status: Some(status), ..self.clone() }
    }

    fn same_status(&self, other: &Self) -> bool {
        self.status == other.status
    }
}

impl Replicated for ReplicationController {
    const QUEUE: &'static str = "replicationmanager";
    const REPORTER: &'static str = "replication-controller";

    fn selector(&self) -> Cow<'_, LabelSelector> {
        let labels = self.spec.as_ref().and_then(|spec| spec.selector.clone());
        Cow::Owned(LabelSelector { match_labels: labels, match_expressions: None })
    }

    fn as_set(&self) -> Cow<'_, ReplicaSet> {
        let spec = self.spec.clone().unwrap_or_default();
        Cow::Owned(ReplicaSet {
            metadata: self.metadata.clone(),
            spec: ReplicaSetSpec {
                replicas: spec.replicas,
                min_ready_seconds: spec.min_ready_seconds,
                selector: self.selector().into_owned(),
                template: spec.template,
            },
            status: self.status.clone().map(|status| ReplicaSetStatus {
                replicas: status.replicas,
                fully_labeled_replicas: status.fully_labeled_replicas,
                ready_replicas: status.ready_replicas,
                available_replicas: status.available_replicas,
                observed_generation: status.observed_generation,
                conditions: status.conditions.map(|all| all.into_iter().map(condition_of_set).collect()),
                terminating_replicas: None,
            }),
        })
    }

    fn with_status(&self, status: ReplicaSetStatus) -> Self {
        let status = ReplicationControllerStatus {
            replicas: status.replicas,
            fully_labeled_replicas: status.fully_labeled_replicas,
            ready_replicas: status.ready_replicas,
            available_replicas: status.available_replicas,
            observed_generation: status.observed_generation,
            conditions: status.conditions.map(|all| all.into_iter().map(condition).collect()),
        };
        Self { status: Some(status), ..self.clone() }
    }

    fn same_status(&self, other: &Self) -> bool {
        self.status == other.status
    }
}

fn condition_of_set(condition: ReplicationControllerCondition) -> ReplicaSetCondition {
    ReplicaSetCondition {
        type_: Some(condition.type_),
        status: Some(condition.status),
        reason: condition.reason,
        message: condition.message,
        last_transition_time: condition.last_transition_time,
    }
}

fn condition(condition: ReplicaSetCondition) -> ReplicationControllerCondition {
    ReplicationControllerCondition {
        type_: condition.type_.unwrap_or_default(),
        status: condition.status.unwrap_or_default(),
        reason: condition.reason,
        message: condition.message,
        last_transition_time: condition.last_transition_time,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn a_replication_controller_is_a_replica_set_and_back() {
        let controller: ReplicationController = from_value(json!({
            "metadata": {"name": "rc", "namespace": "default", "uid": "u", "generation": 3},
            "spec": {"replicas": 2, "minReadySeconds": 5, "selector": {"app": "web"},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}},
            "status": {"replicas": 2, "readyReplicas": 1, "observedGeneration": 2, "conditions": [
                {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }))
        .unwrap();
        let set = controller.as_set();
        assert_eq!((set.spec.replicas, set.spec.min_ready_seconds), (Some(2), Some(5)));
        assert_eq!(set.spec.selector, from_value(json!({"matchLabels": {"app": "web"}})).unwrap());
        let again = controller.with_status(set.status.clone().unwrap());
        assert!(again.same_status(&controller), "{again:?}");
    }
}
