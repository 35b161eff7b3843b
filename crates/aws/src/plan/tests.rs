//! The order of things, and that doing them leaves nothing to do.

use super::{Observed, Others, offline, plan};
use crate::{
    apply::Aws,
    cloud_config::{CloudConfig, GroupMode},
    memory::{
        Example, Memory,
        testing::{annotated, service, settings},
    },
    model::{Settings, Surroundings, desire, request::Request},
};
use proptest::prelude::*;
use runtime::cloud::LoadBalancers;
use serde_json::{Value, json};
use std::sync::Arc;

fn around() -> Surroundings {
    let state = Example { nodes: 2 }.state();
    Surroundings {
        subnets: state.subnets.into_iter().filter(|subnet| subnet.zone.ends_with('a')).collect(),
        route_tables: state.route_tables,
        zones: state.zones,
        instances: state.instances,
        group_tags: state.groups.into_iter().map(|(id, group)| (id, group.tags)).collect(),
    }
}

fn steps(settings: &Settings, change: &Value) -> Vec<String> {
    let request = Request::read(&service("web", change)).unwrap().unwrap();
    let desired = desire(&request, settings, &around(), None, &Example { nodes: 2 }.nodes(), None).unwrap();
    let others = Others { complete: true, ..Others::default() };
    let actions = plan(&desired, &Observed::default(), &others, &settings.cluster).unwrap();
    actions.iter().map(ToString::to_string).collect()
}

#[test]
fn a_load_balancer_goes_live_when_everything_is_in_place() {
    let dual = json!({"spec": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]}});
    assert_eq!(
        steps(&settings(), &dual),
        [
            "create security group k8s-ns-web-0fe2659d89 in vpc-1",
            "allow ingress of its own security group: tcp 80 with 0.0.0.0/0, tcp 80 with ::/0, icmp 3/4 with 0.0.0.0/0, icmpv6 2/0 with ::/0",
            "allow egress of its own security group: tcp 30080 with 10.0.0.0/24, tcp 30080 with 10.0.100.0/24, \
             tcp 30080 with 2001:db8::/64, tcp 30080 with 2001:db8:0:64::/64",
            "disallow egress of its own security group: all with 0.0.0.0/0, all with ::/0",
            "allow ingress of sg-nodes: tcp 30080 with its own group, icmpv6 2/0 with its own group",
            "create network load balancer aweb000011112222333344445555 (InternetFacing, Dualstack) in subnet-public-a with groups \
             its own security group",
            "set attributes of the load balancer: access_logs.s3.enabled=false, load_balancing.cross_zone.enabled=false",
            "create target group k8s-ns-web-3c2d6e2f10 (TCP 30080, IPv6)",
            "set attributes of target group k8s-ns-web-3c2d6e2f10: preserve_client_ip.enabled=true, proxy_protocol_v2.enabled=false",
            "put i-0000, i-0001 into target group k8s-ns-web-3c2d6e2f10",
            "create listener TCP 80 to k8s-ns-web-3c2d6e2f10",
        ]
        .map(|line| {
            // The hash is checked in `names`.
            let made = steps(&settings(), &dual);
            let name = made[7].split(' ').nth(3).unwrap().to_owned();
            line.replace("k8s-ns-web-3c2d6e2f10", &name)
        })
    );
}

#[test]
fn a_plan_can_be_made_from_files() {
    let service = serde_json::to_string(&service("web", &json!({}))).unwrap();
    let account = serde_json::to_string(&around()).unwrap();
    let (config, _) = CloudConfig::parse("[Global]\nNLBSecurityGroupMode = Managed\n").unwrap();
    let made = offline(&service, &account, &config, "kubernetes").unwrap();
    let created: Vec<String> = made.actions.iter().map(ToString::to_string).collect();
    for name in ["k8s-backend-", "k8s-ns-web-"] {
        assert!(created.iter().any(|line| line.starts_with(&format!("create security group {name}"))), "{created:?}");
    }
    for (service, account, message) in [
        ("{}", account.as_str(), "metadata.uid is missing"),
        (service.as_str(), "{}", "cluster's id is not known"),
        (service.as_str(), "[", "the account:"),
        ("a: [", "{}", "the Service:"),
    ] {
        let error = offline(service, account, &config, "kubernetes").unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

fn any_service() -> impl Strategy<Value = Value> {
    let families = prop_oneof![
        Just(json!({"spec": {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]}})),
        Just(json!({"spec": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}})),
        Just(json!({"spec": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]}})),
    ];
    let protocols = proptest::sample::select(vec![&["TCP"][..], &["UDP"], &["TCP", "UDP"]]);
    let ports = proptest::sample::subsequence(vec![(80, 30080), (443, 30443), (8080, 30880)], 1..3);
    let ranges = proptest::sample::subsequence(vec!["10.0.0.0/8", "192.0.2.0/24", "2001:db8:1::/48"], 0..3);
    let groups = prop_oneof![Just(None), Just(Some(Example::BROUGHT_GROUP))];
    (families, ports, protocols, ranges, groups, any::<bool>()).prop_map(
        |(mut change, ports, protocols, ranges, groups, cross_zone)| {
            let pairs = ports.iter().flat_map(|port| protocols.iter().map(move |protocol| (port, *protocol)));
            let ports: Vec<Value> = pairs
                .map(|((port, node), protocol)| {
                    let name = format!("p{port}{}", protocol.to_lowercase());
                    json!({"name": name, "port": port, "nodePort": node, "protocol": protocol})
                })
                .collect();
            change["spec"]["ports"] = json!(ports);
            change["spec"]["loadBalancerSourceRanges"] = json!(ranges);
            let cross_zone = cross_zone.to_string();
            let mut pairs = vec![("cross-zone-load-balancing-enabled", cross_zone.as_str())];
            pairs.extend(groups.map(|group| ("security-groups", group)));
            change["metadata"] = annotated(&pairs)["metadata"].clone();
            change
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever a Service was before, what it is made into leaves nothing to do, also for a process that knows nothing of it.
    #[test]
    fn what_is_done_leaves_nothing_to_do(changes in proptest::collection::vec((any_service(), 0..5_u8), 1..4), is_managed: bool) {
        let mode = if is_managed { GroupMode::Managed } else { GroupMode::Unmanaged };
        let settings = Settings { nlb_groups: mode, ..settings() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let memory = Arc::new(Memory::new(Example { nodes: 5 }.state()));
            let aws = Aws::new(memory.clone(), settings.clone());
            for (change, nodes) in &changes {
                let (service, nodes) = (service("web", change), Example { nodes: *nodes }.nodes());
                aws.ensure(&service, &nodes).await.unwrap();
                aws.remove_waiting().await.unwrap();
                memory.take_calls();
                Aws::new(memory.clone(), settings.clone()).ensure(&service, &nodes).await.unwrap();
                let writes: Vec<_> = memory.take_calls().into_iter().filter(|call| call.write).collect();
                assert_eq!(writes, []);
            }
        });
    }
}
