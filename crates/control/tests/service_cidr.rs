//! A ServiceCIDR that is deleted stays until nobody has an address of it, against the real API and in both families.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use control::framework::ControllerOptions;
use k8s_openapi::api::{core::v1::Service, networking::v1::ServiceCIDR};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use support::{Running, client, server, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_range_in_use_is_not_lost() {
    let one = async |shape: &str, range: &str, ip: &str, family: &str| {
        let server = server(shape).await;
        let client = client(&server);
        let running = Running::start(client.clone(), "service-cidr-controller", ControllerOptions::default());
        let ranges: Api<ServiceCIDR> = Api::all(client.clone());
        let services: Api<Service> = Api::default_namespaced(client.clone());
        let extra = json!({"metadata": {"name": "extra"}, "spec": {"cidrs": [range]}});
        ranges.create(&PostParams::default(), &serde_json::from_value(extra).unwrap()).await.expect("a range");
        until("it is ready and protected", || async {
            let range = ranges.get("extra").await.ok()?;
            let ready = range.status?.conditions?.iter().any(|one| one.type_ == "Ready" && one.status == "True");
            (ready && range.metadata.finalizers.is_some_and(|list| !list.is_empty())).then_some(())
        })
        .await;
        let service = json!({"metadata": {"name": "web"},
            "spec": {"clusterIP": ip, "ipFamilies": [family], "ports": [{"port": 80}]}});
        services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.expect("a Service");
        ranges.delete("extra", &DeleteParams::default()).await.expect("asked to go");
        until("it says why it stays", || async {
            let conditions = ranges.get("extra").await.expect("it is there still").status?.conditions?;
            conditions.iter().any(|one| one.type_ == "Ready" && one.status == "False").then_some(())
        })
        .await;
        services.delete("web", &DeleteParams::default()).await.expect("gone");
        until("it goes", || async { ranges.get_opt("extra").await.ok()?.is_none().then_some(()) }).await;
        running.stop().await;
    };
    // At the same time: upstream's grace before a range goes is ten seconds.
    let (four, six) = (("10.97.0.0/24", "10.97.0.9", "IPv4"), ("fd00:97::/112", "fd00:97::9", "IPv6"));
    let of = |shape, (range, ip, family)| one(shape, range, ip, family);
    tokio::join!(of("v4", four), of("v6", six), of("v4v6", six), of("v6v4", four));
}
