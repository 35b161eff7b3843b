//! Records of every form of a DNS zone.

use super::*;

/// Records of a zone as `TYPE NAME TARGET`, without those that every zone has.
fn records(world: &World, zone: &str) -> Vec<String> {
    let text = world.route53(&format!("hostedzone/{zone}/rrset"), None);
    let mut records = Vec::new();
    for set in text.split("<ResourceRecordSet>").skip(1) {
        let (kind, name) = (between(set, "Type"), between(set, "Name"));
        let target = if set.contains("<DNSName>") { between(set, "DNSName") } else { between(set, "Value") };
        if !["NS", "SOA"].contains(&kind) {
            records.push(format!("{kind} {} {}", name.replace("\\052", "*"), target.trim_end_matches('.')));
        }
    }
    records.sort();
    records
}

#[tokio::test]
async fn records_of_each_form_of_zone_come_and_go() {
    let Some(world) = World::start() else { return };
    let session = world.session().await;
    let account = session.account();
    let host = balancer(&world, &account, "nlb").await;
    let other = balancer(&world, &account, "other").await;
    let zone = |name: &str, reference: &str| {
        let body = format!(
            "<CreateHostedZoneRequest><Name>{name}</Name><CallerReference>{reference}</CallerReference></CreateHostedZoneRequest>"
        );
        let made = world.route53("hostedzone", Some(&body));
        between(&made, "Id").trim_start_matches("/hostedzone/").to_owned()
    };
    let (by_id, by_tags, decoy) = (zone("example.com", "1"), zone("example.com", "2"), zone("other.org", "3"));
    for (id, name) in [(&by_tags, "blue-int"), (&decoy, "blue-int")] {
        let body = format!(
            "<ChangeTagsForResourceRequest><AddTags><Tag><Key>Name</Key><Value>{name}</Value></Tag></AddTags></ChangeTagsForResourceRequest>"
        );
        world.route53(&format!("tags/hostedzone/{id}"), Some(&body));
    }
    let foreign = "<ChangeResourceRecordSetsRequest><ChangeBatch><Changes><Change><Action>CREATE</Action><ResourceRecordSet>\
                   <Name>*.apps.example.com</Name><Type>TXT</Type><TTL>60</TTL><ResourceRecords><ResourceRecord><Value>\"mine\"</Value></ResourceRecord>\
                   </ResourceRecords></ResourceRecordSet></Change><Change><Action>CREATE</Action><ResourceRecordSet><Name>a.apps.example.com</Name>\
                   <Type>AAAA</Type><TTL>60</TTL><ResourceRecords><ResourceRecord><Value>2001:db8::1</Value></ResourceRecord></ResourceRecords>\
                   </ResourceRecordSet></Change></Changes></ChangeBatch></ChangeResourceRecordSetsRequest>";
    let theirs =
        || vec!["AAAA a.apps.example.com. 2001:db8::1".to_owned(), "TXT *.apps.example.com. \"mine\"".to_owned()];
    let route53 = Route53::new(&session);
    let forms = [
        (by_id.clone(), DnsZone { id: Some(by_id.clone()), ..DnsZone::default() }),
        (by_tags.clone(), DnsZone { tags: tags(&[("Name", "blue-int")]), ..DnsZone::default() }),
    ];
    for (id, zone) in forms {
        world.route53(&format!("hostedzone/{id}/rrset"), Some(foreign));
        let entry = |dual_stack: bool, target: &String| DnsEntry {
            name: "*.apps.example.com.".to_owned(),
            targets: vec![target.clone()],
            ttl: 30,
            dual_stack,
            target_zone: None,
        };
        let expect = |kinds: &[&str], target: &String| {
            let mut all = theirs();
            all.extend(kinds.iter().map(|kind| format!("{kind} *.apps.example.com. {target}")));
            all.sort();
            assert_eq!(records(&world, &id), all, "{kinds:?} in {zone:?}");
        };
        let ensure = async |dual_stack: bool, target: &String| {
            for _ in 0..2 {
                let found = route53.ensure(&zone, &entry(dual_stack, target)).await.expect("a record");
                assert!(found.is_some_and(|found| found.starts_with('Z')));
            }
        };
        ensure(false, &host).await;
        expect(&["A"], &host);
        ensure(true, &host).await;
        expect(&["A", "AAAA"], &host);
        ensure(true, &other).await;
        expect(&["A", "AAAA"], &other);
        ensure(false, &host).await;
        expect(&["A"], &host);
        // Not what leads elsewhere, and what leads there whichever families are asked for.
        route53.delete(&zone, &entry(true, &other)).await.expect("nothing of it is there");
        expect(&["A"], &host);
        ensure(true, &host).await;
        for _ in 0..2 {
            route53.delete(&zone, &entry(false, &host)).await.expect("it goes, and is gone");
            expect(&[], &host);
        }
    }
    let unknown = DnsZone { id: Some("Z0000000000000".to_owned()), ..DnsZone::default() };
    let entry = DnsEntry {
        name: "x.example.com.".to_owned(),
        targets: vec![host],
        ttl: 30,
        dual_stack: true,
        target_zone: None,
    };
    let error = route53.ensure(&unknown, &entry).await.expect_err("no such zone");
    assert!(error.to_string().contains("NoSuchHostedZone"), "{error}");
    route53.delete(&unknown, &entry).await.expect("without a zone there is no record");
}
