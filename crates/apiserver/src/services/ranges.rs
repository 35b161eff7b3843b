//! ServiceCIDR objects: the default one from the flag, which of them serve addresses, and when one may go.
//!
//! A ServiceCIDR that is being deleted stays, not ready, until every address in it is also in another one. Mirrors the
//! default ServiceCIDR controller of kube-apiserver and the ServiceCIDR controller of kube-controller-manager.

use super::{
    claims::{self, Claimed},
    event::{self, Note},
    reconcile::StartError,
};
use crate::{ApiServer, client, stored};
use api::{
    error::ApiError,
    object::{Fields, timestamp},
};
use http::Method;
use net::{HasFamily, ServiceRange};
use serde_json::{Value, json};
use std::{net::IpAddr, sync::Arc};
use store::ReadError;

/// Below it are the ServiceCIDR objects.
pub const RANGES: &str = "servicecidrs/";
/// The one that the flag makes.
const DEFAULT: &str = "kubernetes";
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const PATH: &str = "/apis/networking.k8s.io/v1/servicecidrs";

/// The ranges of a ServiceCIDR; what does not read is left out.
fn ranges_of(object: &Value) -> impl Iterator<Item = ServiceRange> {
    let texts = object.list_at("spec.cidrs").iter().filter_map(Value::as_str);
    texts.filter_map(|text| text.parse::<ServiceRange>().ok())
}

fn is_leaving(object: &Value) -> bool {
    !object.at("metadata.deletionTimestamp").is_null()
}

/// Ready, or not yet said.
fn is_ready(object: &Value) -> bool {
    let ready = object.list_at("status.conditions").iter().find(|condition| condition.str_at("type") == "Ready");
    !is_leaving(object) && ready.is_none_or(|condition| condition.str_at("status") == "True")
}

/// Refuses to go on when the first range has another family than the cluster was made with: the addresses of every
/// single-stack Service would be of a family that is no longer the default.
pub fn check_first_family(server: &ApiServer) -> Result<(), StartError> {
    let given = *server.services.settings.ranges.primary();
    let default = server.object(&format!("servicecidrs/{DEFAULT}"));
    let stored = match default.as_ref().and_then(|object| ranges_of(object).next()) {
        Some(range) => Some((range.family(), range.to_string())),
        None => {
            let service = server.object("services/specs/default/kubernetes");
            let ip: Option<IpAddr> = service.and_then(|service| service.str_at("spec.clusterIP").parse().ok());
            ip.map(|ip| (ip.family(), format!("the kubernetes Service has {ip}")))
        }
    };
    match stored {
        Some((family, seen)) if family != given.family() => Err(StartError::FamilyChanged { given, family, seen }),
        _ => Ok(()),
    }
}

/// Makes the default ServiceCIDR, or gives it the second family that the flag has gained.
pub async fn ensure_default(server: &Arc<ApiServer>) -> Result<(), ApiError> {
    let wanted: Vec<String> = server.services.settings.ranges.iter().map(ToString::to_string).collect();
    let Some(mut object) = server.object(&format!("servicecidrs/{DEFAULT}")) else {
        let object = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
            "metadata": {"name": DEFAULT, "finalizers": [FINALIZER]}, "spec": {"cidrs": wanted},
        });
        return match client::ask(server, Method::POST, PATH, Some(&object)).await {
            Err(error) if error.reason != "AlreadyExists" => Err(error),
            _ => Ok(()),
        };
    };
    let stored: Vec<String> =
        object.list_at("spec.cidrs").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if stored.len() == 1 && wanted.len() == 2 && stored[0] == wanted[0] {
        object.set("spec.cidrs", wanted);
        client::ask(server, Method::PUT, &format!("{PATH}/{DEFAULT}"), Some(&object)).await?;
    } else if stored != wanted {
        let message = format!(
            "--service-cluster-ip-range is {}, this object has {}; the object counts. \
             To change the ranges, make another ServiceCIDR, move the Services, then delete this one",
            wanted.join(","),
            stored.join(",")
        );
        event::record(server, &Note { about: object, reason: "KubernetesDefaultServiceCIDRInconsistent", message })
            .await;
    }
    Ok(())
}

