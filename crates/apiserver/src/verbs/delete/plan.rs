//! What a deletion does to an object: pure, so that the rules of grace and finalizers are a table.

use super::options::{DeleteOptions, Propagation};
use api::{
    object::{Fields, timestamp},
    resource::Rules,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// The outcome.
#[derive(Debug, PartialEq)]
pub enum Deletion {
    /// It is being deleted already and nothing gets shorter.
    Nothing,
    /// The object goes.
    Now,
    /// The object stays, marked like this.
    Later(Value),
}

/// Decides. `object` is the stored one.
pub fn plan(object: &Value, options: &DeleteOptions, rules: &dyn Rules, now: Timestamp) -> Deletion {
    let finalizers = finalizers(object, options.propagation, rules);
    let grace = grace_period(object, options, rules);
    let held = !finalizers.is_empty() || !object.list_at("spec.finalizers").is_empty();
    if !held && grace == 0 {
        return Deletion::Now;
    }
    let mut marked = object.clone();
    if finalizers != *object.list_at("metadata.finalizers") {
        if finalizers.is_empty() {
            marked.remove("metadata.finalizers");
        } else {
            marked.set("metadata.finalizers", finalizers);
        }
    }
    mark(&mut marked, object, grace, now);
    rules.mark_deleting(&mut marked);
    if marked == *object { Deletion::Nothing } else { Deletion::Later(marked) }
}

/// Sets the deletion time once; afterwards only a shorter grace period moves it.
fn mark(marked: &mut Value, object: &Value, grace: i64, now: Timestamp) {
    let since = match object.int_at("metadata.deletionGracePeriodSeconds") {
        _ if object.at("metadata.deletionTimestamp").is_null() => now,
        Some(running) if grace < running => {
            // The clock started when the first deletion came in.
            let due: Option<Timestamp> = object.str_at("metadata.deletionTimestamp").parse().ok();
            due.and_then(|due| due.checked_sub(SignedDuration::from_secs(running)).ok()).unwrap_or(now)
        }
        _ => return,
    };
    let due = since.checked_add(SignedDuration::from_secs(grace)).unwrap_or(since);
    marked.set("metadata.deletionTimestamp", timestamp(due));
    marked.set("metadata.deletionGracePeriodSeconds", grace);
    let generation = object.int_at("metadata.generation").unwrap_or(0);
    if generation > 0 {
        marked.set("metadata.generation", generation + 1);
    }
}

/// Kinds without graceful deletion have none whatever the client says. Of others, an object that asks for none itself still has what the client
/// says.
fn grace_period(object: &Value, options: &DeleteOptions, rules: &dyn Rules) -> i64 {
    rules.grace_period(object).map_or(0, |default| options.grace_period.unwrap_or(default))
}

/// The finalizers after the propagation policy has added or taken away its own.
fn finalizers(object: &Value, propagation: Option<Propagation>, rules: &dyn Rules) -> Vec<Value> {
    let mut list = object.list_at("metadata.finalizers").to_vec();
    let decided = list.iter().any(|name| name == FOREGROUND || name == ORPHAN);
    let usual = (rules.orphans_by_default() && !decided).then_some(Propagation::Orphan);
    let Some(propagation) = propagation.or(usual) else { return list };
    let wanted = match propagation {
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Orphan => Some(ORPHAN),
    };
    list.retain(|name| (name != FOREGROUND && name != ORPHAN) || name.as_str() == wanted);
    if let Some(wanted) = wanted
        && !list.iter().any(|name| name == wanted)
    {
        list.push(wanted.into());
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::query::DryRun;
    use serde_json::json;

    struct Graceful(i64);
    impl Rules for Graceful {
        fn grace_period(&self, _object: &Value) -> Option<i64> {
            Some(self.0)
        }
    }

    struct Plain;
    impl Rules for Plain {}

    fn options(grace_period: Option<i64>, propagation: Option<Propagation>) -> DeleteOptions {
        DeleteOptions { grace_period, propagation, uid: None, resource_version: None, dry_run: DryRun::No }
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_plain_object_goes_at_once_and_a_finalizer_keeps_it() {
        let now = at("2020-01-01T00:00:00Z");
        let plain = json!({"metadata": {"name": "a"}});
        assert_eq!(plan(&plain, &options(Some(30), None), &Plain, now), Deletion::Now);
        let held = json!({"metadata": {"name": "a", "finalizers": ["x.io/y"]}});
        let Deletion::Later(marked) = plan(&held, &options(None, None), &Plain, now) else { panic!("kept") };
        assert_eq!(marked.str_at("metadata.deletionTimestamp"), "2020-01-01T00:00:00Z");
        assert_eq!(marked.int_at("metadata.deletionGracePeriodSeconds"), Some(0));
        assert_eq!(plan(&marked, &options(None, None), &Plain, at("2020-01-01T00:01:00Z")), Deletion::Nothing);
    }

    #[test]
    fn who_asks_for_no_grace_has_what_the_client_says() {
        let now = at("2020-01-01T00:00:00Z");
        let pod = json!({"metadata": {"name": "p", "generation": 1}});
        assert_eq!(plan(&pod, &options(None, None), &Graceful(0), now), Deletion::Now);
        let Deletion::Later(marked) = plan(&pod, &options(Some(60), None), &Graceful(0), now) else { panic!("kept") };
        assert_eq!(marked.int_at("metadata.deletionGracePeriodSeconds"), Some(60));
    }

    #[test]
    fn grace_can_get_shorter_but_never_longer() {
        let pod = json!({"metadata": {"name": "p", "generation": 1}});
        let Deletion::Later(marked) = plan(&pod, &options(None, None), &Graceful(30), at("2020-01-01T00:00:00Z"))
        else {
            panic!()
        };
        assert_eq!(marked.str_at("metadata.deletionTimestamp"), "2020-01-01T00:00:30Z");
        assert_eq!(marked.int_at("metadata.generation"), Some(2));
        let later = at("2020-01-01T00:00:05Z");
        assert_eq!(plan(&marked, &options(Some(60), None), &Graceful(30), later), Deletion::Nothing);
        let Deletion::Later(shorter) = plan(&marked, &options(Some(10), None), &Graceful(30), later) else { panic!() };
        assert_eq!(shorter.str_at("metadata.deletionTimestamp"), "2020-01-01T00:00:10Z");
        assert_eq!(plan(&shorter, &options(Some(0), None), &Graceful(30), later), Deletion::Now);
    }

    struct Orphaning;
    impl Rules for Orphaning {
        fn orphans_by_default(&self) -> bool {
            true
        }
    }

    #[test]
    fn some_kinds_let_dependents_go_unless_told_otherwise() {
        let now = at("2020-01-01T00:00:00Z");
        let plain = json!({"metadata": {"name": "a"}});
        for (object, policy, want) in [
            (plain.clone(), None, Some(json!(["orphan"]))),
            (plain.clone(), Some(Propagation::Foreground), Some(json!(["foregroundDeletion"]))),
            (plain, Some(Propagation::Background), None),
            (
                json!({"metadata": {"name": "a", "finalizers": ["foregroundDeletion"]}}),
                None,
                Some(json!(["foregroundDeletion"])),
            ),
        ] {
            let found = match plan(&object, &options(None, policy), &Orphaning, now) {
                Deletion::Later(marked) => Some(marked.at("metadata.finalizers").clone()),
                _ => None,
            };
            assert_eq!(found, want, "{object} {policy:?}");
        }
    }

    #[test]
    fn each_propagation_policy_sets_its_own_finalizer() {
        let now = at("2020-01-01T00:00:00Z");
        let object = json!({"metadata": {"name": "a", "finalizers": ["orphan"]}});
        for (policy, want) in [
            (Some(Propagation::Foreground), json!(["foregroundDeletion"])),
            (Some(Propagation::Orphan), json!(["orphan"])),
            (None, json!(["orphan"])),
        ] {
            let Deletion::Later(marked) = plan(&object, &options(None, policy), &Graceful(0), now) else { panic!() };
            assert_eq!(*marked.at("metadata.finalizers"), want, "{policy:?}");
        }
        assert_eq!(plan(&object, &options(None, Some(Propagation::Background)), &Graceful(0), now), Deletion::Now);
    }
}
