//! Hand-made Endpoints become slices of the families they have.

use super::plan::{CONTROLLER, Mirrored, plan};
use crate::endpointslice::draft::MANAGED_BY;
use k8s_openapi::api::{core::v1::Endpoints, discovery::v1::EndpointSlice};
use serde_json::{Value, json};
use std::sync::Arc;

fn endpoints(subsets: Value) -> Endpoints {
    serde_json::from_value(json!({
        "metadata": {"name": "e", "namespace": "ns", "uid": "e-uid", "labels": {"a": "b"},
                     "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "x"}},
        "subsets": subsets,
    }))
    .unwrap()
}

/// Pretends that the plan was written.
fn written(mirrored: &Mirrored, stored: &[Arc<EndpointSlice>]) -> Vec<Arc<EndpointSlice>> {
    let gone =
        |slice: &EndpointSlice| mirrored.plan.delete.iter().any(|gone| gone.metadata.name == slice.metadata.name);
    let changed = |slice: &EndpointSlice| {
        mirrored.plan.update.iter().find(|new| new.metadata.name == slice.metadata.name).cloned()
    };
    let kept = stored.iter().filter(|slice| !gone(slice));
    let mut all: Vec<_> = kept.map(|slice| changed(slice).map_or_else(|| Arc::clone(slice), Arc::new)).collect();
    for (index, slice) in mirrored.plan.create.iter().enumerate() {
        let mut slice = slice.clone();
        slice.metadata.name = Some(format!("e-{}-{index}", all.len()));
        all.push(Arc::new(slice));
    }
    all
}

fn shown(slices: &[Arc<EndpointSlice>]) -> Vec<String> {
    let mut list: Vec<String> = slices
        .iter()
        .map(|slice| {
            let endpoints = slice.endpoints.iter().flatten();
            let words: Vec<String> = endpoints
                .map(|endpoint| {
                    let ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready);
                    format!("{}={}", endpoint.addresses[0], ready.unwrap())
                })
                .collect();
            let ports: Vec<i32> = slice.ports.iter().flatten().filter_map(|port| port.port).collect();
            format!("{} {ports:?} {}", slice.address_type, words.join(" "))
        })
        .collect();
    list.sort();
    list
}

#[test]
fn each_family_of_each_set_of_ports_has_one_slice() {
    let object = endpoints(json!([
        {"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "notReadyAddresses": [{"ip": "fd00::2"}], "ports": [{"port": 80}]},
        {"addresses": [{"ip": "10.0.0.9"}], "ports": [{"port": 443}]},
        {"addresses": [{"ip": "10.0.0.3"}], "ports": [{"port": 80}]},
    ]));
    let first = plan(&object, &[], 1000);
    let slices = written(&first, &[]);
    assert_eq!(
        shown(&slices),
        ["IPv4 [443] 10.0.0.9=true", "IPv4 [80] 10.0.0.1=true 10.0.0.3=true", "IPv6 [80] fd00::1=true fd00::2=false"]
    );
    let metadata = &slices[0].metadata;
    assert_eq!(metadata.labels.as_ref().unwrap()[MANAGED_BY], CONTROLLER);
    assert_eq!(metadata.annotations.as_ref().unwrap().keys().collect::<Vec<_>>(), ["note"]);
    assert_eq!(plan(&object, &slices, 1000).plan.writes(), 0);

    // One family goes, one set of ports becomes another: its slice is used again.
    let object = endpoints(json!([
        {"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.3"}], "ports": [{"port": 80}]},
        {"addresses": [{"ip": "10.0.0.9"}], "ports": [{"port": 8443}]},
    ]));
    let second = plan(&object, &slices, 1000);
    assert_eq!((second.plan.create.len(), second.plan.update.len(), second.plan.delete.len()), (0, 1, 1));
    let slices = written(&second, &slices);
    assert_eq!(shown(&slices), ["IPv4 [80] 10.0.0.1=true 10.0.0.3=true", "IPv4 [8443] 10.0.0.9=true"]);
    assert_eq!(plan(&object, &slices, 1000).plan.writes(), 0);
}

#[test]
fn what_is_no_address_and_what_is_too_much_is_counted() {
    let addresses: Vec<Value> = (0..5).map(|number| json!({"ip": format!("fd00::{number}")})).collect();
    let object = endpoints(json!([
        {"addresses": addresses, "notReadyAddresses": [{"ip": "10.0.0.1"}, {"ip": "x"}], "ports": [{"port": 80}]},
    ]));
    let mirrored = plan(&object, &[], 3);
    assert_eq!((mirrored.invalid, mirrored.too_many), (1, 3));
    assert_eq!(
        shown(&written(&mirrored, &[])),
        ["IPv6 [80] fd00::0=true fd00::1=true fd00::2=true".replace("::0", "::")]
    );
}
