//! The status of an autoscaler as it is being made: conditions, what was measured, how many there are and should be. Pure.

use api::object::{Fields, timestamp};
use jiff::Timestamp;
use serde_json::{Value, json};

/// A status under way.
pub(super) struct Status {
    value: Value,
    now: Timestamp,
}

impl Status {
    /// Begins with what the autoscaler says already.
    pub(super) fn of(autoscaler: &Value, now: Timestamp) -> Self {
        Self { value: autoscaler.at("status").clone(), now }
    }

    pub(super) fn set(&mut self, kind: &str, is_true: bool, reason: &str, message: impl Into<String>) {
        let status = if is_true { "True" } else { "False" };
        let known = self.value.list_at("conditions").iter().find(|one| one.str_at("type") == kind);
        let since =
            known.filter(|known| known.str_at("status") == status).map(|known| known.at("lastTransitionTime").clone());
        let mut condition = json!({"type": kind, "status": status, "reason": reason, "message": message.into()});
        condition.set("lastTransitionTime", since.unwrap_or_else(|| timestamp(self.now).into()));
        let conditions = self.value.at_mut("conditions");
        match conditions {
            Value::Array(list) => match list.iter_mut().find(|one| one.str_at("type") == kind) {
                Some(known) => *known = condition,
                None => list.push(condition),
            },
            other => *other = json!([condition]),
        }
    }

    pub(super) fn is_true(&self, kind: &str) -> bool {
        let conditions = self.value.list_at("conditions");
        conditions.iter().any(|one| one.str_at("type") == kind && one.str_at("status") == "True")
    }

    /// How many there are; what was measured, as far as it could be.
    pub(super) fn measured(&mut self, generation: Option<i64>, current: i32, metrics: Vec<Value>) {
        self.value.set("currentReplicas", current);
        self.value.set_default("desiredReplicas", 0);
        self.value.set("currentMetrics", if metrics.is_empty() { Value::Null } else { Value::from(metrics) });
        if let Some(generation) = generation {
            self.value.set("observedGeneration", generation);
        }
    }

    pub(super) fn desired(&mut self, replicas: i32) {
        self.value.set("desiredReplicas", replicas);
    }

    pub(super) fn scaled_now(&mut self) {
        self.value.set("lastScaleTime", timestamp(self.now));
    }

    pub(super) fn into_value(self) -> Value {
        self.value
    }
}

/// Whether two statuses say the same: what is empty is not there.
pub(super) fn same(one: &Value, other: &Value) -> bool {
    api::kinds::check::same(one, other)
}
