//! Rules for the ranges of a cluster.

use super::*;

#[tokio::test]
async fn services_1_at_most_two_ranges() {
    let error = service_ranges("10.96.0.0/16,fd00:96::/108,10.97.0.0/16").unwrap_err().to_string();
    assert!(error.contains("has 3 values; give one CIDR, or one of each family"), "{error}");
}

#[tokio::test]
async fn services_2_two_ranges_are_of_different_families() {
    for (list, family) in [("10.96.0.0/16,10.97.0.0/16", "IPv4"), ("fd00:96::/108,fd00:97::/108", "IPv6")] {
        let error = service_ranges(list).unwrap_err().to_string();
        assert!(error.contains(&format!("are both {family}")), "{error}");
    }
}

#[tokio::test]
async fn services_3_one_range_makes_a_partially_dual_stack_cluster() {
    for families in SINGLE {
        let server = cluster(families).await;
        // Pods and nodes of both families live beside Services of one.
        let node = json!({"metadata": {"name": "n"}, "spec": {"podCIDRs": ["10.1.0.0/24", "fd00:1::/64"]}});
        assert_eq!(ask(&server, "POST", "/api/v1/nodes", &[], node.to_string()).await.status, 201);
        let reply = create(&server, json!({"ipFamilies": [families.primary().other().to_string()]})).await;
        assert_refused(&reply, "spec.ipFamilies[0]");
        assert_is(&create(&server, json!({"preferDualStack": true})).await, "PreferDualStack", &[families.primary()]);
    }
}

#[tokio::test]
async fn services_4_the_first_range_keeps_its_family() {
    for family in Family::BOTH {
        let (first, second) = (range(family), range(family.other()));
        let store = Store::memory(Retention::default());
        let server = lab(store.clone(), first).start().await;
        let before = create(&server, json!({})).await.json()["spec"]["clusterIP"].clone();
        // To both families, the first one first: the Service stays, new ones may have both.
        let upgraded = lab(store.clone(), &format!("{first},{second}")).start().await;
        assert_eq!(ask(&upgraded, "GET", ONE, &[], "").await.json()["spec"]["clusterIP"], before);
        let cidr = ask(&upgraded, "GET", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes", &[], "").await.json();
        assert_eq!(texts(&cidr["spec"]["cidrs"]), [first, second]);
        assert_is(
            &patch(&upgraded, json!({"preferDualStack": true})).await,
            "PreferDualStack",
            &[family, family.other()],
        );
        for wrong in [format!("{second},{first}"), second.to_owned()] {
            let Err(warm::StartError::Services(error)) = lab(store.clone(), &wrong).try_start().await else {
                panic!("{wrong} was accepted")
            };
            assert!(matches!(error, StartError::FamilyChanged { .. }));
            let text = error.to_string();
            assert!(
                text.contains("--service-cluster-ip-range") && text.contains(&format!("put the {family} range first")),
                "{text}"
            );
        }
    }
}

#[tokio::test]
async fn services_5_the_first_range_is_the_default_family() {
    for families in DUAL {
        let server = cluster(families).await;
        assert_is(&create(&server, json!({})).await, "SingleStack", &[families.primary()]);
    }
}

#[tokio::test]
async fn services_6_a_family_that_is_not_configured_is_an_error() {
    for families in SINGLE {
        let server = cluster(families).await;
        let other = families.primary().other();
        let addresses = [json!({"clusterIP": address(other)}), json!({"clusterIPs": [address(other)]})];
        for spec in addresses {
            assert_refused(&create(&server, spec).await, "spec.clusterIPs[0]");
        }
    }
}
