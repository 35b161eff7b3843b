//! What to do with a lease, given when it was last seen to change. Pure.

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use std::time::Duration;
use tokio::time::Instant;

/// A lease as it was read, and since when it is so.
#[derive(Clone, Debug)]
pub(super) struct ObservedLease {
    pub(super) lease: Lease,
    since: Instant,
}

impl ObservedLease {
    /// A lease that was read now: the time stays if it has not changed.
    pub(super) fn again(before: Option<Self>, lease: Lease, now: Instant) -> Self {
        let since = before.filter(|before| before.lease.spec == lease.spec).map_or(now, |before| before.since);
        Self { lease, since }
    }

    pub(super) fn holder(&self) -> Option<&String> {
        self.lease.spec.as_ref()?.holder_identity.as_ref().filter(|holder| !holder.is_empty())
    }

    /// Who, if it is not `me`, has renewed the lease since it was like this.
    pub(super) fn is_renewed_by_another(&self, before: Option<&LeaseSpec>, me: &str) -> Option<&str> {
        let holder = self.holder().filter(|holder| *holder != me)?;
        let same_holder = before?.holder_identity.as_ref() == Some(holder);
        (same_holder && before != self.lease.spec.as_ref()).then_some(holder)
    }

    fn has_run_out(&self, now: Instant) -> bool {
        let seconds = self.lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
        let duration = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        now.saturating_duration_since(self.since) >= duration
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Somebody else leads.
    Wait,
    /// There is no lease.
    Create,
    /// Write our name into it. `acquired` is kept while it stays ours.
    Write { lease: Box<Lease>, transitions: i32, acquired: Option<MicroTime> },
}

pub(super) fn decide(seen: Option<&ObservedLease>, me: &str, now: Instant) -> Action {
    let Some(seen) = seen else { return Action::Create };
    let spec = seen.lease.spec.clone().unwrap_or_default();
    let transitions = spec.lease_transitions.unwrap_or(0);
    let lease = Box::new(seen.lease.clone());
    match seen.holder() {
        Some(holder) if holder == me => Action::Write { lease, transitions, acquired: spec.acquire_time },
        Some(_) if !seen.has_run_out(now) => Action::Wait,
        _ => Action::Write { lease, transitions: transitions.saturating_add(1), acquired: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: &str, transitions: i32) -> Lease {
        let spec = LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        };
        Lease { spec: Some(spec), ..Lease::default() }
    }

    fn transitions(action: &Action) -> Option<i32> {
        match action {
            Action::Write { transitions, .. } => Some(*transitions),
            _ => None,
        }
    }

    #[tokio::test]
    async fn only_who_renews_leads() {
        let start = Instant::now();
        let renewed = |holder, transitions| ObservedLease::again(None, lease(holder, transitions), start);
        for (before, after, expected) in [
            (("other", 3), ("other", 3), None),
            (("other", 3), ("other", 4), Some("other")),
            (("third", 3), ("other", 4), None),
            (("me", 3), ("other", 4), None),
            (("me", 3), ("me", 4), None),
            (("other", 3), ("", 4), None),
        ] {
            let (before, after) = (lease(before.0, before.1), renewed(after.0, after.1));
            assert_eq!(after.is_renewed_by_another(before.spec.as_ref(), "me"), expected, "{before:?} {after:?}");
        }
        assert_eq!(renewed("other", 3).is_renewed_by_another(None, "me"), None);
    }

    #[tokio::test]
    async fn a_lease_is_taken_when_it_is_free_ours_or_run_out_by_our_own_clock() {
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(decide(None, "me", start), Action::Create);
        let theirs = ObservedLease::again(None, lease("other", 3), start);
        assert_eq!(decide(Some(&theirs), "me", later(14)), Action::Wait);
        assert_eq!(transitions(&decide(Some(&theirs), "me", later(15))), Some(4));
        // It was renewed in between: the wait begins anew.
        let renewed = ObservedLease::again(Some(theirs.clone()), lease("other", 4), later(10));
        assert_eq!(decide(Some(&renewed), "me", later(20)), Action::Wait);
        let same = ObservedLease::again(Some(theirs), lease("other", 3), later(10));
        assert_eq!(transitions(&decide(Some(&same), "me", later(15))), Some(4));
        assert_eq!(
            transitions(&decide(Some(&ObservedLease::again(None, lease("me", 3), start)), "me", start)),
            Some(3)
        );
        assert_eq!(transitions(&decide(Some(&ObservedLease::again(None, lease("", 3), start)), "me", start)), Some(4));
    }
}
