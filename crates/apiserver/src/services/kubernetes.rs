//! The `kubernetes` Service in namespace `default`: the API server as seen from inside the cluster.
//!
//! Each server on the store holds a lease that runs out unless it is renewed; the endpoints are the servers with a
//! lease. Mirrors the lease reconciler of kube-apiserver, with one thing more: `--dual-stack-kubernetes-service`.

use super::settings::{Advertised, KubernetesService};
use crate::{ApiServer, client};
use api::{error::ApiError, object::Fields};
use http::Method;
use net::{Family, HasFamily};
use serde_json::{Value, json};
use std::{collections::BTreeSet, net::IpAddr, sync::Arc, time::Duration};
use store::{Op, Txn};

/// How often the lease is renewed.
pub const INTERVAL: Duration = Duration::from_secs(10);
/// How long a server counts that no longer renews its lease.
const LEASE: Duration = Duration::from_secs(15);
const LEASES: &str = "masterleases/";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const NAME: &str = "kubernetes";

/// Renews the lease and brings Service, Endpoints and EndpointSlices up to date. A server that stops does so no more.
pub async fn reconcile(server: &Arc<ApiServer>) -> Result<(), ApiError> {
    if server.stop.is_cancelled() {
        return Ok(());
    }
    service(server).await?;
    let Some(advertised) = server.services.settings.advertised else { return Ok(()) };
    renew(server, &advertised).await?;
    endpoints(server, &advertised).await
}

/// Gives up the lease, so that clients are not sent to a server that is gone.
pub async fn leave(server: &Arc<ApiServer>) {
    let Some(advertised) = server.services.settings.advertised else { return };
    let keys = advertised.addresses.iter().map(|ip| Op::Delete(lease(*ip).into()));
    if server.store.txn(Txn::of(keys)).await.is_ok()
        && let Err(error) = endpoints(server, &advertised).await
    {
        tracing::warn!(%error, "endpoints of the kubernetes service were not updated");
    }
}

fn lease(ip: IpAddr) -> String {
    format!("{LEASES}{ip}")
}

async fn renew(server: &ApiServer, advertised: &Advertised) -> Result<(), ApiError> {
    let put = |ip: &IpAddr| Op::PutTtl(lease(*ip).into(), json!({"ip": ip}).to_string().into(), LEASE);
    let txn = Txn::of(advertised.addresses.iter().map(put));
    server.store.txn(txn).await.map(drop).map_err(|error| crate::verbs::write::store_error(&error))
}

/// The addresses that the Service should have: the first of each range that it is in.
fn wanted_addresses(server: &ApiServer) -> Vec<String> {
    let settings = &server.services.settings;
    let count = match settings.kubernetes_service {
        KubernetesService::Primary => 1,
        KubernetesService::Both => 2,
    };
    settings.ranges.iter().take(count).map(|range| range.first().to_string()).collect()
}

async fn service(server: &Arc<ApiServer>) -> Result<(), ApiError> {
    let wanted = wanted_addresses(server);
    let policy = if wanted.len() == 2 { "PreferDualStack" } else { "SingleStack" };
    let port = server.services.settings.advertised.map_or(6443, |advertised| advertised.port);
    let Some(known) = server.object("services/specs/default/kubernetes") else {
        let object = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": NAME, "namespace": "default", "labels": {"component": "apiserver", "provider": NAME},
            },
            "spec": {
                "type": "ClusterIP", "clusterIP": wanted[0], "clusterIPs": wanted, "ipFamilyPolicy": policy,
                "sessionAffinity": "None",
                "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
            },
        });
        return match client::ask(server, Method::POST, SERVICES, Some(&object)).await {
            Err(error) if error.reason != "AlreadyExists" => Err(error),
            _ => Ok(()),
        };
    };
    // A Service that has both keeps both: somebody may use the second address.
    if wanted.len() == 2 && known.list_at("spec.clusterIPs").len() == 1 && known.str_at("spec.clusterIP") == wanted[0] {
        let patch = json!({"spec": {"ipFamilyPolicy": policy, "ipFamilies": null, "clusterIPs": wanted}});
        client::ask(server, Method::PATCH, &format!("{SERVICES}/{NAME}"), Some(&patch)).await?;
    }
    Ok(())
}

