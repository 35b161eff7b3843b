//! Whether another server can be asked, as far as objects tell, and what its APIService says about it. Words and order are those
//! of kube-aggregator's availability controller.

use super::index::ServiceRef;
use api::{
    kinds::api_service::{AVAILABLE, available_condition, local_condition},
    object::{Fields, timestamp},
};
use serde_json::{Value, json};

/// What the condition says, but for when it came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) available: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Verdict {
    fn no(reason: &'static str, message: String) -> Self {
        Self { available: false, reason, message }
    }

    /// It answered.
    pub(super) fn passed() -> Self {
        Self { available: true, reason: "Passed", message: "all checks passed".to_owned() }
    }

    /// It did not.
    pub(super) fn failed(why: String) -> Self {
        Self::no("FailedDiscoveryCheck", why)
    }
}

/// What speaks against asking at all.
pub(super) fn hindrance(to: &ServiceRef, service: Option<&Value>, slices: &[Value]) -> Option<Verdict> {
    let ServiceRef { namespace, name, port } = to;
    let what = format!("service/{name} in {namespace:?}");
    let Some(service) = service else {
        return Some(Verdict::no("ServiceNotFound", format!("{what} is not present")));
    };
    if !matches!(service.str_at("spec.type"), "" | "ClusterIP") {
        return None;
    }
    let mut ports = service.list_at("spec.ports").iter();
    let Some(declared) = ports.find(|declared| declared.int_at("port") == Some(i64::from(*port))) else {
        return Some(Verdict::no("ServicePortError", format!("{what} is not listening on port {port}")));
    };
    if slices.is_empty() {
        return Some(Verdict::no("EndpointsNotFound", format!("cannot find endpointslices for {what}")));
    }
    let port_name = declared.str_at("name");
    if !slices.iter().any(|slice| is_ready(slice, port_name)) {
        let text = format!("endpointslices for {what} have no addresses with port name {port_name:?}");
        return Some(Verdict::no("MissingEndpoints", text));
    }
    None
}

fn is_ready(slice: &Value, port_name: &str) -> bool {
    let ready = |endpoint: &Value| endpoint.at("conditions.ready").as_bool() != Some(false);
    let fits = |port: &Value| port.str_at("name") == port_name && !port.at("port").is_null();
    slice.list_at("endpoints").iter().any(ready) && slice.list_at("ports").iter().any(fits)
}

/// The conditions that the object should have, if it has others.
pub(super) fn conditions(object: &Value, verdict: &Verdict, now: jiff::Timestamp) -> Option<Vec<Value>> {
    let status = if verdict.available { "True" } else { "False" };
    let stored = available_condition(object);
    let since =
        stored.filter(|stored| stored.str_at("status") == status).map(|stored| stored.str_at("lastTransitionTime"));
    let wanted = json!({
        "type": AVAILABLE, "status": status, "reason": verdict.reason, "message": verdict.message,
        "lastTransitionTime": since.map_or_else(|| timestamp(now), str::to_owned),
    });
    replaced(object, wanted)
}

/// The same for an object that is served here.
pub(super) fn local_conditions(object: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
    let stored = available_condition(object);
    let since =
        stored.filter(|stored| stored.str_at("status") == "True").map(|stored| stored.str_at("lastTransitionTime"));
    replaced(object, local_condition(&since.map_or_else(|| timestamp(now), str::to_owned)))
}

fn replaced(object: &Value, wanted: Value) -> Option<Vec<Value>> {
    if available_condition(object) == Some(&wanted) {
        return None;
    }
    let others = object.list_at("status.conditions").iter().filter(|other| other.str_at("type") != AVAILABLE);
    Some(others.cloned().chain([wanted]).collect())
}
