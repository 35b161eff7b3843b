//! What comes next for a definition: pure, so that every state that a crash can leave behind is a row of a test.

use super::instances::Instances;
use api::object::Fields;
use jiff::Timestamp;
use schema::definition::status::{self, CLEANUP_FINALIZER, Ending};
use serde_json::Value;

/// One thing to do. After it the definition is looked at again.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Nothing, until something changes.
    Rest,
    /// Nothing yet: objects with finalizers are still there.
    Wait,
    /// Store it as it is, which gives it its finalizer.
    Hold(Value),
    /// Store this status.
    Status(Value),
    /// Delete the objects.
    Empty,
    /// Store this, without the finalizer: the definition goes.
    LetGo(Value),
}

/// The next step of a definition that is not being deleted.
pub(super) fn living(definition: &Value, others: &[&Value], now: Timestamp) -> Step {
    if !is_held(definition) {
        return Step::Hold(definition.clone());
    }
    match status::settle(definition, others, now) {
        Some(status) => Step::Status(with_status(definition, status)),
        None => Step::Rest,
    }
}

/// The next step of one that is.
pub(super) fn dying(definition: &Value, instances: Instances, now: Timestamp) -> Step {
    if !is_held(definition) {
        return Step::Rest;
    }
    let ending = match instances {
        Instances::BuiltIn => Ending::BuiltIn,
        // Routes are open, and objects can be, as soon as the names are accepted.
        _ if !status::is_served(definition) => Ending::NeverEstablished,
        Instances::None if status::is_true(definition, "Terminating") => Ending::Completed,
        _ if !status::is_true(definition, "Terminating") => {
            return Step::Status(with_status(definition, status::terminating(definition, Ending::InProgress, now)));
        }
        Instances::Deleting => return Step::Wait,
        Instances::Some | Instances::None => return Step::Empty,
    };
    let mut last = with_status(definition, status::terminating(definition, ending, now));
    let mut finalizers = definition.list_at("metadata.finalizers").to_vec();
    finalizers.retain(|one| one != CLEANUP_FINALIZER);
    last.set("metadata.finalizers", finalizers);
    Step::LetGo(last)
}

/// Whether somebody has asked for its deletion.
pub(super) fn is_dying(definition: &Value) -> bool {
    !definition.at("metadata.deletionTimestamp").is_null()
}

fn is_held(definition: &Value) -> bool {
    definition.list_at("metadata.finalizers").iter().any(|one| one == CLEANUP_FINALIZER)
}

fn with_status(definition: &Value, status: Value) -> Value {
    let mut changed = definition.clone();
    changed.set("status", status);
    changed
}
