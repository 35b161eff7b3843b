//! Zones that are found by their tags.

use super::{entry, listed, route53};
use crate::clients::testing::{Say, Server, ok};
use runtime::cloud::{DnsProvider, DnsZone};
use std::collections::BTreeMap;

#[tokio::test]
async fn a_zone_is_found_by_tags_among_those_that_can_hold_the_name() {
    let zone = |id: &str, name: &str| {
        format!(
            "<HostedZone><Id>/hostedzone/{id}</Id><Name>{name}</Name><CallerReference>r</CallerReference></HostedZone>"
        )
    };
    let page = |zones: &str, rest: &str| {
        ok(&format!(
            "<ListHostedZonesResponse><HostedZones>{zones}</HostedZones><Marker></Marker><MaxItems>100</MaxItems>{rest}</ListHostedZonesResponse>"
        ))
    };
    let tagged = |id: &str, value: &str| {
        format!(
            "<ResourceTagSet><ResourceType>hostedzone</ResourceType><ResourceId>{id}</ResourceId><Tags><Tag><Key>Name</Key><Value>{value}</Value></Tag>\
             </Tags></ResourceTagSet>"
        )
    };
    let tags = |sets: String| {
        ok(&format!(
            "<ListTagsForResourcesResponse><ResourceTagSets>{sets}</ResourceTagSets></ListTagsForResourcesResponse>"
        ))
    };
    let first = || page(&zone("ZOTHER", "other.org."), "<IsTruncated>true</IsTruncated><NextMarker>m2</NextMarker>");
    let second = || {
        let zones = zone("ZPUBLIC", "example.com.") + &zone("ZPRIVATE", "example.com.");
        page(&zones, "<IsTruncated>false</IsTruncated>")
    };
    let by_tags = BTreeMap::from([("Name".to_owned(), "blue-int".to_owned())]);
    let wanted = DnsZone { tags: by_tags, ..DnsZone::default() };
    let found = tags(tagged("ZPUBLIC", "x") + &tagged("ZPRIVATE", "blue-int"));
    let gone = "<ErrorResponse><Error><Code>NoSuchHostedZone</Code><Message>none</Message></Error></ErrorResponse>";
    let gone = Say::Body(404, gone.to_owned());
    let moved = tags(tagged("ZPUBLIC", "blue-int") + &tagged("ZPRIVATE", "x"));
    let answers = vec![first(), second(), found, listed(""), listed(""), gone, first(), second(), moved, listed("")];
    let server = Server::saying(answers);
    let provider = route53(&server).await;
    // The second time it is known; the third time it has gone and another has its tags.
    for _ in 0..3 {
        provider.delete(&wanted, &entry(true)).await.expect("nothing there");
    }
    let lines: Vec<String> = server.asked().into_iter().map(|asked| asked.line).collect();
    assert!(lines[9].contains("/hostedzone/ZPUBLIC/rrset"), "{lines:?}");
    assert!(lines[1].contains("marker=m2"), "{lines:?}");
    assert!(
        lines[3].contains("/hostedzone/ZPRIVATE/rrset") && lines[4].contains("/hostedzone/ZPRIVATE/rrset"),
        "{lines:?}"
    );
    // One that is listed and cannot be changed all the same is not asked for again and again.
    let gone = "<ErrorResponse><Error><Code>NoSuchHostedZone</Code><Message>none</Message></Error></ErrorResponse>";
    let found = || tags(tagged("ZPRIVATE", "blue-int"));
    let listing = || vec![page(&zone("ZPRIVATE", "example.com."), "<IsTruncated>false</IsTruncated>"), found()];
    let mut answers = listing();
    answers.push(Say::Body(404, gone.to_owned()));
    answers.extend(listing());
    answers.push(Say::Body(404, gone.to_owned()));
    let server = Server::saying(answers);
    route53(&server).await.delete(&wanted, &entry(true)).await.expect("without the zone there are no records");
    assert_eq!(server.asked().len(), 6);
    for (sets, message) in [
        (String::new(), "no hosted zone that can hold *.apps.example.com. has the tags Name=blue-int"),
        (
            tagged("ZPUBLIC", "blue-int") + &tagged("ZPRIVATE", "blue-int"),
            "several hosted zones that can hold *.apps.example.com. have the tags Name=blue-int: ZPUBLIC, ZPRIVATE",
        ),
    ] {
        let server = Server::saying(vec![first(), second(), tags(sets)]);
        let error = route53(&server).await.delete(&wanted, &entry(true)).await.expect_err("no zone");
        assert_eq!(error.to_string(), message);
    }
}
