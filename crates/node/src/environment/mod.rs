//! What a container finds around it: variables, names of hosts, name servers. Pure: `pods` asks and hands it to the runtime.
//!
//! Mirrors the kubelet of Kubernetes 1.37; where an address is told, all of them are (`status.podIPs`), in the order of the node's families.

mod dns;
mod env_file;
mod expand;
mod fields;
mod hosts;
mod resources;
mod services;
#[cfg(test)]
mod tests;
mod variables;

pub use dns::{DnsSettings, dns};
pub use expand::{command, expand};
pub use fields::{field, field_of_volume};
pub use hosts::{hostname, hosts};
pub use resources::{Allocatable, amount, of_container};
pub use variables::variables;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use std::{net::IpAddr, sync::Arc};

/// Where a Pod and its node are, each list with the node's primary family first.
#[derive(Clone, Copy, Debug)]
pub struct Addresses<'a> {
    pub pod_ips: &'a [IpAddr],
    pub host_ips: &'a [IpAddr],
}

/// What variables are taken from.
pub trait Sources {
    fn config_map(&self, namespace: &str, name: &str) -> Option<Arc<ConfigMap>>;
    fn secret(&self, namespace: &str, name: &str) -> Option<Arc<Secret>>;
    /// Those of the namespace, and `kubernetes` of `default`.
    fn services(&self, namespace: &str) -> Vec<Arc<Service>>;
    /// A file in a volume of the Pod; nothing if it is not there.
    fn env_file(&self, _pod: &Pod, _volume: &str, _path: &str) -> Result<Option<String>, String> {
        Ok(None)
    }
}

/// Why a container cannot be given its surroundings. Retried: what is missing may come.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EnvironmentError {
    #[error("{kind} \"{name}\" not found")]
    Missing {
        /// As upstream's API names it: `configmap`, `secret`.
        kind: &'static str,
        name: String,
    },
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    NoKey { kind: &'static str, key: String, namespace: String, name: String },
    #[error("unsupported fieldPath: {0}")]
    Field(String),
    #[error("unsupported container resource : {0}")]
    Resource(String),
    #[error("container {0} not found")]
    Container(String),
    #[error("{0}")]
    File(String),
}
