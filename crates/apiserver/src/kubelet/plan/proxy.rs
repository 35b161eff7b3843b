//! `pods/ID/proxy`, `services/ID/proxy` and `nodes/ID/proxy`: whom an ID stands for and what is asked of it.
//!
//! As upstream a Service leads only to endpoints that are Pods of its namespace, so that whoever may write endpoints cannot
//! make the server call anything else. Upstream takes one address; here the other family is a second candidate.

use super::{
    node, path,
    target::{Endpoint, Host, Plan, Security, Target},
};
use crate::kubelet::settings::Settings;
use api::{error::ApiError, object::Fields};
use net::{Family, HasFamily};
use serde_json::{Value, json};

/// `[SCHEME:]NAME[:PORT]`, as it stands in the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id<'a> {
    tls: bool,
    /// The object's name.
    pub name: &'a str,
    /// A number or a name; empty when none is given.
    port: &'a str,
}

impl<'a> Id<'a> {
    /// Takes an ID apart; `kind` is for the message.
    pub fn new(kind: &str, text: &'a str) -> Result<Self, ApiError> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match parts.as_slice() {
            [name] => ("", *name, ""),
            [name, port] => ("", *name, *port),
            [scheme, name, port] => (*scheme, *name, *port),
            _ => ("", "", ""),
        };
        if name.is_empty() || !matches!(scheme, "" | "http" | "https") {
            let accepted = "give NAME, NAME:PORT or SCHEME:NAME:PORT, where SCHEME is http or https";
            return Err(ApiError::bad_request(format!("invalid {kind} request {text:?}; {accepted}")));
        }
        Ok(Self { tls: scheme == "https", name, port })
    }

    fn security(self) -> Security {
        if self.tls { Security::Unverified } else { Security::Plain }
    }

    fn usual_port(self) -> u16 {
        if self.tls { 443 } else { 80 }
    }

    /// The port as a number, if one is given.
    fn number(self, kind: &str) -> Result<Option<u16>, ApiError> {
        match self.port.parse() {
            _ if self.port.is_empty() => Ok(None),
            Ok(port) if port > 0 => Ok(Some(port)),
            _ => Err(ApiError::bad_request(format!(
                "invalid {kind} request: port {:?} is not accepted; give a number from 1 to 65535",
                self.port
            ))),
        }
    }
}

/// Who answers a proxied request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    to: Vec<Endpoint>,
    security: Security,
}

/// A Pod, on the port asked for, else on the first that it declares.
pub fn pod(id: Id<'_>, pod: &Value) -> Result<Destination, ApiError> {
    let declared = || {
        let ports = pod.list_at("spec.containers").iter().flat_map(|container| container.list_at("ports"));
        ports.filter_map(|port| port.int_at("containerPort")).find_map(|port| u16::try_from(port).ok())
    };
    let port = id.number("pod")?.or_else(declared).unwrap_or_else(|| id.usual_port());
    let addresses = pod.list_at("status.podIPs").iter().filter_map(|ip| ip.str_at("ip").parse().ok());
    let to: Vec<_> = addresses.map(|address| Endpoint { host: Host::Address(address), port }).collect();
    if to.is_empty() {
        return Err(ApiError::bad_request(format!("address not allowed: pod {} has no address yet", id.name)));
    }
    Ok(Destination { to, security: id.security() })
}

/// A node: its kubelet, unless another port is asked for.
pub fn node(id: Id<'_>, node: &Value, settings: &Settings) -> Result<Destination, ApiError> {
    let mut to = node::kubelet(node, settings)?;
    match id.number("node")? {
        Some(port) if port != node::port(node, settings) => {
            to.iter_mut().for_each(|endpoint| endpoint.port = port);
            Ok(Destination { to, security: id.security() })
        }
        _ => Ok(Destination { to, security: Security::Kubelet }),
    }
}

/// A Service: of each family one ready endpoint that `is_pod` (by Pod name and address) vouches for, the Service's own first
/// family first. `chance` decides which of several.
pub fn service(
    id: Id<'_>,
    service: &Value,
    slices: &[Value],
    is_pod: impl Fn(&str, &str) -> bool,
    chance: usize,
) -> Result<Destination, ApiError> {
    let port_name = port_name(id, service)?;
    let preferred = preferred(service);
    let to: Vec<_> = [preferred, preferred.other()]
        .into_iter()
        .filter_map(|family| {
            let all: Vec<_> = slices.iter().flat_map(|slice| endpoints(slice, port_name, family)).collect();
            let turned = (0..all.len()).map(|index| &all[(index + chance % all.len()) % all.len()]);
            turned
                .into_iter()
                .find(|(pod, address, _)| is_pod(pod, address))
                .map(|(_, address, port)| (*address, *port))
        })
        .map(|(address, port)| Endpoint { host: Host::new(address), port })
        .collect();
    if to.is_empty() {
        return Err(ApiError::unavailable(format!("no endpoints available for service {:?}", id.name)));
    }
    Ok(Destination { to, security: id.security() })
}

