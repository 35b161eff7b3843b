//! What the status says, for both operands.

mod pods;

use super::*;
use crate::operator::check::Reason;

const BEFORE: &str = "2026-01-01T00:00:00Z";
const NOW: &str = "2026-01-02T00:00:00Z";

fn mistake(template: Option<&str>) -> Mistake {
    Mistake {
        reason: if template.is_some() { Reason::ReservedZone } else { Reason::InvalidConfiguration },
        path: "spec.x".to_owned(),
        value: "y".to_owned(),
        problem: "is wrong".to_owned(),
        template: template.map(str::to_owned),
    }
}

fn numbers(desired: i32, available: i32, updated: i32) -> Numbers {
    Numbers { desired, available, updated, current: true }
}

/// A server that runs this hash, with this problem.
fn report(hash: &str, problem: &str) -> BTreeMap<String, Report> {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    BTreeMap::from([("server".to_owned(), Report { hash: some(hash), problem: some(problem), ..Report::default() })])
}

/// `Type=Status(Reason)` of every condition.
fn shown(seen: &Observed<'_>) -> Vec<String> {
    let all = conditions(seen, &[], NOW);
    all.iter().map(|one| format!("{}={}({})", one.kind, one.status, one.reason)).collect()
}

fn seen<'a>(operand: Running, reports: &'a BTreeMap<String, Report>, wanted: &'a [String]) -> Observed<'a> {
    Observed { managed: true, service: true, operand, reports, wanted, mistakes: &[], kept: false, templates: None }
}

#[test]
fn servers_in_pods_are_counted() {
    let (none, wanted) = (BTreeMap::new(), ["h".to_owned()]);
    for (set, available, degraded, progressing) in [
        (None, "False(NoDaemonSet)", "False(AsExpected)", "True(Reconciling)"),
        (Some(numbers(2, 2, 2)), "True(AsExpected)", "False(AsExpected)", "False(AsExpected)"),
        (Some(numbers(2, 0, 2)), "False(NoDaemonSetPods)", "False(AsExpected)", "False(AsExpected)"),
        (Some(numbers(2, 2, 1)), "True(AsExpected)", "False(AsExpected)", "True(Reconciling)"),
        (Some(numbers(0, 0, 0)), "False(NoDaemonSetPods)", "True(NoDNSPodsDesired)", "False(AsExpected)"),
        (
            Some(Numbers { current: false, ..numbers(2, 2, 2) }),
            "True(AsExpected)",
            "False(AsExpected)",
            "True(Reconciling)",
        ),
    ] {
        let expected = [
            format!("Available={available}"),
            format!("Degraded={degraded}"),
            format!("Progressing={progressing}"),
            "Upgradeable=True(AsExpected)".to_owned(),
        ];
        assert_eq!(shown(&seen(Running::Workload(set), &none, &wanted)), expected, "{set:?}");
    }
    let without = Observed { service: false, ..seen(Running::Workload(None), &none, &wanted) };
    assert_eq!(shown(&without)[0], "Available=False(NoDaemonSetNoService)");
    let unmanaged = Observed { managed: false, ..seen(Running::Workload(None), &none, &wanted) };
    assert_eq!(shown(&unmanaged)[3], "Upgradeable=False(OperatorUnmanaged)");
}

#[test]
fn the_server_of_this_process_speaks_for_itself() {
    let wanted = ["new".to_owned()];
    for (reports, available, degraded, progressing) in [
        (BTreeMap::new(), "False(NoServer)", "False(AsExpected)", "True(Reconciling)"),
        (report("old", ""), "True(AsExpected)", "False(AsExpected)", "True(Reconciling)"),
        (report("new", ""), "True(AsExpected)", "False(AsExpected)", "False(AsExpected)"),
        (report("old", "bad"), "True(AsExpected)", "True(ConfigurationRefused)", "True(Reconciling)"),
        (report("", "taken"), "False(NoServer)", "True(ConfigurationRefused)", "True(Reconciling)"),
    ] {
        let found = shown(&seen(Running::Process, &reports, &wanted));
        let expected =
            [format!("Available={available}"), format!("Degraded={degraded}"), format!("Progressing={progressing}")];
        assert_eq!(found[..3], expected, "{reports:?}");
    }
}

