//! What Pods, nodes, claims, priority classes, workloads, namespaces, roles and bindings ask of admission.

use super::{escalation, limit_ranger, namespace, node, pod, pod_security, priority, runtime_class};
use crate::{
    call::Call,
    kinds::{Later, ServerRules, done},
};
use api::{error::ApiError, object::Fields};
use futures::future::FutureExt;
use serde_json::Value;

pub(crate) struct PodKind;

impl ServerRules for PodKind {
    fn admit_new<'a>(&self, call: &'a Call, object: &'a mut Value) -> Later<'a, ()> {
        pod::create(call, object).boxed()
    }

    fn admit_change<'a>(&self, call: &'a Call, object: &'a mut Value, old: &'a Value) -> Later<'a, ()> {
        match call.request.subresource.as_str() {
            "" => {
                pod::update(object, old);
                done(Ok(()))
            }
            "resize" if old.at("metadata.deletionTimestamp").is_null() => limit_ranger::fill_in(call, object).boxed(),
            _ => done(Ok(())),
        }
    }

    fn check<'a>(&self, call: &'a Call, object: &'a Value, old: Option<&'a Value>) -> Later<'a, ()> {
        async move {
            limit_ranger::check_pod(call, object, old).await?;
            pod_security::check_pod(call, object, old)?;
            if old.is_none() { runtime_class::check(call, object) } else { Ok(()) }
        }
        .boxed()
    }
}

/// Nodes.
pub(crate) struct NodeKind;

impl ServerRules for NodeKind {
    fn admit_new<'a>(&self, _call: &'a Call, object: &'a mut Value) -> Later<'a, ()> {
        node::taint_new(object);
        done(Ok(()))
    }
}

/// Priority classes.
pub(crate) struct PriorityClassKind;

impl ServerRules for PriorityClassKind {
    fn check<'a>(&self, call: &'a Call, object: &'a Value, old: Option<&'a Value>) -> Later<'a, ()> {
        priority::check_class(call, object, old).boxed()
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
