//! Rules of Route 53, and its DNS.

use super::*;

fn batch(changes: &[(&str, &str, &str, &str)]) -> String {
    let change = |(action, name, kind, target): &(&str, &str, &str, &str)| {
        let data = match target.split_once(' ') {
            Some((zone, name)) => format!(
                "<AliasTarget><HostedZoneId>{zone}</HostedZoneId><DNSName>{name}</DNSName>\
                 <EvaluateTargetHealth>false</EvaluateTargetHealth></AliasTarget>"
            ),
            None => format!(
                "<TTL>30</TTL><ResourceRecords><ResourceRecord><Value>{target}</Value></ResourceRecord></ResourceRecords>"
            ),
        };
        format!(
            "<Change><Action>{action}</Action><ResourceRecordSet><Name>{name}</Name><Type>{kind}</Type>{data}</ResourceRecordSet></Change>"
        )
    };
    let changes: String = changes.iter().map(change).collect();
    format!(
        "<ChangeResourceRecordSetsRequest xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\"><ChangeBatch><Changes>{changes}</Changes></ChangeBatch></ChangeResourceRecordSetsRequest>"
    )
}

#[test]
fn records_and_dns() {
    let Some(aws) = Strict::start() else { return };
    let example = Example::build(&aws, 0);
    let subnets =
        format!("Subnets.member.1={}&Subnets.member.2={}", example.subnets["public-a"], example.subnets["public-b"]);
    ok(&aws, V2, "CreateLoadBalancer", &network("dual", &format!("{subnets}&IpAddressType=dualstack")));
    ok(&aws, V2, "CreateLoadBalancer", &network("single", &subnets));
    let host = |name: &str| {
        let found = ok(&aws, V2, "DescribeLoadBalancers", &format!("Names.member.1={name}"));
        found.text("DescribeLoadBalancersResult/LoadBalancers/member/DNSName").to_owned()
    };
    let (dual, single) = (host("dual"), host("single"));
    let zone = "<CreateHostedZoneRequest xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\"><Name>example.test</Name><CallerReference>1</CallerReference></CreateHostedZoneRequest>";
    let made = aws.route53(Through::Strict, "/2013-04-01/hostedzone", zone).unwrap();
    let path = format!("/2013-04-01{}/rrset/", made.text("HostedZone/Id"));
    let change = |changes: &[(&str, &str, &str, &str)]| aws.route53(Through::Strict, &path, &batch(changes));
    let alias = |host: &str| format!("Z26RNL4JYFTOTI {host}.");
    let (to_dual, to_single) = (alias(&dual), alias(&single));

    let name = "*.apps.example.test.";
    for (changes, word) in [
        (vec![("DELETE", name, "A", to_dual.as_str())], "but it was not found"),
        (
            vec![("UPSERT", name, "A", "ZWRONG dual-1.elb.us-east-1.amazonaws.com.")],
            "does not lie within the target zone",
        ),
        (vec![("UPSERT", "www.elsewhere.test.", "A", "192.0.2.1")], "is not permitted in zone"),
    ] {
        let failure = change(&changes).expect_err(word);
        assert!(failure.code == "InvalidChangeBatch" && failure.body.contains(word), "{}", failure.body);
    }
    change(&[("UPSERT", name, "A", &to_dual), ("UPSERT", name, "AAAA", &to_dual)]).unwrap();
    for (changes, word) in [
        (vec![("CREATE", name, "A", to_dual.as_str())], "already exists"),
        (vec![("DELETE", name, "A", to_single.as_str())], "do not match the current values"),
        (vec![("UPSERT", name, "CNAME", "example.test.")], "conflicts with other records"),
        (
            vec![("DELETE", name, "A", to_dual.as_str()), ("DELETE", "x.example.test.", "A", "192.0.2.1")],
            "was not found",
        ),
    ] {
        let failure = change(&changes).expect_err(word);
        assert!(failure.code == "InvalidChangeBatch" && failure.body.contains(word), "{}", failure.body);
        let moto = aws.route53(Through::Moto, &path, &batch(&changes));
        assert!(moto.is_ok() || word == "was not found", "moto alone accepts {changes:?}: {moto:?}");
        if moto.is_ok() {
            // As it was, for the next one.
            let _ = change(&[("DELETE", name, "CNAME", "example.test.")]);
            change(&[("UPSERT", name, "A", &to_dual), ("UPSERT", name, "AAAA", &to_dual)]).unwrap();
        }
    }
    let listed = aws.route53(Through::Strict, path.trim_end_matches('/'), "").unwrap();
    let sets = listed.all("ResourceRecordSets/ResourceRecordSet");
    let ours: Vec<_> = sets.iter().filter(|set| set.one("AliasTarget").is_some()).collect();
    assert_eq!(ours.len(), 2, "a refused batch has no effect: {listed:?}");
    assert!(
        ours.iter().all(|set| set.text("Name") == "\\052.apps.example.test." && set.one("TTL").is_none()),
        "{listed:?}"
    );

    change(&[("UPSERT", "www.example.test.", "CNAME", "a.apps.example.test")]).unwrap();
    change(&[("UPSERT", "old.example.test.", "A", &to_single), ("UPSERT", "old.example.test.", "AAAA", &to_single)])
        .unwrap();
    for server in aws.dns() {
        let ask = |name: &str, kind: &str| aws.resolve(server, name, kind);
        let (a, aaaa) = (ask(&dual, "A").unwrap(), ask(&dual, "AAAA").unwrap());
        assert_eq!((a.len(), aaaa.len()), (2, 2), "one for each zone");
        assert!(
            a.iter().all(|text| text.starts_with("198.1")) && aaaa.iter().all(|text| text.starts_with("2001:db8:"))
        );
        assert_eq!(ask("any.thing.apps.example.test", "A").unwrap(), a);
        assert_eq!(ask("Any.apps.example.test", "AAAA").unwrap(), aaaa);
        assert_eq!(ask("www.example.test", "AAAA").unwrap()[1..], aaaa);
        assert_eq!(ask(&single, "AAAA"), Ok(vec![]), "no IPv6 there");
        assert_eq!(ask("old.example.test", "AAAA"), Ok(vec![]));
        assert_eq!(ask("old.example.test", "A").unwrap().len(), 2);
        assert_eq!(ask("none.example.test", "A"), Err("NXDOMAIN".to_owned()));
        assert_eq!(ask("elsewhere.test", "A"), Err("REFUSED".to_owned()));
    }
}