#[test]
fn templates_are_applied_when_every_server_runs_them() {
    let wanted = ["new".to_owned(), "new by another name".to_owned()];
    let exclusions = [("f".to_owned(), ".".to_owned())];
    let templates = |mistakes: &'static [Mistake]| Templates {
        count: 1,
        defined: true,
        mistakes,
        exclusions: &[],
        domain: "cluster.local",
    };
    let three = |seen: &Observed<'_>| shown(seen)[4..].to_vec();
    let pods = Running::Workload(Some(numbers(1, 1, 1)));
    for (reports, applied) in [
        (BTreeMap::new(), "False(Reloading)"),
        (report("old", ""), "False(Reloading)"),
        (report("old", "bad"), "False(ReloadFailed)"),
        (report("new", ""), "True(AsExpected)"),
        (report("new by another name", ""), "True(AsExpected)"),
    ] {
        for operand in [pods, Running::Process] {
            let seen = Observed { templates: Some(templates(&[])), ..seen(operand, &reports, &wanted) };
            let expected = [
                "TemplateConfigurationValid=True(AsExpected)".to_owned(),
                format!("TemplateConfigurationApplied={applied}"),
                "AAAAFilterDualStackWarning=False(AsExpected)".to_owned(),
            ];
            assert_eq!(three(&seen), expected, "{reports:?}");
        }
    }
    // One of two servers is not enough.
    let reports = report("new", "");
    let two = Running::Workload(Some(numbers(2, 2, 2)));
    let lagging = Observed { templates: Some(templates(&[])), ..seen(two, &reports, &wanted) };
    assert_eq!(three(&lagging)[1], "TemplateConfigurationApplied=False(Reloading)");
    let dual = Templates { exclusions: &exclusions, ..templates(&[]) };
    let dual = Observed { templates: Some(dual), ..seen(pods, &reports, &wanted) };
    let warning = conditions(&dual, &[], NOW).pop().unwrap();
    assert_eq!((warning.status.as_str(), warning.reason.as_str()), ("True", "ClusterDomainExcluded"));
    assert!(warning.message.contains("template \"f\" for zone \".\""), "{}", warning.message);
}

#[test]
fn mistakes_are_told_where_they_belong() {
    let (reports, wanted) = (report("new", ""), ["new".to_owned()]);
    let wrong = [mistake(Some("f"))];
    let templates = Templates { count: 1, defined: true, mistakes: &wrong, exclusions: &[], domain: "cluster.local" };
    let seen = Observed { kept: true, templates: Some(templates), ..seen(Running::Process, &reports, &wanted) };
    let all = conditions(&seen, &[], NOW);
    let of = |kind: &str| all.iter().find(|one| one.kind == kind).unwrap();
    let valid = of("TemplateConfigurationValid");
    assert_eq!((valid.status.as_str(), valid.reason.as_str()), ("False", "ReservedZone"));
    assert_eq!(valid.message, "template \"f\": spec.x: \"y\" is wrong");
    assert_eq!(of("TemplateConfigurationApplied").message, "the configuration is not valid; the last valid one stays");
    assert_eq!(of("Degraded").status, "False");
    let wrong = [mistake(None)];
    let all = conditions(&Observed { mistakes: &wrong, templates: None, ..seen }, &[], NOW);
    let degraded = all.iter().find(|one| one.kind == "Degraded").unwrap();
    assert_eq!(degraded.reason, "InvalidConfiguration");
    assert_eq!(degraded.message, "the last valid configuration stays: spec.x: \"y\" is wrong");
}

#[test]
fn the_time_changes_with_the_status_alone() {
    let (reports, wanted) = (report("new", ""), ["new".to_owned()]);
    let seen = seen(Running::Process, &reports, &wanted);
    let mut before = conditions(&seen, &[], BEFORE);
    before[0].status = "False".to_owned();
    let after = conditions(&seen, &before, NOW);
    assert_eq!(after[0].last_transition_time, NOW);
    assert!(after[1..].iter().all(|one| one.last_transition_time == BEFORE));
}

#[test]
fn templates_that_the_definition_drops_are_no_templates_that_are_missing() {
    let (none, wanted) = (BTreeMap::new(), ["h".to_owned()]);
    for (defined, expected) in [
        (true, "TemplateConfigurationValid=True(NoTemplates)"),
        (false, "TemplateConfigurationValid=False(NotInDefinition)"),
    ] {
        let templates = Templates { count: 0, defined, mistakes: &[], exclusions: &[], domain: "cluster.local" };
        let seen = Observed { templates: Some(templates), ..seen(Running::Process, &none, &wanted) };
        assert!(shown(&seen).iter().any(|one| one == expected), "{:?}", shown(&seen));
    }
}

#[test]
fn servers_that_are_silent_hold_up_nothing_if_they_are_few() {
    let wanted = ["h".to_owned()];
    let runs = Report { hash: Some("h".to_owned()), ..Report::default() };
    let silent = Report { silence: Some("no route".to_owned()), ..Report::default() };
    for (desired, away, expected) in [
        (10, 0, "True: 1 templates run on 10 servers"),
        (10, 1, "True: 1 templates run on 9 servers; 1 do not answer"),
        (10, 2, "False: 8 of 10 servers run the newest configuration; not server0 (no route), server1 (no route)"),
        (1, 1, "False: 0 of 1 servers run the newest configuration; not server0 (no route)"),
    ] {
        let reports: BTreeMap<String, Report> = (0..desired)
            .map(|number| (format!("server{number}"), if number < away { silent.clone() } else { runs.clone() }))
            .collect();
        let templates = Templates { count: 1, defined: true, mistakes: &[], exclusions: &[], domain: "cluster.local" };
        let operand = Running::Workload(Some(numbers(desired, desired, desired)));
        let seen = Observed { templates: Some(templates), ..seen(operand, &reports, &wanted) };
        let all = conditions(&seen, &[], NOW);
        let applied = all.iter().find(|one| one.kind == "TemplateConfigurationApplied").unwrap();
        assert_eq!(format!("{}: {}", applied.status, applied.message), expected);
        let degraded = all.iter().find(|one| one.kind == "Degraded").unwrap();
        assert_ne!(degraded.reason, "ConfigurationRefused");
    }
}
