//! A node's kubelet: which addresses to try. Called by the other plans.
//!
//! Upstream takes the first address of the first preferred type and no other. Here all of them are candidates, so that a node
//! with two families is reached as long as one of them works.

use super::target::{Endpoint, Host};
use crate::kubelet::settings::Settings;
use api::{error::ApiError, object::Fields};
use serde_json::Value;

/// What the runtime of nodes is called that have no machine (`--hollow-nodes`).
const HOLLOW: &str = "hollow://";

/// The kubelet's addresses in order of preference.
pub fn kubelet(node: &Value, settings: &Settings) -> Result<Vec<Endpoint>, ApiError> {
    if node.str_at("status.nodeInfo.containerRuntimeVersion").starts_with(HOLLOW) {
        let name = node.str_at("metadata.name");
        let why = format!(
            "node {name} is hollow: its pods are shown as running, but there is no container to connect to, and there are no logs"
        );
        return Err(ApiError::new(501, "NotImplemented", why));
    }
    let port = port(node, settings);
    let addresses = node.list_at("status.addresses");
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for kind in settings.address_types.iter() {
        for address in addresses.iter().filter(|address| address.str_at("type") == kind.name()) {
            let endpoint = Endpoint { host: Host::new(address.str_at("address")), port };
            if !endpoints.contains(&endpoint) {
                endpoints.push(endpoint);
            }
        }
    }
    if endpoints.is_empty() {
        let known: Vec<_> =
            addresses.iter().map(|known| format!("{} {}", known.str_at("type"), known.str_at("address"))).collect();
        return Err(ApiError::internal(format!(
            "no preferred addresses found for node {}; known addresses: [{}]; wanted: {}",
            node.str_at("metadata.name"),
            known.join(", "),
            settings.address_types
        )));
    }
    Ok(endpoints)
}

/// The port that the kubelet reports, or the usual one.
pub fn port(node: &Value, settings: &Settings) -> u16 {
    let reported = node.int_at("status.daemonEndpoints.kubeletEndpoint.Port").and_then(|port| u16::try_from(port).ok());
    reported.filter(|port| *port > 0).unwrap_or(settings.port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(addresses: Value, types: &str) -> Result<String, String> {
        let node = json!({"metadata": {"name": "n"}, "status": {"addresses": addresses}});
        let settings = Settings { address_types: types.parse().unwrap(), ..Settings::default() };
        let endpoints = kubelet(&node, &settings).map_err(|error| error.message)?;
        Ok(endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn every_address_of_a_preferred_type_is_a_candidate_in_the_nodes_order() {
        let v4 = json!({"type": "InternalIP", "address": "192.0.2.1"});
        let v6 = json!({"type": "InternalIP", "address": "2001:db8::1"});
        let name = json!({"type": "Hostname", "address": "a"});
        let outside = json!({"type": "ExternalIP", "address": "198.51.100.1"});
        for (addresses, types, want) in [
            (json!([v4]), "InternalIP", "192.0.2.1:10250"),
            (json!([v6]), "InternalIP", "[2001:db8::1]:10250"),
            (json!([v4, v6]), "InternalIP", "192.0.2.1:10250 [2001:db8::1]:10250"),
            (json!([v6, v4]), "InternalIP", "[2001:db8::1]:10250 192.0.2.1:10250"),
            (json!([v4, outside, v6, name, v4]), "Hostname,InternalIP", "a:10250 192.0.2.1:10250 [2001:db8::1]:10250"),
        ] {
            assert_eq!(shown(addresses, types).as_deref(), Ok(want));
        }
        let error = shown(json!([v4, name]), "ExternalIP,ExternalDNS").unwrap_err();
        assert_eq!(
            error,
            "Internal error occurred: no preferred addresses found for node n; known addresses: [InternalIP 192.0.2.1, Hostname a]; wanted: ExternalIP,ExternalDNS"
        );
    }

    #[test]
    fn a_hollow_node_says_so() {
        let info = json!({"containerRuntimeVersion": "hollow://1"});
        let node = json!({"metadata": {"name": "hollow-0"}, "status": {"nodeInfo": info, "addresses": [
            {"type": "InternalIP", "address": "198.18.0.1"}]}});
        let error = kubelet(&node, &Settings::default()).unwrap_err();
        assert_eq!(
            (error.code, error.message.as_str()),
            (
                501,
                "node hollow-0 is hollow: its pods are shown as running, but there is no container to connect to, and there are no logs"
            )
        );
    }

    #[test]
    fn the_port_that_a_node_reports_counts() {
        let settings = Settings::default();
        let reports = |port: i64| json!({"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}});
        for (node, want) in [(reports(1234), 1234), (reports(0), 10250), (reports(99_999), 10250), (json!({}), 10250)] {
            assert_eq!(port(&node, &settings), want);
        }
    }
}
