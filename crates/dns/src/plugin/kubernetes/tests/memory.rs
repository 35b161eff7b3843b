//! How much is kept of a cluster.

use super::*;
use kernel::allocations::held_by_this_thread;

const SERVICES: u32 = 5000;
/// Of a Service with an address and an endpoint of each family, and all that leads to and from it.
const PER_SERVICE: i64 = 1800;

fn service(number: u32) -> [Value; 3] {
    let (high, low) = (number / 250, number % 250 + 1);
    let metadata = |name: String| {
        serde_json::json!({"namespace": "some-team", "name": name,
        "labels": {"kubernetes.io/service-name": format!("service-{number}")}})
    };
    let addresses = [format!("10.96.{high}.{low}"), format!("fd00:96::{high:x}:{low:x}")];
    let ports = serde_json::json!([{"name": "http", "port": 80, "protocol": "TCP"}]);
    let spec = serde_json::json!({"clusterIP": addresses[0], "clusterIPs": addresses, "ports": ports});
    let slice = |family: &str, address: String| {
        serde_json::json!({"metadata": metadata(format!("service-{number}-{}", family.to_lowercase())),
            "addressType": family, "ports": ports, "endpoints": [{"addresses": [address]}]})
    };
    [
        serde_json::json!({"metadata": metadata(format!("service-{number}")), "spec": spec}),
        slice("IPv4", format!("10.1.{high}.{low}")),
        slice("IPv6", format!("fd00:1::{high:x}:{low:x}")),
    ]
}

#[test]
fn a_service_takes_little_memory() {
    let objects = || (0..SERVICES).map(service);
    let before = held_by_this_thread();
    let records = Arc::new(Records::new(5));
    let mut index = Index::new(Arc::clone(&records), &SORTS, Details::default());
    SORTS.iter().for_each(|sort| index.apply(Change::Listing(*sort), 1));
    index.apply(change("namespaces", serde_json::json!({"metadata": {"name": "some-team"}})), 1);
    for [service, four, six] in objects() {
        index.apply(change("services", service), 1);
        index.apply(change("endpointslices", four), 1);
        index.apply(change("endpointslices", six), 1);
    }
    SORTS.iter().for_each(|sort| index.apply(Change::Listed(*sort), 1));
    let per_service = (held_by_this_thread() - before) / i64::from(SERVICES);
    assert!(per_service <= PER_SERVICE, "{per_service} bytes for each Service");

    // Nothing is left of what has gone, but for tables that keep their size.
    let plugin = plugin("kubernetes cluster.local in-addr.arpa", &records, &[]);
    assert!(ask(&plugin, "1.0.1.10.in-addr.arpa.", "PTR").contains("10-1-0-1.service-0.some-team.svc"));
    for [service, four, six] in objects() {
        let (Change::Service(service), Change::Slice(four), Change::Slice(six)) =
            (change("services", service), change("endpointslices", four), change("endpointslices", six))
        else {
            unreachable!()
        };
        index.apply(Change::NoSlice(four), 2);
        index.apply(Change::NoService(service), 2);
        index.apply(Change::NoSlice(six), 2);
    }
    let left = (held_by_this_thread() - before) / i64::from(SERVICES);
    assert!(left <= PER_SERVICE / 4, "{left} of {per_service} bytes for each Service that has gone");
    assert!(ask(&plugin, "1.0.1.10.in-addr.arpa.", "PTR").starts_with("NXDOMAIN"));
}
