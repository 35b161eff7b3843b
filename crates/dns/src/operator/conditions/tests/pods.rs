//! Servers in Pods: every row of numbers, long after the last change and right after it.

use super::*;

const RIGHT_AFTER: &str = "2026-01-01T00:00:39Z";
const LATER: &str = "2026-01-01T00:00:40Z";

/// `available degraded progressing upgradeable` at this time; the last change was at [`BEFORE`].
fn statuses(service: bool, managed: bool, set: Option<Numbers>, now: &str) -> String {
    let (none, wanted) = (BTreeMap::new(), ["h".to_owned()]);
    let seen = Observed { service, managed, ..seen(Running::Workload(set), &none, &wanted) };
    let quiet =
        conditions(&Observed { service: true, ..self::seen(Running::Process, &report("h", ""), &wanted) }, &[], BEFORE);
    let all = conditions(&seen, &quiet, now);
    let shown = |one: &OperatorCondition| match (one.status.as_str(), one.reason.as_str()) {
        ("True", "AsExpected") => "yes".to_owned(),
        ("False", "AsExpected") => "no".to_owned(),
        (_, reason) => reason.to_owned(),
    };
    all.iter().map(shown).collect::<Vec<_>>().join(" ")
}

#[test]
fn numbers_of_pods_are_judged_when_they_had_time() {
    // Desired, available, updated.
    for (row, expected) in [
        ((1, 1, 1), "yes no no yes"),
        ((6, 6, 6), "yes no no yes"),
        // One tenth may be away.
        ((6, 5, 6), "yes no no yes"),
        ((6, 4, 6), "yes MaxUnavailableDNSPodsExceeded no yes"),
        ((6, 1, 6), "yes MaxUnavailableDNSPodsExceeded no yes"),
        ((20, 18, 20), "yes no no yes"),
        ((20, 17, 20), "yes MaxUnavailableDNSPodsExceeded no yes"),
        ((6, 0, 6), "NoDaemonSetPods NoDNSPodsAvailable no yes"),
        ((1, 0, 1), "NoDaemonSetPods NoDNSPodsAvailable no yes"),
        ((0, 0, 0), "NoDaemonSetPods NoDNSPodsDesired no yes"),
        // While Pods are replaced nothing is wrong yet.
        ((6, 6, 5), "yes no Reconciling yes"),
        ((6, 5, 0), "yes no Reconciling yes"),
        ((6, 1, 3), "yes no Reconciling yes"),
        ((6, 0, 0), "NoDaemonSetPods no Reconciling yes"),
    ] {
        let set = numbers(row.0, row.1, row.2);
        assert_eq!(statuses(true, true, Some(set), LATER), expected, "{row:?}");
        let early = statuses(true, true, Some(set), RIGHT_AFTER);
        let patient = expected.replace("MaxUnavailableDNSPodsExceeded", "no").replace("NoDNSPodsAvailable", "no");
        assert_eq!(early, patient, "{row:?} right after the change");
        // Without an address there is something to do.
        let without = statuses(false, true, Some(set), LATER);
        assert!(without.contains("NoService") && without.contains(" no Reconciling yes"), "{row:?}: {without}");
        // Whoever does not manage does not progress either.
        let unmanaged = statuses(true, false, Some(set), LATER);
        assert!(unmanaged.ends_with(" no OperatorUnmanaged"), "{row:?}: {unmanaged}");
        let unseen = statuses(true, true, Some(Numbers { current: false, ..set }), LATER);
        assert!(unseen.ends_with(" no Reconciling yes"), "{row:?}: {unseen}");
    }
    for (service, expected) in
        [(true, "NoDaemonSet no Reconciling yes"), (false, "NoDaemonSetNoService no Reconciling yes")]
    {
        assert_eq!(statuses(service, true, None, LATER), expected);
    }
}

#[test]
fn numbers_never_degrade_what_is_in_progress() {
    for desired in 0..5 {
        for available in 0..=desired {
            for updated in 0..=desired {
                for service in [false, true] {
                    let shown = statuses(service, true, Some(numbers(desired, available, updated)), LATER);
                    let words: Vec<&str> = shown.split(' ').collect();
                    assert!(words[1] == "no" || words[2] == "no", "{desired} {available} {updated}: {shown}");
                }
            }
        }
    }
}

#[test]
fn one_looks_again_until_pods_had_time() {
    let wanted = ["h".to_owned()];
    let quiet = conditions(&seen(Running::Process, &report("h", ""), &wanted), &[], BEFORE);
    let busy = conditions(&seen(Running::Process, &report("old", ""), &wanted), &[], BEFORE);
    for (all, now, expected) in
        [(&quiet, BEFORE, true), (&quiet, RIGHT_AFTER, true), (&quiet, LATER, false), (&busy, BEFORE, false)]
    {
        assert_eq!(is_settling(all, now), expected, "{now}");
    }
}
