//! Route (route.openshift.io/v1): a name under which Services are reached from outside.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteSpec {
    /// The name clients ask for; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// A name below the router's domain, for a Route without host.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subdomain: String,
    /// Only this path and below.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The Service behind it.
    pub to: RouteTarget,
    /// More Services.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternate_backends: Vec<RouteTarget>,
    /// Which port of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<RoutePort>,
    /// How TLS is dealt with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<RouteTls>,
    /// `None`, `Subdomain` or nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wildcard_policy: String,
    /// Headers to set or delete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_headers: Option<RouteHeaders>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A Service and its share of the traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteTarget {
    /// `Service` or nothing.
    pub kind: String,
    pub name: String,
    /// 0 to 256; 1 when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i64>,
}

/// A port by name or number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RoutePort {
    /// Text or number.
    pub target_port: Value,
}

/// How TLS is dealt with.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteTls {
    /// `edge`, `passthrough` or `reencrypt`.
    pub termination: String,
    /// PEM.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub certificate: String,
    /// PEM of the private key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// PEM of what is between the certificate and its root.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ca_certificate: String,
    /// PEM of what pods are checked against.
    #[serde(rename = "destinationCACertificate", skip_serializing_if = "String::is_empty")]
    pub destination_ca_certificate: String,
    /// `None`, `Allow`, `Redirect` or nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub insecure_edge_termination_policy: String,
    /// A Secret instead of certificate and key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_certificate: Option<SecretName>,
}

/// Shows everything but the private key.
impl std::fmt::Debug for RouteTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let policy = &self.insecure_edge_termination_policy;
        f.debug_struct("RouteTls")
            .field("termination", &self.termination)
            .field("insecure", policy)
            .finish_non_exhaustive()
    }
}

/// A Secret of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SecretName {
    pub name: String,
}

/// Header rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteHeaders {
    /// Both directions.
    pub actions: HeaderActions,
}

/// Header rules by direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeaderActions {
    /// To the pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub request: Vec<HeaderAction>,
    /// To the client.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub response: Vec<HeaderAction>,
}

/// One header rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeaderAction {
    /// The header.
    pub name: String,
    /// What to do with it.
    pub action: HeaderChange,
}

/// Set or delete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeaderChange {
    /// `Set` or `Delete`.
    #[serde(rename = "type")]
    pub kind: String,
    /// For `Set`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<HeaderValue>,
}

/// A value to set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeaderValue {
    /// Text with a few things that are filled in.
    pub value: String,
}

/// What routers made of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteStatus {
    /// One entry for each router.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<RouteIngress>,
}

/// What one router made of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteIngress {
    /// The name under which it is served.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Whose entry this is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub router_name: String,
    /// `Admitted`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<RouteCondition>,
    /// As asked for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wildcard_policy: String,
    /// What an alias in DNS should point to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub router_canonical_hostname: String,
}

/// Whether a router took it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteCondition {
    /// `Admitted`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True` or `False`.
    pub status: String,
    /// One word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_route_survives_and_hides_its_key() {
        let object = json!({
            "host": "shop.test", "path": "/x", "to": {"kind": "Service", "name": "shop", "weight": 3},
            "port": {"targetPort": "http"}, "wildcardPolicy": "None",
            "tls": {"termination": "edge", "key": "secret-key", "insecureEdgeTerminationPolicy": "Redirect"},
        });
        let spec: RouteSpec = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(&spec).unwrap(), object);
        assert!(!format!("{spec:?}").contains("secret-key"));
        let object = json!({"ingress": [{"host": "shop.test", "routerName": "default", "conditions": [
            {"type": "Admitted", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}]});
        let status: RouteStatus = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(&status).unwrap(), object);
    }
}
