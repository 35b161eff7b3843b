//! What a kind asks of the server beyond its own rules (`api::resource::Rules`): because of other objects, of who writes, or
//! of what the cluster has to give.
//!
//! One row per kind that asks for something. The verbs and admission call these around every write and know no kind by name.

use crate::{
    ApiServer, admission,
    call::Call,
    definitions::CustomKind,
    services::{Reserved, ServiceKind},
};
use access::authz::rbac;
use api::{error::ApiError, object::Fields, resource::Resource};
use futures::future::{BoxFuture, FutureExt};
use serde_json::Value;

/// An answer that may take a while.
pub type Later<'a, T> = BoxFuture<'a, Result<T, ApiError>>;

/// What a kind asks of the server. Every method has the answer of a kind that asks for nothing.
pub trait ServerRules: Send + Sync {
    /// Takes out of a request what no shape has.
    fn set_aside(&self, _server: &ApiServer, _request: &mut Value) -> Aside {
        Aside::default()
    }
    /// Refuses or completes a new object, before it is validated.
    fn admit_new<'a>(&self, _call: &'a Call, _object: &'a mut Value) -> Later<'a, ()> {
        done(Ok(()))
    }
    /// Completes a changed object, before it is validated.
    fn admit_change<'a>(&self, _call: &'a Call, _object: &'a mut Value, _old: &'a Value) -> Later<'a, ()> {
        done(Ok(()))
    }
    /// Takes what a new or changed object needs, and gives back what it needs no more when it is stored.
    fn reserve<'a>(&self, _call: &'a Call, _object: &'a mut Value, _old: Option<&'a Value>) -> Later<'a, Reserved> {
        done(Ok(Reserved::none()))
    }
    /// What an object that goes gives back.
    fn give_back(&self, _call: &Call, _old: &Value) -> Reserved {
        Reserved::none()
    }
    /// Refuses an object as it would be stored; `old` is absent on create.
    fn check<'a>(&self, _call: &'a Call, _object: &'a Value, _old: Option<&'a Value>) -> Later<'a, ()> {
        done(Ok(()))
    }
    /// Refuses a deletion.
    fn check_deletion(&self, _call: &Call) -> Result<(), ApiError> {
        Ok(())
    }
}

/// An answer that is there.
pub fn done<'a, T: Send + 'a>(answer: Result<T, ApiError>) -> Later<'a, T> {
    std::future::ready(answer).boxed()
}

/// What a resource asks of the server.
pub fn of(resource: &Resource) -> &'static dyn ServerRules {
    if resource.custom {
        return &CustomKind;
    }
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") => &admission::NamespaceKind,
        ("", "nodes") => &admission::NodeKind,
        ("", "pods") => &admission::PodKind,
        ("", "persistentvolumeclaims") => &admission::ClaimKind,
        ("", "persistentvolumes") => &admission::VolumeKind,
        ("", "services") => &ServiceKind,
        ("", "replicationcontrollers")
        | ("apps", "daemonsets" | "deployments" | "replicasets" | "statefulsets")
        | ("batch", "jobs") => &admission::WorkloadKind { template: "spec.template" },
        ("", "podtemplates") => &admission::WorkloadKind { template: "template" },
        ("batch", "cronjobs") => &admission::WorkloadKind { template: "spec.jobTemplate.spec.template" },
        ("networking.k8s.io", "ingresses") => &admission::IngressKind,
        ("scheduling.k8s.io", "priorityclasses") => &admission::PriorityClassKind,
        (rbac::GROUP, _) => &admission::AccessKind,
        ("certificates.k8s.io", "certificatesigningrequests") => &admission::CertificateRequestKind,
        ("certificates.k8s.io", "clustertrustbundles") => &admission::TrustBundleKind,
        ("certificates.k8s.io", "podcertificaterequests") => &admission::PodCertificateKind,
        ("admissionregistration.k8s.io", _) => &admission::PolicyKind,
        _ => &Nothing,
    }
}

struct Nothing;

impl ServerRules for Nothing {}

/// A field on its way around the typed round trip.
#[derive(Default)]
#[must_use = "it has to be put back"]
pub struct Aside(Option<(&'static str, Value)>);

impl Aside {
    /// Takes the field out.
    pub fn take(request: &mut Value, path: &'static str) -> Self {
        Self(request.remove(path).filter(|value| !value.is_null()).map(|value| (path, value)))
    }

    pub fn put_back(&self, object: &mut Value) {
        if let Some((path, value)) = &self.0 {
            object.set(path, value.clone());
        }
    }
}
