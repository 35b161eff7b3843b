//! Route as an object that can be watched. Its spec and status are those of `api`.

use api::config::{RouteSpec, RouteStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A Route with metadata as the client has it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// Group and version.
    #[serde(default)]
    pub api_version: String,
    #[serde(default)]
    pub kind: String,
    /// Name, namespace, labels, annotations, age.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: RouteSpec,
    /// What routers made of it.
    #[serde(default)]
    pub status: Option<RouteStatus>,
}

impl Resource for Route {
    type DynamicType = ();
    type Scope = kube::core::NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Route".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "route.openshift.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "routes".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
