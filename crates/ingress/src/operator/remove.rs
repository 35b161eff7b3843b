//! Taking an IngressController away: its record first, while its load balancer can still be found; then what routers consist of; then,
//! when all of that is gone, the mark that they leave on Routes, and the finalizer.

use super::{
    names::{self, Names, OPERAND_NAMESPACE, OPERATOR_NAMESPACE},
    objects::{DnsRecord, IngressController, ServiceMonitor},
    plan::{class, live},
    reconcile::Controllers,
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Pod, Secret},
    networking::v1::{IngressClass, NetworkPolicy},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersionKind,
};
use runtime::{
    client::Api,
    controller::{Key, Next, Result},
    operator::discovery::SERVICE_MONITOR,
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// How long to wait for what somebody else has to end; most of it is also watched.
const WAIT: Next = Next::After(Duration::from_secs(5));

/// One pass of it.
pub(super) async fn remove(all: &Controllers, controller: &Arc<IngressController>) -> Result<Next> {
    if !controller.finalizers().iter().any(|finalizer| finalizer == names::CONTROLLER_FINALIZER) {
        return Ok(Next::Done);
    }
    let names = Names::of(&controller.name_any());
    let operands = Some(OPERAND_NAMESPACE);
    if !all.children.delete::<DnsRecord>(Some(OPERATOR_NAMESPACE), &names.record).await? {
        return Ok(WAIT);
    }
    if let Some(record) = all.records.get(&Key::new(OPERATOR_NAMESPACE, &names.record)) {
        all.records.forget(&record);
    }
    let mut gone = true;
    for name in [&names.router, &names.node_port, &names.internal] {
        let Some(service) = all.service(name).filter(|service| live::is_owned(service, &names.controller)) else {
            continue;
        };
        all.delete_service(&service).await?;
        gone &= all.service(name).is_none();
    }
    all.children.delete::<PodDisruptionBudget>(operands, &names.router).await?;
    all.children.delete::<NetworkPolicy>(operands, &names.router).await?;
    if all.discovery.served().has(SERVICE_MONITOR) {
        all.children.delete::<ServiceMonitor>(operands, &names.router).await?;
    }
    let classes: Api<IngressClass> = Api::all(all.client.clone());
    if classes.get_opt(&names.class).await?.is_some_and(|known| !class::is_foreign(&known, &names.controller)) {
        all.children.delete::<IngressClass>(None, &names.class).await?;
    }
    gone &= all.children.delete::<Deployment>(operands, &names.router).await?;
    if let Some(deployment) = all.deployments.get(&Key::new(OPERAND_NAMESPACE, &names.router)).filter(|_| gone) {
        all.deployments.forget(&deployment);
    }
    all.processes.stop(all.options.process.as_ref(), &names.controller);
    let pods: Api<Pod> = Api::namespaced(all.client.clone(), OPERAND_NAMESPACE);
    let selector = ListParams::default().labels(&format!("{}={}", names::DEPLOYMENT, names.controller)).limit(1);
    if !gone || !pods.list(&selector).await?.items.is_empty() {
        return Ok(WAIT);
    }
    for name in [&names.certificate, &names.stats] {
        all.children.delete::<Secret>(operands, name).await?;
    }
    for name in [&names.client_ca, &names.error_pages] {
        all.children.delete::<ConfigMap>(operands, name).await?;
    }
    clear_routes(all, &names.controller).await?;
    all.gauges.forget(&names.controller);
    match all.children.finalizer(&**controller, names::CONTROLLER_FINALIZER, false).await? {
        Some(written) if !written.finalizers().is_empty() => all.controllers.remember(written),
        _ => all.controllers.forget(controller),
    }
    Ok(Next::Done)
}

/// Takes the entries of these routers out of the status of Routes, where the API has any.
async fn clear_routes(all: &Controllers, router: &str) -> Result<()> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("route.openshift.io", "v1", "Route"));
    let everywhere: Api<DynamicObject> = Api::all_with(all.client.clone(), &kind);
    let routes = match everywhere.list(&ListParams::default()).await {
        Ok(routes) => routes,
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for route in routes {
        let entries = route.data["status"]["ingress"].as_array().cloned().unwrap_or_default();
        let kept: Vec<&Value> = entries.iter().filter(|entry| entry["routerName"] != router).collect();
        if kept.len() == entries.len() {
            continue;
        }
        let patch = json!({"metadata": {"resourceVersion": route.resource_version()}, "status": {"ingress": kept}});
        let namespace = route.namespace().unwrap_or_default();
        let api: Api<DynamicObject> = Api::namespaced_with(all.client.clone(), &namespace, &kind);
        api.patch_status(&route.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    Ok(())
}
