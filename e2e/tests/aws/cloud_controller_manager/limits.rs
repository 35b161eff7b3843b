//! How many calls are made, and how fast.

use super::cloud::{Cloud, PATIENCE, RANGES, families, service};
use e2e::{
    aws_strict::{Api, Made, excess},
    wait_for,
};
use serde_json::{Value, json};
use std::{fmt::Write, time::Duration};

/// The calls, one in a line, for messages.
fn listed(calls: &[Made]) -> String {
    calls.iter().fold(String::new(), |mut text, call| {
        let _ = writeln!(text, "{}", call.name());
        text
    })
}

#[test]
fn few_calls_are_made() {
    let Some(mut cloud) = Cloud::start(RANGES[1], 2) else { return };
    cloud.create(&service("web", &[], families("RequireDualStack", &["IPv6", "IPv4"])));
    let host = cloud.host("web");
    cloud.quiet();

    cloud.kubectl.ok(&["annotate", "service", "web", "example.test/note=1"]);
    let calls = cloud.reacts();
    assert!(calls.len() <= 4 && calls.iter().all(|call| !call.write), "nothing to do:\n{}", listed(&calls));

    cloud.example.add_node(&cloud.aws);
    cloud.quiet();
    cloud.create(&cloud.example.node(2));
    let group = cloud.target_groups(&cloud.balancer(&host)).remove(0);
    cloud.until("three targets", || (cloud.targets(&group).len() == 3).then_some(()));
    let calls = cloud.quiet();
    let writes: Vec<Made> = calls.into_iter().filter(|call| call.write).collect();
    assert!(
        !writes.is_empty() && writes.iter().all(|call| call.action == "RegisterTargets"),
        "a node more:\n{}",
        listed(&writes)
    );
    cloud.kubectl.ok(&["delete", "node", "node-0"]);
    cloud.until("two targets", || (cloud.targets(&group).len() == 2).then_some(()));
    let writes: Vec<Made> = cloud.quiet().into_iter().filter(|call| call.write).collect();
    assert!(
        !writes.is_empty() && writes.iter().all(|call| call.action == "DeregisterTargets"),
        "a node less:\n{}",
        listed(&writes)
    );
    cloud.delete("web");
    cloud.is_empty();
}

/// A name, which calls, how many at once, how many a second.
type Bucket = (&'static str, fn(&Made) -> bool, u32, f64);

/// AWS's buckets for an account in a region.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/userguide/elb-api-throttling.html> and
/// <https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html>; for changes of load balancers the figures that
/// aws-load-balancer-controller keeps to.
const BUCKETS: &[Bucket] = &[
    ("reads of load balancers", |call| call.api == Api::Elbv2 && !call.write, 40, 10.0),
    ("targets", |call| call.api == Api::Elbv2 && call.write && call.action.ends_with("Targets"), 20, 4.0),
    (
        "changes of load balancers",
        |call| call.api == Api::Elbv2 && call.write && !call.action.ends_with("Targets"),
        20,
        3.0,
    ),
    ("reads of EC2", |call| call.api == Api::Ec2 && !call.write, 100, 20.0),
    ("changes of EC2", |call| call.api == Api::Ec2 && call.write, 50, 5.0),
];

#[test]
fn many_services_and_a_node_change_stay_within_the_limits() {
    let count = if std::env::var("TWINSTACK_FAULTS").is_ok_and(|value| value == "all") { 500 } else { 10 };
    // The nodes' group has room for the rules of thirty.
    let lines = if count > 30 { "DisableSecurityGroupIngress = true\n" } else { "" };
    let started = Cloud::without_nodes(|_| lines.to_owned(), &["--configure-cloud-routes=false"], RANGES[0], 2);
    let Some(mut cloud) = started else { return };
    (0..2).for_each(|index| cloud.create(&cloud.example.node(index)));
    cloud.quiet();
    let names: Vec<String> = (0..count).map(|number| format!("web-{number}")).collect();
    let all: Vec<Value> =
        names.iter().map(|name| service(name, &[], families("RequireDualStack", &["IPv4", "IPv6"]))).collect();
    cloud.create(&json!({"apiVersion": "v1", "kind": "List", "items": all}));
    let all_have = |cloud: &Cloud, wanted: usize| {
        let found = cloud.aws.look(Api::Elbv2, "DescribeTargetGroups", &[]).unwrap();
        let groups = found.all("DescribeTargetGroupsResult/TargetGroups/member");
        groups.len() == count && groups.iter().all(|group| cloud.targets(group).len() == wanted)
    };
    // So many calls at AWS's pace take this long.
    let patience = PATIENCE + Duration::from_secs(10) * u32::try_from(count).unwrap();
    assert!(wait_for(patience, || all_have(&cloud, 2).then_some(())).is_some(), "{}", cloud.logs());
    // Each Service is looked at from time to time, so that with many there is never a moment without a read.
    let made = cloud.settled();
    cloud.example.add_node(&cloud.aws);
    cloud.aws.take_calls();
    cloud.create(&cloud.example.node(2));
    assert!(wait_for(patience, || all_have(&cloud, 3).then_some(())).is_some(), "{}", cloud.logs());
    let changed = cloud.settled();
    for (when, calls) in [("made", &made), ("a node more", &changed)] {
        for (what, belongs, burst, per_second) in BUCKETS {
            let excess = excess(calls.iter().filter(|call| belongs(call)), *burst, *per_second);
            assert_eq!(excess, 0, "{when}: {what} beyond {burst} and {per_second} a second");
        }
    }
    let writes = changed.iter().filter(|call| call.write);
    assert!(
        writes.clone().all(|call| call.action == "RegisterTargets") && writes.count() == count,
        "{}",
        listed(&changed)
    );
}
