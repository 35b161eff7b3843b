//! To a Route: its host's record, the router that has admitted it, and the pods, which a router reaches by one family for clients of both.

use super::{Target, Trace, Walk, service};
use crate::{Snapshot, families};
use net::Family;
use serde_json::Value;

/// Where routers and their Services live.
const OPERAND_NAMESPACE: &str = "openshift-ingress";

pub(super) fn traces(snapshot: &Snapshot, target: Target<'_>) -> Option<Vec<Trace>> {
    let route = snapshot.custom.iter().find(|object| {
        object["kind"] == "Route"
            && object["metadata"]["namespace"] == target.namespace
            && object["metadata"]["name"] == target.name
    })?;
    Some(Family::BOTH.map(|family| trace_family(snapshot, route, target, family)).into())
}

fn trace_family(snapshot: &Snapshot, route: &Value, target: Target<'_>, family: Family) -> Trace {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut walk = Walk::new(family);
    let points = route["status"]["ingress"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(point) = points.iter().find(|point| is_admitted(point)) else {
        let messages = points
            .iter()
            .flat_map(|point| point["conditions"].as_array().into_iter().flatten())
            .map(|one| text(&one["message"]));
        let messages: Vec<String> = messages.filter(|message| !message.is_empty()).collect();
        return walk.ends(if messages.is_empty() {
            "no router has admitted the Route".to_owned()
        } else {
            format!("no router has admitted the Route: {}", messages.join("; "))
        });
    };
    let (host, router) = (text(&point["host"]), text(&point["routerName"]));
    records(&mut walk, snapshot, &host);
    if let Some(front) = service::find(snapshot, OPERAND_NAMESPACE, &format!("router-{router}")) {
        if families::of_service(front).is_some_and(|has| !has.contains(family)) {
            return walk.ends(format!("router {router} is published for {} only", family.other()));
        }
        walk.pass("router", format!("{router}, by service/router-{router} in {OPERAND_NAMESPACE}"));
    } else {
        walk.pass("router", router);
    }
    let name = text(&route["spec"]["to"]["name"]);
    let behind = Target { kind: "service", name: &name, ..target };
    walk.pass("service", name.clone());
    // A router has one server for a pod, whichever family reaches it.
    let mut ready: Vec<String> = Family::BOTH
        .into_iter()
        .flat_map(|family| service::endpoints(snapshot, behind, family))
        .map(|endpoint| endpoint.address.to_string())
        .collect();
    ready.sort();
    match ready.is_empty() {
        true => walk.ends(format!("service/{name} has no ready endpoint: the router answers 503")),
        false => {
            walk.pass("endpoint", ready.join(", "));
            walk.arrives()
        }
    }
}

fn is_admitted(point: &Value) -> bool {
    let conditions = point["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == "Admitted" && one["status"] == "True")
}

/// The DNSRecord whose name, or wildcard, has the host.
fn records(walk: &mut Walk, snapshot: &Snapshot, host: &str) {
    for record in snapshot.custom.iter().filter(|object| object["kind"] == "DNSRecord") {
        let name = record["spec"]["dnsName"].as_str().unwrap_or_default().trim_end_matches('.');
        let has = match name.strip_prefix("*.") {
            Some(domain) => host.split_once('.').is_some_and(|(_, rest)| rest == domain),
            None => host == name,
        };
        if has {
            let targets = record["spec"]["targets"].as_array().into_iter().flatten().filter_map(Value::as_str);
            walk.pass("DNS", format!("{host} by {name} to {}", targets.collect::<Vec<_>>().join(", ")));
            return;
        }
    }
    walk.pass("DNS", format!("{host}, by no DNSRecord of the cluster"));
}