/// The addresses of all servers that hold a lease.
async fn members(server: &ApiServer) -> BTreeSet<IpAddr> {
    let page = server.store.list(LEASES, None, None, None).await;
    let entries = page.map(|page| page.entries).unwrap_or_default();
    entries.iter().filter_map(|entry| entry.key().strip_prefix(LEASES)?.parse().ok()).collect()
}

async fn endpoints(server: &Arc<ApiServer>, advertised: &Advertised) -> Result<(), ApiError> {
    let members = members(server).await;
    let primary = server.services.settings.ranges.families().primary();
    let of = |family: Family| -> Vec<String> {
        members.iter().filter(|ip| ip.family() == family).map(ToString::to_string).collect()
    };
    let addresses: Vec<Value> = of(primary).into_iter().map(|ip| json!({"ip": ip})).collect();
    let subsets = if addresses.is_empty() {
        json!([])
    } else {
        json!([{"addresses": addresses, "ports": [{"name": "https", "port": advertised.port, "protocol": "TCP"}]}])
    };
    let object = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "name": NAME, "namespace": "default", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": subsets,
    });
    put(server, ENDPOINTS, "services/endpoints", NAME, &object, "subsets").await?;
    // One slice for each family that the Service has, whatever the flag says now.
    let service = server.object("services/specs/default/kubernetes").unwrap_or_default();
    for family in Family::BOTH {
        let name = slice_name(family, primary);
        if service.list_at("spec.ipFamilies").iter().any(|known| *known == family.to_string()) {
            slice(server, advertised, family, name, of(family)).await?;
        } else if server.object(&format!("endpointslices/default/{name}")).is_some() {
            forgive(client::ask(server, Method::DELETE, &format!("{SLICES}/{name}"), None).await)?;
        }
    }
    Ok(())
}

fn slice_name(family: Family, primary: Family) -> &'static str {
    match family {
        family if family == primary => NAME,
        Family::V4 => "kubernetes-ipv4",
        Family::V6 => "kubernetes-ipv6",
    }
}

async fn slice(
    server: &Arc<ApiServer>,
    advertised: &Advertised,
    family: Family,
    name: &str,
    addresses: Vec<String>,
) -> Result<(), ApiError> {
    let endpoints: Vec<Value> =
        addresses.into_iter().map(|ip| json!({"addresses": [ip], "conditions": {"ready": true}})).collect();
    let object = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": "default", "labels": {"kubernetes.io/service-name": NAME}},
        "addressType": family.to_string(), "endpoints": endpoints,
        "ports": [{"name": "https", "port": advertised.port, "protocol": "TCP"}],
    });
    put(server, SLICES, "endpointslices", name, &object, "endpoints").await
}

/// Creates the object, or replaces it when the part that matters differs.
async fn put(
    server: &Arc<ApiServer>,
    path: &str,
    storage: &str,
    name: &str,
    object: &Value,
    part: &str,
) -> Result<(), ApiError> {
    let same =
        |known: &Value| [part, "ports"].iter().all(|part| api::kinds::check::same(known.at(part), object.at(part)));
    let done = match server.object(&format!("{storage}/default/{name}")) {
        Some(known) if same(&known) => return Ok(()),
        Some(_) => client::ask(server, Method::PUT, &format!("{path}/{name}"), Some(object)).await,
        None => client::ask(server, Method::POST, path, Some(object)).await,
    };
    forgive(done)
}

/// Another server was faster; it writes the same.
fn forgive(done: Result<Value, ApiError>) -> Result<(), ApiError> {
    match done {
        Err(error) if matches!(error.code, 404 | 409) => Ok(()),
        other => other.map(drop),
    }
}
