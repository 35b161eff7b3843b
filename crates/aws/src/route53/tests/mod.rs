//! What is sent to Route53, and what its answers come to.

mod roles;
mod zones;

use super::{Route53, plan};
use crate::{
    account::{Leads, RecordChange, RecordSet},
    clients::testing::{Say, Server, ok},
};
use runtime::cloud::{CloudError, DnsEntry, DnsProvider, DnsZone};

const NLB: &str = "a1-1.elb.us-east-1.amazonaws.com";
const OLD: &str = "b2-2.elb.us-east-1.amazonaws.com";
const ZONE: &str = "Z26RNL4JYFTOTI";

fn entry(dual_stack: bool) -> DnsEntry {
    DnsEntry {
        name: "*.apps.example.com.".to_owned(),
        targets: vec![NLB.to_owned()],
        ttl: 30,
        dual_stack,
        target_zone: None,
    }
}

fn there(kind: &str, leads: Leads) -> RecordSet {
    RecordSet { name: "\\052.apps.example.com.".to_owned(), kind: kind.to_owned(), leads, as_read: None }
}

fn alias(kind: &str, target: &str) -> RecordSet {
    there(kind, Leads::Alias { target: format!("{target}."), zone: ZONE.to_owned() })
}

fn plain(kind: &str, value: &str) -> RecordSet {
    let leads = match kind {
        "CNAME" => Leads::Name { target: value.to_owned(), ttl: 60 },
        _ => Leads::Elsewhere,
    };
    there(kind, leads)
}

fn described(steps: &[RecordChange]) -> Vec<String> {
    let one = |step: &RecordChange| {
        let (verb, record) = match step {
            RecordChange::Write(record) => ("write", record),
            RecordChange::Delete(record) => ("delete", record),
        };
        let leads = match &record.leads {
            Leads::Alias { target, .. } | Leads::Name { target, .. } => target.trim_end_matches('.'),
            Leads::Elsewhere => "elsewhere",
        };
        format!("{verb} {} {leads}", record.kind)
    };
    steps.iter().map(one).collect()
}

#[test]
fn both_families_are_written_together_or_not_at_all() {
    let both = [format!("write A {NLB}"), format!("write AAAA {NLB}")];
    let one = [format!("write A {NLB}")];
    let table: &[(&[RecordSet], bool, &[String])] = &[
        (&[], true, &both),
        (&[], false, &one),
        (&[alias("A", NLB)], true, &both),
        (&[alias("A", NLB), alias("AAAA", NLB)], true, &[]),
        (&[alias("A", NLB)], false, &[]),
        (&[alias("A", OLD), alias("AAAA", OLD)], true, &both),
        (&[plain("A", "192.0.2.1")], false, &one),
    ];
    for (there, dual_stack, expected) in table {
        let entry = entry(*dual_stack);
        let wanted = plan::aliases(&entry, NLB, ZONE);
        assert_eq!(described(&plan::ensure(there, &wanted, NLB)), *expected, "{there:?} {dual_stack}");
    }
}

#[test]
fn an_ipv6_alias_of_ours_goes_when_it_is_not_wanted_any_more() {
    let delete = |target: &str| format!("delete AAAA {target}");
    let write = format!("write A {NLB}");
    let table: &[(&[RecordSet], &[String])] = &[
        (&[alias("A", NLB), alias("AAAA", NLB)], &[delete(NLB)]),
        (&[alias("A", OLD), alias("AAAA", OLD)], &[write.clone(), delete(OLD)]),
        (&[alias("AAAA", NLB)], &[write.clone(), delete(NLB)]),
        // Somebody else's.
        (&[alias("A", NLB), alias("AAAA", OLD)], &[]),
        (&[alias("A", NLB), plain("AAAA", "2001:db8::1")], &[]),
    ];
    for (there, expected) in table {
        let wanted = plan::aliases(&entry(false), NLB, ZONE);
        assert_eq!(described(&plan::ensure(there, &wanted, NLB)), *expected, "{there:?}");
    }
}

