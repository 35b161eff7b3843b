//! The IngressClass by which Ingresses choose the routers of an IngressController.

use super::Input;
use k8s_openapi::api::networking::v1::IngressClass;
use serde_json::{Value, json};

/// Upstream's controller, whose classes name an IngressController; `twinstack router` takes those that name its own.
pub const CONTROLLER: &str = "openshift.io/ingress-to-route";

/// The class. It is not made the default one: that is the administrator's to decide.
pub fn wanted(input: Input<'_>) -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
        "metadata": {"name": input.names.class, "labels": input.names.owning()},
        "spec": {
            "controller": CONTROLLER,
            // The scope is upstream's word, although IngressControllers have a namespace.
            "parameters": {
                "apiGroup": "operator.openshift.io", "kind": "IngressController", "name": input.names.controller,
                "scope": "Cluster",
            },
        },
    })
}

/// Whether a class of our name leads elsewhere: then it is somebody else's and stays as it is.
pub fn is_foreign(class: &IngressClass, controller: &str) -> bool {
    let spec = class.spec.as_ref();
    let leads_to = spec.and_then(|spec| spec.parameters.as_ref()).map(|parameters| parameters.name.as_str());
    spec.and_then(|spec| spec.controller.as_deref()) != Some(CONTROLLER)
        || leads_to.is_some_and(|name| name != controller)
}
