//! The objects beside the DNS resource, as they should be. Pure.

mod access;
mod alerts;
mod daemonset;
mod monitoring;
mod service;

pub use daemonset::daemonset;

use super::{DNS, NAME, NAMESPACE, OWNER_LABEL, Operand, process::FOLDER_ANNOTATION};
use api::config::NodePlacement;
use k8s_openapi::api::core::v1::ConfigMap;
use runtime::operator::Served;
use serde_json::{Value, json};
use std::{collections::BTreeMap, net::IpAddr};

/// What names of copies of bundles begin with.
const COPY: &str = "ca-";

/// A bundle of authorities that servers need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Name of the ConfigMap.
    pub name: String,
    pub certificates: String,
    /// The folder in which servers find it; another one after each change.
    pub folder: String,
}

impl Bundle {
    /// The file that a Corefile names.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{}/ca-bundle.crt", self.folder)
    }

    /// Name of the copy beside the servers.
    #[must_use]
    pub fn copy(&self) -> String {
        format!("{COPY}{}", self.name)
    }
}

/// The bundles that a Corefile names, from the copies that the servers have.
pub fn bundles_of<'a>(corefile: &str, copies: impl Iterator<Item = &'a ConfigMap>) -> Vec<Bundle> {
    let bundle = |copy: &ConfigMap| {
        let name = copy.metadata.name.as_ref()?.strip_prefix(COPY)?.to_owned();
        let folder = copy.metadata.annotations.as_ref()?.get(FOLDER_ANNOTATION)?.clone();
        let certificates = copy.data.as_ref()?.get("ca-bundle.crt")?.clone();
        Some(Bundle { name, certificates, folder }).filter(|bundle| corefile.contains(&bundle.file()))
    };
    copies.filter_map(bundle).collect()
}

/// What the objects depend on.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// The Corefile; `None` leaves the one that is there.
    pub corefile: Option<&'a str>,
    /// What runs it.
    pub operand: &'a Operand,
    /// Where it runs.
    pub placement: &'a NodePlacement,
    /// Address of the Service, if it should have a certain one.
    pub address: Option<IpAddr>,
    /// Authorities for TLS.
    pub bundles: &'a [Bundle],
    /// Which kinds there are.
    pub served: &'a Served,
}

/// Everything that has to be there, in the order in which it is made: nothing is used before it exists.
#[must_use]
pub fn wanted(parts: &Parts<'_>) -> Vec<Value> {
    let mut objects = access::objects(parts);
    objects.extend(parts.bundles.iter().map(bundle));
    objects.extend(parts.corefile.map(configmap));
    if let Operand::Workload { image, program } = parts.operand {
        objects.push(daemonset(image, *program, parts.placement, parts.bundles));
    }
    objects.push(service::service(parts));
    objects.extend(monitoring::objects(parts));
    objects
}

/// The ConfigMap of the servers.
#[must_use]
pub fn configmap(corefile: &str) -> Value {
    object("v1", "ConfigMap", NAME, json!({"data": {"Corefile": corefile}}))
}

fn bundle(bundle: &Bundle) -> Value {
    let mut map = object("v1", "ConfigMap", &bundle.copy(), json!({"data": {"ca-bundle.crt": bundle.certificates}}));
    map["metadata"]["annotations"] = json!({FOLDER_ANNOTATION: bundle.folder});
    map
}

/// An object in the namespace of the servers, with the label by which it is known to be the operator's.
fn object(api_version: &str, kind: &str, name: &str, content: Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {OWNER_LABEL: DNS}},
    });
    if let (Value::Object(object), Value::Object(content)) = (&mut object, content) {
        object.extend(content);
    }
    object
}

/// The same without a namespace.
fn cluster_object(api_version: &str, kind: &str, name: &str, content: Value) -> Value {
    let mut object = object(api_version, kind, name, content);
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("namespace");
    }
    object
}

/// Files of bundles by ConfigMap, for the Corefile.
#[must_use]
pub fn files(bundles: &[Bundle]) -> BTreeMap<String, String> {
    bundles.iter().map(|bundle| (bundle.name.clone(), bundle.file())).collect()
}

#[cfg(test)]
mod tests;
