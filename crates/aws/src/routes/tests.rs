//! Routes of both families in the account's table.

use crate::{
    account::RouteTarget,
    apply::Aws,
    memory::testing::settings,
    memory::{Example, Memory},
};
use k8s_openapi::api::core::v1::Node;
use runtime::cloud::{CloudError, Route, Routes};
use std::sync::Arc;

fn route(node: &str, pods: &str) -> Route {
    Route { name: "r".into(), node: node.into(), via: None, pods: pods.parse().unwrap() }
}

fn node(number: usize) -> Arc<Node> {
    Arc::clone(&Example { nodes: 2 }.nodes()[number])
}

#[tokio::test]
async fn each_pod_cidr_of_each_family_gets_a_route_and_loses_it() {
    let memory = Arc::new(Memory::new(Example { nodes: 2 }.state()));
    let aws = Aws::new(memory.clone(), settings()).with_route_table(Some("rtb-main".into()));
    for pods in ["10.244.1.0/24", "fd00:244:0:1::/64"] {
        let wanted = route("node-1", pods);
        aws.create(&node(1), &wanted).await.unwrap();
        aws.create(&node(1), &wanted).await.unwrap();
        let state = memory.state();
        let table = state.route_tables.iter().find(|table| table.id == "rtb-main").unwrap();
        let made: Vec<_> = table.routes.iter().filter(|one| one.to == Some(wanted.pods)).collect();
        assert_eq!(made.len(), 1, "{pods}");
        assert_eq!(made[0].via, RouteTarget::Instance("i-0001".into()));
        assert_eq!(state.source_dest_check.get("i-0001"), Some(&false));
        assert_eq!(
            aws.list(&Example { nodes: 2 }.nodes()).await.unwrap().iter().filter(|one| one.pods == wanted.pods).count(),
            1
        );
        // The node's CIDR moves to another node.
        aws.create(&node(0), &route("node-0", pods)).await.unwrap();
        let state = memory.state();
        let table = state.route_tables.iter().find(|table| table.id == "rtb-main").unwrap();
        assert!(table.routes.iter().any(|one| one.via == RouteTarget::Instance("i-0000".into())));
        aws.delete(&wanted).await.unwrap();
        aws.delete(&wanted).await.unwrap();
    }
    assert_eq!(aws.list(&Example { nodes: 2 }.nodes()).await.unwrap(), []);
}

#[tokio::test]
async fn a_node_without_provider_id_is_found_by_its_name() {
    let memory = Arc::new(Memory::new(Example { nodes: 2 }.state()));
    let aws = Aws::new(memory.clone(), settings()).with_route_table(Some("rtb-main".into()));
    let mut bare = Node::clone(&node(1));
    bare.spec = None;
    for pods in ["10.244.1.0/24", "fd00:244:0:1::/64"] {
        aws.create(&bare, &route("node-1", pods)).await.unwrap();
        let state = memory.state();
        let table = state.route_tables.iter().find(|table| table.id == "rtb-main").unwrap();
        assert!(table.routes.iter().any(|one| one.via == RouteTarget::Instance("i-0001".into())));
    }
    bare.metadata.name = Some("i-0000".into());
    aws.create(&bare, &route("i-0000", "10.244.3.0/24")).await.unwrap();
    let table = memory.state().route_tables.into_iter().find(|table| table.id == "rtb-main").unwrap();
    assert!(
        table.routes.iter().any(|one| one.via == RouteTarget::Instance("i-0000".into())),
        "named after its instance"
    );
    bare.metadata.name = Some("stranger".into());
    let Err(CloudError::Later { .. }) = aws.create(&bare, &route("stranger", "10.244.2.0/24")).await else { panic!() };
}

#[tokio::test]
async fn a_route_that_is_somebody_elses_is_left_alone() {
    let memory = Arc::new(Memory::new(Example { nodes: 1 }.state()));
    let aws = Aws::new(memory, settings()).with_route_table(Some("rtb-public".into()));
    let Err(CloudError::Refused(why)) = aws.create(&node(0), &route("node-0", "::/0")).await else { panic!() };
    assert!(why.contains("rtb-public has a route to ::/0"), "{why}");
    assert!(aws.list(&Example { nodes: 2 }.nodes()).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_table_is_named_or_tagged() {
    let memory = Arc::new(Memory::new(Example { nodes: 1 }.state()));
    let aws = Aws::new(memory.clone(), settings());
    let Err(CloudError::Refused(why)) = aws.list(&Example { nodes: 2 }.nodes()).await else { panic!() };
    assert!(why.contains("RouteTableID"), "{why}");
    memory.change(|state| {
        state.route_tables[1].tags.insert("kubernetes.io/cluster/example".into(), "owned".into());
    });
    assert!(aws.list(&Example { nodes: 2 }.nodes()).await.unwrap().is_empty());
}

#[tokio::test]
async fn only_instances_of_the_cluster_in_its_vpc_get_routes_and_forward_packets() {
    type Change = fn(&mut crate::account::Instance);
    for (change, expected) in [
        ((|instance| instance.tags.clear()) as Change, "i-0001 does not have the tag kubernetes.io/cluster/example"),
        (
            |instance| instance.tags = [("kubernetes.io/cluster/other".to_owned(), "owned".to_owned())].into(),
            "i-0001 does not have the tag kubernetes.io/cluster/example",
        ),
        (|instance| instance.vpc = "vpc-2".to_owned(), "i-0001 is in \"vpc-2\", not in vpc-1"),
    ] {
        let memory = Arc::new(Memory::new(Example { nodes: 2 }.state()));
        let aws = Aws::new(memory.clone(), settings()).with_route_table(Some("rtb-main".into()));
        for pods in ["10.244.1.0/24", "fd00:244:0:1::/64"] {
            aws.create(&node(1), &route("node-1", pods)).await.unwrap();
        }
        memory.change(|state| change(state.instances.get_mut("i-0001").unwrap()));
        let before = memory.state();
        for pods in ["10.244.1.0/24", "fd00:244:0:1::/64"] {
            // Made anew, given to another node, taken away: all of them change what is somebody else's.
            for outcome in [
                aws.create(&node(1), &route("node-1", pods)).await,
                aws.create(&node(0), &route("node-0", pods)).await,
                aws.delete(&route("node-1", pods)).await,
            ] {
                let Err(CloudError::Refused(why)) = outcome else { panic!("{expected}: {outcome:?}") };
                assert!(why.starts_with(expected), "{why}");
            }
        }
        assert_eq!(memory.state(), before, "nothing has changed");
        memory.change(|state| drop(state.instances.remove("i-0001")));
        let gone = aws.create(&node(1), &route("node-1", "10.244.5.0/24")).await;
        assert!(matches!(gone, Err(CloudError::Later { .. })), "{gone:?}");
    }
}