/// An Endpoints object in the form of slices, for Services that have no slices.
pub fn as_slices(endpoints: &Value) -> Vec<Value> {
    let slice = |subset: &Value| {
        let ready = subset.list_at("addresses").iter();
        let ready: Vec<_> =
            ready.map(|one| json!({"addresses": [one.at("ip")], "targetRef": one.at("targetRef")})).collect();
        json!({"metadata": endpoints.at("metadata"), "ports": subset.at("ports"), "endpoints": ready})
    };
    endpoints.list_at("subsets").iter().map(slice).collect()
}

/// Endpoints name their ports as the Service does, so a number is looked up there first.
fn port_name<'a>(id: Id<'a>, service: &'a Value) -> Result<&'a str, ApiError> {
    let Ok(number) = id.port.parse::<i64>() else { return Ok(id.port) };
    let declared = service.list_at("spec.ports").iter().find(|port| port.int_at("port") == Some(number));
    declared
        .map(|port| port.str_at("name"))
        .ok_or_else(|| ApiError::unavailable(format!("no service port {number} found for service {:?}", id.name)))
}

/// Where a Service is reached by this server itself: of each family one ready endpoint, the Service's own first family first.
/// Not only Pods are: whoever names the Service here is trusted with where it leads.
pub fn any_endpoint(
    name: &str,
    port: u16,
    service: &Value,
    slices: &[Value],
    chance: usize,
) -> Result<Vec<Endpoint>, ApiError> {
    if service.str_at("spec.type") == "ExternalName" {
        return Ok(vec![Endpoint { host: Host::Name(service.str_at("spec.externalName").to_owned()), port }]);
    }
    let number = port.to_string();
    let port_name = port_name(Id { tls: true, name, port: &number }, service)?;
    let of_family = |family| {
        let all: Vec<_> = slices.iter().flat_map(|slice| ready(slice, port_name, family)).collect();
        all.get(chance.checked_rem(all.len())?)
            .map(|(_, address, port)| Endpoint { host: Host::new(address), port: *port })
    };
    let preferred = preferred(service);
    let to: Vec<_> = [preferred, preferred.other()].into_iter().filter_map(of_family).collect();
    if to.is_empty() {
        return Err(ApiError::unavailable(format!("no endpoints available for service {name:?}")));
    }
    Ok(to)
}

fn preferred(service: &Value) -> Family {
    match service.list_at("spec.ipFamilies").first().and_then(Value::as_str) {
        Some("IPv6") => Family::V6,
        _ => Family::V4,
    }
}

/// Pod name, address and port of all ready endpoints of a family that have the port and are Pods of the Service's namespace.
fn endpoints<'a>(slice: &'a Value, port_name: &str, family: Family) -> Vec<(&'a str, &'a str, u16)> {
    let is_pod = |endpoint: &Value| {
        endpoint.str_at("targetRef.kind") == "Pod"
            && endpoint.str_at("targetRef.namespace") == slice.str_at("metadata.namespace")
    };
    let all = ready(slice, port_name, family).into_iter().filter(|(endpoint, ..)| is_pod(endpoint));
    all.map(|(endpoint, address, port)| (endpoint.str_at("targetRef.name"), address, port)).collect()
}

/// All ready endpoints of a family that have the port, with their address and port.
fn ready<'a>(slice: &'a Value, port_name: &str, family: Family) -> Vec<(&'a Value, &'a str, u16)> {
    let over_tcp = |port: &&Value| matches!(port.str_at("protocol"), "" | "TCP");
    let port = slice.list_at("ports").iter().filter(over_tcp).find(|port| port.str_at("name") == port_name);
    let Some(port) = port.and_then(|port| u16::try_from(port.int_at("port")?).ok()) else { return Vec::new() };
    let ready =
        slice.list_at("endpoints").iter().filter(|endpoint| endpoint.at("conditions.ready").as_bool() != Some(false));
    ready
        .filter_map(|endpoint| {
            // Of several addresses only the first has a meaning.
            let address = endpoint.list_at("addresses").first()?.as_str()?;
            let of_family = address.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.family() == family);
            of_family.then_some((endpoint, address, port))
        })
        .collect()
}

