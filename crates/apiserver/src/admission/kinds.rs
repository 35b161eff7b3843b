//! What Pods, workloads, namespaces, roles and bindings ask of admission.

use super::{escalation, namespace, pod, pod_security};
use crate::{
    call::Call,
    kinds::{Later, ServerRules, done},
};
use api::error::ApiError;
use futures::future::FutureExt;
use serde_json::Value;

pub(crate) struct PodKind;

impl ServerRules for PodKind {
    fn admit_new<'a>(&self, call: &'a Call, object: &'a mut Value) -> Later<'a, ()> {
        pod::create(call, object).boxed()
    }

    fn admit_change(&self, call: &Call, object: &mut Value, old: &Value) {
        if call.request.subresource.is_empty() {
            pod::update(object, old);
        }
    }

    fn check<'a>(&self, call: &'a Call, object: &'a Value, old: Option<&'a Value>) -> Later<'a, ()> {
        done(pod_security::check_pod(call, object, old))
    }
}

/// Kinds with a Pod in them.
pub(crate) struct WorkloadKind {
    /// Where it stands.
    pub(crate) template: &'static str,
}

impl ServerRules for WorkloadKind {
    fn check<'a>(&self, call: &'a Call, object: &'a Value, _old: Option<&'a Value>) -> Later<'a, ()> {
        pod_security::advise(call, object, self.template);
        done(Ok(()))
    }
}

/// Namespaces.
pub(crate) struct NamespaceKind;

impl ServerRules for NamespaceKind {
    fn check<'a>(&self, call: &'a Call, object: &'a Value, old: Option<&'a Value>) -> Later<'a, ()> {
        pod_security::check_namespace(call, object, old).boxed()
    }

    fn check_deletion(&self, call: &Call) -> Result<(), ApiError> {
        namespace::mortal(call)
    }
}

/// Roles and bindings.
pub(crate) struct AccessKind;

impl ServerRules for AccessKind {
    fn check<'a>(&self, call: &'a Call, object: &'a Value, old: Option<&'a Value>) -> Later<'a, ()> {
        done(escalation::check(call, object, old))
    }
}
