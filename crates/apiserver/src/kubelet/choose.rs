//! Which objects a request is about, and what `plan` makes of them.

use super::{
    connection::Head,
    plan::{
        log, proxy,
        query::Parameters,
        stream,
        target::{Endpoint, Plan},
    },
};
use crate::{ApiServer, call::Call};
use api::{error::ApiError, object::Fields};
use http::Method;
use serde_json::Value;

/// Looks up what the request names and decides where it goes.
pub async fn plan(call: &Call, head: &Head) -> Result<Plan, ApiError> {
    let asked = &call.request;
    if asked.subresource == "proxy" {
        let sent = proxy::Sent {
            path: head.uri.path(),
            query: head.uri.query(),
            rest: &asked.rest,
            may_be_redirected: matches!(head.method, Method::GET | Method::HEAD) && head.upgrade.is_none(),
        };
        return Ok(proxy::plan(destination(call).await?, sent));
    }
    if !asked.rest.is_empty() {
        return Err(ApiError::no_such_path());
    }
    let server = &call.server;
    let settings = &server.kubelets.settings;
    let pod = pod(server, &asked.namespace, &asked.name).ok_or_else(|| call.not_found())?;
    let node = node(server, pod.str_at("spec.nodeName"));
    let parameters = Parameters::new(head.uri.query().unwrap_or_default());
    let plan = match asked.subresource.as_str() {
        "log" => log::plan,
        "exec" => stream::exec,
        "attach" => stream::attach,
        _ => stream::port_forward,
    };
    plan(&pod, node.as_ref(), &parameters, settings)
}

async fn destination(call: &Call) -> Result<proxy::Destination, ApiError> {
    let (server, asked) = (&call.server, &call.request);
    let missing = |id: proxy::Id<'_>| ApiError::not_found(&asked.resource, "", id.name);
    match asked.resource.as_str() {
        "pods" => {
            let id = proxy::Id::new("pod", &asked.name)?;
            proxy::pod(id, &pod(server, &asked.namespace, id.name).ok_or_else(|| missing(id))?)
        }
        "nodes" => {
            let id = proxy::Id::new("node", &asked.name)?;
            proxy::node(id, &node(server, id.name).ok_or_else(|| missing(id))?, &server.kubelets.settings)
        }
        _ => {
            let id = proxy::Id::new("service", &asked.name)?;
            let namespace = asked.namespace.as_str();
            let service =
                server.object(&format!("services/specs/{namespace}/{}", id.name)).ok_or_else(|| missing(id))?;
            let slices = slices(server, namespace, id.name).await?;
            let is_pod = |name: &str, address: &str| {
                let pod = pod(server, namespace, name);
                pod.is_some_and(|pod| pod.list_at("status.podIPs").iter().any(|ip| ip.str_at("ip") == address))
            };
            proxy::service(id, &service, &slices, is_pod, chance())
        }
    }
}

/// Where this server itself reaches a Service.
pub async fn service_endpoints(
    server: &ApiServer,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<Vec<Endpoint>, ApiError> {
    let service = server.object(&format!("services/specs/{namespace}/{name}"));
    let service = service.ok_or_else(|| ApiError::not_found("services", "", name))?;
    let slices = slices(server, namespace, name).await?;
    proxy::any_endpoint(name, port, &service, &slices, chance())
}

/// The slices of a Service, or its Endpoints in their form.
pub async fn slices(server: &ApiServer, namespace: &str, service: &str) -> Result<Vec<Value>, ApiError> {
    let mut slices = server.objects(&format!("endpointslices/{namespace}")).await?;
    slices.retain(|slice| {
        slice.at("metadata.labels").get("kubernetes.io/service-name").and_then(Value::as_str) == Some(service)
    });
    if slices.is_empty() {
        let endpoints = server.object(&format!("services/endpoints/{namespace}/{service}"));
        return Ok(endpoints.iter().flat_map(proxy::as_slices).collect());
    }
    Ok(slices)
}

fn pod(server: &ApiServer, namespace: &str, name: &str) -> Option<Value> {
    server.object(&format!("pods/{namespace}/{name}"))
}

fn node(server: &ApiServer, name: &str) -> Option<Value> {
    server.object(&format!("minions/{name}"))
}

fn chance() -> usize {
    let mut bytes = [0_u8; size_of::<usize>()];
    // Without randomness the first endpoint is as good as any.
    let _ = getrandom::fill(&mut bytes);
    usize::from_ne_bytes(bytes)
}