/// Serves the ranges of all ServiceCIDRs that are ready, the default one's first.
pub async fn serve(server: &Arc<ApiServer>) -> Result<(), ApiError> {
    let objects = server.objects("servicecidrs").await?;
    let default = |object: &Value| object.str_at("metadata.name") == DEFAULT;
    let mut wanted: Vec<ServiceRange> = Vec::new();
    if !objects.iter().any(default) {
        wanted.extend(server.services.settings.ranges.iter());
    }
    let (first, rest): (Vec<_>, Vec<_>) =
        objects.iter().filter(|object| is_ready(object)).partition(|object| default(object));
    for range in first.into_iter().chain(rest).flat_map(ranges_of) {
        if !wanted.contains(&range) {
            wanted.push(range);
        }
    }
    let taken = addresses(server).await.map_err(|error| ApiError::unavailable(error.to_string()))?;
    server.services.pools.serve(&wanted, |pool| {
        for ip in &taken {
            // An address outside this range is another's.
            let _ = pool.occupy(*ip);
        }
    });
    Ok(())
}

/// Every address that somebody has.
pub async fn addresses(server: &ApiServer) -> Result<Vec<IpAddr>, ReadError> {
    let page = server.store.list(claims::ADDRESSES, None, None, None).await?;
    let claimed = page.entries.iter().filter_map(|entry| match Claimed::of_key(entry.key())? {
        Claimed::Address(ip) => Some(ip),
        Claimed::Port(_) => None,
    });
    Ok(claimed.collect())
}

/// What a ServiceCIDR should look like, given the others and the addresses in use.
#[derive(Clone, Debug, PartialEq)]
enum Wanted {
    /// With its finalizer, and ready.
    Ready,
    /// Part of it cannot serve addresses, for this reason.
    Unusable(String),
    /// It is to go, but these many addresses are in no other range.
    Waiting(usize),
    /// It may go.
    Gone,
}

fn plan(object: &Value, all: &[Value], taken: &[IpAddr]) -> Wanted {
    if !is_leaving(object) {
        let texts = object.list_at("spec.cidrs").iter().filter_map(Value::as_str);
        let wrong: Vec<String> =
            texts.filter_map(|text| text.parse::<ServiceRange>().err()).map(|e| e.to_string()).collect();
        return if wrong.is_empty() { Wanted::Ready } else { Wanted::Unusable(wrong.join("; ")) };
    }
    let others: Vec<ServiceRange> = all
        .iter()
        .filter(|other| is_ready(other) && other.at("metadata.name") != object.at("metadata.name"))
        .flat_map(ranges_of)
        .collect();
    let held = |ip: &&IpAddr| {
        ranges_of(object).any(|range| range.cidr().contains(**ip))
            && !others.iter().any(|range| range.cidr().contains(**ip))
    };
    match taken.iter().filter(held).count() {
        0 => Wanted::Gone,
        count => Wanted::Waiting(count),
    }
}

/// Brings finalizers and Ready conditions up to date, then serves what is ready.
pub async fn reconcile(server: &Arc<ApiServer>) -> Result<(), ApiError> {
    // What is leaving stops serving before it is asked who still needs it.
    serve(server).await?;
    let all = server.objects("servicecidrs").await?;
    let taken = addresses(server).await.map_err(|error| ApiError::unavailable(error.to_string()))?;
    for object in &all {
        let path = format!("{PATH}/{}", object.str_at("metadata.name"));
        let finalizers = object.list_at("metadata.finalizers");
        let protected = finalizers.iter().any(|finalizer| finalizer == FINALIZER);
        match plan(object, &all, &taken) {
            Wanted::Ready => {
                if !protected {
                    let list: Vec<_> = finalizers.iter().cloned().chain([Value::from(FINALIZER)]).collect();
                    write(server, &path, object, json!({"metadata": {"finalizers": list}})).await?;
                }
                condition(server, &path, object, "True", "", "Kubernetes Service CIDR is ready").await?;
            }
            Wanted::Unusable(why) => condition(server, &path, object, "False", "Unusable", &why).await?,
            Wanted::Waiting(count) => {
                let message = format!("{count} addresses of this range are in use and in no other range");
                condition(server, &path, object, "False", "Terminating", &message).await?;
            }
            Wanted::Gone if protected => {
                let list: Vec<_> = finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).cloned().collect();
                write(server, &path, object, json!({"metadata": {"finalizers": list}})).await?;
            }
            Wanted::Gone => {}
        }
    }
    serve(server).await
}

