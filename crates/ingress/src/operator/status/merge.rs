//! Conditions over those that were there: the time of a condition changes with its status alone.

use api::config::OperatorCondition;
use jiff::Timestamp;

/// The new conditions with their times. Old ones that are not among them are gone.
pub fn merge(old: &[OperatorCondition], new: Vec<OperatorCondition>, now: Timestamp) -> Vec<OperatorCondition> {
    new.into_iter().map(|condition| timed(old, condition, now)).collect()
}

/// `all` with these in place of those of the same type; those of `old` that somebody else keeps are kept.
pub fn with(
    old: &[OperatorCondition],
    mut all: Vec<OperatorCondition>,
    new: Vec<OperatorCondition>,
    now: Timestamp,
) -> Vec<OperatorCondition> {
    for condition in new {
        let condition = timed(old, condition, now);
        match all.iter_mut().find(|known| known.kind == condition.kind) {
            Some(known) => *known = condition,
            None => all.push(condition),
        }
    }
    all
}

fn timed(old: &[OperatorCondition], mut condition: OperatorCondition, now: Timestamp) -> OperatorCondition {
    let same = old.iter().find(|known| known.kind == condition.kind && known.status == condition.status);
    condition.last_transition_time = match same {
        Some(known) if !known.last_transition_time.is_empty() => known.last_transition_time.clone(),
        _ => time(now),
    };
    condition
}

/// As Kubernetes writes times: whole seconds.
pub fn time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
