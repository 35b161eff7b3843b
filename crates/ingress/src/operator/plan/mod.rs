//! What an admitted IngressController comes to, as objects. Pure: everything that is observed is an argument.

pub mod balancer;
pub mod change;
pub mod class;
pub mod deployment;
pub mod environment;
pub mod generated_hosts;
pub mod live;
pub mod progress;
pub mod proxy_protocol;
pub mod record;
pub mod services;
pub mod small;
#[cfg(test)]
mod tests;
pub mod tls;

use super::{admit::Admission, cluster::Cluster, names::Names, objects::IngressController};

/// What every plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    pub controller: &'a IngressController,
    /// What it was admitted as.
    pub admission: &'a Admission,
    /// The cluster's configuration.
    pub cluster: &'a Cluster,
    /// Names of what belongs to it.
    pub names: &'a Names,
}