#[test]
fn what_is_there_of_an_entry_goes_and_nothing_else() {
    let both = [format!("delete A {NLB}"), format!("delete AAAA {NLB}")];
    let table: &[(&[RecordSet], &[String])] = &[
        (&[], &[]),
        (&[alias("A", NLB), alias("AAAA", NLB)], &both),
        (&[alias("A", NLB)], &both[..1]),
        (&[alias("AAAA", NLB)], &both[1..]),
        (&[plain("CNAME", NLB)], &[format!("delete CNAME {NLB}")]),
        (&[alias("A", OLD), plain("AAAA", "2001:db8::1"), plain("TXT", NLB)], &[]),
    ];
    for (there, expected) in table {
        assert_eq!(described(&plan::delete(there, &[NLB.to_owned()])), *expected, "{there:?}");
    }
}

fn listed(sets: &str) -> Say {
    ok(&format!(
        "<ListResourceRecordSetsResponse><ResourceRecordSets>{sets}</ResourceRecordSets><IsTruncated>false</IsTruncated><MaxItems>300</MaxItems>\
         </ListResourceRecordSetsResponse>"
    ))
}

fn set(name: &str, kind: &str, target: &str) -> String {
    format!(
        "<ResourceRecordSet><Name>{name}</Name><Type>{kind}</Type><AliasTarget><HostedZoneId>{ZONE}</HostedZoneId><DNSName>{target}.</DNSName>\
         <EvaluateTargetHealth>false</EvaluateTargetHealth></AliasTarget></ResourceRecordSet>"
    )
}

fn balancers(name: &str) -> Say {
    ok(&format!(
        "<DescribeLoadBalancersResponse><DescribeLoadBalancersResult><LoadBalancers><member><LoadBalancerArn>arn</LoadBalancerArn>\
         <DNSName>{name}</DNSName><CanonicalHostedZoneId>{ZONE}</CanonicalHostedZoneId><Type>network</Type></member></LoadBalancers>\
         </DescribeLoadBalancersResult></DescribeLoadBalancersResponse>"
    ))
}

const CHANGED: &str = "<ChangeResourceRecordSetsResponse><ChangeInfo><Id>/change/C1</Id><Status>PENDING</Status>\
                       <SubmittedAt>2026-01-01T00:00:00Z</SubmittedAt></ChangeInfo></ChangeResourceRecordSetsResponse>";

fn by_id() -> DnsZone {
    DnsZone { id: Some("/hostedzone/Z1".to_owned()), ..DnsZone::default() }
}

async fn route53(server: &Server) -> Route53 {
    Route53::new(&server.session().await)
}

#[tokio::test]
async fn one_batch_has_an_alias_for_each_family() {
    let server = Server::saying(vec![balancers(NLB), listed(""), ok(CHANGED)]);
    let zone = route53(&server).await.ensure(&by_id(), &entry(true)).await.expect("a record");
    assert_eq!(zone.as_deref(), Some(ZONE));
    let asked = server.asked();
    assert_eq!(asked[2].line, "POST /2013-04-01/hostedzone/Z1/rrset HTTP/1.1");
    let change = |kind: &str| {
        format!(
            "<Change><Action>UPSERT</Action><ResourceRecordSet><Name>*.apps.example.com.</Name><Type>{kind}</Type><AliasTarget>\
             <HostedZoneId>{ZONE}</HostedZoneId><DNSName>{NLB}</DNSName><EvaluateTargetHealth>false</EvaluateTargetHealth></AliasTarget>\
             </ResourceRecordSet></Change>"
        )
    };
    let changes = format!("<Changes>{}{}</Changes>", change("A"), change("AAAA"));
    assert!(asked[2].body.contains(&changes), "{}", asked[2].body);
}

