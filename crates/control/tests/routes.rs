//! Routes of a cloud against the real API: one per pod CIDR of each family, whatever the cloud refuses now and then.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use control::{framework::ControllerOptions, routes, service_lb::provider::Provider};
use k8s_openapi::api::{core::v1::Node, events::v1::Event};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams},
};
use net::{Cidr, flags::one_or_pair};
use runtime::cloud::{Answer, CloudError, CloudProvider, Route, Routes};
use serde_json::json;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use support::{Running, client, server, until};

/// A cloud that keeps routes, and does not do the first thing it is asked for IPv6.
#[derive(Clone, Default)]
struct Cloud {
    routes: Arc<Mutex<Vec<Route>>>,
    refused: Arc<Mutex<bool>>,
}

impl CloudProvider for Cloud {
    fn name(&self) -> &str {
        "memory"
    }

    fn routes(&self) -> Option<&dyn Routes> {
        Some(self)
    }
}

impl Routes for Cloud {
    fn list<'a>(&'a self, _: &'a [Arc<Node>]) -> Answer<'a, Vec<Route>> {
        let routes = self.routes.lock().unwrap().clone();
        Box::pin(async move { Ok(routes) })
    }

    fn create<'a>(&'a self, _: &'a Node, route: &'a Route) -> Answer<'a, ()> {
        let refuse =
            !route.pods.to_string().contains('.') && !std::mem::replace(&mut *self.refused.lock().unwrap(), true);
        if !refuse {
            self.routes.lock().unwrap().push(route.clone());
        }
        Box::pin(async move { if refuse { Err(CloudError::Refused("not today".to_owned())) } else { Ok(()) } })
    }

    fn delete<'a>(&'a self, route: &'a Route) -> Answer<'a, ()> {
        self.routes.lock().unwrap().retain(|kept| kept != route);
        Box::pin(async { Ok(()) })
    }
}

async fn make(client: &Client, name: &str, cidrs: &[&str], addresses: &[&str]) {
    let nodes: Api<Node> = Api::all(client.clone());
    let addresses: Vec<_> = addresses.iter().map(|ip| json!({"type": "InternalIP", "address": ip})).collect();
    let node = json!({"metadata": {"name": name}, "spec": {"podCIDR": cidrs[0], "podCIDRs": cidrs}});
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.expect("made");
    let status = kube::api::Patch::Merge(json!({"status": {"addresses": addresses}}));
    nodes.patch_status(name, &Default::default(), &status).await.expect("addresses");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_pod_cidr_gets_its_route_and_loses_it_with_the_node() {
    let (four, six) = ("10.244.1.0/24", "fd00:244:0:1::/64");
    for (shape, cidrs) in [("v4", vec![four]), ("v6", vec![six]), ("v4v6", vec![four, six]), ("v6v4", vec![six, four])]
    {
        let server = server(shape).await;
        let client = client(&server);
        let cloud = Cloud::default();
        let clusters: Vec<Cidr> =
            one_or_pair("cluster-cidr", "10.244.0.0/16,fd00:244::/48").expect("ranges").into_iter().collect();
        let provider = Some(Provider::new(cloud.clone()));
        let routes = routes::RouteControllerOptions { provider, clusters, period: Duration::from_millis(50) };
        make(&client, "a", &cidrs, &["192.168.0.1", "fd00::1"]).await;
        let running = Running::start(
            client.clone(),
            "node-route-controller",
            ControllerOptions { routes, ..ControllerOptions::default() },
        );
        let mut routed = until("a route for each", || async {
            let routes = cloud.routes.lock().unwrap().clone();
            (routes.len() == cidrs.len()).then_some(routes)
        })
        .await;
        routed.sort_by_key(|route| cidrs.iter().position(|cidr| *cidr == route.pods.to_string()));
        let shown: Vec<_> =
            routed.iter().map(|route| (route.pods.to_string(), route.via.unwrap().to_string())).collect();
        let via = |cidr: &str| if cidr == four { "192.168.0.1" } else { "fd00::1" };
        let expected: Vec<_> = cidrs.iter().map(|cidr| ((*cidr).to_owned(), via(cidr).to_owned())).collect();
        assert_eq!(shown, expected, "{shape}");
        let nodes: Api<Node> = Api::all(client.clone());
        until("the network is there", || async {
            let node = nodes.get("a").await.ok()?;
            let conditions = node.status?.conditions?;
            conditions.iter().any(|one| one.type_ == "NetworkUnavailable" && one.status == "False").then_some(())
        })
        .await;
        if cidrs.contains(&six) {
            let events: Api<Event> = Api::all(client.clone());
            let list = events.list(&ListParams::default()).await.expect("a list").items;
            let reported = list.iter().filter(|event| event.reason.as_deref() == Some("FailedToCreateRoute"));
            assert!(reported.clone().all(|event| event.note.as_ref().is_some_and(|note| note.contains("not today"))));
            assert_eq!(reported.count(), 1, "{shape}");
        }
        nodes.delete("a", &DeleteParams::default()).await.expect("gone");
        until("no route is left", || async { cloud.routes.lock().unwrap().is_empty().then_some(()) }).await;
        running.stop().await;
    }
}
