//! The documented policy at work: every story of this program runs under it, with its conditions; here is what the stories of load balancers do
//! not do.

use super::emulated::{Emulated, account, start};
use aws::{
    apply::Aws,
    memory::{Example, testing::settings},
    preflight::ForRoutes,
};
use e2e::aws_strict::Api;
use runtime::cloud::{Route, Routes};
use std::sync::Arc;

/// An account whose table of routes is the cluster's, and the provider for it.
pub(crate) fn with_routes() -> (Arc<Emulated>, Aws) {
    let cloud = start(Example { nodes: 2 });
    let tag =
        [("ResourceId.1", "rtb-public"), ("Tag.1.Key", "kubernetes.io/cluster/example"), ("Tag.1.Value", "owned")];
    cloud.strict().look(Api::Ec2, "CreateTags", &tag).expect("the table can be tagged");
    let aws = Aws::new(account(&cloud), settings());
    (cloud, aws)
}

pub(crate) async fn routes_come_and_go(aws: &Aws) {
    let nodes = Example { nodes: 2 }.nodes();
    for pods in ["10.244.1.0/24", "fd00:244:0:1::/64"] {
        let route = Route { name: "r".into(), node: "node-1".into(), via: None, pods: pods.parse().unwrap() };
        aws.create(&nodes[1], &route).await.unwrap();
        assert_eq!(aws.list(&nodes).await.unwrap().iter().filter(|one| one.pods == route.pods).count(), 1, "{pods}");
        aws.create(&nodes[0], &Route { node: "node-0".into(), ..route.clone() }).await.unwrap();
        aws.delete(&route).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_missing_is_named_at_the_start_and_nothing_that_is_there() {
    let (cloud, aws) = with_routes();
    assert_eq!(
        aws.missing_permissions(ForRoutes::Needed).await,
        Vec::<String>::new(),
        "{:?}",
        cloud.strict().take_denials()
    );
    let state = cloud.state();
    cloud.strict().deny(&["CreateRoute", "RevokeSecurityGroupEgress", "DescribeTargetGroups"]);
    assert_eq!(
        aws.missing_permissions(ForRoutes::Needed).await,
        ["ec2:CreateRoute", "ec2:RevokeSecurityGroupEgress", "elasticloadbalancing:DescribeTargetGroups"]
    );
    cloud.strict().deny(&[]);
    assert_eq!(cloud.state(), state, "it only looked");
    routes_come_and_go(&aws).await;
}

#[tokio::test]
async fn a_role_with_the_policy_cannot_touch_what_is_not_the_clusters() {
    let cloud = start(Example { nodes: 2 });
    let stranger = account(&cloud);
    let instance = "i-0001".to_owned();
    cloud
        .strict()
        .look(Api::Ec2, "DeleteTags", &[("ResourceId.1", &instance), ("Tag.1.Key", "kubernetes.io/cluster/example")])
        .unwrap();
    for (what, outcome) in [
        ("an instance without the tag", stranger.ec2.set_source_dest_check(&instance, false).await),
        ("a table without the tag", stranger.ec2.delete_route("rtb-public", "0.0.0.0/0".parse().unwrap()).await),
        ("somebody else's group", stranger.ec2.delete_security_group(Example::OTHER_GROUP).await),
    ] {
        let error = outcome.expect_err(what).to_string();
        assert!(error.starts_with("not permitted: "), "{what}: {error}");
    }
    assert_eq!(cloud.strict().take_denials().len(), 3);
}