/// Whether a ServiceCIDR waits for its addresses to go.
pub async fn is_any_leaving(server: &ApiServer) -> Result<bool, ApiError> {
    Ok(server.objects("servicecidrs").await?.iter().any(is_leaving))
}

/// A merge patch; what somebody else changed or took away meanwhile comes up again by itself.
async fn write(server: &Arc<ApiServer>, path: &str, object: &Value, mut patch: Value) -> Result<(), ApiError> {
    patch.set("metadata.uid", object.at("metadata.uid").clone());
    match client::ask(server, Method::PATCH, path, Some(&patch)).await {
        Err(error) if matches!(error.code, 404 | 409) => Ok(()),
        other => other.map(drop),
    }
}

async fn condition(
    server: &Arc<ApiServer>,
    path: &str,
    object: &Value,
    status: &str,
    reason: &str,
    message: &str,
) -> Result<(), ApiError> {
    let known = object.list_at("status.conditions").iter().find(|condition| condition.str_at("type") == "Ready");
    if known.is_some_and(|known| known.str_at("status") == status && known.str_at("message") == message) {
        return Ok(());
    }
    let reason = if reason.is_empty() { "Ready" } else { reason };
    let since = match known {
        Some(known) if known.str_at("status") == status => known.str_at("lastTransitionTime").to_owned(),
        _ => timestamp(server.now()),
    };
    let condition =
        json!({"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": since});
    write(server, &format!("{path}/status"), object, json!({"status": {"conditions": [condition]}})).await
}

/// Whether an address could be given to a Service now.
pub fn in_range(ranges: &[ServiceRange], ip: IpAddr) -> bool {
    ranges.iter().any(|range| range.cidr().contains(ip))
}

/// The ServiceCIDRs as stored, for `repair`: leaving ones count, since what is in them is still theirs.
pub fn stored_ranges(entries: &[store::Entry]) -> Vec<ServiceRange> {
    let objects: Vec<Value> = entries.iter().filter_map(|entry| stored::parse(entry).ok()).collect();
    objects.iter().flat_map(ranges_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(name: &str, cidrs: &[&str], leaving: bool) -> Value {
        let mut object = json!({"metadata": {"name": name}, "spec": {"cidrs": cidrs}});
        if leaving {
            object.set("metadata.deletionTimestamp", "2020-01-01T00:00:00Z");
        }
        object
    }

    #[test]
    fn a_range_goes_when_no_address_needs_it() {
        let taken: Vec<IpAddr> = vec!["10.1.0.5".parse().unwrap(), "fd00:1::5".parse().unwrap()];
        let leaving = cidr("a", &["10.1.0.0/24", "fd00:1::/120"], true);
        for (others, want) in [
            (vec![], Wanted::Waiting(2)),
            (vec![cidr("b", &["10.0.0.0/8"], false)], Wanted::Waiting(1)),
            (vec![cidr("b", &["10.0.0.0/8"], true)], Wanted::Waiting(2)),
            (vec![cidr("b", &["10.0.0.0/8", "fd00:1::/112"], false)], Wanted::Gone),
        ] {
            let all: Vec<_> = others.into_iter().chain([leaving.clone()]).collect();
            assert_eq!(plan(&leaving, &all, &taken), want);
        }
        assert_eq!(plan(&leaving, std::slice::from_ref(&leaving), &[]), Wanted::Gone);
        let wide = cidr("a", &["10.1.0.0/24", "fd00::/48"], false);
        let why = "fd00::/48 is too big; use an IPv6 prefix of /64 or longer";
        assert_eq!(plan(&wide, std::slice::from_ref(&wide), &taken), Wanted::Unusable(why.to_owned()));
        let staying = cidr("a", &["10.1.0.0/24"], false);
        assert_eq!(plan(&staying, std::slice::from_ref(&staying), &taken), Wanted::Ready);
    }
}