#[tokio::test]
async fn an_entry_that_is_so_already_changes_nothing() {
    let name = "\\052.apps.example.com.";
    let other = set("a.apps.example.com.", "A", OLD);
    let sets = format!("{}{}{other}", set(name, "A", NLB), set(name, "AAAA", NLB));
    let server = Server::saying(vec![balancers(NLB), listed(&sets)]);
    route53(&server).await.ensure(&by_id(), &entry(true)).await.expect("a record");
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn each_shape_of_a_refusal_is_told() {
    let batch = "<InvalidChangeBatch xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\"><Messages><Message>RRSet of type A conflicts</Message>\
                 </Messages></InvalidChangeBatch>";
    let wrapped = "<ErrorResponse><Error><Type>Sender</Type><Code>InvalidInput</Code><Message>no good</Message></Error></ErrorResponse>";
    for (body, message) in [
        (batch, "refused by AWS (InvalidChangeBatch): RRSet of type A conflicts"),
        (wrapped, "refused by AWS (InvalidInput): no good"),
    ] {
        let refused = Say::Body(400, body.to_owned());
        // A batch that was refused is tried anew with what is there now.
        let answers =
            vec![balancers(NLB), listed(""), refused.clone(), listed(""), refused.clone(), listed(""), refused];
        let server = Server::saying(answers);
        let error = route53(&server).await.ensure(&by_id(), &entry(true)).await.expect_err("a refusal");
        assert_eq!(error.to_string(), message);
    }
}

#[tokio::test]
async fn being_throttled_is_waited_for() {
    let throttled = || {
        let body =
            "<ErrorResponse><Error><Code>Throttling</Code><Message>Rate exceeded</Message></Error></ErrorResponse>";
        Say::Body(400, body.to_owned())
    };
    let busy =
        "<ErrorResponse><Error><Code>PriorRequestNotComplete</Code><Message>wait</Message></Error></ErrorResponse>";
    let server =
        Server::saying(vec![balancers(NLB), throttled(), listed(""), Say::Body(400, busy.to_owned()), ok(CHANGED)]);
    route53(&server).await.ensure(&by_id(), &entry(false)).await.expect("a record");
    assert_eq!(server.asked().len(), 5);
}

#[tokio::test]
async fn deleting_sends_what_was_read() {
    let name = "\\052.apps.example.com.";
    let server = Server::saying(vec![listed(&set(name, "AAAA", NLB)), ok(CHANGED)]);
    route53(&server).await.delete(&by_id(), &entry(true)).await.expect("gone");
    let body = &server.bodies()[1];
    let expected = format!(
        "<Changes><Change><Action>DELETE</Action><ResourceRecordSet><Name>{name}</Name><Type>AAAA</Type><AliasTarget><HostedZoneId>{ZONE}</HostedZoneId>\
         <DNSName>{NLB}.</DNSName><EvaluateTargetHealth>false</EvaluateTargetHealth></AliasTarget></ResourceRecordSet></Change></Changes>"
    );
    assert!(body.contains(&expected), "{body}");
}

#[tokio::test]
async fn deleting_from_a_zone_that_is_gone_is_fine() {
    let body = "<ErrorResponse><Error><Code>NoSuchHostedZone</Code><Message>none</Message></Error></ErrorResponse>";
    let server = Server::saying(vec![Say::Body(404, body.to_owned())]);
    route53(&server).await.delete(&by_id(), &entry(true)).await.expect("gone");
}

#[tokio::test]
async fn what_cannot_be_an_alias_is_refused() {
    let server = Server::saying(vec![]);
    let route53 = route53(&server).await;
    for (targets, message) in [
        (vec![], "*.apps.example.com. has no target"),
        (
            vec!["2001:db8::1".to_owned()],
            "*.apps.example.com. leads to the address 2001:db8::1; Route53 records are for load balancers' host names",
        ),
    ] {
        let entry = DnsEntry { targets, ..entry(true) };
        let error = route53.ensure(&by_id(), &entry).await.expect_err("a refusal");
        assert!(matches!(&error, CloudError::Refused(text) if text == message), "{error}");
    }
    let error = route53.ensure(&DnsZone::default(), &entry(true)).await.expect_err("a refusal");
    assert!(matches!(&error, CloudError::Refused(text) if text.contains("neither an id nor tags")), "{error}");
}

#[tokio::test]
async fn a_load_balancer_that_is_gone_has_the_zone_that_was_found_before() {
    let none = "<DescribeLoadBalancersResponse><DescribeLoadBalancersResult/></DescribeLoadBalancersResponse>";
    for (target, before, zone) in
        [("lb.example.org", Some("ZBEFORE"), Some("ZBEFORE")), (NLB, None, Some(ZONE)), ("lb.example.org", None, None)]
    {
        let server = Server::saying(vec![ok(none), ok(none), listed(""), ok(CHANGED)]);
        let before = before.map(str::to_owned);
        let entry = DnsEntry { targets: vec![target.to_owned()], target_zone: before, ..entry(false) };
        let found = route53(&server).await.ensure(&by_id(), &entry).await;
        assert_eq!(found.ok().flatten().as_deref(), zone, "{target}");
    }
}
