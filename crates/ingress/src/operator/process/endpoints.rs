//! EndpointSlices for Services of a router that is a process: there are no Pods for them to select.

use super::{Process, Processes};
use crate::operator::{
    OperatorOptions,
    names::{OPERAND_NAMESPACE, OWNING},
    plan::{
        Input,
        environment::{self, Ports},
    },
};
use api::config::PublishingKind;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use net::{Family, HasFamily};
use runtime::{
    controller::{Key, Result, Store},
    operator::Children,
};
use serde_json::{Value, json};

/// Who writes them, for those who would take them for their own.
const MANAGED_BY: &str = "ingress-operator.twinstack.dev";

impl Processes {
    /// Writes the slices of every Service of an IngressController: one for each family that the Service has and the process is
    /// reached by. Ready is what the router says of itself.
    pub async fn endpoints(
        &self,
        children: &Children,
        options: &OperatorOptions,
        input: Input<'_>,
        services: &Store<Service>,
    ) -> Result<()> {
        let Some(process) = &options.process else { return Ok(()) };
        let ready = self.operand(&input.names.controller).ready > 0;
        let host = input.admission.strategy.kind == PublishingKind::HostNetwork;
        let ports = if host { environment::ports(input) } else { process.ports };
        for name in [&input.names.router, &input.names.node_port, &input.names.internal] {
            let Some(service) = services.get(&Key::new(OPERAND_NAMESPACE, name)) else { continue };
            for slice in slices(process, &service, &input.names.controller, ports, ready) {
                children.ensure(slice).await?;
            }
        }
        Ok(())
    }
}

pub(super) fn slices(process: &Process, service: &Service, owner: &str, ports: Ports, ready: bool) -> Vec<Value> {
    let families = service.spec.as_ref().and_then(|spec| spec.ip_families.clone()).unwrap_or_default();
    let list = service.spec.as_ref().and_then(|spec| spec.ports.clone()).unwrap_or_default();
    let list: Vec<Value> = list
        .iter()
        .filter_map(|port| {
            let name = port.name.as_deref()?;
            let number = match name {
                "http" => ports.http,
                "https" => ports.https,
                _ => ports.stats,
            };
            Some(json!({"name": name, "port": number, "protocol": "TCP"}))
        })
        .collect();
    let name = service.name_any();
    let has = |family: Family| families.iter().any(|known| *known == family.to_string());
    let slice = |family: Family| {
        let address = process.addresses.iter().find(|address| address.family() == family)?;
        let mut endpoint = json!({"addresses": [address.to_string()], "conditions": {"ready": ready, "serving": ready, "terminating": false}});
        if let Some(node) = &process.node {
            endpoint["nodeName"] = json!(node);
        }
        Some(json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": format!("{name}-{}", family.to_string().to_lowercase()), "namespace": OPERAND_NAMESPACE,
                "labels": {
                    "kubernetes.io/service-name": name, "endpointslice.kubernetes.io/managed-by": MANAGED_BY, (OWNING): owner,
                },
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Service", "name": name, "uid": service.uid().unwrap_or_default(),
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "addressType": family.to_string(),
            "endpoints": [endpoint],
            "ports": list,
        }))
    };
    Family::BOTH.into_iter().filter(|family| has(*family)).filter_map(slice).collect()
}