/// What the client asked for, as far as it matters for the destination.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// The whole path.
    pub path: &'a str,
    /// What follows `?`.
    pub query: Option<&'a str>,
    /// What stands below `proxy`.
    pub rest: &'a str,
    /// Whether the client reads and may be sent to the root with its slash: GET and HEAD without an upgrade.
    pub may_be_redirected: bool,
}

/// The request to send to `destination`.
pub fn plan(destination: Destination, sent: Sent<'_>) -> Plan {
    let query = sent.query.map(|query| format!("?{query}")).unwrap_or_default();
    let prefix = path::prefix(sent.rest, sent.path);
    let below = match path::below(sent.rest, sent.path) {
        nothing if nothing.is_empty() && sent.may_be_redirected => return Plan::Redirect(format!("{prefix}/{query}")),
        nothing if nothing.is_empty() => "/".to_owned(),
        below => below,
    };
    Plan::Proxy { target: Target { to: destination.to, security: destination.security, path: below + &query }, prefix }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(destination: Result<Destination, ApiError>) -> Result<String, (u16, String)> {
        let destination = destination.map_err(|error| (error.code, error.message))?;
        let to: Vec<_> = destination.to.iter().map(ToString::to_string).collect();
        Ok(format!("{:?} {}", destination.security, to.join(" ")))
    }

    #[test]
    fn a_pod_is_reached_by_all_its_addresses() {
        let ports = json!([{"name": "a"}, {"name": "b", "ports": [{"containerPort": 8080}]}]);
        let both =
            json!({"spec": {"containers": ports}, "status": {"podIPs": [{"ip": "2001:db8::1"}, {"ip": "192.0.2.1"}]}});
        let bare = json!({"status": {"podIPs": [{"ip": "192.0.2.1"}]}});
        for (id, object, want) in [
            ("p", &both, Ok("Plain [2001:db8::1]:8080 192.0.2.1:8080")),
            ("p:81", &both, Ok("Plain [2001:db8::1]:81 192.0.2.1:81")),
            ("https:p:8443", &both, Ok("Unverified [2001:db8::1]:8443 192.0.2.1:8443")),
            ("p", &bare, Ok("Plain 192.0.2.1:80")),
            ("https:p:", &bare, Ok("Unverified 192.0.2.1:443")),
            ("p", &json!({}), Err("address not allowed: pod p has no address yet")),
            ("p:http", &both, Err("invalid pod request: port \"http\" is not accepted; give a number from 1 to 65535")),
            ("p:0", &both, Err("invalid pod request: port \"0\" is not accepted; give a number from 1 to 65535")),
        ] {
            let got = Id::new("pod", id).and_then(|id| pod(id, object));
            assert_eq!(shown(got), want.map(str::to_owned).map_err(|text| (400, text.to_owned())), "{id}");
        }
    }

    #[test]
    fn an_id_that_is_none_is_refused() {
        for id in ["", ":80", "ftp:p:80", "http:p:80:1", "https::1"] {
            let error = Id::new("pod", id).unwrap_err();
            assert_eq!(error.code, 400);
            assert!(error.message.starts_with(&format!("invalid pod request {id:?}; give NAME")), "{}", error.message);
        }
    }

    #[test]
    fn only_the_kubelet_of_a_node_sees_this_servers_certificate() {
        let object = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "InternalIP", "address": "2001:db8::1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 1234}},
        }});
        for (id, want) in [
            ("n", "Kubelet 192.0.2.1:1234 [2001:db8::1]:1234"),
            ("http:n:1234", "Kubelet 192.0.2.1:1234 [2001:db8::1]:1234"),
            ("n:9100", "Plain 192.0.2.1:9100 [2001:db8::1]:9100"),
            ("https:n:9100", "Unverified 192.0.2.1:9100 [2001:db8::1]:9100"),
        ] {
            let got = Id::new("node", id).and_then(|id| node(id, &object, &Settings::default()));
            assert_eq!(shown(got), Ok(want.to_owned()), "{id}");
        }
    }

    fn slice(port_name: &str, endpoints: Value) -> Value {
        json!({"metadata": {"namespace": "ns"}, "ports": [{"name": port_name, "port": 8080}], "endpoints": endpoints})
    }

    fn endpoint(pod: &str, address: &str, ready: Value) -> Value {
        let target = json!({"kind": "Pod", "namespace": "ns", "name": pod});
        json!({"addresses": [address], "conditions": {"ready": ready}, "targetRef": target})
    }

    #[test]
    fn a_service_leads_to_one_ready_pod_per_family() {
        let families =
            |families: Value| json!({"spec": {"ipFamilies": families, "ports": [{"port": 80, "name": "web"}]}});
        let v4 = slice(
            "web",
            json!([
                endpoint("a", "192.0.2.1", json!(true)),
                endpoint("b", "192.0.2.2", Value::Null),
                endpoint("c", "192.0.2.3", json!(false))
            ]),
        );
        let v6 = slice("web", json!([endpoint("a", "2001:db8::1", json!(true))]));
        let both = [v4.clone(), v6.clone()];
        for (id, families_of, slices, chance, want) in [
            ("s:80", json!(["IPv4"]), &both[..], 0, Ok("Plain 192.0.2.1:8080 [2001:db8::1]:8080")),
            ("s:web", json!(["IPv4"]), &both[..], 1, Ok("Plain 192.0.2.2:8080 [2001:db8::1]:8080")),
            ("s:web", json!(["IPv4"]), &both[..], usize::MAX, Ok("Plain 192.0.2.2:8080 [2001:db8::1]:8080")),
            ("s:80", json!(["IPv6", "IPv4"]), &both[..], 0, Ok("Plain [2001:db8::1]:8080 192.0.2.1:8080")),
            ("https:s:80", json!(["IPv6"]), &both[1..], 7, Ok("Unverified [2001:db8::1]:8080")),
            ("s:81", json!(["IPv4"]), &both[..], 0, Err("no service port 81 found for service \"s\"")),
            ("s", json!(["IPv4"]), &both[..], 0, Err("no endpoints available for service \"s\"")),
            ("s:80", json!(["IPv4"]), &[], 0, Err("no endpoints available for service \"s\"")),
        ] {
            let object = families(families_of);
            let got = Id::new("service", id).and_then(|id| service(id, &object, slices, |_, _| true, chance));
            assert_eq!(shown(got), want.map(str::to_owned).map_err(|text| (503, text.to_owned())), "{id}");
        }
    }

    #[test]
    fn endpoints_serve_as_slices() {
        let target = json!({"kind": "Pod", "namespace": "ns", "name": "a"});
        let endpoints = json!({"metadata": {"namespace": "ns"}, "subsets": [
            {"addresses": [{"ip": "192.0.2.1", "targetRef": target}], "notReadyAddresses": [{"ip": "192.0.2.2", "targetRef": target}], "ports": [{"port": 8080}]},
            {"addresses": [{"ip": "2001:db8::1", "targetRef": target}], "ports": [{"port": 8081}]},
        ]});
        let object = json!({"spec": {"ports": [{"port": 80}]}});
        let got =
            Id::new("service", "s:80").and_then(|id| service(id, &object, &as_slices(&endpoints), |_, _| true, 1));
        assert_eq!(shown(got), Ok("Plain 192.0.2.1:8080 [2001:db8::1]:8081".to_owned()));
    }

    #[test]
    fn a_service_leads_to_pods_alone() {
        let object = json!({"spec": {"ports": [{"port": 80}]}});
        let mut stranger = endpoint("a", "192.0.2.1", json!(true));
        stranger.set("targetRef.namespace", "other");
        let mut node = endpoint("a", "192.0.2.1", json!(true));
        node.set("targetRef.kind", "Node");
        let bare = json!({"addresses": ["192.0.2.1"]});
        let liar = endpoint("liar", "192.0.2.9", json!(true));
        for endpoints in [json!([stranger]), json!([node]), json!([bare]), json!([liar])] {
            let slices = [slice("", endpoints)];
            let got =
                Id::new("service", "s:80").and_then(|id| service(id, &object, &slices, |pod, _| pod != "liar", 0));
            assert_eq!(shown(got).unwrap_err().0, 503);
        }
    }

    #[test]
    fn the_root_has_a_slash() {
        let destination =
            Destination { to: vec![Endpoint { host: Host::new("192.0.2.1"), port: 80 }], security: Security::Plain };
        let whole = "/api/v1/nodes/n/proxy";
        let sent = Sent { path: whole, query: Some("a=b"), rest: "", may_be_redirected: true };
        assert_eq!(plan(destination.clone(), sent), Plan::Redirect(format!("{whole}/?a=b")));
        let doubled = Sent { path: "//api/v1/nodes/n/proxy", ..sent };
        assert_eq!(
            plan(destination.clone(), doubled),
            Plan::Redirect(format!("{whole}/?a=b")),
            "no host may be read into it"
        );
        for (sent, want) in [
            (Sent { may_be_redirected: false, ..sent }, "/?a=b"),
            (Sent { path: &format!("{whole}/"), ..sent }, "/?a=b"),
            (Sent { path: &format!("{whole}/x/y"), rest: "x/y", query: None, ..sent }, "/x/y"),
        ] {
            let Plan::Proxy { target, prefix } = plan(destination.clone(), sent) else { panic!("{sent:?}") };
            assert_eq!((target.path.as_str(), prefix.as_str()), (want, whole));
        }
    }
}
